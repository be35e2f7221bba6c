"""Neighbors in the pool, against brute force."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sala.classifier import neighbors
from sala.classifier.neighbors import N_NEIGHBORS, Neighborhood, fit_neighborhood
from sala.functional import unit_length


def some(n: int, d: int = 6, seed: int = 0) -> Tensor:
    return unit_length(torch.randn(n, d, generator=torch.Generator().manual_seed(seed)))


def slow_mean_value(x: Tensor, sample: list[int], pool: Tensor, values: Tensor, own: int | None = None) -> float:
    """The mean value of the images of the sample nearest to x, but for its own one."""
    others = [j for j in sample if j != own]
    nearest = sorted(others, key=lambda j: -float(x @ pool[j]))[:N_NEIGHBORS]
    return sum(float(values[j]) for j in nearest) / len(nearest)


@pytest.mark.parametrize("rows", [4_096, 7])  # at once, and a few at a time
def test_neighbors_equal_those_of_brute_force(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "ROWS", rows)
    pool, values, new = some(40), torch.arange(40.0), some(15, seed=1)
    found, around = fit_neighborhood(pool, values)
    for i in range(40):
        assert float(around[i]) == pytest.approx(slow_mean_value(pool[i], list(range(40)), pool, values, own=i))
    for x, mean in zip(new, found.mean_value(new), strict=True):
        assert float(mean) == pytest.approx(slow_mean_value(x, list(range(40)), pool, values))


@pytest.mark.parametrize("rows", [4_096, 7])
def test_of_a_large_pool_a_regular_sample_is_asked(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "ROWS", rows)
    monkeypatch.setattr(neighbors, "SAMPLE", 15)
    pool, values = some(50), torch.arange(50.0)
    found, around = fit_neighborhood(pool, values)
    sample = list(range(0, 50, 3))
    assert found.values.tolist() == [float(i) for i in sample]
    for i in range(50):
        assert float(around[i]) == pytest.approx(slow_mean_value(pool[i], sample, pool, values, own=i))


def test_neighbors_are_looked_for_in_the_largest_principal_directions() -> None:
    """Two clusters along the first two axes, and a little noise in 98 more."""
    d, g = 100, torch.Generator().manual_seed(0)
    pool = unit_length(torch.eye(d)[:2].repeat_interleave(20, 0) + 0.02 * torch.randn(40, d, generator=g))
    values = torch.tensor([0.0, 1.0]).repeat_interleave(20)
    found, around = fit_neighborhood(pool, values)
    assert found.directions.shape == (d, 40) and torch.equal(around, values)


def test_fewer_images_than_neighbors_are_all_asked_and_none_give_zero() -> None:
    values = torch.tensor([1.0, 3.0, 8.0])
    assert fit_neighborhood(torch.eye(3), values)[1].tolist() == pytest.approx([5.5, 4.5, 2.0])
    for n in (0, 1):
        found, around = fit_neighborhood(torch.eye(3)[:n], values[:n])
        assert around.tolist() == [0.0] * n and found.mean_value(torch.eye(3)).tolist() == [float(n)] * 3
    nothing = Neighborhood(torch.eye(3), torch.eye(3), values).mean_value(torch.zeros(0, 3))
    assert nothing.shape == (0,)
