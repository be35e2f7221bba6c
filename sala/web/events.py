"""The events of a state file. It is untrusted input: every event and every field is checked before use.

    {"kind": "sala-labels", "format": 2}                                                   the first line
    {"do": "label", "items": ["pool/a.jpg"], "to": "folder/owl", "checked": 1, "agreed": 0}
    {"do": "labels", "parts": [{"items": ["pool/a.jpg"], "to": "folder/owl"}, ...], "checked": 1, "agreed": 0}
    {"do": "import", "add": ["owl"], "parts": [{"items": ["pool/a.jpg"], "to": "added/0"}, ...]}   labels of a file
    {"do": "add", "name": "owl"}
    {"do": "rename", "class": "added/0", "name": "barn owl"}
    {"do": "merge", "class": "added/0", "into": "folder/owl"}
    {"do": "delete", "class": "added/0"}
    {"do": "order", "classes": ["added/0", "folder/owl"]}
    {"do": "undo"}
    {"do": "redo"}
    {"do": "audit", "seed": 4711, "n": 20}                                                 20 images are to be drawn
    {"do": "answer", "items": ["pool/a.jpg"], "to": "folder/owl", "seen": [["outlier", 9100, 9100]], "verdict": "rejected"}

A class is `folder/NAME`, of a class folder or a labels file, or `added/K` for the K-th class that was added and is in force.
A label may also be `outlier` or `clear`. An image is `pool/PATH`, `labeled/PATH` or `outliers/PATH`. A label, or a part of
several, may tell what was `seen` of each image then: its prediction, how probable that was, and how probable an outlier,
in 1/10,000; null where nothing was predicted. An answer is the label of an image that an audit has
drawn. Each line is one change: one `undo` takes it back, one `redo` makes it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from sala.labeling.folders import OUTLIER_NAME
from sala.labeling.predictions import CONFIDENT, REJECTED, UNCERTAIN

Event = dict[str, Any]
KIND, FORMAT = "sala-labels", 2
HEADER: Event = {"kind": KIND, "format": FORMAT}
MAX_CLASSES, MAX_NAME = 500, 80
MAX_KEY, MAX_FOLDER = 8192, 6 * 255  # characters: what file systems allow, a byte that is no UTF-8 as six
MAX_AUDIT, WHOLE = 100_000, 10_000  # images of an audit; a share of 1
VERDICTS = (CONFIDENT, UNCERTAIN, REJECTED)
MAX_LINE, MAX_EVENTS = 32 << 20, 1_000_000  # bytes of a line, events in force


def encoded(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def parsed(line: bytes) -> Event:
    """Return one event, checked by itself. ValueError says what is wrong."""
    event = decoded(line)
    what = event.get("do")
    fields = FIELDS.get(what) if isinstance(what, str) else None
    if fields is None:
        raise ValueError("sala writes no such change")
    needed = {"do", *fields} - (OPTIONAL if what == "label" else set())
    if not needed <= event.keys() <= {"do", *fields}:
        raise ValueError(f"the fields of {what!r} are {', '.join(fields) or 'none'}")
    for name in event.keys() - {"do"}:
        if not fields[name](event[name]):
            raise ValueError(f"{name!r} of {what!r} has a value that sala does not write")
    if what in ("label", "labels") and not event["agreed"] <= event["checked"] <= n_items(event):
        raise ValueError("it counts more predictions than images")
    if what == "merge" and event["class"] == event["into"]:
        raise ValueError("a class cannot be merged with itself")
    if any("seen" in part and len(part["seen"]) != len(part["items"]) for part in parts_of(event)):
        raise ValueError("it tells of more or fewer images than it labels")
    if what == "answer" and (len(event["items"]) != 1 or event["seen"] == [None]):
        raise ValueError("an answer is of one image that had a prediction")
    return event


def decoded(line: bytes) -> Event:
    """Return a JSON object. ValueError says what is wrong."""
    try:
        event = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(event, dict):
        raise ValueError("it is not a JSON object")
    return event


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def is_name(value: Any) -> bool:
    """Whether a class may have this name, which a folder gets as well."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or value != " ".join(value.split()):
        return False
    is_free = value.casefold() != OUTLIER_NAME and not value.startswith(".")
    return is_free and value.isprintable() and not set(value) & set("/\\")


def is_class(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    if value.startswith("folder/"):
        return 0 < len(value) - len("folder/") <= MAX_FOLDER  # with slashes too: a labels file may have any name
    return re.fullmatch(r"added/(0|[1-9][0-9]{0,2})", value) is not None


def is_target(value: Any) -> bool:
    return is_class(value) or (isinstance(value, str) and value in ("outlier", "clear"))


def are_keys(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(is_key, value))


def is_key(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_KEY and value.startswith(("pool/", "labeled/", "outliers/"))


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0  # a bool is no count


def are_parts(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_part, value))


def _is_part(value: Any) -> bool:
    if not isinstance(value, dict) or not {"items", "to"} <= value.keys() <= {"items", "to", *OPTIONAL}:
        return False
    return are_keys(value["items"]) and is_target(value["to"]) and are_seen(value.get("seen", []))


def are_seen(value: Any) -> bool:
    return isinstance(value, list) and all(one is None or is_seen(one) for one in value)


def is_seen(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    said, *shares = value
    return is_target(said) and said != "clear" and all(is_count(share) and share <= WHOLE for share in shares)


def is_verdict(value: Any) -> bool:
    return isinstance(value, str) and value in VERDICTS


def is_size(value: Any) -> bool:
    return is_count(value) and 1 <= value <= MAX_AUDIT


def is_seed(value: Any) -> bool:
    return is_count(value) and value < 1 << 64


def are_classes(value: Any) -> bool:
    is_list = isinstance(value, list) and 0 < len(value) <= 2 * MAX_CLASSES and all(map(is_class, value))
    return is_list and len(set(value)) == len(value)


def are_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_CLASSES and all(map(is_name, value))


def names_added(event: Event) -> list[str]:
    """Return the names of the classes that an event adds."""
    return [event["name"]] if event["do"] == "add" else event.get("add", [])


def parts_of(event: Event) -> list[Event]:
    """Return each part of a `label`, `labels`, `import` or `answer`: its images, their label, and what was seen of them."""
    if event["do"] in ("labels", "import"):
        parts: list[Event] = event["parts"]
        return parts
    return [event] if event["do"] in ("label", "answer") else []


def n_items(event: Event) -> int:
    return sum(len(part["items"]) for part in parts_of(event))


FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "label": {"items": are_keys, "to": is_target, "checked": is_count, "agreed": is_count, "seen": are_seen},
    "labels": {"parts": are_parts, "checked": is_count, "agreed": is_count},
    "import": {"add": are_names, "parts": are_parts},
    "audit": {"seed": is_seed, "n": is_size},
    "answer": {"items": are_keys, "to": is_target, "seen": are_seen, "verdict": is_verdict},
    "add": {"name": is_name},
    "rename": {"class": is_class, "name": is_name},
    "merge": {"class": is_class, "into": is_class},
    "delete": {"class": is_class},
    "order": {"classes": are_classes},
    "undo": {},
    "redo": {},
}
OPTIONAL = {"seen"}  # of a label: states of earlier versions do not have it
