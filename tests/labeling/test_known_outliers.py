"""`sala label --outliers`: a folder of known outliers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from sala.classifier.fit import Fitted, LabelModel
from sala.errors import SalaError
from sala.labeling.label import label_folder
from sala.labeling.predictions import Thresholds, find_thresholds
from tests.helpers.painted import GRAY, MeanColor, folders_painted, labels, paint, paint_outliers, refusal, sala  # noqa: F401


@pytest.fixture
def outliers(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    paint_outliers(folders[1], tmp_path / "not" / "wanted")
    return tmp_path / "not"


def test_what_is_like_it_is_more_probably_an_outlier_also_with_the_model_later(
    folders: tuple[Path, Path], outliers: Path, tmp_path: Path
) -> None:
    for out, more in (("a", ()), ("b", ("--outliers", outliers))):
        said = sala("label", *folders, "--out", tmp_path / out, "--encoder", "color", *more).stdout
        model = tmp_path / out / "model.safetensors"
        sala("predict", model, folders[1], "--out", tmp_path / f"{out}.csv", "--encoder", "color")
    assert re.search(r"rejected +4 +\d", said)
    for pair in (("a/labels.csv", "b/labels.csv"), ("a.csv", "b.csv")):
        before, after = (
            {row["path"]: float(row["outlier_probability"]) for row in labels(tmp_path / name)} for name in pair
        )
        assert before.keys() == after.keys() and len(after) == 40
        gray = [path for path in before if "gray" in path]
        assert len(gray) == 10 and all(after[path] > before[path] for path in gray)
        assert np.mean([after[p] for p in after if p not in gray]) < np.mean([after[p] for p in gray])
    loaded = LabelModel.load(model)
    assert loaded.mixture.known_outliers.shape == (4, 3)


def test_copies_of_it_in_the_pool_are_rejected_and_it_counts_once(folders: tuple[Path, Path], outliers: Path) -> None:
    copied = shutil.copy(outliers / "wanted" / "0.png", folders[1] / "seems blue.png")
    shutil.copy(outliers / "wanted" / "0.png", outliers / "again.png")
    labeling = label_folder(*folders, MeanColor(), outliers=outliers)
    rows = {row.path: row for row in labeling.rows()}
    assert rows[Path(copied)].outlier_probability == 1 and rows[Path(copied)].verdict == "rejected"
    assert not rows[Path(copied)].used_for_refinement and len(labeling.model.mixture.known_outliers) == 4
    assert (labeling.n_outliers, labeling.n_outlier_copies, labeling.n_copies, len(rows)) == (4, 1, 0, 41)


def test_whether_it_is_copied_from_the_pool_or_moved_out_of_it_is_the_same(
    folders: tuple[Path, Path], outliers: Path
) -> None:
    for i in range(4):
        shutil.copy(outliers / "wanted" / f"{i}.png", folders[1] / f"copy{i}.png")
    for precision in (0.6, 0.9):
        copied = label_folder(*folders, MeanColor(), outliers=outliers, precision=precision)
        assert copied.n_outlier_copies == 4
        for place in folders[1].glob("copy*"):
            place.rename(place.with_suffix(".kept"))
        moved = label_folder(*folders, MeanColor(), outliers=outliers, precision=precision)
        for place in folders[1].glob("copy*"):
            place.rename(place.with_suffix(".png"))
        assert moved.n_outlier_copies == 0 and moved.thresholds == copied.thresholds
        assert [row for row in copied.rows() if "copy" not in row.path.name] == list(moved.rows())


def test_copies_of_it_say_nothing_of_what_else_is_rejected(
    folders: tuple[Path, Path], outliers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(outliers / "wanted" / "0.png", folders[1] / "copy.png")
    seen: list[int] = []

    def found(fitted: Fitted, precision: float) -> Thresholds:
        seen.append(len(fitted.pool.label))
        return find_thresholds(fitted, precision)

    monkeypatch.setattr("sala.labeling.label.find_thresholds", found)
    assert len(label_folder(*folders, MeanColor(), outliers=outliers).paths) == 41 and seen == [40]


def test_what_is_of_a_class_by_its_looks_is_rejected_if_that_is_said_at_any_precision(
    folders: tuple[Path, Path], outliers: Path
) -> None:
    said = shutil.copy(folders[1] / "part0" / "red0.png", outliers / "said.png")
    for precision in (0.5, 1.0):
        labeling = label_folder(*folders, MeanColor(), outliers=outliers, precision=precision)
        row = next(row for row in labeling.rows() if row.path.name == "red0.png")
        assert (row.outlier_probability, row.verdict, row.used_for_refinement) == (1, "rejected", False)
        assert all(labeling.paths[i].name != "red0.png" for i in labeling.suggestions)
    Path(said).unlink()


def test_what_cannot_be_read_of_it_is_told(folders: tuple[Path, Path], outliers: Path) -> None:
    (outliers / "empty.png").touch()
    (outliers / "broken.jpg").write_bytes(b"no image")
    labeling = label_folder(*folders, MeanColor(), outliers=outliers)
    assert {path.name for path in labeling.skipped} == {"empty.png", "broken.jpg"}


def test_an_image_is_not_of_a_class_and_of_none(folders: tuple[Path, Path], outliers: Path) -> None:
    shutil.copy(folders[0] / "red" / "0.png", outliers / "red.png")
    with pytest.raises(SalaError, match="are the same image of a class and an outlier"):
        label_folder(*folders, MeanColor(), outliers=outliers)


def test_folders_that_cannot_be_it_are_refused(folders: tuple[Path, Path], outliers: Path, tmp_path: Path) -> None:
    def refused(place: Path, *more: object) -> str:
        return refusal("label", *folders, "--out", tmp_path / "out", "--encoder", "color", "--outliers", place, *more)

    assert "there is no folder" in refused(tmp_path / "nowhere")
    assert "lie in each other" in refused(folders[1] / "part0") and "lie in each other" in refused(tmp_path)
    assert "lie in each other" in refused(folders[0])
    assert "choose another --copy-to" in refused(outliers, "--copy-to", outliers / "sorted")
    assert "choose another --out" in refused(outliers, "--out", outliers / "out")
    assert "sorted as predicted" in refused(outliers / "wanted", "--copy-to", outliers)
    assert "is a file, not a folder" in refused(paint(tmp_path / "one.png", GRAY))
    (tmp_path / "bare").mkdir()
    assert "has no image; put" in refused(tmp_path / "bare")
    (tmp_path / "bare" / "x.png").touch()
    assert "has no image that can be used (" in refused(tmp_path / "bare")
    assert not (tmp_path / "out").exists()
