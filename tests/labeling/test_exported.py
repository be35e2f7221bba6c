"""Labels of files that programs export, and the images that their paths mean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sala.errors import SalaError
from sala.labeling.export import export
from sala.labeling.exported import exported_labels
from sala.labeling.match import Matcher
from sala.labeling.predictions import Row
from sala.labeling.project import Item, Project

ROW = Row(Path("photos/a.jpg"), "owl", 0.9, "crow", 0.1, False, "given", "given")
ROWS = [
    ROW,
    replace(ROW, path=Path("photos/é \udcff #1.jpg"), label="=crow", source="confirmed"),
    replace(ROW, path=Path("photos/b.jpg"), verdict="confident", source="predicted"),
    replace(ROW, path=Path("photos/c.jpg"), verdict="rejected", source="given"),
    replace(ROW, path=Path("photos/d.jpg"), verdict="rejected", source="rejected"),
]


@pytest.mark.parametrize("form", ["csv", "label-studio", "coco"])
def test_what_sala_exports_comes_back_without_its_predictions(form: str) -> None:
    content = "".join(export(iter(ROWS), form, ["owl", "=crow"])).encode("utf-8", "backslashreplace")
    rows, n_predicted = exported_labels(content)
    assert rows == [("photos/a.jpg", "owl"), ("photos/é \\udcff #1.jpg", "=crow"), ("photos/c.jpg", "outlier")]
    assert n_predicted >= 1  # a rejected image has no annotation in COCO's form


def test_label_studios_newest_annotation_counts_and_a_skipped_one_does_not() -> None:
    def annotation(choice: str, **more: Any) -> dict[str, Any]:
        return {"result": [{"type": "choices", "value": {"choices": [choice]}}], **more}

    tasks = [
        {
            "data": {"image": "/data/local-files/?d=photos/a%20b.jpg"},
            "annotations": [annotation("owl"), annotation("crow")],
        },
        {"data": {"image": "c.jpg"}, "annotations": [annotation("owl", was_cancelled=True)], "predictions": [{}]},
        {"data": {"image": "d.jpg"}, "annotations": [{"result": []}]},
    ]
    assert exported_labels(json.dumps(tasks).encode()) == ([("photos/a b.jpg", "crow")], 1)


def test_an_annotation_of_another_program_is_a_label() -> None:
    coco = {
        "categories": [{"id": 7, "name": "owl"}],
        "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}],
        "annotations": [{"id": 5, "image_id": 2, "category_id": 7, "bbox": [1, 2, 3, 4]}],
    }
    assert exported_labels(json.dumps(coco).encode()) == ([("b.jpg", "owl")], 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"path\na.jpg",
        b"path,label\n",
        b"{",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b"[1]",
        b'[{"data": {}, "annotations": [{"result": [{"value": {"choices": ["x"]}}]}]}]',
        b'[{"data": {"image": 3}, "annotations": [{"result": [{"value": {"choices": ["x"]}}]}]}]',
        b'[{"data": {"image": "a"}, "annotations": [{"result": [{"value": {"choices": [{}]}}]}]}]',
        b'{"categories": [{"id": [], "name": "x"}], "images": [], "annotations": []}',
        b'{"categories": [], "images": [], "annotations": [{"image_id": 1, "category_id": 1}]}',
        b'{"categories": 1, "images": 2, "annotations": 3}',
        b'[{"data": {"image": "a"}, "annotations": [{"result": [{"value": {"choices": ["' + b"x" * 300 + b'"]}}]}]}]',
    ],
)
def test_what_holds_no_labels_is_refused_in_a_sentence(content: bytes) -> None:
    with pytest.raises(SalaError) as refused:
        exported_labels(content)
    assert "\n" not in str(refused.value) and ";" in str(refused.value)


@pytest.fixture
def matcher() -> Matcher:
    items = (Item("labeled", "owl/1.jpg", 0), Item("pool", "1.jpg"), Item("pool", "a/2.jpg"), Item("pool", "b/2.jpg"))
    items += (Item("pool", "b/3.jpg"), Item("pool", "\udcff.jpg"))
    return Matcher(Project({"labeled": Path("labeled"), "pool": Path("../photos")}, ("owl",), items))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("../photos/1.jpg", 1),
        ("labeled/owl/1.jpg", 0),
        ("./1.jpg", 1),
        ("/home/me/photos/1.jpg", 1),
        ("C/photos/b/2.jpg", 3),
        ("a/2.jpg", 2),
        ("2.jpg", None),
        ("3.jpg", 4),
        ("c/3.jpg", None),
        ("\\udcff.jpg", 5),
        ("4.jpg", None),
        ("", None),
    ],
)
def test_a_path_means_one_image_or_none(matcher: Matcher, path: str, found: int | None) -> None:
    assert matcher.find(path) == found
