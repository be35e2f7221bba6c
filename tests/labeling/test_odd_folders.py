"""`sala label` on folders that are not as they should be: classes, copies, links, and files that are no images."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest
from PIL import Image

from sala.errors import SalaError
from sala.labeling.label import label_folder
from tests.helpers.painted import GREEN, RED, MeanColor, folders_painted, labels, paint, refusal, sala  # noqa: F401  (fixture)


def test_folders_that_cannot_be_labeled_from_are_refused_with_a_repair(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    labeled, pool = folders
    out = ("--out", tmp_path / "out", "--encoder", "color")
    assert "there is no folder" in refusal("label", tmp_path / "nowhere", pool, *out)
    assert "there is no folder" in refusal("label", labeled, tmp_path / "nowhere", *out)
    assert "a folder of their own" in refusal("label", labeled, labeled, *out)
    assert "a folder of their own" in refusal("label", labeled, labeled / "red", *out)
    assert "no class folders" in refusal("label", pool / "part0", labeled, *out)
    paint(tmp_path / "one" / "red" / "a.png", RED)
    alone = refusal("label", tmp_path / "one", pool, *out)
    assert "one class only (red)" in alone and "`sala serve`" in alone
    (tmp_path / "one" / "empty").mkdir()
    assert "no image of the class empty can be used; " in refusal("label", tmp_path / "one", pool, *out)
    (tmp_path / "one" / "empty" / "x.png").touch()
    assert "no image of the class empty can be used: " in refusal("label", tmp_path / "one", pool, *out)
    (tmp_path / "one" / "empty" / "x.png").write_text("no image")
    broken = refusal("label", tmp_path / "one", pool, *out)
    assert "no image of the class empty can be used: " in broken and "x.png" in broken
    assert not (tmp_path / "out").exists()
    (tmp_path / "pool.zip").write_bytes(b"PK")
    assert "is a file, not a folder with images to label" in refusal("label", labeled, tmp_path / "pool.zip", *out)
    (labeled / "Outlier").mkdir()
    paint(labeled / "Outlier" / "a.png", GREEN)
    assert "reserved" in refusal("label", labeled, pool, *out)


def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    options = ("--encoder", "color")
    assert "choose another --out" in refusal("label", *folders, "--out", folders[0] / "out", *options)
    for place in (tmp_path / "taken", tmp_path / "taken" / "out"):
        assert "taken is a file, and a folder is wanted" in refusal("label", *folders, "--out", place, *options)


def test_files_of_an_earlier_run_are_pointed_out(folders: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("--out", tmp_path / "out", "--encoder", "color")
    assert "earlier" not in sala("label", *folders, *options, "--format", "coco").stderr
    (tmp_path / "out" / "coco.json").unlink(missing_ok=True)
    sala("label", *folders, *options, "--format", "coco", "--format", "label-studio")
    for name in ("labels.csv", "coco.json", "label-studio.json", "label-studio.xml"):
        assert (tmp_path / "out" / name).is_file()
    assert "coco.json is of an earlier run" in sala("label", *folders, *options).stderr.replace("\n", "")


def test_copies_of_a_labeled_image_in_its_class_are_told(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (folders[0] / "green" / "twice.png").write_bytes((folders[0] / "green" / "0.png").read_bytes())
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color")
    assert "which counts once" in (tmp_path / "out" / "skipped.csv").read_text()


def test_options_that_cannot_be_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out", "--encoder", "color")
    assert "--format is one of csv" in refusal("label", *folders, *out, "--format", "xml")
    assert "--precision is a share" in refusal("label", *folders, *out, "--precision", "1.5")
    assert "--link goes with --copy-to" in refusal("label", *folders, *out, "--link")
    assert "choose another --copy-to" in refusal("label", *folders, *out, "--copy-to", folders[1] / "sorted")
    assert "choose another --copy-to" in refusal("label", *folders, *out, "--copy-to", folders[0])
    assert "there is no encoder lite9" in refusal("label", *folders, "--encoder", "lite9")


def test_an_encoder_that_is_not_installed_says_what_to_install(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'sala[photos]'" in refusal("label", *folders)


def test_an_empty_pool_still_gives_a_model(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    result = sala("label", folders[0], tmp_path / "bare", "--out", tmp_path / "out", "--encoder", "color")
    assert "no image that can be read" in result.stderr
    assert labels(tmp_path / "out" / "labels.csv") == []
    assert "The pool holds no image" in (tmp_path / "out" / "report.html").read_text()
    predicted = sala("predict", tmp_path / "out" / "model.safetensors", folders[1] / "part0", "--encoder", "color")
    rows = list(csv.DictReader(io.StringIO(predicted.stdout)))
    assert len(rows) == 15 and all(Path(row["path"]).name.startswith(row["label"]) for row in rows)


def test_labeled_images_inside_the_pool_are_not_pool_images(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    folders[0].rename(folders[1] / "labeled")
    labeling = label_folder(folders[1] / "labeled", folders[1], MeanColor())  # type: ignore[arg-type]
    assert len(labeling.paths) == 30 and not labeling.skipped


def test_copies_count_once_and_copies_of_labeled_images_have_their_label(folders: tuple[Path, Path]) -> None:
    labeled, pool = folders
    before = label_folder(*folders, MeanColor())  # type: ignore[arg-type]
    for i in range(4):
        (pool / f"again{i}.png").write_bytes((pool / "part0" / "red0.png").read_bytes())
    (labeled / "blue" / "again.png").write_bytes((labeled / "blue" / "0.png").read_bytes())
    (labeled / "red" / "purple.png").write_bytes(paint(pool / "mine.png", (120, 30, 200)).read_bytes())
    after = label_folder(*folders, MeanColor())  # type: ignore[arg-type]
    assert (after.n_copies, after.n_labeled_copies) == (4, 1)
    rows = {row.path.name: row for row in after.rows()}
    assert (rows["mine.png"].label, rows["mine.png"].probability, rows["mine.png"].runner_up) == ("red", 1.0, "blue")
    again, first = rows["again2.png"], rows["red0.png"]
    assert (again.label, again.probability, again.outlier_probability) == (
        first.label,
        first.probability,
        first.outlier_probability,
    )
    assert len(after.examples.paths) == len(before.examples.paths) + 1
    assert len({after.paths[i].name for i in after.suggestions}) == len(after.suggestions) == 30


def test_a_pool_of_nothing_but_labeled_images_is_labeled(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "same").mkdir()
    (tmp_path / "same" / "x.png").write_bytes((folders[0] / "red" / "0.png").read_bytes())
    labeling = label_folder(folders[0], tmp_path / "same", MeanColor())  # type: ignore[arg-type]
    assert [row.label for row in labeling.rows()] == ["red"]


def test_one_image_in_two_classes_is_refused(folders: tuple[Path, Path]) -> None:
    (folders[0] / "blue" / "x.png").write_bytes((folders[0] / "red" / "0.png").read_bytes())
    with pytest.raises(SalaError, match=r"are the same image in two classes"):
        label_folder(*folders, MeanColor())  # type: ignore[arg-type]


def test_links_out_of_the_folder_are_reported_and_not_followed(folders: tuple[Path, Path], tmp_path: Path) -> None:
    labeled, pool = folders
    secret = paint(tmp_path / "secret" / "s.png", GREEN)
    (pool / "file.png").symlink_to(secret)
    (pool / "folder").symlink_to(secret.parent)
    (pool / "up").symlink_to(tmp_path)
    (pool / "loop").symlink_to(pool)
    (pool / "dead.png").symlink_to(tmp_path / "nowhere.png")
    (pool / "within.png").symlink_to(pool / "part0" / "red0.png")
    (labeled / "elsewhere").symlink_to(secret.parent)
    labeling = label_folder(*folders, MeanColor())  # type: ignore[arg-type]
    names = {path.name for path in labeling.skipped}
    assert names == {"file.png", "folder", "up", "loop", "dead.png", "elsewhere"}
    assert {path.name for path in labeling.paths} >= {"within.png"} and len(labeling.paths) == 31
    assert labeling.model.classes == ("blue", "green", "red")


def test_files_that_are_no_images_are_skipped_with_a_reason(folders: tuple[Path, Path], tmp_path: Path) -> None:
    pool = folders[1]
    (pool / "empty.png").touch()
    (pool / "text.jpg").write_text("no image")
    (pool / "phone.HEIC").write_bytes(b"x")
    Image.new("1", (10_000, 10_000)).save(pool / "bomb.png")
    os.mkfifo(pool / "pipe.png")
    (pool / "notes.txt").write_text("passed over")
    (pool / ".hidden.png").touch()
    result = sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color")
    rows = {Path(row["path"]).name: row["reason"] for row in labels(tmp_path / "out" / "skipped.csv")}
    assert set(rows) == {"empty.png", "text.jpg", "phone.HEIC", "bomb.png", "pipe.png"}
    assert (
        "10000 x 10000 pixels" in rows["bomb.png"] and "heic" in rows["phone.HEIC"] and "is empty" in rows["empty.png"]
    )
    assert "skipped: 5 files" in result.stderr
    assert len(labels(tmp_path / "out" / "labels.csv")) == 30
