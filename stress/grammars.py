"""Changes by what a format means: values of another kind in JSON, shapes in headers, numbers in tables of contents."""

from __future__ import annotations

import json
import random
import sqlite3
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

from stress.blunt import NUMBERS, Change, flip_bits

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 10**6, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e-300, 1e300, float("nan"), float("inf")),
    *("", "x", "\0", "../../etc/passwd", "/dev/zero", "/", "é\ud800", "a" * 100_000, "none", "1", "NaN"),
    *([], [1], [[]], [None], {}, {"x": 1}, {"do": "label"}, ["a"] * 1000, [1] * 10_000),
)  # fmt: skip


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
