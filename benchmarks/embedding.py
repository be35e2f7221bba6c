"""Images per second of the embedding pass of `sala label`, and what a busy core costs it.

    python benchmarks/embedding.py photos.zip --out results/embedding.json [--onnx lite0.onnx]

The first 1,000 JPEGs of a zip or folder, EfficientNet-Lite0, no cache. In turn, several rounds on one machine:

- `batches`: batches of 32 on all threads of PyTorch, decoded ahead by a pool of threads (the scheme before workers);
- `workers`: `embed_files`, as many single-threaded workers as cores;
- `onnx`: the same network in onnxruntime, in the same workers (a file made with torch.onnx.export from `load_lite("lite0")`);
- `... busy`: the same while another process keeps one core busy.

Times are compared within a round only: machines are shared, and rounds differ.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import torch

from sala.data.files import Tree
from sala.data.images import decode
from sala.encoders import Encoder, embed_files, open_encoder
from sala.encoders.foreign import OnnxEncoder
from sala.encoders.workers import n_workers


def in_batches(paths: list[Path], encoder: Encoder) -> np.ndarray:
    """Batches of 32, the next one decoded while one is embedded four images at a time."""
    encoder.batch_size = 4  # type: ignore[attr-defined]
    with ThreadPoolExecutor(n_workers()) as pool:
        coming = [pool.submit(_image, path, encoder) for path in paths]
        batches = (coming[i : i + 32] for i in range(0, len(paths), 32))
        return np.concatenate([encoder.embed(np.stack([f.result() for f in batch])) for batch in batches])


def _image(path: Path, encoder: Encoder) -> np.ndarray:
    return decode(path.read_bytes(), path.name, image_size=encoder.image_size, mode=encoder.mode)


def in_workers(paths: list[Path], encoder: Encoder) -> np.ndarray:
    return embed_files(paths, encoder, cache=False).features


@contextmanager
def busy_core() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def with_onnx(path: Path, folder: Path) -> OnnxEncoder:
    """The same network on the same input: (x - 127) / 128."""
    (folder / "net.onnx").write_bytes(path.read_bytes())
    (folder / "net.json").write_text(json.dumps({"mean": [127 / 255] * 3, "std": [128 / 255] * 3}))
    return OnnxEncoder(folder / "net.onnx")


def rounds(paths: list[Path], onnx: Path | None, n: int, folder: Path) -> list[dict[str, float]]:
    schemes: dict[str, tuple[Callable[[list[Path], Encoder], np.ndarray], Encoder]] = {
        "batches": (in_batches, open_encoder("lite0")),
        "workers": (in_workers, open_encoder("lite0")),
    }
    if onnx:
        schemes["onnx"] = in_workers, with_onnx(onnx, folder)
    found = []
    first = in_workers(paths[:40], schemes["workers"][1])
    for name, (embed, encoder) in schemes.items():
        difference = float(np.abs(embed(paths[:40], encoder) - first).max())  # warms up, too
        print(f"{name}: features differ by {difference:.1e} at most", file=sys.stderr)
    for _ in range(n):
        rates = {}
        for name, (embed, encoder) in schemes.items():
            for suffix, around in (("", nullcontext()), (" busy", busy_core())):
                with around:
                    start = time.perf_counter()
                    embed(paths, encoder)
                    rates[name + suffix] = len(paths) / (time.perf_counter() - start)
        print({name: round(rate, 1) for name, rate in rates.items()}, file=sys.stderr)
        found.append(rates)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--images", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--onnx", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    tree = Tree(args.photos)
    with tempfile.TemporaryDirectory() as folder:
        names = [name for name in tree.files() if name.lower().endswith((".jpg", ".jpeg"))][: args.images]
        paths = [Path(folder) / f"{i}.jpg" for i in range(len(names))]
        for path, name in zip(paths, names, strict=True):
            path.write_bytes(tree.read(name))
        found = rounds(paths, args.onnx, args.rounds, Path(folder))
    ratios = {
        "workers / batches": [r["workers"] / r["batches"] for r in found],
        "workers busy / workers": [r["workers busy"] / r["workers"] for r in found],
        "batches busy / batches": [r["batches busy"] / r["batches"] for r in found],
    }
    if args.onnx:
        ratios["time of workers / time of onnx"] = [r["onnx"] / r["workers"] for r in found]
    for name, values in ratios.items():
        print(f"{name}: {np.median(values):.2f} (of {', '.join(f'{v:.2f}' for v in values)})")
    record = {
        "command": " ".join(["python", *sys.argv]), "data": args.photos.name, "images": len(paths), "workers": n_workers(),
        "machine": platform.machine(), "torch": torch.__version__, "date": time.strftime("%Y-%m-%d"),
        "images_per_second": found, "ratios": ratios,
    }  # fmt: skip
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
