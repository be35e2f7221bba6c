"""What a run writes down while it goes on: metrics.jsonl, TensorBoard, the manifest."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sala.atomic import write_atomically
from sala.data import ImageStore
from sala.data.files import read_text
from sala.errors import SalaError, writing
from sala.nn import kernels
from sala.training.loop import Record


class RunLog:
    """metrics.jsonl, and TensorBoard where it is installed."""

    def __init__(self, folder: Path):
        self.path = folder / "metrics.jsonl"
        self._file = self.path.open("a", encoding="utf-8")
        self._started = time.monotonic()
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self._board = None
        else:
            self._board = SummaryWriter(str(folder / "tensorboard"))

    def write(self, record: Record) -> None:
        numbers: dict[str, Any] = {"loss": record.loss, **record.notes, "learning_rate": record.learning_rate}
        if record.validation is not None:
            interval = record.validation.interval
            numbers |= {"val_accuracy": interval.mean, "val_ci95": interval.ci95, **record.validation.diagnostics}
            numbers |= {f"val_pseudo_{key}": value for key, value in record.validation.pseudo_labels.items()}
        line = {"episode": record.episode, **numbers, "seconds": round(time.monotonic() - self._started, 2)}
        with writing(self.path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        if self._board is not None:
            for key, value in numbers.items():
                self._board.add_scalar(key, value, record.episode)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        with writing(self.path):  # a line that could not be written is tried again
            self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(folder: Path | str) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    path = Path(folder) / "metrics.jsonl"
    return [json.loads(line) for line in read_text(path).splitlines()] if path.is_file() else []


def metrics_so_far(folder: Path | str) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl of a run that may be going on: none while a line is being written."""
    try:
        return read_metrics(folder)
    except ValueError:
        return []


def episodes_done(folder: Path | str) -> int:
    """How many training episodes of a run are logged."""
    return max((int(line["episode"]) for line in metrics_so_far(folder)), default=0)


def forget_after(path: Path, episode: int) -> None:
    """Drop what was logged after the checkpoint: it will be logged again. A half-written last line goes too."""
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        try:
            if json.loads(line)["episode"] <= episode:
                kept.append(line + "\n")
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    write_atomically(path, "".join(kept).encode())


def recorded_hash(folder: Path) -> str:
    """Of the data that a run was started on."""
    path = folder / "manifest.json"
    try:
        return str(json.loads(read_text(path))["data_hash"])
    except (SalaError, ValueError, KeyError, TypeError, RecursionError):
        raise SalaError(
            f"{path} is missing or damaged, and without it the data of the run is not known; restore it, or start a new run"
        ) from None


def manifest(store: ImageStore) -> dict[str, Any]:
    """The circumstances of a run."""
    return {
        "command": " ".join(sys.argv),
        "data": store.name,
        "data_hash": store.content_hash,
        "versions": {name: version(name) for name in ("sala", "torch", "numpy", "pillow")},
        "kernels": kernels.describe(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
