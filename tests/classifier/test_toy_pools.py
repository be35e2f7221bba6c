"""The mixture on pools that one solves by eye: clusters along axes, and images far from them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sala.classifier import coefficients
from sala.classifier.config import ClassifierConfig
from sala.classifier.mixture import Posterior, fit_mixture
from sala.classifier.pipeline import classify_pool
from sala.functional import unit_length

CAT, DOG, OWL, CAR, SHIP = torch.eye(5)


def around(center: Tensor, n: int, noise: float = 0.1, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return unit_length(center + noise * torch.randn(n, 5, generator=g))


def fitted(pool: Tensor, support: Tensor, labels: list[int], n_steps: int = 4) -> Posterior:
    return fit_mixture(pool, support, torch.tensor(labels), support[:0], n_steps=n_steps)


def three_clusters() -> Tensor:
    return torch.cat([around(center, 20, seed=i) for i, center in enumerate((CAT, DOG, OWL))])


def test_three_clusters_are_the_classes_and_what_is_far_from_them_are_outliers() -> None:
    pool = torch.cat([three_clusters(), around(CAR, 5), around(-SHIP, 5)])
    found = fitted(pool, torch.stack([CAT, DOG, OWL]), [0, 1, 2])
    assert found.logits[:60].argmax(-1).reshape(3, 20).unique(dim=1).flatten().tolist() == [0, 1, 2]
    assert found.evidence[60:].min() > 0 > found.evidence[:60].max()
    assert found.weights[:60].sum(-1).min() > 0.9 and found.weights[60:].sum() < 1
    assert found.mixture.outlier_share == pytest.approx((10 + 3) / (70 + 10), abs=0.03)
    torch.testing.assert_close(unit_length(found.mixture.prototypes), torch.stack([CAT, DOG, OWL]), atol=0.06, rtol=0)


def test_sizes_of_classes_follow_the_pool() -> None:
    pool = torch.cat([around(CAT, 80), around(DOG, 10), around(OWL, 10)])
    for part, expected in ((pool, [90 / 130, 20 / 130, 20 / 130]), (pool[:0], [1 / 3] * 3)):  # each counts 10 more
        log_sizes = fitted(part, torch.stack([CAT, DOG, OWL]), [0, 1, 2]).mixture.log_sizes
        assert log_sizes.exp().tolist() == pytest.approx(expected, abs=0.02)


def test_classes_that_the_pool_lacks_take_few_of_its_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cats alone, some of them unusual: dogs and owls are not expected where hardly any are found."""
    pool, support = around(CAT, 60, noise=0.4, seed=3), torch.stack([CAT, DOG, OWL])
    assert (fitted(pool, support, [0, 1, 2]).logits.argmax(-1) == 0).float().mean() > 0.9
    monkeypatch.setattr(coefficients, "SIZE_PRIOR", 1e9)  # equal shares, whatever the pool has
    assert (fitted(pool, support, [0, 1, 2]).logits.argmax(-1) == 0).float().mean() < 0.5


def test_more_unlabeled_owls_move_the_owl_prototype() -> None:
    """The labeled owl is unusual: half a ship. The owls of the pool bring the prototype to where owls are."""
    labeled = torch.stack([CAT, DOG, unit_length(OWL + SHIP)])
    similarity = []
    for n in (0, 2, 5, 40):
        pool = torch.cat([around(CAT, 20), around(DOG, 20), around(OWL, 40)[:n]])
        similarity.append(float(unit_length(fitted(pool, labeled, [0, 1, 2]).mixture.prototypes)[2] @ OWL))
    assert similarity == sorted(similarity)
    assert similarity[0] == pytest.approx(0.5**0.5, abs=0.05) and similarity[-1] > 0.95


def test_a_class_of_which_the_pool_has_no_image_keeps_its_labeled_prototype() -> None:
    pool = torch.cat([around(CAT, 30), around(DOG, 30)])
    found = fitted(pool, torch.stack([CAT, DOG, OWL]), [0, 1, 2])
    assert float(found.weights[:, 2].sum()) < 0.5
    torch.testing.assert_close(unit_length(found.mixture.prototypes[2]), OWL, atol=0.02, rtol=0)


@pytest.mark.parametrize("n_steps", [0, 4])
def test_of_an_empty_pool_prototypes_are_those_of_the_labeled_images(n_steps: int) -> None:
    support = torch.cat([around(CAT, 1), around(DOG, 1), around(OWL, 1)])
    found = fitted(support[:0], support, [0, 1, 2], n_steps)
    torch.testing.assert_close(found.mixture.prototypes, support)  # one image of each class: its direction is all
    assert found.logits.shape == found.weights.shape == (0, 3) and found.evidence.shape == (0,)


def test_without_steps_the_pool_moves_no_prototype() -> None:
    support = torch.stack([CAT, DOG, OWL])
    found = fitted(three_clusters(), support, [0, 1, 2], n_steps=0)
    torch.testing.assert_close(found.mixture.prototypes, support)
    assert not found.weights.any()


def test_an_image_at_the_center_moves_no_prototype() -> None:
    pool = three_clusters()
    pool[3] = 0
    found = fitted(pool, torch.stack([CAT, DOG, OWL]), [0, 1, 2])
    assert not found.weights[3].any() and found.evidence.isfinite().all() and found.weights[4:].sum(-1).min() > 0.9
    support, weights = torch.stack([CAT, DOG, OWL]), torch.full((60, 3), 0.3)
    again = fit_mixture(pool, support, torch.arange(3), pool[:0], n_steps=0, weights=weights)
    assert not again.weights[3].any() and not (again.logits[3] - again.mixture.log_sizes).any()


def test_one_class_and_its_outliers_are_told_apart() -> None:
    pool = torch.cat([around(CAT, 20), around(CAR, 5), around(-SHIP, 5)])
    found = fitted(pool, CAT[None], [0])
    assert found.evidence[:20].max() < found.evidence[20:].min()
    torch.testing.assert_close(found.logits.softmax(-1), torch.ones(30, 1))


def test_a_labeled_image_counts_as_two_of_the_pool() -> None:
    """The prototype has the direction of twice the labeled cat and w times the only image of the pool."""
    at = unit_length(CAT + SHIP)
    found = fitted(at[None], torch.stack([CAT, DOG]), [0, 1])
    expected = unit_length(2 * CAT + found.weights[0, 0] * at)
    torch.testing.assert_close(found.mixture.prototypes[0], expected)
    assert 0.1 < float(found.weights[0, 0]) < 1


def test_an_outlier_among_outliers_is_one_more_probably_than_an_image_alone() -> None:
    """One unusual cat and twelve cars, as far from the class of cats: neighbors tell."""
    cats, unusual = around(CAT, 40), unit_length(CAT + 2 * SHIP)
    cars = around(unit_length(CAT + 2 * CAR), 12, noise=0.05)
    pool = torch.cat([cats, around(DOG, 40), unusual[None], cars])
    support = torch.stack([CAT, DOG])
    found = classify_pool(pool, support, torch.arange(2), pool[:0], ClassifierConfig(n_directions=0))
    evidence, outlier = found.mixture.standardized(found.posterior.evidence), found.outlier_evidence[:, 0]
    assert float(outlier[81:].mean() - outlier[80]) > float(evidence[81:].mean() - evidence[80])


def test_outliers_that_have_moved_a_prototype_do_not_pass_for_the_labeled_images() -> None:
    """Five cats and a hundred cars, a little like cats: the mixture alone does not tell them apart."""
    cats, cars = around(CAT, 5), around(unit_length(CAT + CAR), 100)
    pool, support = torch.cat([cats, around(DOG, 5), cars]), torch.stack([CAT, DOG])
    found = classify_pool(pool, support, torch.arange(2), pool[:0], ClassifierConfig(n_directions=0))
    mixed, likeness = found.outlier_evidence.unbind(-1)
    assert float(mixed[:5].max()) > float(mixed[10:].mean())
    assert float(likeness[:5].min()) > float(likeness[10:].max())
