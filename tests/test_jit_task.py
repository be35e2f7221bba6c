"""The loops for one small task against PyTorch's operations: distances, means, gradients, and where they step aside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sala import kernels
from sala.stages import squared_distances, weighted_means

pytest.importorskip("numba")


def small_task(n: int = 25, k: int = 5, d: int = 64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points, centres, their weights, weights of points."""
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
def test_a_small_task_has_pytorchs_distances_and_means(shape: tuple[int, int, int], weighted: bool) -> None:
    x, c, a, w = small_task(*shape)
    assert kernels.is_small_task(x, len(c), (c, c.shape), (a, c.shape))
    functions = [(squared_distances, (x, c, a if weighted else None))] + [(weighted_means, (x, w))] * (len(x) > 0)
    for function, inputs in functions:
        ours = with_gradients(function, *inputs)
        exact = with_gradients(function, *(None if part is None else part.double() for part in inputs))
        for part, theirs in zip(ours, exact, strict=True):
            assert part.dtype == torch.float32
            assert_close(part.double(), theirs, rtol=2e-5, atol=2e-5)


def test_small_and_large_tasks_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the loops are used where they are said to be, forward and backward: without them the last digits differ."""
    x, c, a, w = small_task()
    for function, inputs in ((squared_distances, (x, c, a)), (weighted_means, (x, w))):
        with monkeypatch.context() as context:
            small = with_gradients(function, *inputs)
            context.setattr(kernels, "SMALL_TASK", -1)
            large = with_gradients(function, *inputs)
        assert_close(small, large, rtol=1e-4, atol=1e-4)
        assert not torch.equal(small[0], large[0]) and not torch.equal(small[1], large[1])


def test_other_shapes_are_broadcast_or_refused_by_pytorch() -> None:
    x, c, a, w = small_task()
    assert_close(squared_distances(x, c, a[:1]), squared_distances(x, c, a[:1].expand_as(c)), rtol=1e-4, atol=1e-4)
    assert_close(squared_distances(x[:, :1], c), squared_distances(x[:, :1].expand_as(x), c), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError):
        squared_distances(x, c[:, :32], a[:, :32])
    with pytest.raises(RuntimeError):
        squared_distances(x, c, a[:3])
    with pytest.raises(RuntimeError):
        weighted_means(x, w[:20])


def test_memory_of_a_small_task_may_lie_anyhow() -> None:
    x, c, a, w = small_task()
    straight = with_gradients(squared_distances, x, c, a) + with_gradients(weighted_means, x, w)
    x, c, a, w = (part.T.contiguous().T for part in (x, c, a, w))
    turned = [part.clone(memory_format=torch.preserve_format) for part in (x, c, a, w)]
    assert not turned[0].is_contiguous()
    assert_close(
        with_gradients(squared_distances, *turned[:3]) + with_gradients(weighted_means, turned[0], turned[3]), straight
    )
    x.requires_grad_()
    squared_distances(x, c, a).sum().backward()  # the gradient is one number, seen as many
    assert_close(x.grad, 2 * ((x[:, None] - c) * a).sum(1).detach(), rtol=1e-4, atol=1e-4)


def test_a_class_without_weight_has_no_mean_as_in_pytorch() -> None:
    x, _, _, w = small_task()
    w[:, 1] = 0
    ours, exact = weighted_means(x, w), weighted_means(x.double(), w.double())
    assert ours[1].isnan().all() and exact[1].isnan().all()
    assert_close(ours.double(), exact, equal_nan=True, rtol=1e-5, atol=1e-5)


def test_a_small_task_has_gradients_of_gradients() -> None:
    x, c, a, w = small_task()
    for function, inputs in ((squared_distances, (x, c, a)), (weighted_means, (x, w))):
        found = []
        for dtype in (torch.float32, torch.float64):
            given = [part.to(dtype).requires_grad_() for part in inputs]
            first = torch.autograd.grad(function(*given).square().sum(), given, create_graph=True)
            second = torch.autograd.grad(sum(part.square().sum() for part in first), given)
            found.append([part.double() for part in second])
        assert_close(found[0], found[1], rtol=1e-3, atol=1e-3)


def test_many_tasks_other_numbers_and_wishes_are_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    x, c, _, _ = small_task()
    assert not kernels.is_small_task(x[None], 5, (c[None], (1, *c.shape)))
    assert not kernels.is_small_task(x.double(), 5, (c, c.shape))
    assert not kernels.is_small_task(x, 5, (c.double(), c.shape))
    assert not kernels.is_small_task(x, 10_000, (c, c.shape))
    monkeypatch.setattr(kernels, "chosen", lambda: "torch")
    assert not kernels.is_small_task(x, 5, (c, c.shape))
