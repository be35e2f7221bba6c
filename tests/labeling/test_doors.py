"""Four doors to one pipeline: `sala label`, the page, the estimator and `sala predict` say the same, image by image."""

from __future__ import annotations

import csv
import io
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sala.classifier.estimator import SALAClassifier
from sala.classifier.fit import LabelModel
from sala.encoders import embed_files
from sala.labeling.embedding import embed_project
from sala.labeling.label import label_folder
from sala.labeling.places import Places
from sala.labeling.predictions import REJECTED, Row
from sala.labeling.project import open_project
from sala.labeling.report import report
from sala.web.downloads import to_coco, to_csv, to_label_studio, to_label_studio_config, to_model, to_report
from sala.web.journal import Journal
from sala.web.session import OUTLIER, Session
from tests.helpers.painted import (
    GRAY,
    GREEN,
    RED,
    MeanColor,
    folders_painted,  # noqa: F401  (fixture)
    labels,
    paint,
    paint_outliers,
    refusal,
    sala,
)

EXPORTS = ("--format", "label-studio", "--format", "coco")


@pytest.fixture
def outliers(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    """A pool with gray pictures, copies and a broken file in it; and four known outliers."""
    paint_outliers(folders[1], tmp_path / "outliers")
    shutil.copy(folders[0] / "red" / "0.png", folders[1] / "a copy.png")
    shutil.copy(tmp_path / "outliers" / "0.png", folders[1] / "an outlier.png")
    shutil.copy(folders[1] / "part0" / "red0.png", folders[1] / "again.png")
    (folders[1] / "broken.png").write_text("no image")
    return tmp_path / "outliers"


def session_of(folders: tuple[Path, Path], outliers: Path | None, state: Path, precision: float) -> Session:
    project = open_project(Places(folders[1], folders[0], None, outliers))
    images = embed_project(project, MeanColor(), which="color", needs_examples=False)  # type: ignore[arg-type]
    return Session(images, Journal(state), precision)


def table(text: str) -> dict[str, dict[str, str]]:
    return {Path(row["path"]).name: row for row in csv.DictReader(io.StringIO(text))}


def page_table(session: Session) -> dict[str, dict[str, str]]:
    return table(b"".join(to_csv(session)).decode())


@pytest.mark.parametrize("with_outliers", [False, True])
@pytest.mark.parametrize("precision", [0.6, 0.9])
def test_all_doors_say_the_same(
    folders: tuple[Path, Path], outliers: Path, tmp_path: Path, precision: float, with_outliers: bool
) -> None:
    known = outliers if with_outliers else None
    more = ("--outliers", outliers) if with_outliers else ()
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color", "--precision", precision, *more)
    command = table((tmp_path / "out" / "labels.csv").read_text())
    session = session_of(folders, known, tmp_path / "state.jsonl", precision)
    result = label_folder(*folders, MeanColor(), outliers=known, precision=precision)  # type: ignore[arg-type]
    assert page_table(session) == command and len(command) == 43
    assert {row.path.name: row for row in result.rows()} == {row.path.name: row for row in session.result().rows()}
    assert session.project.skipped == result.skipped and len(result.skipped) == 1
    assert len({row["verdict"] for row in command.values()}) >= 2
    _check_estimator(session, {row.path.name: row for row in result.rows()}, precision)


def _check_estimator(session: Session, rows: dict[str, Row], precision: float) -> None:
    """On the same features, each content once."""
    project, features = session.project, session.images.features
    is_first = project.first == np.arange(len(project.items))
    known = features[(project.given == OUTLIER) & is_first]
    used = np.flatnonzero((project.given != OUTLIER) & is_first)
    estimator = SALAClassifier(precision=precision)
    estimator.fit(features[used], project.given[used], outliers=known if len(known) else None)
    for k, i in enumerate(used.tolist()):
        if not project.is_pool[i]:
            continue
        row = rows[project.path(i).name]
        assert project.classes[estimator.transduction_[k]] == row.label
        assert estimator.label_distributions_[k].max() == pytest.approx(row.probability, abs=1e-5)
        assert estimator.outlier_proba_[k] == pytest.approx(row.outlier_probability, abs=1e-5)
        assert estimator.rejected_[k] == (row.verdict == REJECTED)


def test_new_images_are_the_same_to_predict_to_the_pages_model_and_to_the_estimator(
    folders: tuple[Path, Path], outliers: Path, tmp_path: Path
) -> None:
    new = [paint(tmp_path / "new" / f"{i}.png", color, i) for i, color in enumerate((RED, GREEN, GRAY))]
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color", "--outliers", outliers)
    session = session_of(folders, outliers, tmp_path / "state.jsonl", 0.9)
    (tmp_path / "page.safetensors").write_bytes(b"".join(to_model(session)))
    said = [
        sala("predict", model, tmp_path / "new", "--encoder", "color").stdout
        for model in (tmp_path / "out" / "model.safetensors", tmp_path / "page.safetensors")
    ]
    assert said[0] == said[1] and len(table(said[0])) == 3
    features = embed_files(new, MeanColor(), cache=False).features  # type: ignore[arg-type]
    predicted = LabelModel.load(tmp_path / "page.safetensors").predict(features)
    for i, row in enumerate(table(said[0]).values()):
        assert float(row["probability"]) == pytest.approx(predicted.probabilities[i].max(), abs=1e-4)
        assert float(row["outlier_probability"]) == pytest.approx(predicted.outlier_probability[i], abs=1e-4)


def test_the_command_labels_with_what_was_corrected_on_the_page(
    folders: tuple[Path, Path], outliers: Path, tmp_path: Path
) -> None:
    session = session_of(folders, None, tmp_path / "state.jsonl", 0.9)
    row_of = {session.project.path(i).name: i for i in range(len(session.project.items)) if session.project.is_pool[i]}
    session.add_class("gray")
    session.label([row_of["gray0.png"], row_of["gray1.png"]], to=3)
    session.label([row_of["blue3.png"]], to=OUTLIER)
    session.rename_class(0, "sky")
    on_page = page_table(session)
    session.close()
    options = ("--out", tmp_path / "out", "--encoder", "color")
    sala("label", *folders, *options, "--state", tmp_path / "state.jsonl")
    command = table((tmp_path / "out" / "labels.csv").read_text())
    assert command == on_page
    assert command["gray0.png"]["verdict"] == "given" and command["blue3.png"]["verdict"] == "rejected"
    assert command["gray5.png"]["label"] == "gray" and "sky" in {row["label"] for row in command.values()}
    assert "there is no state" in refusal("label", *folders, *options, "--state", tmp_path / "nowhere.jsonl")


def test_labels_in_a_file_are_the_same_as_class_folders(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *folders, "--out", tmp_path / "by-folders", "--encoder", "color")
    rows = [f"{path.relative_to(tmp_path)},{path.parent.name},x\n" for path in sorted(folders[0].rglob("*.png"))]
    (tmp_path / "labels.csv").write_text("path,label,note\n" + "".join(rows))
    sala("label", folders[1], "--labels", tmp_path / "labels.csv", "--out", tmp_path / "by-file", "--encoder", "color")
    assert labels(tmp_path / "by-file" / "labels.csv") == labels(tmp_path / "by-folders" / "labels.csv")


def test_a_table_that_was_written_can_be_corrected_and_given_back(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Images of the pool are labeled in place, and `outlier` is a known outlier."""
    given = {"red0.png": "red", "red1.png": "red", "green0.png": "green", "blue0.png": "outlier"}
    listed = [f"pool/part{int(name[-5]) % 2}/{name},{label}" for name, label in given.items()]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *listed, "pool/part0/green2.png,"]) + "\n")
    sala("label", folders[1], "--labels", tmp_path / "labels.csv", "--out", tmp_path / "out", "--encoder", "color")
    said = table((tmp_path / "out" / "labels.csv").read_text())
    assert len(said) == 30 and said["red0.png"]["verdict"] == "given" and said["red0.png"]["label"] == "red"
    assert said["blue0.png"]["verdict"] == "rejected" and said["blue0.png"]["outlier_probability"] == "1.0000"
    assert {row["label"] for row in said.values()} == {"red", "green"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name,class\na.png,cat\n", "no columns path and label"),
        ("path,label\n", "no row with a label"),
        ("path,label\n,cat\n", "row 2, has a label and no path"),
        ("path,label\na.png,cat\nb.png,outlier\n", "one class only"),
    ],
)
def test_a_file_that_has_no_labels_is_refused(
    folders: tuple[Path, Path], tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "labels.csv").write_text(content)
    options = ("--labels", tmp_path / "labels.csv", "--encoder", "color", "--out", tmp_path / "out")
    assert message in refusal("label", folders[1], *options)
    assert "the pool alone" in refusal("label", *folders, *options)
    assert "two folders" in refusal("label", folders[1], "--encoder", "color")


def test_an_image_with_two_labels_in_a_file_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(
        "path,label\npool/part0/red0.png,red\nlabeled/red/0.png,red\nlabeled/red/0.png,x\n"
    )
    assert "two labels" in refusal("label", folders[1], "--labels", tmp_path / "labels.csv", "--encoder", "color")


def test_the_page_has_the_other_exports_too(folders: tuple[Path, Path], tmp_path: Path) -> None:
    session = session_of(folders, None, tmp_path / "state.jsonl", 0.9)
    with closing(session):
        sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color", *EXPORTS)
        assert b"".join(to_label_studio(session)) == (tmp_path / "out" / "label-studio.json").read_bytes()
        assert b"".join(to_label_studio_config(session)) == (tmp_path / "out" / "label-studio.xml").read_bytes()
        assert b"".join(to_coco(session)) == (tmp_path / "out" / "coco.json").read_bytes()
        command = f"sala serve {folders[0]} {folders[1]} --encoder color"  # the page itself needs none
        assert report(session.result(), command=command) == (tmp_path / "out" / "report.html").read_text("utf-8")
        assert b"".join(to_report(session)).decode() == report(session.result())


def test_the_old_name_of_the_option_still_works(folders: tuple[Path, Path], outliers: Path, tmp_path: Path) -> None:
    for name in ("--outliers", "--junk"):
        sala("label", *folders, "--out", tmp_path / name, "--encoder", "color", name, outliers)
    assert labels(tmp_path / "--outliers" / "labels.csv") == labels(tmp_path / "--junk" / "labels.csv")
    assert "--junk" not in sala("label", "--help").stdout


def test_a_state_that_cannot_be_used_is_refused_before_the_work(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sala.labeling.embedding.embed_project", None)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "other.jsonl").write_text("path,label\n")
    for name in ("empty.jsonl", "other.jsonl", "nowhere.jsonl"):
        assert name in refusal("label", *folders, "--encoder", "color", "--state", tmp_path / name)
    with closing(Journal(tmp_path / "open.jsonl")):
        assert "open in another" in refusal("label", *folders, "--encoder", "color", "--state", tmp_path / "open.jsonl")
    assert (tmp_path / "empty.jsonl").read_bytes() == b""
