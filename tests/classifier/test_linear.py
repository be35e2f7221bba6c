"""The linear classifier of the labeled images: its loss, its two forms, and classes of unequal shots."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sala.classifier.linear import RIDGE, _ridge_regression, linear_classifier, pair_similarity
from sala.functional import unit_length
from tests.helpers import mixture_reference as slow

LABELS = torch.tensor([0] * 3 + [1] * 8 + [2] * 2)


def some(d: int) -> torch.Tensor:
    return unit_length(torch.randn(13, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64))


@pytest.mark.parametrize("d", [3, 64])  # primal and dual form
def test_the_linear_classifier_minimizes_the_ridge_loss(d: int) -> None:
    x = some(d)
    found = _ridge_regression(x, LABELS, LABELS.bincount().double()).requires_grad_()
    loss = RIDGE * found.square().sum()
    for i, c in enumerate(LABELS.tolist()):
        target = torch.tensor([float(c == j) - 1 / 3 for j in range(3)])
        loss = loss + 13 / 3 / int(LABELS.bincount()[c]) * (found @ x[i] - target).square().sum()
    loss.backward()
    assert found.grad is not None and float(found.grad.abs().max()) < 1e-6


def test_the_primal_and_the_dual_form_are_one() -> None:
    """Columns of zeros change nothing but the form."""
    x = some(9)
    wide = linear_classifier(torch.cat([x, torch.zeros(13, 40, dtype=x.dtype)], 1), LABELS)
    torch.testing.assert_close(wide[:, :9], linear_classifier(x, LABELS))
    assert not wide[:, 9:].any()


def test_rows_have_the_expected_response_of_the_mean_number_of_shots() -> None:
    x = some(20)
    r = slow.pair_similarity(x.tolist(), LABELS.tolist())
    assert pair_similarity(x, LABELS) == pytest.approx(r)
    plain, mean = _ridge_regression(x, LABELS, LABELS.bincount().double()), 13 / 3
    for c, n in enumerate((3, 8, 2)):
        expected = mean / (1 + (mean - 1) * r) / (n / (1 + (n - 1) * r)) * plain[c]
        torch.testing.assert_close(linear_classifier(x, LABELS)[c], expected)


def test_one_image_of_each_of_two_orthogonal_classes_is_solved_by_hand() -> None:
    """(1 + RIDGE) a = 1/2 for the image of the class itself, -1/2 for the other."""
    found, a = linear_classifier(torch.eye(2), torch.arange(2)), 0.5 / (1 + RIDGE)
    torch.testing.assert_close(found, torch.tensor([[a, -a], [-a, a]]))


def test_of_one_class_the_response_is_positive() -> None:
    x = some(20)
    assert (x @ linear_classifier(x, torch.zeros(13, dtype=torch.long)).T > 0).all()


def test_a_class_of_few_shots_gets_as_strong_a_response_as_others() -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 200))
    labels, truth = torch.tensor([0] + [1] * 4 + [2] * 4 + [3] * 15), np.repeat(np.arange(4), 50)
    embeddings, new = (
        unit_length(torch.from_numpy(means[y] + 1.5 * rng.normal(size=(len(y), 200))).float())
        for y in (labels.numpy(), truth)
    )
    balanced, plain = (
        (new @ rows.T)[torch.arange(200), torch.from_numpy(truth)].reshape(4, 50).mean(1)
        for rows in (linear_classifier(embeddings, labels), _ridge_regression(embeddings, labels, labels.bincount()))
    )
    assert float(balanced.max() / balanced.min()) < 1.5
    assert float(plain.max() / plain.min()) > 1.8
