"""What a session makes of changes, and its journal on disk."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.classifier.fit import fit_pool
from sala.errors import SalaError
from sala.labeling.label import label_folder
from sala.labeling.large_pools import fit_rows
from sala.web.layout import pool_map
from sala.web.session import CLEAR, OUTLIER, UNLABELED, Session, checked_name
from tests.helpers.pages import MeanColor, open_session, row_of


def test_red_images_of_the_pool_are_red_and_the_users_word_is_final(session: Session) -> None:
    shown = session.snapshot()
    red = [row_of(session, f"red-{i}.png") for i in range(10)]
    assert {shown.names[shown.label[i]] for i in red} == {"red"}
    session.label([red[0]], to=shown.names.index("blue"))
    after = session.snapshot()
    assert after.names[after.placed()[red[0]]] == "blue"
    assert (after.n_checked, after.n_agreed) == (1, 0)


def test_a_class_that_is_added_and_given_one_example_finds_its_images(session: Session) -> None:
    session.add_class("green")
    assert "green" not in {session.snapshot().names[label] for label in session.snapshot().label}
    session.label([row_of(session, "green-0.png")], to=2)
    shown = session.snapshot()
    assert {shown.names[shown.label[row_of(session, f"green-{i}.png")]] for i in range(10)} == {"green"}


def test_undo_takes_back_the_last_change_of_any_kind(session: Session) -> None:
    first = session.snapshot()
    session.label([10], to=OUTLIER)
    session.add_class("green")
    session.rename_class(0, "sky")
    for _ in range(3):
        session.undo()
    shown = session.snapshot()
    assert shown.names == first.names
    assert (shown.given == first.given).all()
    with pytest.raises(SalaError, match="nothing to undo"):
        session.undo()


def test_undo_of_one_change_takes_back_that_one_or_nothing(session: Session) -> None:
    first, second = session.label([10], to=OUTLIER), session.label([11], to=OUTLIER)
    with pytest.raises(SalaError, match="after"):
        session.undo(first)
    assert session.n_events == 2
    session.undo(second)
    with pytest.raises(SalaError):
        session.undo(second)  # it is undone already
    session.undo(first)
    assert session.n_events == 0 and session.snapshot().given[[10, 11]].tolist() == [UNLABELED, UNLABELED]


def test_what_is_more_probable_than_its_class_is_what_an_image_is_shown_as(session: Session) -> None:
    session.label([row_of(session, "green-3.png")], to=OUTLIER)
    shown = session.snapshot()
    for i, said in enumerate(shown.most_probable()):
        joint = float(shown.probability[i]) * (1 - float(shown.outlier_probability[i]))
        is_outlier = shown.given[i] == UNLABELED and float(shown.outlier_probability[i]) > joint
        assert said == (OUTLIER if is_outlier else shown.placed()[i])
    assert (shown.is_likely_outlier | ~shown.is_rejected).all()  # what is rejected is an outlier


def test_taking_a_label_back_restores_what_the_folder_says(session: Session) -> None:
    session.label([0, 10], to=OUTLIER)
    session.label([0, 10], to=CLEAR)
    given = session.snapshot().given
    assert given[0] == 0 and given[10] == UNLABELED


def test_images_of_none_of_the_classes_are_no_examples_and_not_predicted(session: Session) -> None:
    green = [row_of(session, f"green-{i}.png") for i in range(10)]
    session.label(green, to=OUTLIER)
    assert (session.snapshot().placed()[green] == OUTLIER).all()


def test_images_of_none_of_the_classes_tell_of_others_like_them_and_undo_takes_that_back(session: Session) -> None:
    green = [row_of(session, f"green-{i}.png") for i in range(10)]
    before = session.snapshot().outlier_probability
    session.label(green[:3], to=OUTLIER)
    shown = session.snapshot()
    rest = np.flatnonzero(shown.given == UNLABELED)
    without, fitted = (
        fit_pool(
            session.images.features[:4], shown.given[:4], session.images.features[rest], outliers=outliers
        ).pool.outlier_probability
        for outliers in (None, session.images.features[green[:3]])
    )
    np.testing.assert_allclose(shown.outlier_probability[rest], fitted, atol=1e-6)
    is_green = np.isin(rest, green)
    assert is_green.sum() == 7 and (fitted[is_green] > without[is_green]).all()
    session.undo()
    np.testing.assert_array_equal(session.snapshot().outlier_probability, before)


def test_every_example_may_be_taken_away(session: Session) -> None:
    session.label([0, 1, 2, 3], to=OUTLIER)
    shown = session.snapshot()
    assert (shown.placed()[4:] == UNLABELED).all() and not len(shown.suggestions)


def test_an_empty_pool_and_no_class_at_all_are_fine(tmp_path: Path) -> None:
    for name in ("labeled", "pool"):
        (tmp_path / name).mkdir()
    session = open_session((tmp_path / "labeled", tmp_path / "pool"))
    assert session.snapshot().estimated_accuracy == 1.0
    session.add_class("owl")
    assert session.snapshot().names == ("owl",)


def test_threads_that_label_at_once_lose_nothing(session: Session) -> None:
    def label(rows: range) -> None:
        for i in rows:
            session.label([i], to=OUTLIER)
            session.snapshot()

    threads = [threading.Thread(target=label, args=(range(4 + k, 34, 3),)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (session.snapshot().given[4:] == OUTLIER).all()


def test_a_suggested_image_has_no_label_and_is_the_one_that_the_command_names(
    session: Session, folders: tuple[Path, Path]
) -> None:
    by_command = label_folder(*folders, MeanColor())
    named = [session.project.items[i].path for i in session.snapshot().suggestions]
    assert named == [by_command.paths[i].name for i in by_command.suggestions]
    session.label([row_of(session, named[0])], to=0)
    shown = session.snapshot()
    assert len(shown.suggestions) and (shown.given[shown.suggestions] == UNLABELED).all()


def test_a_prediction_is_judged_once(session: Session) -> None:
    """A user who changes a label of their own says nothing of what was predicted."""
    session.snapshot()
    red = row_of(session, "red-0.png")
    for to, counts in ((1, (1, 1)), (0, (1, 1)), (OUTLIER, (1, 1))):
        session.label([red], to=to)
        shown = session.snapshot()
        assert (shown.n_checked, shown.n_agreed) == counts
    session.label([row_of(session, "red-1.png")] * 3, to=1)
    assert session.snapshot().n_checked == 2
    session.undo()
    session.label([0], to=1)  # an example, by its folder
    assert session.snapshot().n_checked == 1


def test_the_estimate_is_the_mean_over_the_pool_of_what_each_image_is_put_down_as(session: Session) -> None:
    session.precision = 0.5
    session.label([row_of(session, "red-0.png"), row_of(session, "red-1.png")], to=1)
    session.label([row_of(session, "green-0.png")], to=OUTLIER)
    shown, slow = session.snapshot(), []
    assert shown.is_rejected.any() and not shown.is_rejected.all()
    for i, item in enumerate(session.project.items):
        if item.root == "pool":
            none, label = float(shown.outlier_probability[i]), float(shown.probability[i])
            is_said = shown.given[i] != UNLABELED
            slow.append(1.0 if is_said else none if shown.is_rejected[i] else label * (1 - none))
    assert len(slow) == 30
    assert shown.estimated_accuracy == pytest.approx(sum(slow) / 30, abs=1e-6)


def test_a_score_at_the_threshold_is_not_above_it(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    score = session.snapshot().outlier_probability
    i = row_of(session, "green-5.png")
    monkeypatch.setattr("sala.labeling.label.answered_threshold", lambda *_: float(score[i]))
    session.add_class("not used")  # so that it fits anew
    shown = session.snapshot()
    assert shown.outlier_probability[i] == score[i]
    assert shown.is_rejected.tolist() == (score > score[i]).tolist() and not shown.is_rejected[i]


def test_what_is_more_probably_wrong_than_right_is_uncertain_at_any_precision(session: Session) -> None:
    session.precision = 0.1
    assert session.snapshot().thresholds.confident >= 0.5


def test_a_snapshot_is_fitted_once_for_each_version(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    n_fits = 0

    def counted(*words: Any, **options: Any) -> Any:
        nonlocal n_fits
        n_fits += 1
        return fit_rows(*words, **options)

    monkeypatch.setattr("sala.labeling.label.fit_rows", counted)
    assert session.snapshot() is session.snapshot() and n_fits == 1
    session.label([20], to=OUTLIER)
    assert session.snapshot().version == 1 and n_fits == 2
    assert [point["version"] for point in session.history] == [0, 1]


def test_of_what_the_user_says_nothing_is_doubted(session: Session) -> None:
    """An example is of its class for certain, and what is of none of them is so for certain."""
    session.label([20], to=0)
    session.label([21], to=OUTLIER)
    shown = session.snapshot()
    assert (shown.probability[20], shown.outlier_probability[20], shown.label[20]) == (1, 0, 0)
    assert (shown.outlier_probability[21], shown.placed()[21]) == (1, OUTLIER)
    assert not shown.is_uncertain[[20, 21]].any() and not shown.is_rejected[[20, 21]].any()


def test_a_class_may_be_renamed_to_its_name_in_other_letters(session: Session) -> None:
    session.rename_class(1, "Red")
    assert session.snapshot().names == ("blue", "Red")
    with pytest.raises(SalaError, match="already"):
        session.rename_class(1, "BLUE")


def test_there_are_no_more_classes_than_the_limit(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sala.web.session.MAX_CLASSES", 3)
    session.add_class("green")
    with pytest.raises(SalaError, match="there are 3 classes already, which is the limit"):
        session.add_class("owl")


@pytest.mark.parametrize("name", ["", "  ", "a/b", "..", ".hidden", "a\\b", "x" * 81, "RED", "bell\a"])
def test_a_name_that_could_be_no_folder_of_its_own_is_refused(name: str) -> None:
    with pytest.raises(SalaError, match=r"a class's name|already"):
        checked_name(name, ["red"])


def test_the_map_keeps_groups_together_and_is_linear_beyond_its_landmarks() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), 60)
    features = (np.eye(8)[groups] * 9 + rng.normal(size=(180, 8))).astype(np.float32)
    for n_landmarks in (4_000, 90):
        points = pool_map(features, n_landmarks=n_landmarks)
        assert points.min() >= 0 and points.max() <= 1
        nearest = np.argsort(((points[:, None] - points[None]) ** 2).sum(-1), 1)[:, 1:6]
        assert (groups[nearest] == groups[:, None]).mean() > 0.95
    assert pool_map(features[:0]).shape == (0, 2) and pool_map(features[:1]).shape == (1, 2)
