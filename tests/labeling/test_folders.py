"""What `label_folder` makes of two folders, where copies lie among the images, and what a model notes of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.labeling.embedding import describe_encoder
from sala.labeling.folders import image_files
from sala.labeling.label import label_folder
from sala.labeling.predict import predict_files
from tests.helpers.pages import open_session
from tests.helpers.painted import GREEN, RED, MeanColor, paint


def test_copies_that_come_before_do_not_change_the_suggestions(painted: tuple[Path, Path]) -> None:
    """The pool's first files are copies of labeled images, so that each other one has another number."""
    labeled, pool = painted
    before = label_folder(labeled, pool, MeanColor())
    for name in ("red", "blue"):
        shutil.copy(labeled / name / "0.png", pool / f"a {name} copy.png")
    after = label_folder(labeled, pool, MeanColor())
    assert after.paths[:2] == [pool / "a blue copy.png", pool / "a red copy.png"] and after.n_labeled_copies == 2
    assert [after.paths[i] for i in after.suggestions] == [before.paths[i] for i in before.suggestions]


def test_copies_leave_the_labels_of_the_others_where_they_are(painted: tuple[Path, Path]) -> None:
    labeled, pool = painted
    before = {row.path: row for row in label_folder(labeled, pool, MeanColor()).rows()}
    shutil.copy(labeled / "red" / "0.png", pool / "a copy.png")
    shutil.copy(pool / "part0" / "blue0.png", pool / "part1" / "a copy.png")
    after = {row.path: row for row in label_folder(labeled, pool, MeanColor()).rows()}
    known, again = after.pop(pool / "a copy.png"), after.pop(pool / "part1" / "a copy.png")
    assert after == before
    assert (known.label, known.verdict, known.used_for_refinement) == ("red", "given", True)
    assert known.runner_up in {"green", "blue"}  # and not what it is
    assert again == replace(after[pool / "part0" / "blue0.png"], path=again.path)


def test_a_model_notes_how_many_images_of_each_class_it_was_made_from(painted: tuple[Path, Path]) -> None:
    shutil.copy(painted[0] / "blue" / "0.png", painted[0] / "blue" / "twice.png")  # which counts once
    shutil.copy(painted[0] / "blue" / "0.png", painted[1] / "a copy.png")
    note = label_folder(*painted, MeanColor(), which="color").model.note
    assert note["labeled"] == {"blue": 3, "green": 1, "red": 2} and note["n_pool"] == 31
    assert note["encoder"] == {"which": "color", "name": "mean-color", "identity": "mean-color-label"}


def test_images_beside_the_class_folders_and_bad_examples_are_told(painted: tuple[Path, Path]) -> None:
    loose = paint(painted[0] / "loose.png", RED)
    (painted[0] / "green" / "empty.png").touch()
    (painted[0] / "green" / "broken.png").write_text("no image")
    skipped = label_folder(*painted, MeanColor()).skipped
    assert set(skipped) == {loose, *(painted[0] / "green" / name for name in ("empty.png", "broken.png"))}
    assert "is in no class folder; move it into one" in skipped[loose]


def test_a_folder_whose_name_starts_as_the_pools_is_not_in_it(painted: tuple[Path, Path]) -> None:
    secret = paint(painted[1].with_name("pool-of-others") / "x.png", GREEN)
    (painted[1] / "link.png").symlink_to(secret)
    found = label_folder(*painted, MeanColor())
    assert len(found.paths) == 30 and "points out of the folder" in found.skipped[painted[1] / "link.png"]


def test_names_of_two_dots_are_images_and_names_of_one_are_hidden(painted: tuple[Path, Path]) -> None:
    for name in ("..odd.png", ".hidden.png", ".thumbnails/x.png"):
        paint(painted[1] / name, RED, 3)
    names = {path.name for path in label_folder(*painted, MeanColor()).paths}
    assert len(names) == 31 and "..odd.png" in names


def test_held_out_images_have_a_say_in_what_is_rejected(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command and on the page: two classes of two labeled images each are four scores."""
    said: list[np.ndarray] = []

    def threshold(scores: np.ndarray, precision: float, held_out: np.ndarray | None = None) -> float:
        assert held_out is not None and len(scores) == 30 and precision == 0.9
        said.append(held_out)
        return 0.123

    monkeypatch.setattr("sala.classifier.fit.rejection_threshold", threshold)
    monkeypatch.setattr("sala.classifier.rejection.MIN_HELD_OUT", 4)
    encoder: Any = MeanColor()
    assert label_folder(*folders, encoder).thresholds.outlier == pytest.approx(0.123)
    shown = open_session(folders).snapshot()
    assert [len(scores) for scores in said] == [4, 4]
    predicted = shown.given == -1
    assert (shown.is_rejected[predicted] == (shown.outlier_probability[predicted] > 0.123)).all()


@pytest.mark.parametrize(("precision", "confident"), [(0.2, 0.6), (0.9, 0.95), (1.0, 1.0)])
def test_labels_are_confident_halfway_from_the_precision_to_certainty(
    painted: tuple[Path, Path], precision: float, confident: float
) -> None:
    assert label_folder(*painted, MeanColor(), precision=precision).thresholds.confident == pytest.approx(confident)


def test_an_encoder_file_is_noted_by_a_path_that_holds_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").touch()
    assert describe_encoder("net.onnx") == str(tmp_path / "net.onnx")
    assert describe_encoder("lite0") == "lite0"


def test_a_class_may_be_called_as_an_image_is(painted: tuple[Path, Path]) -> None:
    (painted[0] / "red").rename(painted[0] / "red.png")
    found = label_folder(*painted, MeanColor())
    assert found.model.classes == ("blue", "green", "red.png") and not found.skipped


def test_predictions_without_the_cache_neither_read_nor_write_it(painted: tuple[Path, Path]) -> None:
    class Counting(MeanColor):
        identity, n = "mean-color-uncached", 0

        def embed(self, images: np.ndarray) -> np.ndarray:
            self.n += len(images)
            return super().embed(images)

    model, encoder = label_folder(*painted, MeanColor()).model, Counting()
    for cache, n in ((False, 30), (False, 60), (True, 90), (True, 90), (False, 120)):
        assert len(list(predict_files(model, encoder, image_files(painted[1]), cache=cache))) == 30
        assert encoder.n == n


def test_predictions_tell_of_what_cannot_be_read_and_go_on(painted: tuple[Path, Path]) -> None:
    """Each row has the path of its own image, also behind one that is held out."""
    model = label_folder(*painted, MeanColor()).model
    (painted[1] / "a.png").write_text("no image")
    (painted[1] / "part0" / "a.png").touch()
    told: list[str] = []
    n_done = 0

    def done(n: int) -> None:
        nonlocal n_done
        n_done += n

    files = image_files(painted[1])
    rows = list(
        predict_files(model, MeanColor(), files, on_problem=lambda path, _: told.append(path.name), on_batch=done)
    )
    assert told == ["a.png", "a.png"] and n_done == 32
    assert len(rows) == 30 and all(row.path.name.startswith(row.label) for row in rows)
