"""States that were altered: each either opens, and then works, or is refused in a sentence."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.errors import SalaError
from sala.labeling.embedding import ProjectFeatures
from sala.labeling.project import OUTLIER, Item, Project
from sala.web.journal import Journal
from sala.web.session import Session

HEADER = {"kind": "sala-labels", "format": 2}
EVENTS: list[dict[str, Any]] = [
    {"do": "label", "items": ["pool/0.png"], "to": "folder/red", "checked": 1, "agreed": 1},
    {"do": "add", "name": "green"},
    {"do": "label", "items": ["pool/4.png", "pool/5.png"], "to": "added/0", "checked": 2, "agreed": 0},
    {"do": "rename", "class": "folder/blue", "name": "sky"},
    {"do": "label", "items": ["pool/1.png", "pool/gone.png"], "to": "outlier", "checked": 0, "agreed": 0},
    {"do": "undo"},
    {"do": "rename", "class": "added/0", "name": "leaf"},
    {"do": "label", "items": ["labeled/red/0.png"], "to": "clear", "checked": 0, "agreed": 0},
    {"do": "label", "items": ["pool/2.png"], "to": "folder/gone", "checked": 1, "agreed": 0},
    {"do": "audit", "seed": 4711, "n": 2},
    {
        "do": "answer",
        "items": ["pool/3.png"],
        "to": "outlier",
        "seen": [["added/0", 9100, 320]],
        "verdict": "confident",
    },
    {
        "do": "label",
        "items": ["pool/0.png", "pool/1.png"],
        "to": "folder/red",
        "checked": 1,
        "agreed": 1,
        "seen": [None, ["folder/red", 5000, 0]],
    },
    {
        "do": "labels",
        "parts": [
            {"items": ["pool/0.png"], "to": "folder/red", "seen": [["added/0", 5000, 0]]},
            {"items": ["pool/1.png"], "to": "folder/red"},
        ],
        "checked": 1,
        "agreed": 0,
    },
]
ODD: list[Any] = [
    None, True, False, 0, -1, 3, 10**30, -(10**30), 0.5, 1e308, float("nan"), float("inf"), "", "x", "x" * 9000, "\0",
    "\udcff", [], [[]], [[[[["pool/0.png"]]]]], {}, {"do": "undo"}, ["pool/0.png", 3], "none", "clear", "undo", "folder/",
    "folder/red", "folder/../red", "added/", "added/0", "added/1", "added/-1", "added/00", "added/٣", "added/9999999999",
    "a/b", ".", "outlier", "out lier", "Outlier",
]  # fmt: skip
PROJECT = Project(
    {"labeled": Path("/nowhere/labeled"), "pool": Path("/nowhere/pool")},
    ("blue", "red"),
    (
        *(Item("labeled", f"{name}/{i}.png", c) for c, name in enumerate(("blue", "red")) for i in range(2)),
        *(Item("pool", f"{i}.png") for i in range(6)),
    ),
    copies=((4, 5),),
)
FEATURES = np.array(
    [[1, 0], [0.9, 0], [0, 1], [0, 0.9], [1, 0.1], [1, 0.1], [0.1, 1], [0.2, 1], [-1, -1], [-1, -0.9]], np.float32
)
TOY = ProjectFeatures(PROJECT, FEATURES, {"which": "", "name": "toy", "identity": "toy"})


def lines_of(events: list[Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in [HEADER, *events])


def flip_bits(rng: random.Random) -> bytes:
    content = bytearray(lines_of(EVENTS))
    for _ in range(rng.randint(1, 4)):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def cut(rng: random.Random) -> bytes:
    content = lines_of(EVENTS)
    a, b = sorted(rng.randrange(len(content)) for _ in range(2))
    return content[:b] if rng.random() < 0.5 else content[:a] + content[b:]


def shuffle_lines(rng: random.Random) -> bytes:
    lines = lines_of(EVENTS).splitlines(keepends=True)
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        if rng.random() < 0.4:
            lines.insert(i, lines[j])  # twice: a header too
        else:
            lines[i], lines[j] = lines[j], lines[i]
    return b"".join(lines)


def edit_values(rng: random.Random) -> bytes:
    """Values of other types, huge ones, fields that are missing or too many, events that nobody knows."""
    events = copy.deepcopy(EVENTS)
    for _ in range(rng.randint(1, 2)):
        event = rng.choice(events)
        field = rng.choice([*event, "more"])
        if rng.random() < 0.15 and field in event:
            del event[field]
        elif rng.random() < 0.3 and isinstance(event.get("items"), list):
            event["items"] = [*event["items"], rng.choice(ODD)]
        else:
            event[field] = rng.choice(ODD)
    return lines_of(events)


def edit_lines(rng: random.Random) -> bytes:
    """Whole lines that are other JSON, or none."""
    lines = lines_of(EVENTS).splitlines()
    strange = [
        json.dumps(rng.choice(ODD)).encode(),
        b"",
        b" ",
        b"[" * 5000,
        b'{"a":' * 5000,
        b"\xff\xfe",
        b"NaN",
        b"9" * 5000,
    ]
    lines[rng.randrange(len(lines))] = rng.choice(strange)
    return b"\n".join(lines) + b"\n" * rng.randint(0, 2)


KINDS: list[Callable[[random.Random], bytes]] = [flip_bits, cut, shuffle_lines, edit_values, edit_lines]


@pytest.mark.parametrize("kind", KINDS)
def test_an_altered_state_opens_and_works_or_is_refused(
    kind: Callable[[random.Random], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda fd: None)  # the disk is not what is tested
    sentences, n_opened = [], 0
    for seed in range(120):
        (tmp_path / "state").write_bytes(content := kind(random.Random(f"{kind.__name__} {seed}")))
        try:
            journal = Journal(tmp_path / "state")
        except SalaError as error:
            sentences.append(str(error))
            if (tmp_path / "state").read_bytes() == content:  # what is refused is left alone
                continue
            raise
        n_opened += 1
        use(journal)
        journal.close()
    assert sentences and (n_opened or kind is edit_lines)
    assert all(str(tmp_path / "state") in sentence and "\n" not in sentence for sentence in sentences)


def use(journal: Journal) -> None:
    """All that a page does."""
    session = Session(TOY, journal)
    before = session.snapshot()
    assert len(before.names) == len(PROJECT.classes) + sum(event["do"] == "add" for event in journal.events)
    assert before.given.min() >= OUTLIER and before.given.max() < len(before.names)
    assert session.audit().n_drawn <= 1
    session.label([7], to=OUTLIER)
    while session.n_events:
        session.undo()
    assert tuple(session._state.names) == PROJECT.classes and session._state.given[:4].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("target", ["none", "clear", "added/0", "red", "", None, 1])
def test_only_a_class_is_renamed(tmp_path: Path, target: Any) -> None:
    (tmp_path / "state").write_bytes(lines_of([{"do": "rename", "class": target, "name": "owl"}]))
    with pytest.raises(SalaError, match="line 2"):
        Journal(tmp_path / "state")


def test_the_state_as_it_is_opens(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(lines_of(EVENTS))
    session = Session(TOY, Journal(tmp_path / "state"))
    assert session.snapshot().names == ("sky", "red", "leaf") and session.n_lost == 1
    assert session.audit().shares["confident"].n == 1 and session.audit().n_later == 4
    assert session.snapshot().given.tolist() == [0, 0, 1, 1, 1, 1, -1, OUTLIER, 2, 2]


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sala.web.journal.MAX_LINE", 1000)
    (tmp_path / "state").write_bytes(lines_of([]) + b'{"do":"' + b"x" * 5000)
    with pytest.raises(SalaError, match="line 2"):
        Journal(tmp_path / "state")
