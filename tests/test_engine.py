"""The engine on points whose answer one sees, against slow twins and closed forms, and on hostile shapes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pools import blobs, directions, task
from torch import Tensor

from sala.aside import aside_threshold, none_threshold
from sala.belonging import (
    ONE_CLASS,
    ONE_SHOT,
    SHOTS,
    Belonging,
    Similarities,
    belonging,
    belonging_beside,
    belonging_by,
    fitted_to,
    other_prototypes,
    pulled,
    trusted,
)
from sala.checkpoint import load_checkpoint, save_checkpoint
from sala.engine import (
    USUAL_CONTRAST,
    USUAL_LIKENESS,
    USUAL_STRENGTH,
    EngineConfig,
    Fitted,
    LabelModel,
    contrast,
    fit_labels,
    fit_temperature,
    likeness,
    temperature_prior,
)
from sala.errors import SalaError
from sala.labelmodel import label_next
from sala.points import FLOOR, USUAL_IMAGES, centre_of, mean_of, normalised, spread_of, unit
from sala.refining import Refined, refine, refined_by


def test_classes_are_found_and_junk_scores_highest() -> None:
    support, labels, pool, truth = task()
    labelled = fit_labels(support, labels, pool).pool
    assert (labelled.label == truth)[truth >= 0].all()
    assert labelled.none_score[truth < 0].min() > labelled.none_score[truth >= 0].max()
    assert labelled.used[truth >= 0].mean() > 0.9 and labelled.used[truth < 0].mean() < 0.1
    np.testing.assert_allclose(labelled.probabilities.sum(1), 1, atol=1e-5)
    assert (labelled.runner_up != labelled.label).all()


def test_the_order_of_the_pool_does_not_matter() -> None:
    support, labels, pool, _ = task(noise=0.3)
    order = np.random.default_rng(0).permutation(len(pool))
    one, other = fit_labels(support, labels, pool).pool, fit_labels(support, labels, pool[order]).pool
    np.testing.assert_allclose(one.probabilities[order], other.probabilities, atol=1e-4)
    np.testing.assert_allclose(one.none_score[order], other.none_score, atol=1e-4)


def test_the_order_of_classes_does_not_matter() -> None:
    support, labels, pool, _ = task(noise=0.3)
    new = np.array([2, 0, 3, 1])
    one, other = fit_labels(support, labels, pool).pool, fit_labels(support, new[labels], pool).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities[:, new], atol=1e-4)


def test_neither_scale_nor_place_of_features_matters() -> None:
    support, labels, pool, _ = task(noise=0.3)
    one, other = fit_labels(support, labels, pool).pool, fit_labels(7 * support + 3, labels, 7 * pool + 3).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-3)


def test_without_steps_it_is_the_nearest_prototype() -> None:
    support, labels, pool, _ = task(noise=0.5)
    fitted = fit_labels(support, labels, pool, config=EngineConfig(n_steps=0, anchor=0.0))
    centre, spread = fitted.model.centre.numpy(), fitted.model.spread.numpy()
    x, s = ((p - centre) / spread for p in (pool, support))
    x, s = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x, s))
    means = np.stack([s[labels == c].mean(0) for c in range(4)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    assert (fitted.pool.label == (x @ means.T).argmax(1)).all()
    assert not fitted.pool.used.any()


def test_an_anchor_that_is_given_is_kept() -> None:
    support, labels, pool, _ = task()
    given, found = (fit_labels(support, labels, pool, config=EngineConfig(anchor=a)).model.anchor for a in (0.4, None))
    assert given == 0.4 and 0.0 < found < 0.4


def test_spread_is_the_deviation_of_each_feature_steadied() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((9_000, 3)) * [0.5, 2.0, 0.0] + [1.0, -3.0, 5.0]).astype(np.float32)
    parts = [torch.from_numpy(x[:7]), torch.from_numpy(x[7:])]  # more than is looked at at a time
    centre = mean_of(parts)
    np.testing.assert_allclose(centre.numpy(), x.mean(0), rtol=1e-4)
    variance = (9_000 * x.var(0) + USUAL_IMAGES * x.var(0).mean()) / (9_000 + USUAL_IMAGES)
    slow = np.sqrt(variance) + FLOOR * np.sqrt(variance).mean()
    np.testing.assert_allclose(spread_of(parts, centre).numpy(), slow, rtol=1e-4)
    one = torch.tensor([[1.0, 2.0]])  # nothing differs
    assert normalised(one, one[0], spread_of([one], one[0])).tolist() == [[0.0, 0.0]]


def test_the_centre_is_the_mean_unless_the_pool_is_elsewhere_than_the_classes() -> None:
    g = torch.Generator().manual_seed(0)
    support, labels = 0.3 * torch.randn(4, 3, generator=g), torch.tensor([0, 0, 0, 1])
    pool = torch.randn(50, 3, generator=g)
    torch.testing.assert_close(centre_of(support, labels, pool), torch.cat([support, pool]).mean(0))
    torch.testing.assert_close(centre_of(support, labels, pool[:0]), support.mean(0))
    far = pool + torch.tensor([9.0, 0.0, 0.0])
    of_classes = (support[:3].mean(0) + support[3]) / 2
    variance = float(sum((u - far.mean(0)).square().sum() for u in far)) / 50
    trust = variance / 4 / float((of_classes - far.mean(0)).square().sum())
    slow = trust * torch.cat([support, far]).mean(0) + (1 - trust) * of_classes
    assert 0 < trust < 0.1
    torch.testing.assert_close(centre_of(support, labels, far), slow)


def test_a_pool_of_one_class_alone_is_labelled_as_well_as_without_a_pool() -> None:
    support, labels = blobs([3] * 6, noise=0.15, seed=1)
    for present in range(6):
        sizes = [60 if c == present else 0 for c in range(6)]
        pool, truth = blobs(sizes, noise=0.15, seed=2 + present)
        assert (fit_labels(support, labels, pool).pool.label == truth).mean() > 0.95


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_features_may_be_very_small_or_large(scale: float) -> None:
    support, labels, pool, _ = task(noise=0.3)
    one, other = fit_labels(support, labels, pool).pool, fit_labels(scale * support, labels, scale * pool).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-3)


def test_no_feature_counts_for_more_because_its_numbers_are_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    support, labels, pool, truth = task(noise=0.2)
    scales = np.random.default_rng(0).permutation(np.geomspace(0.1, 10, 64)).astype(np.float32)

    def right() -> float:
        return float((fit_labels(scales * support, labels, scales * pool).pool.label == truth)[truth >= 0].mean())

    assert right() > 0.9
    monkeypatch.setattr("sala.engine.spread_of", lambda parts, centre: torch.ones_like(centre))
    assert right() < 0.8


@pytest.mark.parametrize(
    ("n_way", "left_out", "coefficients"), [(1, None, ONE_CLASS), (7, None, ONE_SHOT), (7, 0.8, SHOTS)]
)
def test_evidence_is_a_quadratic_form(n_way: int, left_out: float | None, coefficients: tuple[float, ...]) -> None:
    pool = Belonging(low=0.1, high=0.6, middle=0.7, left_out=left_out, n_way=n_way, n_shot=3, none_share=0.2)
    for similarity in (0.05, 0.2, 0.4, 0.7):
        v = [1, (similarity - 0.1) / 0.5, 0.6, np.log(n_way), np.log(3), 0.7, left_out or 0]
        terms = v + [v[i] * v[j] for i in range(1, 7) for j in range(i, 7)]
        expected = sum(c * term for c, term in zip(coefficients, terms, strict=True))
        x = torch.tensor(similarity, dtype=torch.float64)
        assert float(pool.evidence(x)) == pytest.approx(expected)
        odds = np.exp(expected) * 0.2 / 0.8
        assert float(pool.known(x)) == pytest.approx(1 / (1 + odds))


def test_the_more_similar_the_less_probably_junk() -> None:
    s = torch.linspace(-0.5, 1.5, 400)
    for n_way in (1, 2, 5, 16, 50, 200):
        for n_shot in (1, 2.5, 5, 20):
            for low, high, middle in ((0.0, 0.2, 0.1), (0.1, 0.6, 0.7), (0.3, 0.9, 0.9), (0.2, 0.5, -0.3)):
                for left_out in (None, -0.5, 0.5, 1.5):
                    known = Belonging(low, high, middle, left_out, n_way, n_shot, 0.3).known(s)
                    assert known.diff().min() > -1e-6, (n_way, n_shot, low, high, middle, left_out)


def test_the_share_of_junk_is_the_mean_of_its_probabilities_and_of_the_usual() -> None:
    torch.manual_seed(0)
    for n_junk in (0, 40, 200):
        similarity = torch.cat([0.6 + 0.1 * torch.randn(200), 0.15 + 0.07 * torch.randn(n_junk)])
        second = 0.12 + 0.05 * torch.randn(len(similarity))
        found = fitted_to(similarity, second, 0.58 + 0.1 * torch.randn(40), n_way=8, n_shot=5)
        none = 1 - found.known(similarity)
        assert found.none_share == pytest.approx((float(none.sum()) + 1) / (len(none) + 10), abs=1e-4)
        assert found.none_share == pytest.approx(n_junk / len(none), abs=0.06)


@pytest.mark.parametrize(
    "wrong", [{"none_share": 1.0}, {"n_way": 0}, {"high": "x"}, {"low": None}, {"trust": float("nan")}, {"x": 1}]
)
def test_a_model_file_with_nonsense_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    support, labels, pool, _ = task()
    fit_labels(support, labels, pool).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    save_checkpoint(tmp_path / "m.safetensors", tensors, note | {"belonging": note["belonging"] | wrong})
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(tmp_path / "m.safetensors")


def test_a_pool_of_one_image_says_nothing_of_itself() -> None:
    none = torch.empty(0, 3)
    one, nothing = Similarities(torch.tensor([[0.2, 0.1, 0.0]]), none), Similarities(none, none)
    assert belonging(one, one, n_shot=1) == belonging(nothing, nothing, n_shot=1)


def test_refined_prototypes_are_trusted_less_in_a_pool_of_junk() -> None:
    torch.manual_seed(0)
    trust = []
    for n_junk in (0, 50, 400):
        to_first = torch.rand(100 + n_junk, 6) * 0.2
        to_first[:100, 0] = 0.6 + 0.1 * torch.randn(100)
        to_refined = to_first + 0.1
        first, refined = (Similarities(to, to[:100:4]) for to in (to_first, to_refined))
        found = belonging(first, refined, n_shot=5)
        assert found.trust == trusted(belonging_by(first, n_shot=5).none_share)
        known = found.known(found.trust * to_refined.amax(-1) + (1 - found.trust) * to_first.amax(-1))
        torch.testing.assert_close(1 - found.none_of(to_first, to_refined, torch.empty(len(to_first), 0)), known)
        trust.append(found.trust)
    assert trust[0] > 0.9 > trust[1] > trust[2] and trust[2] < 0.2


def test_prototypes_of_junk_are_the_middles_of_its_clusters() -> None:
    torch.manual_seed(0)
    middles = torch.eye(8)[:5]
    points = unit(middles.repeat_interleave(40, 0) + 0.05 * torch.randn(200, 8))
    none = torch.where(torch.arange(200) < 80, 0.01, 0.95) + 0.01 * torch.rand(200)  # two of the five are classes
    found = other_prototypes(points, none, n=3)
    order = (found @ middles.T).argmax(-1)
    assert sorted(order.tolist()) == [2, 3, 4]
    clusters = torch.stack([unit(points[40 * i : 40 * (i + 1)].sum(0)) for i in order])
    torch.testing.assert_close(found, clusters, atol=0.02, rtol=0)
    shuffled = torch.randperm(200)
    torch.testing.assert_close(other_prototypes(points[shuffled], none[shuffled], n=3), found)
    assert len(other_prototypes(points, torch.full((200,), 0.01))) == 0  # too little junk to have a middle
    assert other_prototypes(points[:0], none[:0]).shape == (0, 8)


def test_what_is_near_the_prototypes_of_junk_is_more_surely_junk() -> None:
    torch.manual_seed(0)
    to_first = torch.rand(300, 6) * 0.3
    to_first[:100, 0] = 0.6 + 0.1 * torch.randn(100)
    to_others = torch.rand(300, 2) * 0.2
    to_others[100:, 1] = 0.6
    first, others = Similarities(to_first, to_first[:100:4]), Similarities(to_others, to_others[:100:4])
    before = belonging(first, first, n_shot=5)
    found = belonging_beside(before, first, first, others)
    assert (found.trust, found.pull) == (before.trust, pulled(before.none_share, n_way=6))
    similarity = to_first.amax(-1) - found.pull * to_others.amax(-1)
    torch.testing.assert_close(found.none_of(to_first, to_first, to_others), found.none(similarity))
    alike = to_first[:1].repeat(2, 1)  # two images as near to the classes, one of which is near junk
    far, near = found.none_of(alike, alike, torch.tensor([[0.1, 0.1], [0.1, 0.6]])).tolist()
    assert near > far
    without = belonging_beside(before, first, first, Similarities(to_others[:, :0], to_others[:100:4, :0]))
    assert replace(without, pull=0.0) == before


def test_scores_of_none_tell_apart_what_similarities_do() -> None:
    for n_way, left_out in ((1, None), (5, None), (5, 0.6), (50, 0.2)):
        found = Belonging(0.1, 0.6, 0.4, left_out, n_way, 1.0, 0.3)
        similarity = torch.linspace(-1, 1, 2001, dtype=torch.float64)
        assert (found.none(similarity).diff() < 0).all()
        torch.testing.assert_close(found.none(similarity), 1 - found.known(similarity))
    support, labels = blobs([5] * 5, noise=0.2, seed=1)
    pool, _ = blobs([200] * 5, noise=0.2)  # clean: all scores are small
    assert len(np.unique(fit_labels(support, labels, pool).pool.none_score)) > 950


def test_a_model_without_junk_does_not_hold_its_pool() -> None:
    support, labels = blobs([5] * 5, seed=1)
    others = fit_labels(support, labels, blobs([400] * 5)[0]).model.known.others
    assert others.shape == (0, 64) and others.untyped_storage().nbytes() == 0


def test_classes_with_few_labelled_images_are_not_taken_for_junk() -> None:
    pool, truth = blobs([25] * 8, n_junk=100, noise=0.11)
    support, labels = blobs([1, 10] * 4, noise=0.11, seed=1)
    score = fit_labels(support, labels, pool).pool.none_score
    aside = score > aside_threshold(score)
    few, many = ((truth >= 0) & (truth % 2 == odd) for odd in (0, 1))
    assert aside[truth < 0].mean() > 0.9
    assert aside[few].mean() < 0.1 and aside[many].mean() < 0.1


def test_the_temperature_is_the_prior_without_evidence_and_follows_it_otherwise() -> None:
    none = torch.zeros(0, 2)
    assert fit_temperature(none, torch.zeros(0, dtype=torch.long), 12.0, 20.0) == 12.0
    similar = torch.tensor([[0.1, 0.0]]).repeat(1000, 1)
    labels = (torch.arange(1000) < 250).long()  # three in four are right: softmax(0.1 beta) = 3/4, beta = 10 log 3
    assert fit_temperature(similar, labels, 8.0, 1e-6) == pytest.approx(10.99, rel=0.03)


def test_likeness_is_that_of_images_which_seem_to_be_of_a_class() -> None:
    similarities = torch.tensor([[0.8, 0.1], [0.2, 0.6], [0.1, 0.05]])
    usual = USUAL_STRENGTH * USUAL_LIKENESS
    slow = (1.0 * 0.8 + 0.5 * 0.6 + 0.1 * 0.1 + usual) / (1.0 + 0.5 + 0.1 + USUAL_STRENGTH)
    assert likeness(similarities, torch.tensor([1.0, 0.5, 0.1])) == pytest.approx(slow)
    many = similarities[:2].repeat(100_000, 1)
    assert likeness(many, torch.tensor([1.0, 0.5]).repeat(100_000)) == pytest.approx((0.8 + 0.5 * 0.6) / 1.5, rel=1e-3)


def test_contrast_is_the_deviation_between_classes() -> None:
    """Of 0.8 and 0.2 it is 0.3 sqrt 2; of images that are not known nothing is asked."""
    similarities = torch.tensor([[0.8, 0.2], [0.9, -0.9]]).repeat(100_000, 1)
    known = torch.tensor([1.0, 0.0]).repeat(100_000)
    assert contrast(similarities, known) == pytest.approx(0.3 * 2**0.5, rel=1e-3)
    assert contrast(similarities[:0], known[:0]) == USUAL_CONTRAST
    assert contrast(torch.ones(3, 1), torch.ones(3)) == pytest.approx(USUAL_CONTRAST / 4)


def test_a_pool_that_says_little_leaves_the_usual_temperature() -> None:
    labelled, labels = blobs([1, 1, 1, 1], seed=1, noise=0.2)
    pool, _ = blobs([1, 0, 0, 0], seed=2, noise=0.2)
    empty, one = (fit_labels(labelled, labels, part).model.inverse_temperature for part in (pool[:0], pool))
    assert empty == pytest.approx(temperature_prior(USUAL_LIKENESS, USUAL_CONTRAST, 4, EngineConfig()))
    assert 0.5 * empty < one < 2 * empty


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_refused(wrong: float) -> None:
    labelled, labels, pool, _ = task()
    pool[3, 2] = wrong
    with pytest.raises(SalaError, match="finite"):
        fit_labels(labelled, labels, pool)


def test_the_prior_of_the_temperature_is_its_formula_within_its_range() -> None:
    config = EngineConfig(prior=(3.0, 2.0, -1.0, -0.5))
    assert temperature_prior(0.5, 0.25, 4, config) == pytest.approx(math.exp(3.0) * 0.5**2 / 0.25 * 4**-0.5)
    assert temperature_prior(-1.0, 0.25, 4, config) == 3.0
    assert temperature_prior(1.0, 0.25, 2, EngineConfig(prior=(9.0, 0.0, 0.0, 0.0))) == 60.0


def found_again(fitted: Fitted, labelled: np.ndarray, labels: np.ndarray, pool: np.ndarray) -> tuple[Refined, Tensor]:
    """The refinement that classes are told by, and the pool's points in it: as they are first, and then without variation."""
    model, anchor = fitted.model, fitted.model.config.anchor
    x, s = (normalised(torch.from_numpy(part), model.centre, model.spread) for part in (pool, labelled))
    plain = refine(x, s, torch.from_numpy(labels), n_steps=4, sharpness=20.0, labelled_weight=2.0, anchor=anchor)
    x, s = (model.variation.taken_out_of(part) for part in (x, s))
    return refined_by(plain, x, s, 1 - torch.from_numpy(fitted.pool.none_score), sharpness=20.0), x


def test_probabilities_of_one_shot_have_the_temperature_of_the_prior() -> None:
    pool, _ = blobs([30, 20, 10, 5], n_junk=40, noise=0.2)
    labelled, labels = blobs([1, 1, 1, 1], seed=1, noise=0.2)
    fitted = fit_labels(labelled, labels, pool)
    model = fitted.model
    found, points = found_again(fitted, labelled, labels, pool)
    to_first = points @ model.first.T - model.hubs
    similarities = (1 - found.anchor) * found.to_refined(points) + found.anchor * to_first
    known = 1 - torch.from_numpy(fitted.pool.none_score)
    expected = temperature_prior(likeness(similarities, known), contrast(similarities, known), 4, EngineConfig())
    assert fitted.model.inverse_temperature == pytest.approx(expected, rel=1e-4)


def test_a_threshold_keeps_its_precision() -> None:
    score = np.array([0.9, 0.99, 0.5, 0.1])
    threshold = none_threshold(score, precision=0.94)
    assert (score > threshold).tolist() == [True, True, False, False]
    assert none_threshold(score, precision=0.999) == np.inf
    with pytest.raises(SalaError, match="precision"):
        none_threshold(score, precision=1.5)


def test_what_to_label_next_is_doubtful_and_no_repetition() -> None:
    (pool, truth), (support, labels) = blobs([100, 100]), blobs([1, 1], seed=1)
    between = directions(64)[:2].sum(0).astype(np.float32)
    pool = np.vstack([pool, np.tile(between, (3, 1))])
    first, second = fit_labels(support, labels, pool).pool.label_next[:2]
    assert first >= len(truth) > second  # one of the three that are between two classes, then another kind


def test_what_is_rather_junk_is_not_to_be_labelled_next_unless_there_is_nothing_else() -> None:
    pool, _ = blobs([20, 20], noise=0.5)
    points, p, known = (
        normalised(torch.from_numpy(pool), torch.zeros(64), torch.ones(64)),
        torch.full((40, 2), 0.5),
        torch.ones(40),
    )
    known[::2] = 0.49
    assert sorted(label_next(points, p, known, 50).tolist()) == list(range(1, 40, 2))
    assert len(label_next(points, p, torch.full((40,), 0.3), 50)) == 40


def test_a_model_that_was_saved_predicts_the_same(tmp_path: Path) -> None:
    support, labels, pool, _ = task(noise=0.3)
    fitted = fit_labels(support, labels, pool, classes=["a", "<b>", "c 'd'", "é"])
    replace(fitted.model, note={"encoder": "lite0"}).save(tmp_path / "model.safetensors")
    loaded = LabelModel.load(tmp_path / "model.safetensors")
    assert loaded.classes == ("a", "<b>", "c 'd'", "é") and loaded.note == {"encoder": "lite0"}
    assert loaded.config == fitted.model.config and loaded.anchor == fitted.model.anchor
    for one, other in zip(vars(loaded.predict(pool)).values(), vars(fitted.model.predict(pool)).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_fitted_pool_and_a_prediction_agree_but_for_an_images_own_part() -> None:
    support, labels, pool, _ = task(noise=0.3)
    plain = fit_labels(support, labels, pool, config=EngineConfig(n_steps=0))
    np.testing.assert_allclose(plain.model.predict(pool).probabilities, plain.pool.probabilities, atol=1e-5)
    np.testing.assert_allclose(plain.model.predict(pool).none_score, plain.pool.none_score, atol=1e-5)
    fitted = fit_labels(support, labels, pool)
    as_new = fitted.model.predict(pool)
    assert (as_new.label == fitted.pool.label)[fitted.pool.probabilities.max(1) > 0.8].all()
    assert (as_new.probabilities.max(1) >= fitted.pool.probabilities.max(1) - 1e-5)[fitted.pool.used].mean() > 0.95


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"x" * 100])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(SalaError):
        LabelModel.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("n_pool", [0, 1, 2, 3])
@pytest.mark.parametrize("n_way", [1, 2, 3])
def test_small_shapes_work(n_pool: int, n_way: int) -> None:
    rng = np.random.default_rng(0)
    support, pool = (rng.standard_normal((n, 3)).astype(np.float32) for n in (n_way, n_pool))
    labelled = fit_labels(support, np.arange(n_way), pool).pool
    assert labelled.probabilities.shape == (n_pool, n_way)
    assert np.isfinite(labelled.probabilities).all() and np.isfinite(labelled.none_score).all()


def test_equal_images_and_constant_features_are_no_trouble() -> None:
    labelled = fit_labels(np.ones((2, 4), np.float32), np.array([0, 1]), np.ones((10, 4), np.float32)).pool
    assert np.isfinite(labelled.probabilities).all() and np.isfinite(labelled.none_score).all()


@pytest.mark.parametrize(
    ("labels", "pool"), [([0, 2], (3, 4)), ([-1, 0], (3, 4)), ([0, 1], (3, 5)), ([0], (3, 4))]
)  # fmt: skip
def test_what_does_not_fit_is_refused(labels: list[int], pool: tuple[int, int]) -> None:
    with pytest.raises(SalaError):
        fit_labels(np.ones((2, 4), np.float32), np.array(labels), np.ones(pool, np.float32))


def test_features_of_another_encoder_are_refused() -> None:
    support, labels, pool, _ = task()
    with pytest.raises(SalaError, match=r"features \[n, 64\]"):
        fit_labels(support, labels, pool).model.predict(np.ones((2, 5), np.float32))


def test_left_out_images_speak_for_all_classes_or_for_none() -> None:
    pool, _ = blobs([30, 30, 30], n_junk=20)
    for counts, n in (([3, 2, 4], 9), ([3, 1, 4], 0), ([1, 1, 1], 0)):
        fitted = fit_labels(*blobs(counts, seed=1), pool)
        assert len(fitted.left_out_none) == n
        assert len(fitted.held_out.none_score) == sum(c for c in counts if c > 1)


@pytest.mark.parametrize(
    "name",
    ["centre", "spread", "directions", "removed", "first", "hubs", "refined", "known_first", "known_refined", "others"],
)
@pytest.mark.parametrize("wrong", ["nan", "double", "shape"])
def test_a_model_file_whose_numbers_are_wrong_is_refused(tmp_path: Path, name: str, wrong: str) -> None:
    support, labels, pool, _ = task()
    fit_labels(support, labels, pool).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    x = tensors[name]
    changed = {"nan": torch.full_like(x, math.nan), "double": x.double(), "shape": x[..., None].contiguous()}[wrong]
    save_checkpoint(tmp_path / "m.safetensors", tensors | {name: changed}, note)
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("wrong", [{"anchor": 7.0}, {"inverse_temperature": -3.0}, {"inverse_temperature": math.nan}])
def test_a_model_file_out_of_range_is_refused(tmp_path: Path, wrong: dict[str, float]) -> None:
    support, labels, pool, _ = task()
    fit_labels(support, labels, pool).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    save_checkpoint(tmp_path / "m.safetensors", tensors, note | wrong)
    with pytest.raises(SalaError, match="out of range"):
        LabelModel.load(tmp_path / "m.safetensors")


def test_features_without_columns_are_refused() -> None:
    with pytest.raises(SalaError, match="no columns"):
        fit_labels(np.zeros((2, 0), np.float32), np.array([0, 1]), np.zeros((3, 0), np.float32))


def test_what_is_said_of_the_pool_counts_hubs_and_so_does_what_is_held_out() -> None:
    """With the first prototypes alone, so that hubs count in full."""
    support, labels, pool, _ = task(noise=0.5)
    fitted = fit_labels(support, labels, pool, config=EngineConfig(anchor=1.0))
    model = fitted.model
    found, points = found_again(fitted, support, labels, pool)
    logits = model.inverse_temperature * (points @ model.first.T - model.hubs)
    np.testing.assert_allclose(fitted.pool.probabilities, logits.softmax(-1).numpy(), atol=1e-5)
    logits = model.inverse_temperature * (found.held_out(1.0) - model.hubs)
    np.testing.assert_allclose(fitted.held_out.probabilities, logits.softmax(-1).numpy(), atol=1e-5)
    assert model.hubs.abs().max() > 0.001
