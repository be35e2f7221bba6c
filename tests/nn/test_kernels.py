"""The fused kernels against PyTorch's operations: values, gradients, statistics, and where they are not used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sala.errors import SalaError
from sala.nn import kernels
from sala.nn.backbones import Conv4, ConvBlock
from sala.nn.statistics import unrecorded
from tests.helpers.tasks import SameByThreads

numba = pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("fresh_kernels")


def maps(n: int, channels: int, height: int, width: int, seed: int = 0) -> Tensor:
    """Values on a grid of halves, far from the mean: many ties, and sums that cancel badly if they are done badly."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randn(n, channels, height, width, generator=g).mul(4).round().div(2).add(20)
    return y.contiguous(memory_format=torch.channels_last)


def choose(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALA_KERNELS", choice)
    kernels.chosen.cache_clear()


def both(y: Tensor, weight: Tensor, bias: Tensor) -> list[list[Tensor]]:
    """Output, mean, variance and the three gradients: fused, and by PyTorch in float64."""
    found = []
    for function, dtype in ((kernels.norm_relu_pool, torch.float32), (kernels.plain, torch.float64)):
        inputs = [part.to(dtype).requires_grad_() for part in (y, weight, bias)]
        out, mean, variance = function(*inputs, 1e-5)
        g = torch.Generator().manual_seed(9)
        pull = torch.randn(out.shape, generator=g).to(dtype)
        gradients = torch.autograd.grad(out, inputs, pull)
        found.append([part.double() for part in (out.detach(), mean, variance, *gradients)])
    return found


@pytest.mark.parametrize(
    "shape", [(5, 64, 28, 28), (3, 64, 7, 7), (4, 7, 3, 3), (2, 3, 5, 8), (2, 3, 8, 5), (1, 4, 2, 2), (3, 1, 21, 21)]
)
def test_values_and_gradients_are_pytorchs(shape: tuple[int, int, int, int]) -> None:
    """Negative weights turn the maximum into a minimum; the offsets keep every value away from the corner of the ReLU."""
    g = torch.Generator().manual_seed(1)
    weight = torch.randn(shape[1], generator=g)
    bias = 0.1 + 0.37 * torch.randn(shape[1], generator=g)
    fused, plain = both(maps(*shape), weight, bias)
    for ours, theirs in zip(fused, plain, strict=True):
        scale = max(1.0, theirs.abs().max().item())
        assert_close(ours / scale, theirs / scale, rtol=0, atol=2e-5)


@pytest.mark.parametrize("value", [0.0, 1e-12, -1e-12])
def test_a_weight_near_zero_is_no_problem(value: float) -> None:
    """All values of the square are then equal, or nearly: the output is the bias, and all that passes is finite."""
    weight, bias = torch.full((4,), value), torch.tensor([0.5, -0.5, 1.0, 2.0])
    fused, plain = both(maps(3, 4, 6, 6), weight, bias)
    for index in (0, 1, 2, 5):
        assert_close(fused[index], plain[index], rtol=1e-5, atol=1e-5)
    assert all(torch.isfinite(part).all() for part in fused)
    if value == 0:
        assert_close(fused[4], plain[4], rtol=1e-4, atol=1e-4)  # the first of equals, as in PyTorch


def test_flat_maps_are_no_problem() -> None:
    y = torch.full((2, 3, 4, 4), 7.0).contiguous(memory_format=torch.channels_last)
    fused, plain = both(y, torch.ones(3), torch.full((3,), 0.5))
    for ours, theirs in zip(fused, plain, strict=True):
        assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_variance_far_from_the_origin_is_not_lost() -> None:
    """Values around 1000 with a standard deviation of 0.01: their squares agree in eight digits."""
    y = 1000 + 0.01 * torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    y = y.contiguous(memory_format=torch.channels_last)
    _, mean, variance = kernels.norm_relu_pool(y, torch.ones(3), torch.zeros(3), 1e-5)
    assert_close(variance.double(), y.double().var((0, 2, 3), correction=0), rtol=1e-4, atol=0)
    assert_close(mean.double(), y.double().mean((0, 2, 3)), rtol=1e-7, atol=0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_visible(bad: float) -> None:
    y = maps(2, 3, 4, 4)
    y[1, 2, 3, 3] = bad
    out, _, _ = kernels.norm_relu_pool(y, torch.ones(3), torch.zeros(3), 1e-5)
    assert not torch.isfinite(out[:, 2]).any()
    assert torch.isfinite(out[:, :2]).all()


def test_one_and_several_threads_are_compiled_apart() -> None:
    """numba's cache on disk must not hand out the one for the other."""
    from sala.nn import jit, jit_first

    for kernel_table in (jit.KERNELS, jit_first.KERNELS):
        names = [kernel.py_func.__qualname__ for kernel in kernel_table.values()]  # type: ignore[attr-defined]
        assert len(set(names)) == len(names)
        assert all(kernel.targetoptions["parallel"] is parallel for (_, parallel), kernel in kernel_table.items())  # type: ignore[attr-defined]


@pytest.mark.slow  # compiles the kernels for several threads
def test_the_number_of_threads_changes_no_bit(same_by_threads: SameByThreads) -> None:
    y, weight, bias = maps(9, 16, 14, 14), torch.linspace(-1, 1, 16), torch.linspace(0.3, -0.2, 16)

    def values_and_gradients() -> list[Tensor]:
        inputs = [part.clone(memory_format=torch.preserve_format).requires_grad_() for part in (y, weight, bias)]
        out, _, _ = kernels.norm_relu_pool(*inputs, 1e-5)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), inputs)]

    assert same_by_threads(values_and_gradients)


def test_running_statistics_are_those_of_batch_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = []
    for choice in ("numba", "torch"):
        choose(choice, monkeypatch)
        torch.manual_seed(0)
        block = ConvBlock(1, 8).to(memory_format=torch.channels_last).train()
        for i in range(3):
            block(torch.rand(4, 1, 11, 11, generator=torch.Generator().manual_seed(i)))
        with unrecorded(block):
            block(torch.rand(4, 1, 11, 11))
        blocks.append(block)
    for a, b in zip(blocks[0].norm.buffers(), blocks[1].norm.buffers(), strict=True):
        assert_close(a, b)
    assert blocks[0].norm.num_batches_tracked == 3


def test_a_network_trains_alike_on_both(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = []
    for choice in ("numba", "torch"):
        choose(choice, monkeypatch)
        torch.manual_seed(0)
        network = Conv4(1, 28).to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
        images = torch.rand(6, 1, 28, 28)
        for _ in range(3):
            network.zero_grad()
            network(images).square().mean().backward()
            optimizer.step()
        weights.append(network.state_dict())
    for name, tensor in weights[0].items():
        assert_close(tensor, weights[1][name], rtol=1e-4, atol=1e-5, msg=name)


def test_the_gradient_of_the_gradient_is_there() -> None:
    y = maps(2, 3, 4, 4).requires_grad_()
    weight, bias = torch.tensor([1.0, -0.5, 2.0]), torch.tensor([0.2, 0.1, -0.3])
    penalties = []
    for function in (kernels.norm_relu_pool, kernels.plain):
        out = function(y, weight.clone().requires_grad_(), bias.clone().requires_grad_(), 1e-5)[0]
        (gradient,) = torch.autograd.grad(out.square().sum(), y, create_graph=True)
        penalties.append(torch.autograd.grad(gradient.square().sum(), y)[0])
    assert_close(penalties[0], penalties[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "y",
    [
        torch.rand(2, 3, 4, 4, dtype=torch.float64).contiguous(memory_format=torch.channels_last),
        torch.rand(2, 3, 4, 4).bfloat16().contiguous(memory_format=torch.channels_last),
        torch.rand(2, 3, 4, 4),
        torch.rand(2, 3, 4, 4, device="meta").contiguous(memory_format=torch.channels_last),
    ],
    ids=["float64", "bfloat16", "nchw", "elsewhere"],
)
def test_other_tensors_take_pytorchs_way(y: Tensor) -> None:
    assert not kernels.is_fusable(y)
    out, _, _ = kernels.norm_relu_pool(y, torch.ones(3).to(y), torch.zeros(3).to(y), 1e-5)
    assert out.shape == (2, 3, 2, 2)
    assert out.dtype == y.dtype


def test_the_choice_can_be_made_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.describe().startswith("fused kernels (numba")
    choose("torch", monkeypatch)
    assert kernels.describe() == "PyTorch's kernels"
    choose("cuda", monkeypatch)
    with pytest.raises(SalaError, match=r"SALA_KERNELS .*'cuda'"):
        kernels.chosen()


def test_without_numba_pytorchs_kernels_are_used() -> None:
    """A process in which numba cannot be imported."""
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import torch, sala; from sala.nn import kernels\n"
        "network = sala.build_backbone('conv4', (28, 28, 1)); network(torch.rand(3, 1, 28, 28)).sum().backward()\n"
        "print(kernels.describe())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "SALA_KERNELS"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "PyTorch's kernels"
    refused = subprocess.run(command, env={**environment, "SALA_KERNELS": "numba"}, capture_output=True, text=True)
    assert "numba is not installed; pip install 'sala[fast]'" in refused.stderr
