"""`sala label --junk`: a folder of images that are of no class."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from painted import MeanColour, folders_painted, labels, paint, refusal, sala  # noqa: F401  (fixture)

from sala.engine import LabelModel
from sala.errors import SalaError
from sala.labelling import label_folders
from sala.labelling.rows import Columns, Thresholds, find_thresholds

GREY = (130, 130, 130)


@pytest.fixture
def junk(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    """Grey pictures that are of no class: ten in the pool, and four that are said to be."""
    for i in range(10):
        paint(folders[1] / f"grey{i}.png", GREY, i)
    for i in range(4):
        paint(tmp_path / "not" / "wanted" / f"{i}.png", GREY, 50 + i)
    return tmp_path / "not"


def test_what_is_like_it_is_more_surely_junk_also_with_the_model_later(
    folders: tuple[Path, Path], junk: Path, tmp_path: Path
) -> None:
    for out, more in (("a", ()), ("b", ("--junk", junk))):
        said = sala("label", *folders, "--out", tmp_path / out, "--encoder", "colour", *more).stdout
        model = tmp_path / out / "model.safetensors"
        sala("predict", model, folders[1], "--out", tmp_path / f"{out}.csv", "--encoder", "colour")
    assert "none of these         4" in said
    for pair in (("a/labels.csv", "b/labels.csv"), ("a.csv", "b.csv")):
        before, after = ({row["path"]: float(row["none_of_these"]) for row in labels(tmp_path / name)} for name in pair)
        assert before.keys() == after.keys() and len(after) == 40
        grey = [path for path in before if "grey" in path]
        assert len(grey) == 10 and all(after[path] > before[path] for path in grey)
        assert np.mean([after[p] for p in after if p not in grey]) < np.mean([after[p] for p in grey])
    loaded = LabelModel.load(model)
    assert loaded.known.marked.shape == (4, 3)


def test_copies_of_it_in_the_pool_are_junk_and_it_counts_once(folders: tuple[Path, Path], junk: Path) -> None:
    copied = shutil.copy(junk / "wanted" / "0.png", folders[1] / "seems blue.png")
    shutil.copy(junk / "wanted" / "0.png", junk / "again.png")
    labelling = label_folders(*folders, MeanColour(), junk=junk)
    rows = {row.path: row for row in labelling.rows()}
    assert rows[Path(copied)].none_of_these == 1 and rows[Path(copied)].verdict == "none-of-these"
    assert not rows[Path(copied)].used_for_refinement and len(labelling.model.known.marked) == 4
    assert (labelling.n_junk, labelling.n_junk_copies, labelling.n_copies, len(rows)) == (4, 1, 0, 41)


def test_whether_it_is_copied_from_the_pool_or_moved_out_of_it_is_the_same(
    folders: tuple[Path, Path], junk: Path
) -> None:
    for i in range(4):
        shutil.copy(junk / "wanted" / f"{i}.png", folders[1] / f"copy{i}.png")
    for precision in (0.6, 0.9):
        copied = label_folders(*folders, MeanColour(), junk=junk, precision=precision)
        assert copied.n_junk_copies == 4
        for place in folders[1].glob("copy*"):
            place.rename(place.with_suffix(".kept"))
        moved = label_folders(*folders, MeanColour(), junk=junk, precision=precision)
        for place in folders[1].glob("copy*"):
            place.rename(place.with_suffix(".png"))
        assert moved.n_junk_copies == 0 and moved.thresholds == copied.thresholds
        assert [row for row in copied.rows() if "copy" not in row.path.name] == list(moved.rows())


def test_copies_of_it_say_nothing_of_what_else_is_set_aside(
    folders: tuple[Path, Path], junk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(junk / "wanted" / "0.png", folders[1] / "copy.png")
    seen: list[int] = []

    def found(columns: Columns, precision: float, left_out: np.ndarray | None = None) -> Thresholds:
        seen.append(len(columns.label))
        return find_thresholds(columns, precision, left_out)

    monkeypatch.setattr("sala.labelling.fit.find_thresholds", found)
    assert len(label_folders(*folders, MeanColour(), junk=junk).paths) == 41 and seen == [40]


def test_what_is_of_a_class_by_its_looks_is_junk_if_that_is_said_at_any_precision(
    folders: tuple[Path, Path], junk: Path
) -> None:
    said = shutil.copy(folders[1] / "part0" / "red0.png", junk / "said.png")
    for precision in (0.5, 1.0):
        labelling = label_folders(*folders, MeanColour(), junk=junk, precision=precision)
        row = next(row for row in labelling.rows() if row.path.name == "red0.png")
        assert (row.none_of_these, row.verdict, row.used_for_refinement) == (1, "none-of-these", False)
        assert all(labelling.paths[i].name != "red0.png" for i in labelling.label_next)
    Path(said).unlink()


def test_what_cannot_be_read_of_it_is_told(folders: tuple[Path, Path], junk: Path) -> None:
    (junk / "empty.png").touch()
    (junk / "broken.jpg").write_bytes(b"no image")
    labelling = label_folders(*folders, MeanColour(), junk=junk)
    assert {path.name for path in labelling.set_aside} == {"empty.png", "broken.jpg"}


def test_an_image_is_not_of_a_class_and_of_none(folders: tuple[Path, Path], junk: Path) -> None:
    shutil.copy(folders[0] / "red" / "0.png", junk / "red.png")
    with pytest.raises(SalaError, match="are the same image, of a class and of none; remove one of them"):
        label_folders(*folders, MeanColour(), junk=junk)


def test_folders_that_cannot_be_it_are_refused(folders: tuple[Path, Path], junk: Path, tmp_path: Path) -> None:
    def refused(place: Path, *more: object) -> str:
        return refusal("label", *folders, "--out", tmp_path / "out", "--encoder", "colour", "--junk", place, *more)

    assert "there is no folder" in refused(tmp_path / "nowhere")
    assert "lie in each other" in refused(folders[1] / "part0") and "lie in each other" in refused(tmp_path)
    assert "lie in each other" in refused(folders[0])
    assert "choose a folder outside" in refused(junk, "--copy-to", junk / "sorted")
    assert "choose a folder outside" in refused(junk, "--out", junk / "out")
    assert "where sala sorts images as it sees them" in refused(junk / "wanted", "--copy-to", junk)
    assert "is a file, not a folder" in refused(paint(tmp_path / "one.png", GREY))
    (tmp_path / "bare").mkdir()
    assert "has no image; put some into it" in refused(tmp_path / "bare")
    (tmp_path / "bare" / "x.png").touch()
    assert "has no image that can be used (" in refused(tmp_path / "bare")
    assert not (tmp_path / "out").exists()
