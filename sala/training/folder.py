"""The folder of a run: whether a training may begin in it, and that only one writes into it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sala import locks
from sala.errors import SalaError
from sala.training.config import read_config

CHECKPOINTS = ("last.safetensors", "previous.safetensors")  # in the order in which they are tried
EARLY = {"config.json", "manifest.json", "metrics.jsonl", "tensorboard", "best.safetensors"}  # before the first of them


def has_checkpoint(folder: Path) -> bool:
    return any((folder / name).is_file() for name in CHECKPOINTS)


def check_free(folder: Path) -> None:
    """A folder may hold what a training leaves that was killed before its first checkpoint, and nothing else."""
    if folder.exists() and not folder.is_dir():
        raise SalaError(f"{folder} is a file, and a run is a folder; choose another --out")
    if has_checkpoint(folder):
        raise SalaError(f"{folder} holds a run; continue it with --resume {folder}, or choose another --out")
    if folder.exists() and not _is_early(folder):
        raise SalaError(f"{folder} is not empty, and holds no run; choose another --out")


def _is_early(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir() if not path.name.endswith(".partial")}
    return not names or (names <= EARLY and _is_configured(folder))


def _is_configured(folder: Path) -> bool:
    """Whether the config.json in it is of a run, and no other program's."""
    try:
        read_config(folder)
    except SalaError:
        return False
    return True


def clear(folder: Path) -> None:
    """Remove what a killed training left, from a folder that is free."""
    for left in folder.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two trainings must not write into one folder. The lock goes with the process, however it ends."""
    descriptor = _opened(folder)
    try:
        if not locks.try_lock(descriptor):
            raise SalaError(f"another training is writing into {folder}; wait for it, or choose another folder")
        yield
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    """The folder to lock, or a file beside it where folders cannot be opened (Windows)."""
    if locks.CAN_OPEN_FOLDERS:
        return os.open(folder, os.O_RDONLY)
    folder = folder.resolve()
    return os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT)
