"""`sala label` and `sala predict`: what they write, for real photos and for whatever else lies in a folder."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import xml.etree.ElementTree as ET
import zipfile
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from painted import BLUE, GREEN, RED, MeanColour, know_colour, labels, paint, painted_folders, refusal, sala
from PIL import Image

from sala.encoders.lite import lite_weights
from sala.engine import HeldOut, LabelModel
from sala.errors import SalaError
from sala.labelling import DOUBTFUL, NONE_OF_THESE, SURE, Row, label_folders, sort_copies, write_rows
from sala.labelling.copies import folder_name
from sala.labelling.exports import FORMATS, HEADER, path_cell, text_cell
from sala.labelling.report import reliability_bins, wilson
from sala.labelling.rows import Columns, Thresholds, find_thresholds, verdict

ODD_NAMES = ["it's \"quoted\".png", "two  spaces .png", "line\nbreak.png", "return\r.png", "a,b;c.png", "=1+2.png", "@cmd.png",
             "..png", "..\\..\\up.png", "%2e%2e.png", "<script>alert(1)</script>.png".replace("/", "∕"), "émile 日本.png",
             "<img src=x onerror=alert(1)>.png", "--out.png", "[bold]x[/].png"]  # fmt: skip


@pytest.fixture(autouse=True)
def _colour_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    know_colour(monkeypatch)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return painted_folders(tmp_path)


def test_label_writes_a_row_for_each_image_of_the_pool(folders: tuple[Path, Path], tmp_path: Path) -> None:
    result = sala("label", *folders, "--out", tmp_path / "out", "--encoder", "colour")
    rows = labels(tmp_path / "out" / "labels.csv")
    assert tuple(rows[0]) == HEADER
    assert len(rows) == 30 and all(Path(row["path"]).is_file() for row in rows)
    assert all(Path(row["path"]).name.startswith(row["label"]) for row in rows)
    assert all(0 <= float(row[key]) <= 1 for row in rows for key in ("probability", "none_of_these"))
    assert all(row["runner_up"] in {"red", "green", "blue"} - {row["label"]} for row in rows)
    assert {row["used_for_refinement"] for row in rows} <= {"true", "false"}
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "labels.csv", "model.safetensors", "report.html", "set-aside.csv"
    ]  # fmt: skip
    assert re.search(r"green +1 +\d+ +\d+", result.stdout) and "labels.csv" in result.stdout


def test_predict_says_the_same_as_label(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "colour")
    model = tmp_path / "out" / "model.safetensors"
    result = sala("predict", model, folders[1], "--encoder", "colour")
    there = {row["path"]: row for row in labels(tmp_path / "out" / "labels.csv")}
    here = {row["path"]: row for row in csv.DictReader(io.StringIO(result.stdout))}
    assert here.keys() == there.keys()
    for path, row in here.items():
        assert row["used_for_refinement"] == "false"
        same = ("label", "runner_up", "verdict")
        assert [row[key] for key in same] == [there[path][key] for key in same]
        for key in ("probability", "none_of_these"):  # the pool's images were judged without their own part
            assert float(row[key]) == pytest.approx(float(there[path][key]), abs=0.02)


def test_predict_takes_files_folders_and_a_list_and_tells_what_it_cannot_read(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "colour")
    new = [paint(tmp_path / "new" / name, RED, 7) for name in ("line\nbreak.png", "b.png", "c.png")]
    (tmp_path / "empty.png").touch()
    given = [tmp_path / "out" / "model.safetensors", new[1], tmp_path / "empty.png", tmp_path / "missing.png"]
    result = sala("predict", *given, "-", "-0", "--encoder", "colour", stdin=f"{new[0]}\0{new[2]}".encode())
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [row["path"] for row in rows] == [str(path) for path in (new[1], new[0], new[2])]
    assert all(row["label"] == "red" for row in rows)
    assert "empty.png is not an image" in result.stderr and "missing.png is not there" in result.stderr
    listed = sala("predict", given[0], "-", "--encoder", "colour", stdin=f"{new[1]}\n\n{new[2]}\r\n".encode())
    assert len(listed.stdout.splitlines()) == 3


def test_predict_writes_a_file_whole_or_not_at_all(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "colour")
    model, out = tmp_path / "out" / "model.safetensors", tmp_path / "new.csv"
    out.write_text("precious")
    message = refusal("predict", model, tmp_path / "nothing.png", "--encoder", "colour", "--out", out)
    assert "the one file that was named could not be read" in message and out.read_text() == "precious"
    sala("predict", model, folders[1], "--encoder", "colour", "--out", out, "--no-cache")
    assert len(labels(out)) == 30 and not list(tmp_path.glob(".*partial"))


def test_predict_reads_its_input_as_it_goes(folders: tuple[Path, Path]) -> None:
    """Constant memory: of an endless list, only a batch ahead is taken."""
    from sala.labelling.predict import BATCH, predict_files

    labelling = label_folders(*folders, MeanColour(), which="colour")  # type: ignore[arg-type]
    taken = 0

    def endless() -> object:
        nonlocal taken
        while True:
            taken += 1
            yield labelling.paths[taken % 30], None

    rows = predict_files(labelling.model, MeanColour(), endless())  # type: ignore[arg-type]
    for _ in range(3 * BATCH):
        next(rows)
    assert taken == 3 * BATCH
    rows.close()  # type: ignore[attr-defined]


def test_a_model_of_another_encoder_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    labelling = label_folders(*folders, MeanColour(), which="colour")  # type: ignore[arg-type]
    note = labelling.model.note | {"encoder": {"which": "colour", "name": "x", "identity": "other-1"}}
    LabelModel(**(vars(labelling.model) | {"note": note})).save(tmp_path / "model.safetensors")
    assert "made with the encoder other-1" in refusal("predict", tmp_path / "model.safetensors", folders[1])
    note["encoder"]["which"] = str(tmp_path / "program.pt")
    LabelModel(**(vars(labelling.model) | {"note": note})).save(tmp_path / "model.safetensors")
    assert "if you trust it, name it with --encoder" in refusal("predict", tmp_path / "model.safetensors", folders[1])
    LabelModel(**(vars(labelling.model) | {"note": {}})).save(tmp_path / "model.safetensors")
    assert "does not tell its encoder" in refusal("predict", tmp_path / "model.safetensors", folders[1])
    assert "there is no model" in refusal("predict", tmp_path / "nowhere.safetensors", folders[1])
    (tmp_path / "model.safetensors").write_bytes(b"no model")
    assert "damaged" in refusal("predict", tmp_path / "model.safetensors", folders[1])


def test_junk_that_is_told_apart_without_doubt_is_set_aside_alone() -> None:
    """The share that may be wrong is not filled up: of ten images with score 0 none follows the ten with score 1."""
    none = np.repeat(np.float32([1, 0]), 10)
    columns = Columns(np.zeros(20, np.int64), np.ones(20, np.float32), np.ones(20, np.int64), none, np.zeros(20, bool))
    thresholds = find_thresholds(columns, 0.9)
    verdicts = [row.verdict for row in columns.rows([Path("x")] * 20, ("cat", "dog"), thresholds)]
    assert verdicts == [NONE_OF_THESE] * 10 + [SURE] * 10


def test_a_label_is_sure_from_the_precision_on() -> None:
    thresholds = Thresholds(precision=0.8, none_of_these=0.7, sure=0.8)
    assert verdict(0.0, 0.8, thresholds) == SURE and verdict(0.0, 0.79, thresholds) == DOUBTFUL
    assert verdict(0.7, 0.3, thresholds) == DOUBTFUL and verdict(0.71, 0.29, thresholds) == NONE_OF_THESE


# folders that are not as they should be


def test_folders_that_cannot_be_labelled_from_are_refused_with_a_repair(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    labelled, pool = folders
    out = ("--out", tmp_path / "out", "--encoder", "colour")
    assert "there is no folder" in refusal("label", tmp_path / "nowhere", pool, *out)
    assert "there is no folder" in refusal("label", labelled, tmp_path / "nowhere", *out)
    assert "a folder of their own" in refusal("label", labelled, labelled, *out)
    assert "a folder of their own" in refusal("label", labelled, labelled / "red", *out)
    assert "no class folders but 15 images" in refusal("label", pool / "part0", labelled, *out)
    paint(tmp_path / "one" / "red" / "a.png", RED)
    alone = refusal("label", tmp_path / "one", pool, *out)
    assert "has one class only (red)" in alone and "add a folder" in alone and "`sala serve`" in alone
    (tmp_path / "one" / "empty").mkdir()
    assert "empty has no image; put one into it, remove" in refusal("label", tmp_path / "one", pool, *out)
    (tmp_path / "one" / "empty" / "x.png").touch()
    assert "empty has no image that can be used (" in refusal("label", tmp_path / "one", pool, *out)
    (tmp_path / "one" / "empty" / "x.png").write_text("no image")
    broken = refusal("label", tmp_path / "one", pool, *out)
    assert "no image of the class empty can be used" in broken and "put a sound one into its folder" in broken
    assert not (tmp_path / "out").exists()
    (tmp_path / "pool.zip").write_bytes(b"PK")
    assert "is a file, not a folder with images to label" in refusal("label", labelled, tmp_path / "pool.zip", *out)
    (labelled / "none of these").mkdir()
    paint(labelled / "none of these" / "a.png", GREEN)
    assert "which is what images of no class are called" in refusal("label", labelled, pool, *out)


def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    options = ("--encoder", "colour")
    assert "would be a class the next time" in refusal("label", *folders, "--out", folders[0] / "out", *options)
    for place in (tmp_path / "taken", tmp_path / "taken" / "out"):
        assert "taken is a file, and a folder is wanted" in refusal("label", *folders, "--out", place, *options)


def test_files_of_an_earlier_run_are_pointed_out(folders: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("--out", tmp_path / "out", "--encoder", "colour")
    assert "earlier" not in sala("label", *folders, *options, "--format", "coco").stderr
    (tmp_path / "out" / "coco.json").unlink(missing_ok=True)
    sala("label", *folders, *options, "--format", "coco", "--format", "label-studio")
    for name in ("labels.csv", "coco.json", "label-studio.json", "label-studio.xml"):
        assert (tmp_path / "out" / name).is_file()
    assert "coco.json is of an earlier run" in sala("label", *folders, *options).stderr.replace("\n", "")


def test_copies_of_a_labelled_image_in_its_class_are_told(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (folders[0] / "green" / "twice.png").write_bytes((folders[0] / "green" / "0.png").read_bytes())
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "colour")
    assert "which counts once" in (tmp_path / "out" / "set-aside.csv").read_text()


def test_options_that_cannot_be_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out", "--encoder", "colour")
    assert "--format is one of csv" in refusal("label", *folders, *out, "--format", "xml")
    assert "--precision is a share" in refusal("label", *folders, *out, "--precision", "1.5")
    assert "--link goes with --copy-to" in refusal("label", *folders, *out, "--link")
    assert "choose a folder outside" in refusal("label", *folders, *out, "--copy-to", folders[1] / "sorted")
    assert "choose a folder outside" in refusal("label", *folders, *out, "--copy-to", folders[0])
    assert "there is no encoder lite9" in refusal("label", *folders, "--encoder", "lite9")


def test_an_encoder_that_is_not_installed_says_what_to_install(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'sala[photos]'" in refusal("label", *folders)


def test_an_empty_pool_still_gives_a_model(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    result = sala("label", folders[0], tmp_path / "bare", "--out", tmp_path / "out", "--encoder", "colour")
    assert "no image that can be read" in result.stderr
    assert labels(tmp_path / "out" / "labels.csv") == []
    assert "The pool holds no image" in (tmp_path / "out" / "report.html").read_text()
    predicted = sala("predict", tmp_path / "out" / "model.safetensors", folders[1] / "part0", "--encoder", "colour")
    rows = list(csv.DictReader(io.StringIO(predicted.stdout)))
    assert len(rows) == 15 and all(Path(row["path"]).name.startswith(row["label"]) for row in rows)


def test_labelled_images_inside_the_pool_are_not_pool_images(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    folders[0].rename(folders[1] / "labelled")
    labelling = label_folders(folders[1] / "labelled", folders[1], MeanColour())  # type: ignore[arg-type]
    assert len(labelling.paths) == 30 and not labelling.set_aside


def test_copies_count_once_and_copies_of_labelled_images_have_their_label(folders: tuple[Path, Path]) -> None:
    labelled, pool = folders
    before = label_folders(*folders, MeanColour())  # type: ignore[arg-type]
    for i in range(4):
        (pool / f"again{i}.png").write_bytes((pool / "part0" / "red0.png").read_bytes())
    (labelled / "blue" / "again.png").write_bytes((labelled / "blue" / "0.png").read_bytes())
    (labelled / "red" / "purple.png").write_bytes(paint(pool / "mine.png", (120, 30, 200)).read_bytes())
    after = label_folders(*folders, MeanColour())  # type: ignore[arg-type]
    assert (after.n_copies, after.n_labelled_copies) == (4, 1)
    rows = {row.path.name: row for row in after.rows()}
    assert (rows["mine.png"].label, rows["mine.png"].probability, rows["mine.png"].runner_up) == ("red", 1.0, "blue")
    again, first = rows["again2.png"], rows["red0.png"]
    assert (again.label, again.probability, again.none_of_these) == (
        first.label,
        first.probability,
        first.none_of_these,
    )
    assert len(after.examples.paths) == len(before.examples.paths) + 1
    assert len({after.paths[i].name for i in after.label_next}) == len(after.label_next) == 30


def test_a_pool_of_nothing_but_labelled_images_is_labelled(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "same").mkdir()
    (tmp_path / "same" / "x.png").write_bytes((folders[0] / "red" / "0.png").read_bytes())
    labelling = label_folders(folders[0], tmp_path / "same", MeanColour())  # type: ignore[arg-type]
    assert [row.label for row in labelling.rows()] == ["red"]


def test_one_image_in_two_classes_is_refused(folders: tuple[Path, Path]) -> None:
    (folders[0] / "blue" / "x.png").write_bytes((folders[0] / "red" / "0.png").read_bytes())
    with pytest.raises(SalaError, match=r"are the same image in two classes; remove it from one of them"):
        label_folders(*folders, MeanColour())  # type: ignore[arg-type]


def test_links_out_of_the_folder_are_reported_and_not_followed(folders: tuple[Path, Path], tmp_path: Path) -> None:
    labelled, pool = folders
    secret = paint(tmp_path / "secret" / "s.png", GREEN)
    (pool / "file.png").symlink_to(secret)
    (pool / "folder").symlink_to(secret.parent)
    (pool / "up").symlink_to(tmp_path)
    (pool / "loop").symlink_to(pool)
    (pool / "dead.png").symlink_to(tmp_path / "nowhere.png")
    (pool / "within.png").symlink_to(pool / "part0" / "red0.png")
    (labelled / "elsewhere").symlink_to(secret.parent)
    labelling = label_folders(*folders, MeanColour())  # type: ignore[arg-type]
    names = {path.name for path in labelling.set_aside}
    assert names == {"file.png", "folder", "up", "loop", "dead.png", "elsewhere"}
    assert {path.name for path in labelling.paths} >= {"within.png"} and len(labelling.paths) == 31
    assert labelling.model.classes == ("blue", "green", "red")


def test_files_that_are_no_images_are_set_aside_with_a_reason(folders: tuple[Path, Path], tmp_path: Path) -> None:
    pool = folders[1]
    (pool / "empty.png").touch()
    (pool / "text.jpg").write_text("no image")
    (pool / "phone.HEIC").write_bytes(b"x")
    Image.new("1", (10_000, 10_000)).save(pool / "bomb.png")
    os.mkfifo(pool / "pipe.png")
    (pool / "notes.txt").write_text("passed over")
    (pool / ".hidden.png").touch()
    result = sala("label", *folders, "--out", tmp_path / "out", "--encoder", "colour")
    rows = {Path(row["path"]).name: row["reason"] for row in labels(tmp_path / "out" / "set-aside.csv")}
    assert set(rows) == {"empty.png", "text.jpg", "phone.HEIC", "bomb.png", "pipe.png"}
    assert (
        "10000 x 10000 pixels" in rows["bomb.png"] and "heic" in rows["phone.HEIC"] and "is empty" in rows["empty.png"]
    )
    assert "set aside: 5 files" in result.stderr
    assert len(labels(tmp_path / "out" / "labels.csv")) == 30


# names


@pytest.fixture
def odd(folders: tuple[Path, Path]) -> tuple[Path, Path]:
    """Classes and images whose names mean something to a shell, a spreadsheet, a browser or a file system."""
    labelled, pool = folders
    for name in ODD_NAMES:
        paint(pool / "odd" / name, RED, 5)
    for name in ("<script>alert('class')<", '=HYPERLINK("x")', "CON", "none-of-these", "a\nb", "...", "[red]"):
        paint(
            labelled / name / "1.png", tuple(np.random.default_rng(zlib.crc32(name.encode())).integers(20, 235, 3)), 9
        )
    return labelled, pool


@pytest.mark.parametrize("form", FORMATS)
def test_every_name_comes_back_from_every_format(odd: tuple[Path, Path], tmp_path: Path, form: str) -> None:
    sala("label", *odd, "--out", tmp_path / "out", "--encoder", "colour", "--format", form)
    wanted = {str(odd[1] / "odd" / name) for name in ODD_NAMES}
    if form == "csv":
        found = {row["path"] for row in labels(tmp_path / "out" / "labels.csv")}
    else:
        content = json.loads((tmp_path / "out" / f"{form}.json").read_text(encoding="utf-8"))
        found = (
            {image["file_name"] for image in content["images"]}
            if form == "coco"
            else {task["data"]["path"] for task in content}
        )
    assert wanted <= found and len(found) == 30 + len(ODD_NAMES)


def test_no_cell_is_a_formula() -> None:
    assert path_cell(Path("=cmd.png")) == "./=cmd.png" and path_cell(Path("-x,y.png")) == '"./-x,y.png"'
    assert path_cell(Path("pool/=cmd.png")) == "pool/=cmd.png"
    assert text_cell('=HYPERLINK("x")') == '"\'=HYPERLINK(""x"")"' and text_cell("@x") == "'@x"
    assert text_cell("plain class") == "plain class"


def test_names_that_are_not_utf8_are_written_as_text(folders: tuple[Path, Path], tmp_path: Path) -> None:
    strange = os.fsdecode(os.fsencode(folders[1]) + b"/caf\xe9.png")
    try:
        Path(strange).write_bytes(paint(tmp_path / "x.png", RED).read_bytes())
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    for form in FORMATS:
        sala(
            "label",
            *folders,
            "--out",
            tmp_path / "out",
            "--encoder",
            "colour",
            "--format",
            form,
            "--copy-to",
            tmp_path / "s",
        )
    assert any(row["path"].endswith("caf\\udce9.png") for row in labels(tmp_path / "out" / "labels.csv"))
    (tmp_path / "out" / "coco.json").read_text(encoding="utf-8")
    assert len(list((tmp_path / "s").glob("*/caf*.png"))) == 1


class Tags(HTMLParser):
    """The tags of a page, each with its attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_is_one_file_that_runs_nothing(odd: tuple[Path, Path], tmp_path: Path) -> None:
    (odd[1] / "<b>broken<b>.png").touch()
    sala("label", *odd, "--out", tmp_path / "out", "--encoder", "colour")
    parser = Tags()
    parser.feed((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    kinds = Counter(tag for tag, _ in parser.tags)
    assert not kinds.keys() & {"script", "iframe", "link", "b", "object"}
    assert not [name for _, attributes in parser.tags for name in attributes if name.startswith("on")]
    sources = [attributes["src"] or "" for tag, attributes in parser.tags if tag == "img"]
    assert len(sources) >= 30 and all(source.startswith("data:image/") for source in sources)
    targets = {attributes["href"] or "" for tag, attributes in parser.tags if tag == "a"}
    places = {f"#{attributes['id']}" for _, attributes in parser.tags if "id" in attributes}
    assert targets <= places
    assert "<script>alert('class')<" in parser.text and "What to label next" in parser.text


def test_the_report_bounds_its_pictures_and_says_how_many_are_missing(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sala.labelling.report.MAX_IN_ALL", 3)
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "colour")
    assert "Not shown: 4 surer images" in (tmp_path / "out" / "report.html").read_text()


def test_the_reliability_of_left_out_images_is_by_groups_of_equal_size() -> None:
    p = np.linspace(0.5, 1, 16, dtype=np.float32)
    held_out = HeldOut(np.stack([p, 1 - p], 1), np.array([1] * 4 + [0] * 12), np.zeros(16, np.float32))
    low, high = reliability_bins(held_out)
    assert low[1] == 0.5 and high[1] == 1.0 and low[4] == high[4] == 8
    assert low[2] < 0.5 < low[3] and high[2] < 1.0 == high[3]
    assert reliability_bins(HeldOut(np.zeros((0, 2), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))) == []
    np.testing.assert_allclose(wilson(5, 10), (0.2366, 0.7634), atol=1e-4)


# copies


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_copies_are_sorted_and_nothing_is_moved_or_overwritten(folders: tuple[Path, Path], tmp_path: Path) -> None:
    before, target = contents(folders[1]), tmp_path / "sorted"
    (target / "red").mkdir(parents=True)
    (target / "red" / "red0.png").write_bytes(b"mine")
    words = (
        "label",
        *folders,
        "--out",
        tmp_path / "out",
        "--encoder",
        "colour",
        "--copy-to",
        target,
        "--precision",
        "0.5",
    )
    sala(*words)
    assert contents(folders[1]) == before
    first = contents(target)
    assert len(first) == 31 and first["red/red0.png"] == b"mine"
    assert first["red/red0-2.png"] == before["part0/red0.png"]
    assert "30 were there already" in sala(*words).stdout
    assert contents(target) == first


def row(path: Path, label: str, verdict: str = SURE) -> Row:
    return Row(path, label, 0.9, "other", 0.1, False, verdict)


def test_equal_names_from_two_folders_are_numbered_and_links_are_links(tmp_path: Path) -> None:
    rows = [row(paint(tmp_path / "pool" / part / "x.png", colour), "cat") for part, colour in (("a", RED), ("b", BLUE))]
    rows += [row(rows[0].path, "cat", DOUBTFUL), row(rows[0].path, "cat", NONE_OF_THESE)]
    done = sort_copies(rows, tmp_path / "sorted", link=True)
    assert done.placed == {"cat": 2, "doubtful": 1, "none-of-these": 1}
    assert (tmp_path / "sorted" / "cat" / "x-2.png").readlink() == rows[1].path.resolve()


def test_a_long_name_that_is_taken_is_cut_for_its_number(tmp_path: Path) -> None:
    name = "x" * 251 + ".png"
    rows = [row(paint(tmp_path / part / name, colour), "cat") for part, colour in (("a", RED), ("b", BLUE))]
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
    names = ["a/b", "a%2Fb", "a\\b", "..", ".", "CON", "con.x", "doubtful", "none-of-these", "x.", "x ", "x", "", "-r", "~",
             "long" * 100, "long" * 101, "a\nb", "<b>", "a:b", "*"]  # fmt: skip
    made = [folder_name(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[^/\\:*?\"<>|\n. -][^/\\:*?\"<>|\n]*", name) for name in made)
    assert all(len(name.encode()) <= 120 for name in made) and not {"doubtful", "none-of-these"} & set(made)


# exports


def test_label_studio_tasks_fit_their_configuration(odd: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *odd, "--out", tmp_path / "out", "--encoder", "colour", "--format", "label-studio")
    tasks = json.loads((tmp_path / "out" / "label-studio.json").read_text())
    view = ET.parse(tmp_path / "out" / "label-studio.xml").getroot()
    image, choices = view.find("Image"), view.find("Choices")
    assert image is not None and choices is not None
    known = [choice.get("value") for choice in choices]
    assert choices.get("toName") == image.get("name") and image.get("value") == "$image"
    for task in tasks:
        (prediction,) = task["predictions"]
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"]) == (choices.get("name"), image.get("name"))
        assert result["type"] == "choices" and len(result["value"]["choices"]) == 1
        assert result["value"]["choices"][0] in known and 0 <= prediction["score"] <= 1
        assert task["data"]["image"].startswith("/data/local-files/?d=") and " " not in task["data"]["image"]
    assert len({task["predictions"][0]["result"][0]["id"] for task in tasks}) == len(tasks)


def test_coco_ids_belong_together_and_junk_has_no_annotation(tmp_path: Path) -> None:
    paths = [paint(tmp_path / f"{i}.png", RED) for i in range(3)]
    file = io.StringIO()
    rows = [row(paths[0], "cat"), row(paths[1], "dog", NONE_OF_THESE), row(paths[2], "dog", DOUBTFUL)]
    assert write_rows(rows, file, "coco", ("cat", "dog")) == 3
    content = json.loads(file.getvalue())
    assert content["categories"] == [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    assert [(image["id"], image["width"], image["height"]) for image in content["images"]] == [
        (i, 12, 9) for i in (1, 2, 3)
    ]
    annotations = [(a["id"], a["image_id"], a["category_id"], a["bbox"]) for a in content["annotations"]]
    assert annotations == [(1, 1, 1, [0, 0, 12, 9]), (2, 3, 2, [0, 0, 12, 9])]
    assert all(a["score"] == pytest.approx(0.81) for a in content["annotations"])


@pytest.mark.parametrize("form", FORMATS)
def test_no_rows_are_a_valid_file(form: str) -> None:
    file = io.StringIO()
    write_rows([], file, form, ("cat",))
    if form != "csv":
        json.loads(file.getvalue())


@pytest.mark.parametrize("command", ["label", "predict"])
def test_help_teaches_with_an_example(command: str) -> None:
    assert "Example" in sala(command, "--help").stdout


# real photos


@pytest.fixture(scope="module")
def photos(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes, three photos of each labelled and 25 in the pool, and eight photos of no class."""
    archive = real_data / "caltech" / "caltech-16.zip"
    if not archive.is_file():
        pytest.skip(f"{archive} is not there")
    try:
        lite_weights("lite0")
    except SalaError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("photos")
    counts = {
        "sunflower": (3, 25),
        "grand_piano": (3, 25),
        "dolphin": (3, 25),
        "laptop": (3, 25),
        "BACKGROUND_Google": (0, 8),
    }
    with zipfile.ZipFile(archive) as source:
        for name, (n_labelled, n_pool) in counts.items():
            members = sorted(m for m in source.namelist() if m.startswith(f"caltech-16/{name}/") and m.endswith(".jpg"))
            for i, member in enumerate(members[: n_labelled + n_pool]):
                place = folder / ("labelled" if i < n_labelled else "pool") / (name if i < n_labelled else "")
                place.mkdir(parents=True, exist_ok=True)
                (place / f"{name}-{i}.jpg").write_bytes(source.read(member))
    return folder


def test_photos_are_labelled_from_three_examples_each(photos: Path) -> None:
    out = photos / "out"
    sala("label", photos / "labelled", photos / "pool", "--out", out, "--copy-to", photos / "sorted")
    rows = labels(out / "labels.csv")
    known = [row for row in rows if "BACKGROUND" not in row["path"]]
    assert len(rows) == 108 and len(known) == 100
    assert np.mean([Path(row["path"]).name.startswith(row["label"]) for row in known]) >= 0.95
    sure = [row for row in rows if row["verdict"] == SURE]
    assert len(sure) >= 60
    assert np.mean([Path(row["path"]).name.startswith(row["label"]) for row in sure]) >= 0.9
    junk = [float(row["none_of_these"]) for row in rows if "BACKGROUND" in row["path"]]
    assert np.mean(np.array(junk)[:, None] > np.array([float(row["none_of_these"]) for row in known])) >= 0.9  # AUROC
    assert sum(path.is_file() for path in (photos / "sorted").rglob("*")) == 108
    again = sala("predict", out / "model.safetensors", photos / "pool" / "dolphin-5.jpg")
    assert next(csv.DictReader(io.StringIO(again.stdout)))["label"] == "dolphin"
