"""`python -m benchmarks.shards --images 1000000`: what labeling a pool from shards costs here, in seconds and memory.

The files of the pool are there, a few bytes each, and are listed and looked up as those of users are; their features are
random, of classes that one can tell apart. A process of its own labels them. Making files and shards is not counted.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sala.atomic import write_json
from sala.encoders.manifest import MANIFEST, Manifest, listing_hash, root_from
from sala.encoders.shards import SHARD_SIZE, save_shard, seen_file
from sala.labeling.listing import listed

ROOT = Path(__file__).parents[1]
N_CLASSES, N_LABELED = 20, 5  # classes, labeled images in each
IN_A_FOLDER = 10_000  # files of the pool


def bench(
    images: Annotated[int, typer.Option(help="Images in the pool.", min=1)] = 100_000,
    dimension: Annotated[int, typer.Option(help="Features of an image.", min=1)] = 1280,
    folder: Annotated[
        Path | None, typer.Option(help="Where files and shards go; a temporary folder by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Label random features of so many images from shards: seconds and those of the CPU, peak memory, share of right labels.

    1,000,000 images of 1280 features take 5 GB of disk.
    """
    with tempfile.TemporaryDirectory(dir=folder) as place:
        write_pool(Path(place), images, dimension)
        found = labeled_in_a_process(Path(place))
    found |= {"n": images, "dimension": dimension, "machine": platform.machine()}
    print(json.dumps(found, indent=1))
    if out is not None:
        write_json(out, found)


def write_pool(place: Path, n_images: int, dimension: int, shard_size: int = SHARD_SIZE) -> None:
    """Files of labeled images and of a pool, and shards with features of them."""
    for c in range(N_CLASSES):
        for i in range(N_LABELED):
            _touch(place / "labeled" / class_name(c) / f"{i}.png", f"labeled {c} {i}")
    for i in range(n_images):
        _touch(place / "pool" / f"{i // IN_A_FOLDER:05d}" / f"{class_name(i % N_CLASSES)}-{i:08d}.png", f"pool {i}")
    roots = [place / "labeled", place / "pool"]
    files, _ = listed(roots)
    names = [f"{root}/{path.relative_to(roots[root]).as_posix()}".encode() for root, path in files]
    shards = place / "features"
    shards.mkdir()
    about = ("none", "random", "random-1", tuple(root_from(shards, root) for root in roots))
    manifest = Manifest(*about, len(files), shard_size, listing_hash(names))
    for number, name in enumerate(manifest.shard_names()):
        part = [files[j][1] for j in manifest.part(number)]
        some = [names[j] for j in manifest.part(number)]
        features = random_features(part, dimension, number)
        save_shard(shards / name, features, np.arange(len(part)), some, [seen_file(file) for file in part], {})
    write_json(shards / MANIFEST, asdict(manifest))


def _touch(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def class_name(c: int) -> str:
    return f"class{c:02d}"


def class_of(path: Path) -> str:
    """Of a file of `write_pool`, by its name or its folder."""
    return path.name.split("-")[0] if "-" in path.name else path.parent.name


def random_features(files: Sequence[Path], dimension: int, seed: int) -> np.ndarray:  # -> [n, dimension]
    """Around one center for each class; the noise is as long as the center."""
    centers = np.random.default_rng(0).standard_normal((N_CLASSES, dimension), np.float32)
    noise = np.random.default_rng(seed + 1).standard_normal((len(files), dimension), np.float32)
    return noise + centers[[int(class_of(file).removeprefix("class")) for file in files]]


def labeled_in_a_process(place: Path) -> dict[str, Any]:
    code = "import sys; from benchmarks.shards import probe; probe(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def probe(place: str) -> None:
    """Label, as `sala label` does but for its files, and print what it took; imports are not counted."""
    import torch

    from sala.labeling.label import label_folder

    before, root, load = peak_mib(), Path(place), os.getloadavg()[0]
    begun, busy = time.perf_counter(), time.process_time()
    result = label_folder(root / "labeled", root / "pool", str(root / "features"))
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    rows = [row.label == class_of(row.path) for row in result.rows()]
    told = {"seconds": round(seconds, 2), "CPU seconds": round(busy, 2), "load before": round(load, 1)}
    told |= {"MiB before": before, "MiB at most": peak_mib()}
    print(json.dumps(told | {"right": float(np.mean(rows)), "threads": torch.get_num_threads()}))


def peak_mib() -> int:
    """Resident memory of this process at its peak."""
    import resource  # here: only POSIX systems have it, and tests import this file on any

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


if __name__ == "__main__":
    typer.run(bench)
