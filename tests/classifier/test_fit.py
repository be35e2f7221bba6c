"""`fit_pool` on pools whose labels one sees, in any order and scale, and on hostile shapes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from sala.classifier import coefficients
from sala.classifier.fit import ClassifierConfig, fit_pool
from sala.classifier.normalize import PRIOR_IMAGES, SCALE_FLOOR, center_of, mean_of, normalized, scale_of
from sala.errors import SalaError
from tests.helpers.pools import blobs, task


def test_classes_are_found_and_outliers_score_highest() -> None:
    support, labels, pool, truth = task()
    labeled = fit_pool(support, labels, pool).pool
    assert (labeled.label == truth)[truth >= 0].all()
    assert labeled.outlier_probability[truth < 0].min() > labeled.outlier_probability[truth >= 0].max()
    assert labeled.used[truth >= 0].mean() > 0.9 and labeled.used[truth < 0].mean() < 0.1
    np.testing.assert_allclose(labeled.probabilities.sum(1), 1, atol=1e-5)
    assert (labeled.runner_up != labeled.label).all()


def test_the_order_of_the_pool_does_not_matter() -> None:
    support, labels, pool, _ = task(noise=0.3)
    order = np.random.default_rng(0).permutation(len(pool))
    one, other = fit_pool(support, labels, pool).pool, fit_pool(support, labels, pool[order]).pool
    np.testing.assert_allclose(one.probabilities[order], other.probabilities, atol=1e-4)
    np.testing.assert_allclose(one.outlier_probability[order], other.outlier_probability, atol=1e-4)


def test_the_order_of_classes_does_not_matter() -> None:
    support, labels, pool, _ = task(noise=0.3)
    new = np.array([2, 0, 3, 1])
    one, other = fit_pool(support, labels, pool).pool, fit_pool(support, new[labels], pool).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities[:, new], atol=1e-4)


def test_neither_scale_nor_place_of_features_matters() -> None:
    support, labels, pool, _ = task(noise=0.3)
    one, other = fit_pool(support, labels, pool).pool, fit_pool(7 * support + 3, labels, 7 * pool + 3).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-3)


def test_without_steps_it_is_the_nearest_prototype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coefficients, "LINEAR_SHARE", 0.0)
    support, labels, pool, _ = task(noise=0.5)
    fitted = fit_pool(support, labels, pool, config=ClassifierConfig(n_steps=0))
    center, scale = fitted.model.center.numpy(), fitted.model.scale.numpy()
    x, s = ((p - center) / scale for p in (pool, support))
    x, s = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x, s))
    means = np.stack([s[labels == c].mean(0) for c in range(4)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    assert (fitted.pool.label == (x @ means.T).argmax(1)).all()
    assert not fitted.pool.used.any()


def test_scale_is_the_regularized_deviation_of_each_feature() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((9_000, 3)) * [0.5, 2.0, 0.0] + [1.0, -3.0, 5.0]).astype(np.float32)
    parts = [torch.from_numpy(x[:7]), torch.from_numpy(x[7:])]  # more rows than are read at a time
    center = mean_of(parts)
    np.testing.assert_allclose(center.numpy(), x.mean(0), rtol=1e-4)
    variance = (9_000 * x.var(0) + PRIOR_IMAGES * x.var(0).mean()) / (9_000 + PRIOR_IMAGES)
    slow = np.sqrt(variance) + SCALE_FLOOR * np.sqrt(variance).mean()
    np.testing.assert_allclose(scale_of(parts, center).numpy(), slow, rtol=1e-4)
    one = torch.tensor([[1.0, 2.0]])  # nothing differs
    assert normalized(one, one[0], scale_of([one], one[0])).tolist() == [[0.0, 0.0]]


def test_the_center_is_the_mean_unless_the_pool_is_far_from_the_classes() -> None:
    g = torch.Generator().manual_seed(0)
    support, labels = 0.3 * torch.randn(4, 3, generator=g), torch.tensor([0, 0, 0, 1])
    pool = torch.randn(50, 3, generator=g)
    torch.testing.assert_close(center_of(support, labels, pool), torch.cat([support, pool]).mean(0))
    torch.testing.assert_close(center_of(support, labels, pool[:0]), support.mean(0))
    far = pool + torch.tensor([9.0, 0.0, 0.0])
    of_classes = (support[:3].mean(0) + support[3]) / 2
    variance = float(sum((u - far.mean(0)).square().sum() for u in far)) / 50
    trust = variance / 4 / float((of_classes - far.mean(0)).square().sum())
    slow = trust * torch.cat([support, far]).mean(0) + (1 - trust) * of_classes
    assert 0 < trust < 0.1
    torch.testing.assert_close(center_of(support, labels, far), slow)


def test_a_pool_of_one_class_alone_is_labeled_as_well_as_without_a_pool() -> None:
    support, labels = blobs([3] * 6, noise=0.15, seed=1)
    for present in range(6):
        sizes = [60 if c == present else 0 for c in range(6)]
        pool, truth = blobs(sizes, noise=0.15, seed=2 + present)
        assert (fit_pool(support, labels, pool).pool.label == truth).mean() > 0.95


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_features_may_be_very_small_or_large(scale: float) -> None:
    support, labels, pool, _ = task(noise=0.3)
    one, other = fit_pool(support, labels, pool).pool, fit_pool(scale * support, labels, scale * pool).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-3)


def test_no_feature_counts_for_more_because_its_numbers_are_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    scales = np.random.default_rng(0).permutation(np.geomspace(0.1, 10, 64)).astype(np.float32)

    def right() -> float:
        """The mean share over five pools."""
        shares = []
        for seed in range(0, 10, 2):
            support, labels, pool, truth = task(noise=0.2, seed=seed)
            label = fit_pool(scales * support, labels, scales * pool).pool.label
            shares.append((label == truth)[truth >= 0].mean())
        return float(np.mean(shares))

    scaled = right()
    monkeypatch.setattr("sala.classifier.fit.scale_of", lambda parts, center: torch.ones_like(center))
    assert scaled > 0.85 and right() < scaled - 0.1


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(wrong: float) -> None:
    labeled, labels, pool, _ = task()
    pool[3, 2] = wrong
    with pytest.raises(SalaError, match="finite"):
        fit_pool(labeled, labels, pool)


@pytest.mark.parametrize("n_pool", [0, 1, 2, 3])
@pytest.mark.parametrize("n_way", [1, 2, 3])
def test_small_shapes_work(n_pool: int, n_way: int) -> None:
    rng = np.random.default_rng(0)
    support, pool = (rng.standard_normal((n, 3)).astype(np.float32) for n in (n_way, n_pool))
    labeled = fit_pool(support, np.arange(n_way), pool).pool
    assert labeled.probabilities.shape == (n_pool, n_way)
    assert np.isfinite(labeled.probabilities).all() and np.isfinite(labeled.outlier_probability).all()


def test_equal_images_and_constant_features_work() -> None:
    labeled = fit_pool(np.ones((2, 4), np.float32), np.array([0, 1]), np.ones((10, 4), np.float32)).pool
    assert np.isfinite(labeled.probabilities).all() and np.isfinite(labeled.outlier_probability).all()


@pytest.mark.parametrize(
    ("labels", "pool"), [([0, 2], (3, 4)), ([-1, 0], (3, 4)), ([0, 1], (3, 5)), ([0], (3, 4))]
)  # fmt: skip
def test_shapes_and_labels_that_do_not_agree_are_refused(labels: list[int], pool: tuple[int, int]) -> None:
    with pytest.raises(SalaError):
        fit_pool(np.ones((2, 4), np.float32), np.array(labels), np.ones(pool, np.float32))


def test_held_out_images_vouch_for_all_classes_or_for_none() -> None:
    pool, _ = blobs([30, 30, 30], n_outliers=20)
    for counts, n in (([3, 2, 4], 9), ([3, 1, 4], 0), ([1, 1, 1], 0)):
        fitted = fit_pool(*blobs(counts, seed=1), pool)
        assert len(fitted.held_out_outlier_probability) == n
        assert len(fitted.held_out.outlier_probability) == sum(c for c in counts if c > 1)


def test_features_without_columns_are_refused() -> None:
    with pytest.raises(SalaError, match="columns"):
        fit_pool(np.zeros((2, 0), np.float32), np.array([0, 1]), np.zeros((3, 0), np.float32))


def test_the_runner_up_is_the_second_most_probable_class() -> None:
    support, labels, pool, _ = task()
    found = fit_pool(support, labels, pool).pool
    assert (found.runner_up == np.argsort(-found.probabilities, axis=1, kind="stable")[:, 1]).all()


def test_read_only_arrays_and_numbers_too_large_give_no_warning() -> None:
    support, labels, pool, _ = task()
    locked = pool.copy()
    locked.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit_pool(support, labels, locked).pool
        np.testing.assert_array_equal(found.label, fit_pool(support, labels, pool).pool.label)
        with pytest.raises(SalaError, match="finite"):
            fit_pool(support, labels, pool.astype(np.float64) * 1e200)


def test_the_features_that_are_given_stay_as_they_are() -> None:
    support, labels, pool, _ = task()
    before = [part.copy() for part in (support, pool, pool[-3:])]
    fit_pool(support, labels, pool, outliers=pool[-3:]).model.predict(pool)
    for part, copy in zip((support, pool, pool[-3:]), before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_the_order_of_features_does_not_matter() -> None:
    """Though the subspace iteration starts at a fixed place, and eigenvalues differ little."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), 40)
    differing = 3 * rng.normal(size=(200, 300)) * np.logspace(0, -0.3, 300)
    x = (rng.normal(size=(5, 300))[truth] + differing).astype(np.float32)
    labels, shuffled = np.arange(5), rng.permutation(300)
    one, other = (fit_pool(x[::40, order], labels, x[:, order]).pool for order in (np.arange(300), shuffled))
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=0.01)


def test_a_large_pool_is_sampled_evenly() -> None:
    """Images come sorted by class, as files in folders do: the first of them would be of one class."""
    (support, labels), (pool, truth) = blobs([1, 1, 1], seed=1), blobs([3_000, 1_000, 2_000], n_outliers=1_000)
    found = fit_pool(support, labels, pool).pool
    assert (found.label == truth)[truth >= 0].mean() > 0.99
    assert np.median(found.outlier_probability[truth < 0]) > np.quantile(found.outlier_probability[truth >= 0], 0.99)


def test_outlier_probabilities_of_a_clean_pool_differ() -> None:
    (support, labels), (pool, _) = blobs([5] * 5, noise=0.2, seed=1), blobs([200] * 5, noise=0.2)
    assert len(np.unique(fit_pool(support, labels, pool).pool.outlier_probability)) > 950


def test_classes_of_few_shots_are_not_outliers() -> None:
    pool, truth = blobs([25] * 8, n_outliers=100, noise=0.11)
    score = fit_pool(*blobs([1, 10] * 4, noise=0.11, seed=1), pool).pool.outlier_probability
    few, many = ((truth >= 0) & (truth % 2 == odd) for odd in (0, 1))
    assert min(score[truth < 0]) > max(score[few].max(), score[many].max())


@pytest.mark.parametrize("n_pool", [0, 3])
def test_equal_images_are_told_from_others(n_pool: int) -> None:
    """All labeled images and the pool are copies of one: nothing varies, and other images are still finite."""
    one, other = 10 * np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
    support, labels, pool = np.stack([one, one]), np.array([0, 0]), np.tile(one, (n_pool, 1))
    fitted = fit_pool(support, labels, pool, outliers=other[None])
    for values in (
        fitted.held_out.outlier_probability,
        fitted.model.predict(np.stack([one, other])).outlier_probability,
    ):
        assert np.isfinite(values).all()


def test_a_pool_of_one_image_leaves_the_labeled_one_a_direction() -> None:
    a, b = np.eye(4, 8, dtype=np.float32)[:2]
    assert fit_pool(a[None], np.array([0]), b[None]).model.mixture.labeled_prototypes.any()


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", "\ud800"]])
def test_names_that_a_model_file_would_not_take_are_refused(names: list[str]) -> None:
    support, labels = blobs([1, 1], noise=0.1)
    with pytest.raises(SalaError, match="class names"):
        fit_pool(support, labels, support, classes=names)


def test_differences_too_large_for_float32_are_refused() -> None:
    support = np.array([[3.3e38, 1], [-3.3e38, 0]], np.float32)
    with pytest.raises(SalaError, match="finite"):
        fit_pool(support, np.array([0, 1]), np.array([[-3e38, 0], [-1e37, 1]], np.float32))
