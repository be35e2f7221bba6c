"""A labels file is untrusted input: what it says twice, says wrong, or points to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sala.data import files
from sala.errors import SalaError
from sala.labeling import labels_file
from sala.labeling.embedding import embed_project
from sala.labeling.labels_file import labels_and_predictions, read_labels
from sala.labeling.places import Places
from sala.labeling.project import open_project
from tests.helpers.painted import MeanColor, folders_painted, labels, paint, refusal, sala  # noqa: F401  (fixture)

BASE = "path,label\nlabeled/red/0.png,red\nlabeled/blue/0.png,blue\n"


def refused(folders: tuple[Path, Path], rows: str) -> str:
    """The sentence for a labels file with these rows after two good ones."""
    place = folders[0].parent / "labels.csv"
    place.write_text(BASE + rows, encoding="utf-8")
    return refusal("label", folders[1], "--labels", place, "--encoder", "color", "--out", place.parent / "out")


@pytest.mark.parametrize(
    "rows",
    [
        "pool/part0/red0.png,red\npool/part0/red0.png,blue\n",
        "pool/part0/red0.png,red\npool/part1/../part0/red0.png,blue\n",
        "pool/part0/red0.png,red\npool/part0/red0.png,outlier\n",
        "labeled/red/0.png,blue\n",
    ],
)
def test_an_image_has_one_label_however_its_path_is_spelled(folders: tuple[Path, Path], rows: str) -> None:
    assert "two labels" in refused(folders, rows)


def test_a_row_that_is_there_twice_counts_once(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(BASE + "labeled/red/0.png,red\n" * 3 + "pool/../labeled/red/0.png,red\n")
    options = ("--labels", tmp_path / "labels.csv", "--encoder", "color", "--out", tmp_path / "out")
    assert "skipped" not in sala("label", folders[1], *options).output
    assert len(labels(tmp_path / "out" / "labels.csv")) == 30


def test_a_quote_without_end_does_not_swallow_the_rows_below_it(folders: tuple[Path, Path]) -> None:
    assert "not a CSV file" in refused(folders, '"pool/part0/red0.png,red\npool/part0/red2.png,red\n')


def test_labels_that_differ_in_case_alone_are_no_two_classes(folders: tuple[Path, Path]) -> None:
    assert "'Red' and 'red'" in refused(folders, "pool/part0/red0.png,Red\n")


def test_a_file_of_outliers_alone_is_told_so(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("path,label\npool/part0/red0.png,outlier\n")
    said = refusal("label", folders[1], "--labels", tmp_path / "labels.csv", "--encoder", "color")
    assert "folder" not in said and "labels file" in said


def test_a_table_of_ours_is_given_back_uncut_and_only_the_users_rows_are_labels(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "labels.csv").write_text(BASE + "pool/part0/red0.png,red\npool/part1/blue1.png,outlier\n")
    options = ("--encoder", "color", "--out", tmp_path / "out")
    sala("label", folders[1], "--labels", tmp_path / "labels.csv", *options)
    written = labels(tmp_path / "out" / "labels.csv")
    assert sorted({row["source"] for row in written} - {"rejected"}) == ["given", "predicted"] and len(written) == 30
    rows, n_predicted = labels_and_predictions(tmp_path / "out" / "labels.csv")
    assert {(path.name, label) for path, label in rows} == {("red0.png", "red"), ("blue1.png", "outlier")}
    assert n_predicted == 28
    both = (
        tmp_path / "out" / "labels.csv"
    ).read_text() + f"{folders[0] / 'blue' / '0.png'},blue,1,,0,true,given,given\n"
    (tmp_path / "again.csv").write_text(both)
    said = sala("label", folders[1], "--labels", tmp_path / "again.csv", "--encoder", "color", "--out", tmp_path / "2")
    assert "28 rows of predictions" in " ".join(said.output.split())


def test_a_table_of_predictions_alone_says_what_makes_a_row_a_label(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *folders, "--encoder", "color", "--out", tmp_path / "out")
    said = refusal("label", folders[1], "--labels", tmp_path / "out" / "labels.csv", "--encoder", "color")
    assert "write given into the column source" in said


def test_what_a_state_calls_an_image_does_not_depend_on_other_rows(folders: tuple[Path, Path], tmp_path: Path) -> None:
    def key() -> str:
        items = open_project(Places(folders[1], labels=tmp_path / "labels.csv")).items
        return next(item.key for item in items if item.key.endswith("red/0.png"))

    (tmp_path / "labels.csv").write_text("path,label\nlabeled/red/0.png,red\nlabeled/red/1.png,red\n")
    before = key()
    elsewhere = paint(tmp_path / "far" / "away" / "x.png", (30, 220, 30))
    (tmp_path / "labels.csv").write_text(BASE + f"{elsewhere},green\n")
    assert key() == before == "labeled/../labeled/red/0.png"


def test_a_label_that_could_be_no_folder_is_refused(folders: tuple[Path, Path]) -> None:
    assert "row 4" in refused(folders, f"pool/part0/red0.png,{'x' * 300}\n")


def test_a_path_that_leads_nowhere_is_skipped(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "a.png").symlink_to("b.png")
    (tmp_path / "b.png").symlink_to("a.png")
    rows = ["a.png", "pool/" + "x" * 300 + ".png", "x/" * 3000 + ".png", "/dev/zero", "pool"]
    (tmp_path / "labels.csv").write_text(BASE + "".join(f"{path},red\n" for path in rows))
    options = ("--labels", tmp_path / "labels.csv", "--encoder", "color", "--out", tmp_path / "out")
    assert "skipped: 5 files" in " ".join(sala("label", folders[1], *options).output.split())


def test_a_link_out_of_the_pool_is_not_followed_because_a_row_names_it(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    paint(tmp_path / "private.png", (30, 220, 30))
    (folders[1] / "link.png").symlink_to(tmp_path / "private.png")
    (tmp_path / "labels.csv").write_text(BASE + "pool/link.png,green\n")
    project = open_project(Places(folders[1], labels=tmp_path / "labels.csv"))
    assert not any("private" in item.path or "link" in item.path for item in project.items)
    assert "link that points out" in project.skipped[folders[1] / "link.png"]


def test_an_image_that_was_named_is_read_from_there_and_from_nowhere_else(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """What two named images have in common may be the root of the disk: that opens none of it."""
    private = paint(tmp_path / "private.png", (30, 220, 30))
    (tmp_path / "labels.csv").write_text(BASE)
    project = open_project(Places(folders[1], labels=tmp_path / "labels.csv"))
    project = embed_project(project, MeanColor()).project  # type: ignore[arg-type]
    labeled = next(i for i, item in enumerate(project.items) if item.root == "labeled")
    in_pool = next(i for i, item in enumerate(project.items) if item.root == "pool")
    assert project.read(labeled) and project.read(in_pool)
    for i in (labeled, in_pool):
        project.path(i).unlink()
        project.path(i).symlink_to(private)
        with pytest.raises(SalaError, match="leads out of its folder"):
            project.read(i)


def test_rows_are_bounded_in_length_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "labels.csv"
    monkeypatch.setattr(files, "MAX_ROW", 1000)
    place.write_text("path,label\n" + "," * 2000)
    with pytest.raises(SalaError, match="a row has more than"):
        read_labels(place)
    place.write_text("path,label\n" + "a,b\n" * 1000)
    assert read_labels(place) == [(tmp_path / "a", "b")]
    monkeypatch.setattr(labels_file, "MAX_LINES", 1000)
    with pytest.raises(SalaError, match="more than 1,000 lines"):
        read_labels(place)
    monkeypatch.setattr(labels_file, "MAX_LABELS", 10)
    place.write_text("path,label\n" + "".join(f"{i},b\n" for i in range(11)))
    with pytest.raises(SalaError, match="more than 10 labels"):
        read_labels(place)


def test_a_place_of_results_that_is_a_circle_of_links_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    os.symlink("circle", tmp_path / "circle")
    assert "circle" in refusal("label", *folders, "--encoder", "color", "--out", tmp_path / "circle")


def test_a_table_is_not_written_to_a_circle_of_links(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *folders, "--encoder", "color", "--out", tmp_path / "out")
    os.symlink("new.csv", tmp_path / "new.csv")
    model = tmp_path / "out" / "model.safetensors"
    said = refusal("predict", model, folders[1], "--encoder", "color", "--out", tmp_path / "new.csv")
    assert "in a circle" in said
