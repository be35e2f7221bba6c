"""Prototypes and their refinement, against slow twins and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sala.classifier.normalize import normalized
from sala.classifier.outlier_model import estimate
from sala.classifier.prototypes import (
    HUBNESS_NEIGHBORS,
    HUBNESS_WEIGHT,
    Refined,
    first_prototypes,
    held_out_to_first,
    hubness_correction,
    leave_one_out_similarities,
    pair_similarity,
    refine,
    refine_again,
    relative_lengths,
)
from sala.functional import unit_length
from tests.helpers.pools import slow_length, slow_lengths, task

STEPS = {"sharpness": 20.0, "labeled_weight": 2.0}


def test_refinement_equals_its_slow_twin() -> None:
    """Eq. in `refine`, one image at a time."""
    support, labels, pool, _ = task(noise=0.4)
    x, s = (normalized(torch.from_numpy(part), torch.zeros(64), torch.ones(64)) for part in (pool, support))
    y = torch.from_numpy(labels)
    own = torch.zeros(len(x), 4)
    sums = torch.stack([s[y == c].sum(0) for c in range(4)])
    counts, weight = np.bincount(labels), STEPS["labeled_weight"]
    first = [length * f / f.norm() for length, f in zip(slow_lengths(s, labels), sums, strict=True)]
    nearest = [sorted((float(u @ f) for u in x), reverse=True)[:HUBNESS_NEIGHBORS] for f in first]
    hubness = [HUBNESS_WEIGHT * (np.mean(n) - np.mean(nearest)) for n in nearest]

    def inliers(slow: torch.Tensor, anchor: float) -> tuple[torch.Tensor, torch.Tensor, float]:
        effective = [
            (weight * n + float(own[:, c].sum())) ** 2 / (weight**2 * n + float(own[:, c].square().sum()))
            for c, n in enumerate(counts)
        ]

        def similarity(u: torch.Tensor, total: torch.Tensor, f: torch.Tensor, length: float = 1.0) -> torch.Tensor:
            return (1 - anchor) * length * (u @ total) / total.norm() + anchor * (u @ f)

        similar = torch.stack(
            [
                torch.stack([similarity(u, slow[c] - w[c] * u, first[c]) for c in range(4)])
                for u, w in zip(x, own, strict=True)
            ]
        )
        best = []
        for v, c in zip(s, labels, strict=True):
            if (labels == c).sum() > 1:
                each = [similarity(v, slow[i], first[i]) for i in range(4)]
                rest = slow_length(s, labels, counts[c] - 1, counts.mean()) * unit_length(sums[c] - v)
                each[c] = similarity(
                    v, slow[c] - weight * v, rest, slow_length(s, labels, effective[c] - 1, effective[c])
                )
                best.append(max(each))
        ranked = similar.sort(-1).values
        found = estimate(ranked[:, -1], ranked[:, -2], torch.stack(best), n_way=4, n_shot=7 / 4)
        assert found.held_out is not None
        return similar, found.inlier_probability(ranked[:, -1]), found.outlier_share

    slow = weight * sums
    _, initially, outliers = inliers(slow, anchor=1.0)
    for step in range(3):
        anchor = outliers**2 if step else 1.0
        similar, now, _ = inliers(slow, anchor)
        slow = weight * sums.clone()
        for i, (u, row, g, before) in enumerate(zip(x, similar, now, initially, strict=True)):
            e = (STEPS["sharpness"] * (row - anchor * torch.tensor(hubness))).exp()
            p = e / e.sum()
            own[i] = p * g * before**outliers
            slow += own[i][:, None] * u
    found = refine(x, s, y, n_steps=3, **STEPS)
    assert found.anchor == pytest.approx(outliers**2, rel=1e-4)
    torch.testing.assert_close(found.sums, slow, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(found.weights, own, atol=1e-3, rtol=1e-3)


def test_an_image_is_compared_with_prototypes_without_its_own_part() -> None:
    g = torch.Generator().manual_seed(0)
    x = unit_length(torch.randn(6, 5, generator=g, dtype=torch.float64))
    weights, rest = (
        torch.rand(6, 2, generator=g, dtype=torch.float64),
        torch.randn(2, 5, generator=g, dtype=torch.float64),
    )
    x[3], weights[3] = 0.0, 0.0  # an image exactly at the center
    sums = rest + weights.T @ x
    slow = [
        [u @ unit_length(S - w * u) for S, w in zip(sums, row, strict=True)] for u, row in zip(x, weights, strict=True)
    ]
    torch.testing.assert_close(leave_one_out_similarities(x, sums, weights), torch.tensor(slow, dtype=torch.float64))
    alone = leave_one_out_similarities(x[:1], 0.7 * x[:1], torch.tensor([[0.7]], dtype=torch.float64))
    assert alone.isfinite().all()  # a class that is nothing but this image


def refined(x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor) -> Refined:
    """Prototypes of labeled images of weight 2, and of a pool with these weights along the first axis."""
    sums = torch.stack([x[y == c].sum(0) for c in range(int(y.max()) + 1)])
    pool = torch.eye(x.shape[1], dtype=x.dtype)[:1].repeat(len(weights), 1)
    used = torch.ones(len(weights), dtype=torch.bool)
    first, hubness = first_prototypes(x, y), torch.zeros(len(sums))
    held_out = held_out_to_first(x, y)
    return Refined(x, y, first, pool @ first.T, held_out, hubness, 2 * sums + weights.T @ pool, 2.0, weights, 0.3, used)


def test_a_labeled_image_is_compared_with_prototypes_without_it() -> None:
    x = unit_length(torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    y = torch.tensor([0, 0, 0, 1, 1])
    found = refined(x, y, torch.zeros(0, 2, dtype=torch.float64))
    similar = found.held_out(anchor=0.3)
    lengths = slow_lengths(x, y.numpy())
    of_two, of_one = (slow_length(x, y.numpy(), n, 2.5) for n in (2, 1))  # of the mean number, for the first prototypes
    less_of_three, less_of_two = slow_length(x, y.numpy(), 2, 3), slow_length(x, y.numpy(), 1, 2)
    rest, other = float(x[0] @ unit_length(x[1] + x[2])), float(x[0] @ unit_length(x[3] + x[4]))
    assert similar[0, 0] == pytest.approx((0.7 * less_of_three + 0.3 * of_two) * rest)
    assert similar[3, 1] == pytest.approx((0.7 * less_of_two + 0.3 * of_one) * float(x[3] @ x[4]))
    assert similar[0, 1] == pytest.approx((0.7 + 0.3 * lengths[1]) * other)


def test_a_held_out_image_is_as_similar_to_its_class_as_a_new_one() -> None:
    """On average, over many classes of the same kind."""
    g = torch.Generator().manual_seed(0)
    n_way, d = 300, 400
    y = torch.arange(n_way).repeat_interleave(2)
    means = unit_length(torch.randn(n_way, d, generator=g))

    def images(labels: torch.Tensor) -> torch.Tensor:
        return unit_length(means[labels] + torch.randn(len(labels), d, generator=g) / d**0.5)

    support, new = images(y), images(torch.arange(n_way))
    found = refined(support, y, torch.zeros(0, n_way))
    for anchor, prototypes in ((0.0, found.prototypes), (1.0, found.first)):
        held_out = found.held_out(anchor)[torch.arange(2 * n_way), y].mean()
        assert float(held_out) == pytest.approx(float((new * prototypes).sum(-1).mean()), rel=0.03)


def test_no_image_is_held_out_of_a_class_of_one() -> None:
    found = refined(torch.eye(3), torch.arange(3), torch.zeros(0, 3))
    assert found.held_out(anchor=0.3).shape == (0, 3)


def test_with_equal_shots_prototypes_have_length_1() -> None:
    x, y = unit_length(torch.randn(6, 4, generator=torch.Generator().manual_seed(0))), torch.tensor([0, 1, 2, 2, 1, 0])
    assert torch.equal(relative_lengths(y.bincount(), pair_similarity(x, y), torch.tensor(2.0)), torch.ones(3))
    assert torch.equal(first_prototypes(x, y), unit_length(torch.stack([x[y == c].sum(0) for c in range(3)])))


def test_an_image_is_as_similar_to_a_class_of_one_as_to_a_class_of_ten() -> None:
    """On average, over many classes of the same kind."""
    g = torch.Generator().manual_seed(0)
    n_way, d = 200, 400
    counts = torch.tensor([1, 10] * (n_way // 2))
    y = torch.arange(n_way).repeat_interleave(counts)
    means = unit_length(torch.randn(n_way, d, generator=g))

    def images(labels: torch.Tensor) -> torch.Tensor:
        return unit_length(means[labels] + torch.randn(len(labels), d, generator=g) / d**0.5)

    support, new = images(y), images(torch.arange(n_way))
    own = (new * first_prototypes(support, y)).sum(-1)
    few, many = own[0::2].mean().item(), own[1::2].mean().item()
    assert few == pytest.approx(many, rel=0.02)
    plain = (new * unit_length(torch.stack([support[y == c].sum(0) for c in range(n_way)]))).sum(-1)
    assert plain[0::2].mean() < 0.8 * plain[1::2].mean()


def test_effective_counts_of_weights() -> None:
    x, y = torch.eye(4, dtype=torch.float64)[:2], torch.tensor([0, 1])
    weights = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.5, 0.0]], dtype=torch.float64)
    found = refined(x, y, weights)  # labeled images have weight 2
    assert found.effective_counts.tolist() == pytest.approx([(2 + 2.5) ** 2 / (4 + 2.25), 1.0])


def test_the_hubness_correction_keeps_the_class_of_an_unusual_labeled_image() -> None:
    """Two classes of images around (1, 0) and (0, 1); the labeled image of the first is unusual, the other is in between."""
    angles = torch.cat([torch.linspace(-5, 15, 20), torch.linspace(60, 90, 20)]).deg2rad()
    pool = torch.stack([angles.cos(), angles.sin()], 1)
    at = torch.tensor([-60.0, 50.0]).deg2rad()
    first = torch.stack([at.cos(), at.sin()], 1)
    similar = pool @ first.T
    assert (similar[:20].argmax(-1) == 1).all()
    assert (similar - hubness_correction(similar))[:4].argmax(-1).tolist() == [0] * 4
    assert hubness_correction(similar).sum().abs() < 1e-6


def test_an_empty_pool_has_no_hubness() -> None:
    assert hubness_correction(torch.zeros(0, 3)).tolist() == [0.0] * 3
    found = refine(torch.zeros(0, 3), torch.eye(3), torch.arange(3), n_steps=4, **STEPS)
    torch.testing.assert_close(found.prototypes, torch.eye(3))
    assert found.anchor < 0.05


def test_a_step_on_other_embeddings_equals_its_slow_twin() -> None:
    """As written in `refine_again`, one image and one class at a time."""
    support, labels, pool, _ = task(noise=0.4)
    x, s = (normalized(torch.from_numpy(part), torch.zeros(64), torch.ones(64)) for part in (pool, support))
    y = torch.from_numpy(labels)
    before = refine(x, s, y, n_steps=2, anchor=0.3, **STEPS)
    x, s = unit_length(x[:, :40]), unit_length(s[:, :40])  # other embeddings of the same images
    inlier = torch.linspace(0, 1, len(x))
    found = refine_again(before, x, s, inlier, sharpness=20.0)
    lengths, sums = slow_lengths(s, labels), [2.0 * s[y == c].sum(0) for c in range(4)]
    first = [length * total / total.norm() for length, total in zip(lengths, sums, strict=True)]
    nearest = [sorted((float(u @ f) for u in x), reverse=True)[:HUBNESS_NEIGHBORS] for f in first]
    moved = [sums[c] + sum(w * u for w, u in zip(before.weights[:, c], x, strict=True)) for c in range(4)]
    for i, u in enumerate(x):
        rest = [moved[c] - before.weights[i, c] * u for c in range(4)]
        hubness = [HUBNESS_WEIGHT * (np.mean(nearest[c]) - np.mean(nearest)) for c in range(4)]
        each = torch.stack(
            [0.7 * (u @ r) / r.norm() + 0.3 * (u @ f - h) for r, f, h in zip(rest, first, hubness, strict=True)]
        )
        torch.testing.assert_close(found.weights[i], inlier[i] * (20.0 * each).softmax(0), atol=1e-5, rtol=1e-4)
    total = torch.stack([sums[c] + found.weights[:, c] @ x for c in range(4)])
    torch.testing.assert_close(found.prototypes, unit_length(total), atol=1e-5, rtol=1e-4)
    assert found.used.equal(inlier > 0.5) and found.support is s
