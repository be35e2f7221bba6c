"""Files altered on purpose: by bits, by pieces, and by what their format means. The same seed makes the same file.

`altered(content, suffix, others, rng)` gives new bytes; `SPECIAL` are things that are no regular file at all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from stress.blunt import GENERAL, spliced
from stress.grammars import GRAMMARS


def altered(content: bytes, suffix: str, others: Sequence[bytes], rng: random.Random) -> bytes:
    """One to three changes, half of them by the format's grammar where there is one."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        grammar = GRAMMARS.get(suffix, ())
        if grammar and rng.random() < 0.6:
            content = rng.choice(grammar)(content, rng)
        elif others and rng.random() < 0.15:
            content = spliced(content, rng.choice(others), rng)
        else:
            content = rng.choice(GENERAL)(content, rng)
    return content


# what is no regular file


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("not-there")


SPECIAL: dict[str, Callable[[Path], object]] = {
    "a device": _device,
    "a pipe": _pipe,
    "a folder": Path.mkdir,
    "a link to itself": _loop,
    "a link to nothing": _dangling,
    "empty": Path.touch,
    "gone": lambda path: None,
}
