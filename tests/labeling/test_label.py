"""`sala label` and `sala predict`: what they write, for painted pictures and for real photos."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sala.classifier.fit import LabelModel
from sala.classifier.rejection import rejection_threshold
from sala.encoders import Encoder
from sala.labeling.export import HEADER
from sala.labeling.label import label_folder
from sala.labeling.predictions import CONFIDENT, REJECTED, UNCERTAIN, Thresholds
from tests.helpers.painted import RED, MeanColor, folders_painted, labels, paint, refusal, sala, verdict  # noqa: F401  (fixture)


def test_label_writes_a_row_for_each_image_of_the_pool(folders: tuple[Path, Path], tmp_path: Path) -> None:
    result = sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color")
    rows = labels(tmp_path / "out" / "labels.csv")
    assert tuple(rows[0]) == HEADER
    assert len(rows) == 30 and all(Path(row["path"]).is_file() for row in rows)
    assert all(Path(row["path"]).name.startswith(row["label"]) for row in rows)
    assert all(0 <= float(row[key]) <= 1 for row in rows for key in ("probability", "outlier_probability"))
    assert all(row["runner_up"] in {"red", "green", "blue"} - {row["label"]} for row in rows)
    assert {row["used_for_refinement"] for row in rows} <= {"true", "false"}
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "check.csv", "labels.csv", "model-card.json", "model-card.md", "model.safetensors", "report.html", "skipped.csv"
    ]  # fmt: skip
    assert re.search(r"green +1 +\d+ +\d+", result.stdout) and "labels.csv" in result.stdout


def test_predict_says_the_same_as_label(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color")
    model = tmp_path / "out" / "model.safetensors"
    result = sala("predict", model, folders[1], "--encoder", "color")
    there = {row["path"]: row for row in labels(tmp_path / "out" / "labels.csv")}
    here = {row["path"]: row for row in csv.DictReader(io.StringIO(result.stdout))}
    assert here.keys() == there.keys()
    for path, row in here.items():
        assert row["used_for_refinement"] == "false"
        same = ("label", "runner_up", "verdict")
        assert [row[key] for key in same] == [there[path][key] for key in same]
        for key in ("probability", "outlier_probability"):  # the pool's images were judged without their own part
            assert float(row[key]) == pytest.approx(float(there[path][key]), abs=0.02)


def test_predict_takes_files_folders_and_a_list_and_tells_what_it_cannot_read(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color")
    new = [paint(tmp_path / "new" / name, RED, 7) for name in ("line\nbreak.png", "b.png", "c.png")]
    (tmp_path / "empty.png").touch()
    given = [tmp_path / "out" / "model.safetensors", new[1], tmp_path / "empty.png", tmp_path / "missing.png"]
    result = sala("predict", *given, "-", "-0", "--encoder", "color", stdin=f"{new[0]}\0{new[2]}".encode())
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [row["path"] for row in rows] == [str(path) for path in (new[1], new[0], new[2])]
    assert all(row["label"] == "red" for row in rows)
    assert "empty.png is not an image" in result.stderr and "missing.png cannot be read" in result.stderr
    listed = sala("predict", given[0], "-", "--encoder", "color", stdin=f"{new[1]}\n\n{new[2]}\r\n".encode())
    assert len(listed.stdout.splitlines()) == 3


def test_predict_writes_a_file_whole_or_not_at_all(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color")
    model, out = tmp_path / "out" / "model.safetensors", tmp_path / "new.csv"
    out.write_text("precious")
    message = refusal("predict", model, tmp_path / "nothing.png", "--encoder", "color", "--out", out)
    assert "the one file that was named could not be read" in message and out.read_text() == "precious"
    sala("predict", model, folders[1], "--encoder", "color", "--out", out, "--no-cache")
    assert len(labels(out)) == 30 and not list(tmp_path.glob(".*partial"))


def test_predict_reads_its_input_as_it_goes(folders: tuple[Path, Path]) -> None:
    """Constant memory: of an endless list, only a batch ahead is taken."""
    from sala.labeling.predict import BATCH, predict_files

    labeling = label_folder(*folders, MeanColor(), which="color")  # type: ignore[arg-type]
    taken = 0

    def endless() -> object:
        nonlocal taken
        while True:
            taken += 1
            yield labeling.paths[taken % 30], None

    rows = predict_files(labeling.model, MeanColor(), endless())  # type: ignore[arg-type]
    for _ in range(3 * BATCH):
        next(rows)
    assert taken == 3 * BATCH
    rows.close()  # type: ignore[attr-defined]


def test_a_model_of_another_encoder_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    labeling = label_folder(*folders, MeanColor(), which="color")  # type: ignore[arg-type]
    note = labeling.model.note | {"encoder": {"which": "color", "name": "x", "identity": "other-1"}}
    LabelModel(**(vars(labeling.model) | {"note": note})).save(tmp_path / "model.safetensors")
    assert "made with the encoder other-1" in refusal(
        "predict", tmp_path / "model.safetensors", folders[1], "--encoder", "color"
    )
    note["encoder"]["which"] = str(tmp_path / "program.pt")
    LabelModel(**(vars(labeling.model) | {"note": note})).save(tmp_path / "model.safetensors")
    assert "if you trust it, name it with --encoder" in refusal("predict", tmp_path / "model.safetensors", folders[1])
    LabelModel(**(vars(labeling.model) | {"note": {}})).save(tmp_path / "model.safetensors")
    assert "does not tell its encoder" in refusal("predict", tmp_path / "model.safetensors", folders[1])
    assert "there is no model" in refusal("predict", tmp_path / "nowhere.safetensors", folders[1])
    (tmp_path / "model.safetensors").write_bytes(b"no model")
    assert "damaged" in refusal("predict", tmp_path / "model.safetensors", folders[1])


def test_outliers_that_are_told_apart_without_doubt_are_rejected_alone() -> None:
    """The share that may be wrong is not filled up: of ten images with score 0 none follows the ten with score 1."""
    none = np.repeat(np.float32([1, 0]), 10)
    thresholds = Thresholds(0.9, rejection_threshold(none, 0.9), 0.9)
    verdicts = [verdict(float(score), 1.0, thresholds) for score in none]
    assert verdicts == [REJECTED] * 10 + [CONFIDENT] * 10


def test_a_label_is_confident_from_the_precision_on() -> None:
    thresholds = Thresholds(precision=0.8, outlier=0.7, confident=0.8)
    assert verdict(0.0, 0.8, thresholds) == CONFIDENT and verdict(0.0, 0.79, thresholds) == UNCERTAIN
    assert verdict(0.7, 1.0, thresholds) == UNCERTAIN and verdict(0.71, 1.0, thresholds) == REJECTED


def test_the_report_bounds_its_pictures_and_says_how_many_are_missing(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sala.labeling.selection.MAX_IN_ALL", 3)
    sala("label", *folders, "--out", tmp_path / "out", "--encoder", "color")
    assert "Not shown: 4 more" in (tmp_path / "out" / "report.html").read_text()


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
        "color",
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


@pytest.mark.parametrize("command", ["label", "predict"])
def test_help_teaches_with_an_example(command: str) -> None:
    assert "Example" in sala(command, "--help").stdout


# real photos


@pytest.fixture(scope="module")
def photos(lite0: Encoder, real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes, three photos of each labeled and 25 in the pool, and eight outliers."""
    archive = real_data / "caltech" / "caltech-16.zip"
    if not archive.is_file():
        pytest.skip(f"{archive} is not there")
    folder = tmp_path_factory.mktemp("photos")
    counts = {
        "sunflower": (3, 25),
        "grand_piano": (3, 25),
        "dolphin": (3, 25),
        "laptop": (3, 25),
        "BACKGROUND_Google": (0, 8),
    }
    with zipfile.ZipFile(archive) as source:
        for name, (n_labeled, n_pool) in counts.items():
            members = sorted(m for m in source.namelist() if m.startswith(f"caltech-16/{name}/") and m.endswith(".jpg"))
            for i, member in enumerate(members[: n_labeled + n_pool]):
                place = folder / ("labeled" if i < n_labeled else "pool") / (name if i < n_labeled else "")
                place.mkdir(parents=True, exist_ok=True)
                (place / f"{name}-{i}.jpg").write_bytes(source.read(member))
    return folder


def test_photos_are_labeled_from_three_examples_each(photos: Path) -> None:
    out = photos / "out"
    sala("label", photos / "labeled", photos / "pool", "--out", out, "--copy-to", photos / "sorted")
    rows = labels(out / "labels.csv")
    known = [row for row in rows if "BACKGROUND" not in row["path"]]
    assert len(rows) == 108 and len(known) == 100
    assert np.mean([Path(row["path"]).name.startswith(row["label"]) for row in known]) >= 0.95
    confident = [row for row in rows if row["verdict"] == CONFIDENT]
    assert len(confident) >= 50
    assert np.mean([Path(row["path"]).name.startswith(row["label"]) for row in confident]) >= 0.9
    outliers = [float(row["outlier_probability"]) for row in rows if "BACKGROUND" in row["path"]]
    assert (
        np.mean(np.array(outliers)[:, None] > np.array([float(row["outlier_probability"]) for row in known])) >= 0.9
    )  # AUROC
    assert sum(path.is_file() for path in (photos / "sorted").rglob("*")) == 108
    again = sala("predict", out / "model.safetensors", photos / "pool" / "dolphin-5.jpg")
    assert next(csv.DictReader(io.StringIO(again.stdout)))["label"] == "dolphin"


def test_predicted_images_are_sorted_into_class_folders_too(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *folders, "--encoder", "color", "--out", tmp_path / "out")
    model, sorted_to = tmp_path / "out" / "model.safetensors", tmp_path / "sorted"
    sala("predict", model, folders[1], "--encoder", "color", "--out", tmp_path / "new.csv", "--copy-to", sorted_to)
    rows = labels(tmp_path / "new.csv")
    placed = {path.name: path.parent.name for path in sorted_to.rglob("*.png")}
    assert len(placed) == len(rows) == 30
    for row in rows:
        folder = row["label"] if row["verdict"] == CONFIDENT else row["verdict"]
        assert placed[Path(row["path"]).name] == folder
    inside = folders[1] / "sorted"
    assert "choose another --copy-to" in refusal(
        "predict", model, folders[1], "--encoder", "color", "--copy-to", inside
    )
