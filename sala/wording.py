"""Numbers in sentences."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """`1 image`, `2,000 images`, `3 classes`."""
    ending = "" if n == 1 else "es" if noun.endswith("s") else "s"
    return f"{n:,} {noun}{ending}"
