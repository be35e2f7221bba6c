"""Changes to any bytes, whatever they mean: flipped, cut, doubled, spliced, with other numbers in them."""

from __future__ import annotations

import random
from collections.abc import Callable

NUMBERS = (0, 1, 2, 255, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63)
Change = Callable[[bytes, random.Random], bytes]


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def flip_in_head(content: bytes, rng: random.Random) -> bytes:
    return flip_bits(content[:64], rng) + content[64:]


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def remove_piece(content: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:a] + content[b:]


def repeat_piece(content: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:b] + content[a:b] * rng.choice((1, 2, 10)) + content[b:]


def write_number(content: bytes, rng: random.Random) -> bytes:
    """A number of 1, 2, 4 or 8 bytes, of either order, where headers have theirs or anywhere."""
    size = rng.choice((1, 2, 4, 8))
    place = rng.randrange(min(len(content), rng.choice((48, 512, 1 << 30))) + 1)
    number = rng.choice(NUMBERS) & ((1 << 8 * size) - 1)
    return content[:place] + number.to_bytes(size, rng.choice(("little", "big"))) + content[place + size :]


def write_noise(content: bytes, rng: random.Random) -> bytes:
    place, size = rng.randrange(len(content) + 1), rng.choice((1, 16, 256))
    return content[:place] + rng.randbytes(size) + content[place + size :]


def append(content: bytes, rng: random.Random) -> bytes:
    return content + rng.choice((b"\0" * 100, b"\n", rng.randbytes(50), content))


def spliced(content: bytes, other: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


GENERAL: tuple[Change, ...] = (
    flip_bits, flip_in_head, cut, remove_piece, repeat_piece, write_number, write_number, write_noise, append,
)  # fmt: skip
