"""Labels that held-out predictions disagree with: by hand, on points one sees, and planted among photos."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from sala.classifier.fit import HeldOut, fit_pool
from sala.encoders import Encoder
from sala.labeling.check import check
from sala.labeling.label import label_folder
from sala.labeling.project import OUTLIER
from sala.labeling.suspects import find_suspects, unchecked_classes
from tests.helpers.painted import BLUE, GREEN, RED, labels, paint, sala
from tests.helpers.pools import blobs

HELD_OUT = HeldOut(
    probabilities=np.array([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8], [0.1, 0.9], [0.6, 0.4]], np.float32),
    labels=np.array([0, 0, 1, 0, 0]),
    outlier_probability=np.array([0.0, 0.0, 0.95, 0.0, 0.0], np.float32),
    rows=np.array([0, 2, 3, 5, 6]),
)


def test_suspects_are_those_with_another_prediction_or_rejected_the_least_probable_label_first() -> None:
    found = find_suspects(HELD_OUT, rejected_from=0.9)
    assert [(s.row, s.label, s.predicted) for s in found] == [(3, 1, OUTLIER), (5, 0, 1), (2, 0, 1)]
    assert [s.label_probability for s in found] == pytest.approx([0.04, 0.1, 0.3], abs=1e-6)
    assert [s.predicted_probability for s in found] == pytest.approx([0.95, 0.9, 0.7], abs=1e-6)


def test_a_class_of_which_nothing_was_held_out_is_unchecked() -> None:
    assert unchecked_classes(HELD_OUT, 4) == [2, 3]


def test_planted_labels_are_the_first_suspects_among_blobs() -> None:
    x, truth = blobs([8, 8, 8, 8, 8], seed=3)
    pool, _ = blobs([20] * 5, n_outliers=20, seed=4)
    given, planted = truth.copy(), [2, 11, 30]
    given[planted] = (truth[planted] + 1) % 5
    found = find_suspects(fit_pool(x, given, pool).held_out, rejected_from=0.9)
    assert sorted(s.row for s in found[:3]) == planted
    assert all(s.predicted == truth[s.row] for s in found[:3])


def folder_with_a_wrong_label(root: Path) -> tuple[Path, Path]:
    """Five red and five blue labeled pictures and a single green one; one of the reds is called blue."""
    for name, color in (("red", RED), ("blue", BLUE)):
        for i in range(5):
            paint(root / "labeled" / name / f"{i}.png", color, 100 + i)
        for i in range(10):
            paint(root / "pool" / f"{name}{i}.png", color, i)
    paint(root / "labeled" / "green" / "only.png", GREEN)
    paint(root / "labeled" / "blue" / "wrong.png", RED, 77)
    return root / "labeled", root / "pool"


def test_the_command_names_the_worst_label_and_the_class_that_cannot_be_checked(
    tmp_path: Path, color_encoder: None
) -> None:
    labeled, pool = folder_with_a_wrong_label(tmp_path)
    said = sala("label", labeled, pool, "--out", tmp_path / "out", "--encoder", "color").stderr
    assert "blue/wrong.png (looks like red)" in said
    assert "cannot be checked: green" in said
    first = labels(tmp_path / "out" / "check.csv")[0]
    assert (Path(first["path"]).name, first["finding"]) == ("wrong.png", "suspect label")
    assert (first["label"], first["predicted"]) == ("blue", "red")


@pytest.mark.slow
def test_three_planted_labels_are_among_the_first_ten_suspects_of_photos(
    lite0: Encoder, real_data: Path, tmp_path: Path
) -> None:
    """Five labeled photos of each of six classes; one of three classes lies in the folder of another."""
    archive = real_data / "caltech" / "caltech-16.zip"
    if not archive.is_file():
        pytest.skip(f"{archive} is not there")
    names = ["sunflower", "grand_piano", "dolphin", "laptop", "elephant", "crab"]
    wrong = {("sunflower", 1): "laptop", ("dolphin", 2): "elephant", ("crab", 0): "grand_piano"}
    with zipfile.ZipFile(archive) as source:
        for name in names:
            members = sorted(m for m in source.namelist() if m.startswith(f"caltech-16/{name}/") and m.endswith(".jpg"))
            for i, member in enumerate(members[:15]):
                folder = Path("labeled", wrong.get((name, i), name)) if i < 5 else Path("pool")
                (tmp_path / folder).mkdir(parents=True, exist_ok=True)
                (tmp_path / folder / f"{name}-{i}.jpg").write_bytes(source.read(member))
    result = label_folder(tmp_path / "labeled", tmp_path / "pool", lite0)
    suspects = [result.project.path(s.row).stem for s in check(result).suspects]
    assert {f"{name}-{i}" for name, i in wrong} <= set(suspects[:10])
