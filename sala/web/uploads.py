"""Labels that come back to the page in a file: a table, Label Studio's or COCO's JSON, or a state. They are one change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sala.errors import SalaError
from sala.labeling.exported import exported_labels
from sala.labeling.folders import OUTLIER_NAME
from sala.labeling.match import Matcher
from sala.labeling.project import OUTLIER, UNLABELED, Project
from sala.text import printable
from sala.web.events import Event, parts_of
from sala.web.in_force import InForce, named_classes
from sala.web.replay import Replay
from sala.web.session import Session
from sala.web.state_format import check_readable, format_of, parsed_as

STATE_BEGINS = b'{"kind"'  # a state's first line
FOLDER = "folder/"


def take_upload(session: Session, content: bytes) -> dict[str, Any]:
    """Give the images of the session the labels of a file; return what was taken, for the page to tell. SalaError where the
    file holds none for them; then nothing is changed."""
    if content.startswith(STATE_BEGINS):
        labels, missing, n_predicted = *state_labels(session.project, content), 0
    else:
        rows, n_predicted = exported_labels(content)
        labels, missing = matched(session.project, rows)
    if not labels and missing:
        some, n_images = printable(missing[0]), len(session.project.items)
        raise SalaError(
            f"none of the {len(missing):,} files with a label is among these {n_images:,} images, such as {some!r}; upload it "
            "where these are the pool"
        )
    if not labels:
        raise SalaError("the file has no label that differs from those of the folders; nothing is to be taken")
    version, n_taken, added = session.take_labels(labels)
    return {
        "saved": version,
        "taken": n_taken,
        "same": len(labels) - n_taken,
        "missing": len(missing),
        "predicted": n_predicted,
        "added": added,
    }


def matched(project: Project, rows: list[tuple[str, str]]) -> tuple[dict[int, str], list[str]]:
    """The label of each image that a row names, and the paths that are not there."""
    matcher, labels, missing = Matcher(project), dict[int, str](), dict[str, None]()
    for path, label in rows:
        row = matcher.find(path)
        if row is None:
            missing[path] = None
        elif (other := labels.setdefault(row, label)) != label:
            both = " and ".join(repr(printable(name)) for name in (other, label))
            raise SalaError(f"the file gives {printable(path)} two labels, {both}; keep the one that is right")
    return labels, list(missing)


def state_labels(project: Project, content: bytes) -> tuple[dict[int, str], list[str]]:
    """What a state says of images beyond what the folders say of them, and the images that are not there. Classes of folders
    that are not here are taken by their names."""
    events = state_events(content)
    named = [name.removeprefix(FOLDER) for event in events for name in named_classes(event) if name.startswith(FOLDER)]
    project = replace(project, classes=tuple(dict.fromkeys((*project.classes, *named))))
    replay = Replay(project)
    state = replay.state(events)
    before = [_name(int(c), project.classes) for c in project.given]
    after = [_name(int(c), state.names) for c in state.given]
    differ = [i for i in np.flatnonzero(state.given != UNLABELED).tolist() if after[i] != before[i]]
    keys = dict.fromkeys(key for event in events for part in parts_of(event) for key in part["items"])
    return {i: after[i] for i in differ}, [key for key in keys if replay.row(key) is None]


def _name(number: int, names: tuple[str, ...] | list[str]) -> str:
    return {UNLABELED: "", OUTLIER: OUTLIER_NAME}[number] if number < 0 else names[number]


def state_events(content: bytes) -> list[Event]:
    """The changes in force of a state. A last line that was cut short is dropped, as when the file is opened."""
    in_force, form = InForce(), 0
    *lines, _cut = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            if number == 1:
                form = format_of(line)
                check_readable(form, "the file")
            else:
                in_force.take(parsed_as(form, line)[0])
        except ValueError as error:
            raise SalaError(
                f"line {number} of the file is not of a state that sala wrote ({error}); download it again"
            ) from None
    if not lines:
        raise SalaError("the file is a state that was cut short in its first line; download it again")
    return in_force.events
