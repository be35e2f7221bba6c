"""The downloads of the page: the exports of `sala label`, its model, its report, and the state, as streams of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from sala.classifier.fit import LabelModel
from sala.labeling.archive import zip_blocks
from sala.labeling.card import HELD_OUT, card_json, card_of, card_text, measured
from sala.labeling.export import export, label_studio_config
from sala.labeling.predictions import Row
from sala.labeling.report import report
from sala.web.session import Session


def to_csv(session: Session) -> Iterator[bytes]:
    return _export(session, "csv")


def to_label_studio(session: Session) -> Iterator[bytes]:
    return _export(session, "label-studio")


def to_label_studio_config(session: Session) -> Iterator[bytes]:
    """The labeling interface that the tasks fit, with the classes as they are named now."""
    return iter([label_studio_config(session.snapshot().names).encode("utf-8", "backslashreplace")])


def to_coco(session: Session) -> Iterator[bytes]:
    return _export(session, "coco")


def to_zip(session: Session) -> Iterator[bytes]:
    """Copies of the pool's images in a folder for each class, what the user gave apart from what is predicted."""
    return zip_blocks(_rows(session), lambda row: session.project.read(row.index), session.snapshot().names)


def to_model(session: Session) -> Iterator[bytes]:
    """The model of the labels as they stand, for `sala predict`."""
    return iter([_model(session).to_bytes()])


def to_model_card(session: Session) -> Iterator[bytes]:
    """What the model is, what was measured of it, and its limits."""
    return iter([card_text(card_of(_model(session))).encode("utf-8", "backslashreplace")])


def to_model_card_json(session: Session) -> Iterator[bytes]:
    """The same for programs."""
    return iter([card_json(card_of(_model(session))).encode()])


def _model(session: Session) -> LabelModel:
    """With what held-out examples say of it."""
    result = session.result()
    return replace(result.model, note={**result.model.note, HELD_OUT: measured(result.held_out)})


def to_report(session: Session) -> Iterator[bytes]:
    return iter([report(session.result(), command=session.command).encode("utf-8", "backslashreplace")])


def _export(session: Session, form: str) -> Iterator[bytes]:
    return _blocks(export(_rows(session), form, session.snapshot().names))


def _blocks(texts: Iterable[str]) -> Iterator[bytes]:
    """In blocks of many rows: an answer is not sent a line at a time."""
    waiting = ""
    for text in texts:
        waiting += text
        if len(waiting) > 1 << 16:
            yield waiting.encode("utf-8", "backslashreplace")
            waiting = ""
    yield waiting.encode("utf-8", "backslashreplace")


def _rows(session: Session) -> Iterator[Row]:
    """Of the pool, as they are now."""
    project = session.project
    return session.snapshot().rows(project.path, np.flatnonzero(project.is_pool).tolist(), project.place)


def to_state(session: Session) -> Iterator[bytes]:
    """Every saved change, for `--state`. It waits for no fit."""
    return iter([session.saved_state()])


STATE = "state.jsonl"
DOWNLOADS: dict[str, tuple[Callable[[Session], Iterable[bytes]], str]] = {  # by file name, with the content type
    "labels.csv": (to_csv, "text/csv; charset=utf-8"),
    "label-studio.json": (to_label_studio, "application/json"),
    "label-studio.xml": (to_label_studio_config, "application/xml"),
    "coco.json": (to_coco, "application/json"),
    "sorted.zip": (to_zip, "application/zip"),
    "model.safetensors": (to_model, "application/octet-stream"),
    "model-card.md": (to_model_card, "text/markdown; charset=utf-8"),
    "model-card.json": (to_model_card_json, "application/json"),
    "report.html": (to_report, "text/html; charset=utf-8"),
    STATE: (to_state, "application/jsonl"),
}
