"""The range of right labels, what moves it, and the labels that a goal takes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma

from sala.labeling.answers import Claim
from sala.labeling.progress import (
    PRIOR,
    Estimate,
    Range,
    error_factors,
    expected_right,
    labels_at_pace,
    labels_needed,
    parts_of_move,
    smoothed,
    told_move,
    wrong_probability,
)

NO_ANSWERS = error_factors([])


def answers(chance: float, n_right: int, n_wrong: int) -> list[Claim]:
    return [Claim(chance, True, 0.1, False)] * n_right + [Claim(chance, False, 0.1, False)] * n_wrong


def test_without_answers_the_claims_are_taken_at_their_word() -> None:
    chance = np.array([0.95, 0.8, 0.3, 1.0])
    assert NO_ANSWERS.mean.tolist() == [1, 1, 1]
    assert expected_right(chance, NO_ANSWERS).mean == pytest.approx(chance.mean())


def test_wrong_answers_count_for_claims_of_their_size() -> None:
    factors = error_factors(answers(0.98, 5, 5))  # 0.2 wrong were claimed, 5 were
    assert factors.mean[2] == pytest.approx((PRIOR[2] + 5) / (PRIOR[2] + 0.2)) and factors.mean[:2].tolist() == [1, 1]
    assert wrong_probability(np.array([0.95, 0.7, 1.0]), factors) == pytest.approx([0.05 * factors.mean[2], 0.3, 0.0])


def test_one_size_of_claims_has_the_range_of_a_gamma_distribution() -> None:
    chance = np.full(100_000, 0.97)  # so many that chance itself does not matter
    found = expected_right(chance, NO_ANSWERS)
    low, high = gamma.ppf([0.025, 0.975], PRIOR[2], scale=1 / PRIOR[2])
    assert (1 - found.low, 1 - found.high) == pytest.approx((0.03 * high, 0.03 * low), rel=0.01)


def test_answers_make_the_range_narrower() -> None:
    chance = np.full(500, 0.95)
    widths = [
        (r := expected_right(chance, error_factors(answers(0.95, 19 * n, n)))).high - r.low for n in (0, 1, 4, 16)
    ]
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.07


def test_the_range_covers_the_truth_where_claims_are_off_as_the_prior_says() -> None:
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(400):
        chance = np.concatenate([rng.uniform(0.1, 0.5, 40), rng.uniform(0.5, 0.9, 80), rng.uniform(0.9, 1, 280)])
        factors = rng.gamma(PRIOR, 1 / PRIOR)[np.repeat([0, 1, 2], [40, 80, 280])]
        is_right = rng.random(400) >= np.minimum(factors * (1 - chance), 1)
        found = expected_right(chance, NO_ANSWERS)
        covered.append(found.low <= is_right.mean() <= found.high)
    assert 0.9 <= np.mean(covered) <= 0.99


def test_nothing_to_label_is_right() -> None:
    assert expected_right(np.zeros(0), NO_ANSWERS) == Range(1, 1, 1)
    assert expected_right(np.ones(3), NO_ANSWERS) == Range(1, 1, 1)


def test_a_smoothed_range_follows_a_third_of_the_way() -> None:
    first = Range(0.8, 0.9, 1.0)
    assert smoothed(None, first) == first
    moved = smoothed(first, Range(0.7, 0.8, 0.9))
    assert (moved.low, moved.mean, moved.high) == pytest.approx((0.77, 0.87, 0.97))


def test_a_goal_takes_the_least_certain_images_first() -> None:
    chance = np.array([0.4, 0.6, 0.99, 0.99, 1.0])  # 1.02 are wrong; 0.5 may be
    assert labels_needed(chance, NO_ANSWERS, 0.9) == 1
    assert labels_needed(chance, NO_ANSWERS, 0.99) == 2
    assert labels_needed(chance, NO_ANSWERS, 0.5) == 0
    assert labels_needed(chance, NO_ANSWERS, 1.0) == 4


def test_the_pace_is_that_of_the_last_labels() -> None:
    assert labels_at_pace([(0, 0.8), (5, 0.85)], 0.95) is None  # too few to tell
    assert labels_at_pace([(0, 0.8), (10, 0.85), (20, 0.9)], 0.95) == 10
    assert labels_at_pace([(0, 0.9), (10, 0.9)], 0.95) is None  # no gain
    assert labels_at_pace([(0, 0.9), (10, 0.96)], 0.95) == 0


def test_the_parts_of_a_move_add_up_and_are_told() -> None:
    before = Estimate(np.array([0.5, 0.8, 0.7, 0.95]), np.zeros(4, bool), NO_ANSWERS)
    after = Estimate(np.array([1.0, 0.85, 0.75, 0.95]), np.array([1, 0, 0, 0], bool), error_factors(answers(0.5, 1, 0)))
    parts = parts_of_move(before, after)
    means = [expected_right(e.chance, e.factors).mean for e in (before, after)]
    assert parts.total == pytest.approx(means[1] - means[0])
    assert (parts.by_labels, parts.by_predictions) == pytest.approx((0.125, 0.025))
    told = told_move(parts)
    assert told.startswith("Up") and "labeled" in told and "12.5" in told
    assert told_move(parts_of_move(before, before)) == ""
