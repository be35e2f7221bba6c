"""Files altered on purpose: by bits, by pieces, and by what their format means. The same seed makes the same file.

`altered(content, suffix, others, rng)` gives new bytes; `SPECIAL` are things that are no regular file at all.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NUMBERS = (0, 1, 2, 255, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 10**6, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e-300, 1e300, float("nan"), float("inf")),
    *("", "x", "\0", "../../etc/passwd", "/dev/zero", "/", "é\ud800", "a" * 100_000, "none", "1", "NaN"),
    *([], [1], [[]], [None], {}, {"x": 1}, {"do": "label"}, ["a"] * 1000, [1] * 10_000),
)  # fmt: skip
Change = Callable[[bytes, random.Random], bytes]


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


# changes to any bytes


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


# changes by grammar


def edit_json(content: bytes, rng: random.Random) -> bytes:
    """A value of another kind, a key that is missing or new, a list too long, nesting without end."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return flip_bits(content, rng)
    return json.dumps(edited(tree, rng)).encode("utf-8", "surrogatepass")


def edited(tree: Any, rng: random.Random) -> Any:
    """A tree of JSON with one place changed."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        key = rng.choice(list(tree))
        what = rng.random()
        if what < 0.08:
            return {k: v for k, v in tree.items() if k != key}
        if what < 0.12:
            return {**tree, rng.choice(("x", "", "__class__", key.upper())): rng.choice(VALUES)}
        return {**tree, key: edited(tree[key], rng)}
    if isinstance(tree, list) and tree and rng.random() < 0.8:
        i = rng.randrange(len(tree))
        what = rng.random()
        if what < 0.2:
            return tree[:i] + tree[i + 1 :]
        return tree + [tree[i]] * 50 if what < 0.3 else [*tree[:i], edited(tree[i], rng), *tree[i + 1 :]]
    if isinstance(tree, int | float) and not isinstance(tree, bool) and rng.random() < 0.5:
        return rng.choice((-tree, tree + 1, tree * 10**6, tree / 3, str(tree), tree - 1))
    return rng.choice(VALUES)


def deep_json(content: bytes, rng: random.Random) -> bytes:
    n = rng.choice((50, 2000, 100_000))
    return rng.choice((b"[" * n, b'{"a":' * n, b"[" * n + b"]" * n))


def edit_line(content: bytes, rng: random.Random) -> bytes:
    """Of JSON lines: one edited, doubled, moved or gone."""
    lines = content.splitlines()
    if not lines:
        return content
    i = rng.randrange(len(lines))
    what = rng.random()
    if what < 0.7:
        lines[i] = edit_json(lines[i], rng)
    elif what < 0.8:
        lines.insert(rng.randrange(len(lines) + 1), lines[i])
    elif what < 0.9:
        del lines[i]
    else:
        rng.shuffle(lines)
    return b"\n".join(lines) + rng.choice((b"\n", b""))


def edit_cells(content: bytes, rng: random.Random) -> bytes:
    """Of CSV or a list of paths: a cell, a separator or a line."""
    lines = content.split(b"\n")
    i = rng.randrange(len(lines))
    cells = lines[i].split(b",")
    odd = (
        b"",
        b"x",
        b'"',
        b"..",
        b"../../etc/passwd",
        b"/dev/zero",
        b"\0",
        b"\xff\xfe",
        b"a" * 140_000,
        b"train",
        b"-1",
        b"nan",
    )
    cells[rng.randrange(len(cells))] = rng.choice(odd)
    lines[i] = rng.choice((b",", b",", b";", b"\t", b",,")).join(cells)
    return rng.choice((b"\n", b"\n", b"\r", b"\r\n", b"\n\n")).join(lines)


def edit_safetensors(content: bytes, rng: random.Random) -> bytes:
    """Its JSON header: shapes, types, offsets, names, and the note inside its metadata."""
    try:
        n = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + n])
        note = json.loads(header["__metadata__"]["note"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return flip_bits(content, rng)
    if rng.random() < 0.5:
        header["__metadata__"]["note"] = json.dumps(edited(note, rng))
    else:
        header = _edited_tensors(header, rng)
    new = json.dumps(header).encode("utf-8", "surrogatepass")
    length = len(new) if rng.random() < 0.9 else rng.choice(NUMBERS)
    return struct.pack("<Q", length & (2**64 - 1)) + new + content[8 + n :]


def _edited_tensors(header: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    name = rng.choice([key for key in header if key != "__metadata__"])
    tensor = dict(header[name])
    what = rng.randrange(4)
    if what == 0:
        tensor["dtype"] = rng.choice(("F64", "I8", "BF16", "F16", "BOOL", "U64", "X"))
    elif what == 1:
        tensor["shape"] = rng.choice(([], [0], tensor["shape"][::-1], [1, *tensor["shape"]], [2**40, 2**40], [-1], "x"))
    elif what == 2:
        tensor["data_offsets"] = [rng.choice(NUMBERS), rng.choice(NUMBERS)]
    else:
        return {(rng.choice(list(header)) if key == name else key): value for key, value in header.items()}
    return {**header, name: tensor}


def edit_npy(content: bytes, rng: random.Random) -> bytes:
    """The dictionary in its header."""
    old = rng.choice((b"'<f4'", b"False", b"(", b",", b"'shape'", b"'descr'", b")"))
    new = rng.choice(
        (b"'<f8'", b"'|O'", b"'<U9'", b"True", b"(99999999999, ", b"(-1,", b"((((", b"", b"'x'", b"{}", b"1e9)")
    )
    head, tail = content[:128], content[128:]
    return head.replace(old, new, 1) + tail


def edit_zip(content: bytes, rng: random.Random) -> bytes:
    """A number in the header of a member, or in the table of contents."""
    signature, size = rng.choice(((b"PK\3\4", 30), (b"PK\1\2", 46), (b"PK\5\6", 22)))
    places = [i for i in range(len(content)) if content.startswith(signature, i)]
    if not places:
        return flip_bits(content, rng)
    place = rng.choice(places) + rng.randrange(4, size - 4)
    number = (rng.choice(NUMBERS) & 0xFFFFFFFF).to_bytes(4, "little")[: rng.choice((2, 4))]
    return content[:place] + number + content[place + len(number) :]


def edit_database(content: bytes, rng: random.Random) -> bytes:
    """A row or a column that has another value, by SQL."""
    value = rng.choice(
        ("NULL", "''", "x'00'", "zeroblob(12)", "zeroblob(99999)", "'text'", "3", "x'0000c07f0000c07f0000c07f'")
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "database"
        place.write_bytes(content)
        database = sqlite3.connect(place)
        try:
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
            table = rng.choice(tables)
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            what = rng.randrange(4)
            if what == 0:
                database.execute(f"DROP TABLE {table}")
            elif what == 1:
                database.execute(f"ALTER TABLE {table} RENAME COLUMN {rng.choice(columns)} TO other")
            else:
                some = "" if what == 2 else f"WHERE rowid % {rng.randrange(2, 9)} = 0"
                database.execute(f"UPDATE OR REPLACE {table} SET {rng.choice(columns)} = {value} {some}")
            database.commit()
        except (sqlite3.Error, IndexError):  # damaged already
            return flip_bits(content, rng)
        finally:
            database.close()
        return place.read_bytes()


def edit_png(content: bytes, rng: random.Random) -> bytes:
    """Width, height, depth or kind of pixels, with the right checksum."""
    if len(content) < 33:
        return content
    header = bytearray(content[12:29])
    if rng.random() < 0.7:
        side = rng.choice((0, 1, 8_900, 30_000, 2**31 - 1, 2**31, 2**32 - 1))
        place = rng.choice((4, 8))
        header[place : place + 4] = side.to_bytes(4, "big")
    else:
        header[rng.randrange(12, 17)] = rng.choice((0, 1, 2, 3, 4, 6, 8, 16, 255))
    return content[:12] + bytes(header) + zlib.crc32(header).to_bytes(4, "big") + content[33:]


GRAMMARS: dict[str, tuple[Change, ...]] = {
    ".json": (edit_json, edit_json, edit_json, edit_json, deep_json),
    ".jsonl": (edit_line,),
    ".csv": (edit_cells,),
    ".txt": (edit_cells,),
    ".safetensors": (edit_safetensors,),
    ".npy": (edit_npy,),
    ".zip": (edit_zip,),
    ".npz": (edit_zip,),
    ".png": (edit_png,),
    ".sqlite": (edit_database,),
}


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
