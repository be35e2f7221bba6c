"""Small disks in memory, where this user may mount them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _mount(*words: object) -> bool:
    try:
        return subprocess.run(["mount", *map(str, words)], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


@contextmanager
def disk(place: Path, size: str) -> Iterator[bool]:
    """A file system of this size at a folder; False where it may not be had."""
    place.mkdir(parents=True, exist_ok=True)
    is_real = _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
    try:
        yield is_real
    finally:
        if is_real:
            subprocess.run(["umount", "--lazy", str(place)], capture_output=True, timeout=10, check=True)


def make_roomy(place: Path) -> None:
    _mount("-o", "remount,size=64m", place)


def make_read_only(place: Path) -> None:
    _mount("-o", "remount,ro", place)


def unmount_below(folder: Path) -> None:
    """What a trial that was ended left mounted."""
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in places:
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], capture_output=True, timeout=10)
