"""The random audit: exact intervals, their coverage, and an order that nothing can bias."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from sala.errors import SalaError
from sala.labeling.audit import Answer, clopper_pearson, draw_order, share, shares


@pytest.mark.parametrize(("n_right", "n"), [(0, 20), (1, 20), (18, 20), (20, 20), (37, 40), (1, 1), (0, 1), (93, 200)])
def test_the_interval_is_the_exact_one(n_right: int, n: int) -> None:
    low, high = clopper_pearson(n_right, n)
    exact = binomtest(n_right, n).proportion_ci(method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    if 0 < n_right < n:
        quantiles = beta.ppf(0.025, n_right, n - n_right + 1), beta.ppf(0.975, n_right + 1, n - n_right)
        assert (low, high) == pytest.approx(quantiles, abs=1e-9)


def test_nothing_wrong_in_twenty_leaves_a_sixth_open() -> None:
    low, high = clopper_pearson(20, 20)
    assert low == pytest.approx(0.025 ** (1 / 20)) and high == 1.0  # the rule of three, two-sided


def test_no_image_says_nothing() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    with pytest.raises(SalaError, match="3 of 2"):
        clopper_pearson(3, 2)


@pytest.mark.parametrize("n", [20, 40])
@pytest.mark.parametrize("truth", [0.5, 0.84, 0.95, 0.99])
def test_the_interval_covers_the_true_share_of_a_pool_as_often_as_it_says(truth: float, n: int) -> None:
    rng = np.random.default_rng(0)
    pool = np.arange(300) < 300 * truth
    drawn = np.array([rng.permutation(pool)[:n].sum() for _ in range(2000)])  # without replacement
    covered = [low <= pool.mean() <= high for low, high in (clopper_pearson(int(k), n) for k in drawn)]
    assert np.mean(covered) >= 0.95


def test_drawn_orders_reach_each_image_equally_often() -> None:
    keys = [f"pool/{i}.jpg" for i in range(10)]
    first = np.bincount([draw_order(keys, seed)[0] for seed in range(2000)], minlength=10)
    assert ((first - 200) ** 2 / 200).sum() < 27.9  # chi squared with 9 degrees of freedom: one in a thousand is above


def test_images_that_come_or_go_leave_the_order_of_the_others() -> None:
    keys = [f"pool/{i}.jpg" for i in range(50)]
    order = [keys[i] for i in draw_order(keys, 7)]
    fewer = [*keys[::2], "pool/new.jpg"]
    assert [key for key in order if key in fewer] == [fewer[i] for i in draw_order(fewer, 7) if fewer[i] in keys]
    assert order != [keys[i] for i in draw_order(keys, 8)]


def test_an_image_that_nobody_can_tell_widens_the_interval_on_both_sides() -> None:
    found = share([True] * 17 + [False] * 2 + [None])
    assert (found.n, found.n_right, found.n_open) == (20, 17, 1)
    assert found.low == clopper_pearson(17, 20)[0] and found.high == clopper_pearson(18, 20)[1]


def test_confident_and_rejected_images_have_shares_of_their_own() -> None:
    answers = [Answer("confident", True)] * 8 + [Answer("uncertain", False)] * 3 + [Answer("rejected", True)] * 2
    found = shares(answers)
    assert [(found[group].n_right, found[group].n) for group in ("all", "confident", "rejected")] == [
        (10, 13),
        (8, 8),
        (2, 2),
    ]
