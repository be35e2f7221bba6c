"""`sala doctor`: what is installed and found here, and what to do about what is missing."""

from __future__ import annotations

import json
import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from sala.cache import cache_folder
from sala.cli import console
from sala.errors import SalaError
from sala.text import counted

PACKAGES = ("sala", "torch", "numpy", "pillow", "scikit-learn", "scipy", "safetensors")
FOR_DEVELOPERS = {"dev", "docs"}  # extras that users need not have
WHAT_FOR = {
    "fast": "trainings a third faster on a CPU",
    "photos": "the encoder lite0, and the page of `sala serve`",
    "onnx": "`sala export`, and encoders in .onnx files",
    "transformers": "encoders by name, such as hf:facebook/dinov2-small",
    "tensorboard": "curves of a training in TensorBoard",
}
CACHES = {"embeddings": "features of images", "stores": "prepared datasets", "downloads": "downloaded files"}


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, for a bug report or a program.")
    ] = False,
) -> None:
    """Tell what is installed and found here, and what to do about what is missing.

    Versions, kernels, threads, caches with their sizes, datasets, and the extras of the package. Nothing is changed, and
    nothing is sent anywhere. The exit code is 0: what is missing may well not be needed.

    Example: `sala doctor --json > doctor.json`
    """
    found = examine()
    if as_json:
        console.out.print(json.dumps(found, indent=1), markup=False)
        return
    for title, rows in _tables(found).items():
        console.out.print(title, style="bold", markup=False)
        console.out.print(_table(rows))
    console.out.print("[bold]what to do[/]" if found["advice"] else "[bold]nothing is missing[/]")
    for line in found["advice"]:
        console.out.print(f"  - {line}", markup=False)


def examine() -> dict[str, Any]:
    """All that is told, as plain values."""
    found = {
        "versions": {name: _version(name) for name in PACKAGES}
        | {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        },
        "kernels": _kernels(),
        "threads": _threads(),
        "cache": {"place": str(cache_folder()), "bytes": {name: size_of(cache_folder() / name) for name in CACHES}},
        "data": {"SALA_DATA": os.environ.get("SALA_DATA"), "datasets": datasets()},
        "extras": {
            name: {"packages": packages(name), "missing": missing(name), "for": WHAT_FOR.get(name, "")}
            for name in extras_offered()
        },
    }
    return found | {"advice": advice(found)}


def extras_offered() -> list[str]:
    """The extras of the installed package that are for users."""
    offered = metadata.metadata("sala").get_all("Provides-Extra") or []
    return [name for name in offered if name not in FOR_DEVELOPERS]


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [name for name, found in packages(extra).items() if found is None]


def packages(extra: str) -> dict[str, str | None]:
    """The packages of an extra with their versions here."""
    marker = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    wanted = [line for line in metadata.requires("sala") or [] if marker.search(line)]
    names = [found[0] for line in wanted if (found := re.match(r"[A-Za-z0-9._-]+", line))]
    return {name: _version(name) for name in names}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _kernels() -> dict[str, Any]:
    from sala.nn import kernels

    try:
        return {"used": kernels.describe(), "problem": None}
    except SalaError as error:  # $SALA_KERNELS asks for what is not there
        return {"used": None, "problem": str(error)}


def _threads() -> dict[str, Any]:
    import torch

    return {
        "cores": os.cpu_count(),
        "torch": torch.get_num_threads(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; 0 where there is none. What cannot be read is not counted."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:  # removed meanwhile
                continue
    return total


def datasets() -> dict[str, dict[str, Any]]:
    """For each dataset: whether it is built in, where its folder is, what it wants, and how many stores were prepared of it.

    Class folders of the user's own, which lie anywhere, are not looked for."""
    from sala.data import DATASETS

    root, stores = os.environ.get("SALA_DATA"), cache_folder() / "stores"
    found = {}
    for name, dataset in DATASETS.items():
        if name == "folder":
            continue
        place = Path(root) / dataset.folder if root and dataset.folder else None
        found[name] = {
            "is_built_in": not dataset.folder,
            "place": str(place) if place and place.exists() else None,
            "wants": dataset.wants,
            "n_prepared": len(list(stores.glob(f"{name}-*px-*/index.json"))),
        }
    return found


def advice(found: dict[str, Any]) -> list[str]:
    """One sentence for each thing that is missing: what it is for, and the command that repairs it."""
    lines = []
    if found["kernels"]["problem"]:
        lines.append(found["kernels"]["problem"])
    for name, extra in found["extras"].items():
        if extra["missing"]:
            purpose = f"{extra['for']}: " if extra["for"] else ""
            lines.append(f"{purpose}pip install 'sala[{name}]' (missing: {', '.join(extra['missing'])})")
    threads = found["threads"]
    if threads["OMP_NUM_THREADS"] == "1" and (threads["cores"] or 1) > 1:
        lines.append("OMP_NUM_THREADS=1 keeps PyTorch to one core; unset it to use all")
    if not is_writable(Path(found["cache"]["place"])):
        lines.append(f"{found['cache']['place']} cannot be written; set SALA_CACHE to a folder that can")
    return lines + data_advice(found["data"]["SALA_DATA"], found["data"]["datasets"])


def data_advice(root: str | None, found: dict[str, dict[str, Any]]) -> list[str]:
    """What to do about datasets that are neither built in, nor prepared, nor in the folder of datasets."""
    absent = {name: row for name, row in found.items() if not (row["is_built_in"] or row["place"] or row["n_prepared"])}
    if root and not Path(root).is_dir():
        return [f"SALA_DATA={root} is not a folder; set it to the folder that holds the datasets"]
    if root:
        return [
            f"{name} is not in SALA_DATA, nor prepared; it wants {row['wants']}: sala data fetch {name} gets it or tells how"
            for name, row in absent.items()
        ]
    how = "set SALA_DATA to the folder that holds them; sala data fetch NAME gets one or tells how"
    return [f"for {', '.join(absent)}: {how}"] if absent else []


def is_writable(folder: Path) -> bool:
    """Whether a folder, or the nearest one above it that is there, can be written."""
    there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), folder)
    return there.is_dir() and os.access(there, os.W_OK)


def _tables(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    threads, cache = found["threads"], found["cache"]
    return {
        "versions": {name: value or "not installed" for name, value in found["versions"].items()},
        "computing": {
            "kernels": found["kernels"]["used"] or "none",
            "threads": f"{threads['torch']} of PyTorch, {threads['cores']} cores",
            "CUDA": threads["cuda"] or "none",
        },
        f"cache: {cache['place']}": {CACHES[name]: f"{size / 1e6:,.1f} MB" for name, size in cache["bytes"].items()},
        f"data: SALA_DATA={found['data']['SALA_DATA'] or ''}": {
            name: _said_of(dataset) for name, dataset in found["data"]["datasets"].items()
        },
        "extras": {
            name: ", ".join(f"{package} {version or 'missing'}" for package, version in extra["packages"].items())
            for name, extra in found["extras"].items()
        },
    }


def _said_of(dataset: dict[str, Any]) -> str:
    where = "built in" if dataset["is_built_in"] else dataset["place"] or "not found"
    return where + (f"; prepared in {counted(dataset['n_prepared'], 'form')}" if dataset["n_prepared"] else "")


def _table(rows: dict[str, str]) -> Table:
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(f"  {name}"), Text(value))
    return table
