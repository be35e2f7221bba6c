"""Distances and means in float32 against float64: values, gradients, shapes that are broadcast, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sala.functional import squared_distances, weighted_means


def small_task(n: int = 25, k: int = 5, d: int = 64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings, centers, their weights, weights of embeddings."""
    g = torch.Generator().manual_seed(2)
    return (torch.randn(n, d, generator=g).add(3), torch.randn(k, d, generator=g).add(3), torch.rand(k, d, generator=g),
            torch.rand(n, k, generator=g))  # fmt: skip


def with_gradients(function: Callable[..., Tensor], *inputs: Tensor | None) -> list[Tensor]:
    given = [None if part is None else part.detach().clone().requires_grad_() for part in inputs]
    wanted = [part for part in given if part is not None]
    out = function(*given)
    pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(out)
    return [out.detach(), *torch.autograd.grad(out, wanted, pull)]


@pytest.mark.parametrize("shape", [(25, 5, 64), (1, 1, 1), (7, 3, 5), (3, 20, 256), (0, 2, 4)])
@pytest.mark.parametrize("weighted", [True, False])
def test_single_precision_has_the_values_and_gradients_of_double(shape: tuple[int, int, int], weighted: bool) -> None:
    x, c, a, w = small_task(*shape)
    functions = [(squared_distances, (x, c, a if weighted else None))] + [(weighted_means, (x, w))] * (len(x) > 0)
    for function, inputs in functions:
        ours = with_gradients(function, *inputs)
        exact = with_gradients(function, *(None if part is None else part.double() for part in inputs))
        for part, theirs in zip(ours, exact, strict=True):
            assert part.dtype == torch.float32
            assert_close(part.double(), theirs, rtol=2e-4, atol=2e-4)


def test_one_weight_for_all_centers_is_broadcast() -> None:
    x, c, a, _ = small_task()
    assert_close(squared_distances(x, c, a[:1]), squared_distances(x, c, a[:1].expand_as(c)), rtol=1e-4, atol=1e-4)


def test_shapes_that_do_not_fit_are_refused() -> None:
    x, c, a, w = small_task()
    with pytest.raises(RuntimeError):
        squared_distances(x, c[:, :32], a[:, :32])
    with pytest.raises(RuntimeError):
        squared_distances(x, c, a[:3])
    with pytest.raises(RuntimeError):
        weighted_means(x, w[:20])


def test_a_class_without_weight_has_no_mean() -> None:
    x, _, _, w = small_task()
    w[:, 1] = 0
    means = weighted_means(x, w)
    assert means[1].isnan().all() and means[0].isfinite().all()


def test_gradients_have_gradients() -> None:
    x, c, a, w = (part.double().requires_grad_() for part in small_task(4, 2, 3))
    assert torch.autograd.gradgradcheck(squared_distances, (x, c, a))
    assert torch.autograd.gradgradcheck(weighted_means, (x, w))
