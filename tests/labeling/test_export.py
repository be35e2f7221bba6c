"""What is written of the pool, to the letter: rows in each format, and files sorted into folders."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sala.classifier.fit import PoolPredictions
from sala.errors import SalaError
from sala.labeling.export import export
from sala.labeling.formats import FORMATS
from sala.labeling.predictions import CONFIDENT, GIVEN, REJECTED, UNCERTAIN, UNKNOWN, Row, Thresholds
from sala.labeling.sort import folder_name, folder_names, sort_copies
from sala.labeling.table import rows_of
from tests.helpers.painted import BLUE, RED, paint

CAT = Row(Path("/photos/my cat.png"), "cat", 0.95, "dog", 0.2, True, CONFIDENT)
OUTLIER = Row(Path("/photos/x,y.png"), "dog", 0.6, "", 0.9, False, REJECTED, REJECTED)


def written(form: str, *rows: Row) -> str:
    return "".join(export(rows, form, ("cat", "dog")))


def test_a_line_of_the_table_is_as_documented() -> None:
    assert written("csv", CAT, OUTLIER) == (
        "path,label,probability,runner_up,outlier_probability,used_for_refinement,verdict,source\n"
        "/photos/my cat.png,cat,0.9500,dog,0.2000,true,confident,predicted\n"
        '"/photos/x,y.png",dog,0.6000,,0.9000,false,rejected,rejected\n'
    )


def test_label_studio_is_given_no_path_that_it_would_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    below, above = json.loads(written("label-studio", *(replace(CAT, path=Path(p)) for p in ("a/x.png", "../a/x.png"))))
    assert below["data"]["image"] == "/data/local-files/?d=a/x.png"
    assert above["data"]["image"] == f"/data/local-files/?d={str(tmp_path)[1:]}/a/x.png"
    assert above["data"]["path"] == "../a/x.png"


def test_label_studio_is_told_what_an_image_is_put_down_as_and_how_probably() -> None:
    """A label counts as much as it is right: 0.95 among the classes times 0.8 of being of any. An outlier is an outlier."""
    cat, outliers = json.loads(written("label-studio", CAT, OUTLIER))
    (said,), (also,) = cat["predictions"], outliers["predictions"]
    assert (said["result"][0]["value"], said["score"]) == ({"choices": ["cat"]}, 0.76)
    assert (also["result"][0]["value"], also["score"]) == ({"choices": ["outlier"]}, 0.9)
    assert cat["data"] == {
        "image": "/data/local-files/?d=photos/my%20cat.png", "path": "/photos/my cat.png", "verdict": "confident",
        "source": "predicted", "probability": 0.95, "runner_up": "dog", "outlier_probability": 0.2,
    }  # fmt: skip


def test_the_box_of_a_turned_photo_is_that_of_the_photo_as_it_is_shown(tmp_path: Path) -> None:
    exif = Image.Exif()
    for orientation, box in ((1, [0, 0, 30, 20]), (3, [0, 0, 30, 20]), (6, [0, 0, 20, 30]), (8, [0, 0, 20, 30])):
        exif[0x0112] = orientation
        path = tmp_path / f"{orientation}.jpg"
        Image.new("RGB", (30, 20)).save(path, exif=exif)
        content = json.loads(written("coco", row(path)))
        (image,), (annotation,) = content["images"], content["annotations"]
        assert annotation["bbox"] == box and [image["width"], image["height"]] == box[2:]


def test_a_class_alone_has_no_runner_up() -> None:
    """The classifier names the label itself then."""
    labels = np.array([1, 0])
    said = PoolPredictions(np.eye(2)[labels], labels, np.array([1, 1]), np.zeros(2), np.zeros(2, bool), labels[:0])
    rows = rows_of(said, [CAT.path, OUTLIER.path], ("cat", "dog"), Thresholds(0.9, 0.9, 0.9))
    assert [(row.label, row.runner_up) for row in rows] == [("dog", ""), ("cat", "dog")]


def test_what_the_user_gave_is_an_annotation_and_of_what_nothing_is_known_nothing_is_said() -> None:
    given, unknown = replace(CAT, verdict=GIVEN), replace(CAT, label="", verdict=UNKNOWN)
    tasks = json.loads(written("label-studio", given, unknown))
    assert tasks[0]["annotations"][0]["result"][0]["value"] == {"choices": ["cat"]} and "predictions" not in tasks[0]
    assert set(tasks[1]) == {"data"}
    assert len(json.loads(written("coco", given, unknown))["annotations"]) == 1


# copies


def row(path: Path, label: str = "cat", verdict: str = CONFIDENT) -> Row:
    return Row(path, label, 0.9, "other", 0.1, False, verdict)


def test_files_of_one_name_size_and_time_are_told_apart_by_their_content(tmp_path: Path) -> None:
    """As a camera's are whose clock has stopped: no photo is taken for another that is there already."""
    paths = [tmp_path / part / "x.jpg" for part in ("a", "b")]
    for path, content in zip(paths, (b"one photo", b"and other"), strict=True):
        path.parent.mkdir()
        path.write_bytes(content)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    done = sort_copies(map(row, paths), tmp_path / "sorted")
    assert (done.placed, done.n_there) == ({"cat": 2}, 0)
    assert [path.read_bytes() for path in sorted((tmp_path / "sorted" / "cat").iterdir())] == [
        b"and other",
        b"one photo",
    ]


def test_a_copy_has_the_time_of_the_photo(tmp_path: Path) -> None:
    path = paint(tmp_path / "x.png", RED)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    sort_copies([row(path)], tmp_path / "sorted")
    assert (tmp_path / "sorted" / "cat" / "x.png").stat().st_mtime == 1_000_000_000


def test_a_link_to_a_file_that_was_named_from_here_leads_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paint(tmp_path / "pool" / "x.png", RED)
    monkeypatch.chdir(tmp_path)
    sort_copies([row(Path("pool/x.png"))], Path("sorted"), link=True)
    link = tmp_path / "sorted" / "cat" / "x.png"
    assert link.is_symlink() and link.read_bytes() == (tmp_path / "pool" / "x.png").read_bytes()


def test_where_there_are_no_hard_links_copies_are_made_and_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a memory stick: also a file that another program puts there at that very moment stays what it is."""
    taken = tmp_path / "sorted" / "cat" / "y.png"

    def no_links(source: Path, place: Path) -> None:
        if place == taken:
            taken.write_bytes(b"theirs")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    x, y = (paint(tmp_path / "pool" / f"{name}.png", color) for name, color in (("x", RED), ("y", BLUE)))
    sort_copies([row(x)], tmp_path / "sorted")
    assert (tmp_path / "sorted" / "cat" / "x.png").read_bytes() == x.read_bytes()
    sort_copies([row(y)], tmp_path / "sorted")
    assert taken.read_bytes() == b"theirs"
    assert (taken.parent / "y-2.png").read_bytes() == y.read_bytes()
    assert sorted(path.name for path in taken.parent.iterdir()) == ["x.png", "y-2.png", "y.png"]  # nothing half done


def test_what_is_uncertain_is_apart_from_its_class(tmp_path: Path) -> None:
    path = paint(tmp_path / "x.png", RED)
    sort_copies([row(path, verdict=UNCERTAIN)], tmp_path / "sorted")
    assert [p.relative_to(tmp_path).as_posix() for p in (tmp_path / "sorted").rglob("*.png")] == [
        "sorted/uncertain/x.png"
    ]


def test_equal_names_from_two_folders_are_numbered_and_links_are_links(tmp_path: Path) -> None:
    rows = [row(paint(tmp_path / "pool" / part / "x.png", color), "cat") for part, color in (("a", RED), ("b", BLUE))]
    rows += [row(rows[0].path, "cat", UNCERTAIN), row(rows[0].path, "cat", REJECTED)]
    done = sort_copies(rows, tmp_path / "sorted", link=True)
    assert done.placed == {"cat": 2, "uncertain": 1, "rejected": 1}
    assert (tmp_path / "sorted" / "cat" / "x-2.png").readlink() == rows[1].path.resolve()


def test_a_long_name_that_is_taken_is_cut_for_its_number(tmp_path: Path) -> None:
    name = "x" * 251 + ".png"
    rows = [row(paint(tmp_path / part / name, color), "cat") for part, color in (("a", RED), ("b", BLUE))]
    assert sort_copies(rows, tmp_path / "sorted").placed == {"cat": 2}


def test_nothing_is_written_outside_the_folder(tmp_path: Path) -> None:
    source = paint(tmp_path / "pool" / "x.png", RED)
    target = tmp_path / "deep" / "sorted"
    sort_copies([row(source, name) for name in ("../up", "/etc/x", "..", ".", "a/../../b", "", "\0")], target)
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")} == {"pool", "deep"}
    assert len(list(target.glob("*/x.png"))) == 7 and [p.name for p in (tmp_path / "deep").iterdir()] == ["sorted"]
    (target / "cat").symlink_to(tmp_path)
    with pytest.raises(SalaError, match="is not a folder of its own"):
        sort_copies([row(source, "cat")], target)
    assert not (tmp_path / "x.png").exists()


def test_class_names_become_folder_names_that_differ_and_are_safe() -> None:
    assert folder_name("grand piano") == "grand piano" and folder_name("日本") == "日本"
    names = ["a/b", "a%2Fb", "a\\b", "..", ".", "CON", "con.x", "uncertain", "rejected", "x.", "x ", "x", "", "-r", "~",
             "long" * 100, "long" * 101, "a\nb", "<b>", "a:b", "*"]  # fmt: skip
    made = [folder_name(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[^/\\:*?\"<>|\n. -][^/\\:*?\"<>|\n]*", name) for name in made)
    assert all(len(name.encode()) <= 120 for name in made) and not {"uncertain", "rejected"} & set(made)


def test_classes_that_differ_in_case_or_accents_alone_have_folders_of_their_own(tmp_path: Path) -> None:
    classes = ["Red", "red", "caf\u00e9", "cafe\u0301", "Rejected", "STRASSE", "straße", "blue"]
    names = folder_names(classes)
    seen = {unicodedata.normalize("NFC", name).casefold() for name in names.values()}
    assert len(seen) == len(classes) and "rejected" not in seen
    assert names["Red"] == "Red" and names["blue"] == "blue"  # what needs no care stays as it is
    rows = [row(paint(tmp_path / f"{i}.png", RED), name) for i, name in enumerate(classes)]
    done = sort_copies(rows, tmp_path / "sorted", classes=classes)
    assert set(done.placed) == set(names.values())


def test_the_users_word_is_an_annotation_of_label_studio_whether_given_or_confirmed() -> None:
    tasks = json.loads(
        written("label-studio", replace(CAT, source="confirmed"), replace(OUTLIER, source="given"), CAT, OUTLIER)
    )
    assert ["annotations" in task for task in tasks] == [True, True, False, False]
    assert tasks[1]["annotations"][0]["result"][0]["value"] == {"choices": ["outlier"]}


def test_coco_ids_belong_together_and_an_outlier_has_no_annotation(tmp_path: Path) -> None:
    paths = [paint(tmp_path / f"{i}.png", RED) for i in range(3)]
    rows = [row(paths[0], "cat"), row(paths[1], "dog", REJECTED), row(paths[2], "dog", UNCERTAIN)]
    content = json.loads(written("coco", *rows))
    assert content["categories"] == [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    assert [(image["id"], image["width"], image["height"]) for image in content["images"]] == [
        (i, 12, 9) for i in (1, 2, 3)
    ]
    annotations = [(a["id"], a["image_id"], a["category_id"], a["bbox"]) for a in content["annotations"]]
    assert annotations == [(1, 1, 1, [0, 0, 12, 9]), (2, 3, 2, [0, 0, 12, 9])]
    assert all(a["score"] == pytest.approx(0.81) for a in content["annotations"])


@pytest.mark.parametrize("form", FORMATS)
def test_no_rows_are_a_valid_file(form: str) -> None:
    text = written(form)
    assert form == "csv" or json.loads(text) is not None
