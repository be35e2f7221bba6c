"""The fused kernel of the first block, in training and in evaluation, against PyTorch's operations."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from sala.nn import kernels
from sala.nn.backbones import Conv4, ConvBlock
from tests.helpers.tasks import SameByThreads

numba = pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("fresh_kernels")

FIRST_SHAPES = [(5, 1, 28, 28), (3, 3, 32, 32), (2, 3, 21, 21), (2, 4, 5, 8), (2, 2, 8, 5), (1, 1, 2, 2), (2, 3, 3, 3)]


@pytest.mark.parametrize("shape", FIRST_SHAPES)
def test_the_first_block_is_convolution_norm_relu_and_pool(shape: tuple[int, int, int, int]) -> None:
    """Output, mean, variance and the gradients of all four parameters, against PyTorch in float64."""
    g = torch.Generator().manual_seed(1)
    x = torch.rand(shape, generator=g)
    kernel, bias = torch.randn(6, shape[1], 3, 3, generator=g), torch.randn(6, generator=g)
    weight, shift = torch.randn(6, generator=g), 0.1 + 0.37 * torch.randn(6, generator=g)
    found = []
    for dtype in (torch.float32, torch.float64):
        inputs = [part.to(dtype).requires_grad_() for part in (kernel, bias, weight, shift)]
        if dtype == torch.float32:
            assert kernels.is_first(x, inputs[0])
            out, mean, variance = kernels.first_block(x, *inputs, eps=1e-5)
        else:
            y = nn.functional.conv2d(x.double(), inputs[0], inputs[1], padding=1)
            out, mean, variance = kernels.plain(y, *inputs[2:], 1e-5)
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(dtype)
        found.append(
            [part.double() for part in (out.detach(), mean.detach(), variance, *torch.autograd.grad(out, inputs, pull))]
        )
    for ours, theirs in zip(*found, strict=True):
        scale = max(1.0, theirs.abs().max().item())
        assert_close(ours / scale, theirs / scale, rtol=0, atol=2e-5)


def test_moments_of_patches_are_those_of_all_patches_at_once() -> None:
    from sala.nn.jit_first import KERNELS

    x = torch.rand(3, 2, 7, 6, generator=torch.Generator().manual_seed(0))
    patches = nn.functional.unfold(x.double(), 3, padding=1).transpose(0, 1).flatten(1)  # [18, 3 * 42]
    mean, covariance = torch.empty(18, dtype=torch.float64), torch.empty(18, 18, dtype=torch.float64)
    framed = nn.functional.pad(x, (2, 2, 2, 2))
    KERNELS["patch_moments", False](1, framed.numpy(), mean.numpy(), covariance.numpy())
    assert_close(mean, patches.mean(1), rtol=0, atol=1e-7)
    assert_close(covariance, torch.cov(patches, correction=0), rtol=0, atol=1e-7)


def test_the_first_block_is_not_fused_where_it_cannot_be() -> None:
    x, kernel = torch.rand(2, 3, 8, 8), torch.rand(4, 3, 3, 3)
    assert kernels.is_first(x, kernel)
    assert not kernels.is_first(x.clone().requires_grad_(), kernel)  # an image that is made, not given
    assert not kernels.is_first(torch.rand(2, 64, 8, 8), torch.rand(64, 64, 3, 3))
    assert not kernels.is_first(x.double(), kernel.double())
    with torch.autocast("cpu", torch.bfloat16):
        assert not kernels.is_first(x, kernel)


def test_images_that_want_a_gradient_get_one() -> None:
    x = torch.rand(2, 1, 28, 28).contiguous(memory_format=torch.channels_last).requires_grad_()
    network = Conv4(1, 28).to(memory_format=torch.channels_last)
    network(x).square().sum().backward()
    assert x.grad is not None and x.grad.abs().sum() > 0


def test_the_gradient_of_the_first_blocks_gradient_is_there() -> None:
    g = torch.Generator().manual_seed(3)
    x, kernel = torch.rand(2, 1, 6, 6, generator=g), torch.randn(3, 1, 3, 3, generator=g).requires_grad_()
    bias, weight, shift = torch.zeros(3), torch.tensor([1.0, -0.5, 2.0]), torch.tensor([0.2, 0.1, -0.3])
    parameters = [part.clone().requires_grad_() for part in (bias, weight, shift)]
    penalties = []
    for first in (True, False):
        if first:
            out = kernels.first_block(x, kernel, *parameters, eps=1e-5)[0]
        else:
            y = nn.functional.conv2d(x, kernel, parameters[0], padding=1)
            out = kernels.plain(y, *parameters[1:], 1e-5)[0]
        (gradient,) = torch.autograd.grad(out.square().sum(), kernel, create_graph=True)
        penalties.append(torch.autograd.grad(gradient.square().sum(), kernel)[0])
    assert_close(penalties[0], penalties[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_in_an_image_stays_visible(bad: float) -> None:
    x = torch.rand(2, 1, 6, 6)
    x[1, 0, 3, 3] = bad
    out, _, _ = kernels.first_block(x, torch.rand(3, 1, 3, 3), torch.zeros(3), torch.ones(3), torch.zeros(3), 1e-5)
    assert not torch.isfinite(out).any()


@pytest.mark.slow  # compiles the kernels for several threads
def test_threads_change_no_bit_of_the_first_block(same_by_threads: SameByThreads) -> None:
    g = torch.Generator().manual_seed(0)
    x, kernel, weight = (
        torch.rand(9, 3, 14, 14, generator=g),
        torch.randn(16, 3, 3, 3, generator=g),
        torch.linspace(-1, 1, 16),
    )

    def values_and_gradients() -> list[Tensor]:
        inputs = [part.clone().requires_grad_() for part in (kernel, weight, weight, weight)]
        out, mean, variance = kernels.first_block(x, *inputs, eps=1e-5)
        return [out.detach(), mean.detach(), variance, *torch.autograd.grad(out.square().sum(), inputs)]

    assert same_by_threads(values_and_gradients)


@pytest.mark.parametrize("shape", FIRST_SHAPES)
def test_in_evaluation_the_first_block_is_the_same_in_one(shape: tuple[int, int, int, int]) -> None:
    g = torch.Generator().manual_seed(1)
    x, kernel = torch.rand(shape, generator=g), torch.randn(6, shape[1], 3, 3, generator=g)
    bias = torch.randn(6, generator=g)
    y = nn.functional.conv2d(x.double(), kernel.double(), bias.double(), padding=1)
    expected = nn.functional.max_pool2d(y, 2).relu()
    assert_close(kernels.first_block_folded(x, kernel, bias).double(), expected, rtol=0, atol=2e-5)


@pytest.mark.slow  # compiles the kernels for several threads
def test_threads_change_no_bit_of_an_embedding(same_by_threads: SameByThreads) -> None:
    g = torch.Generator().manual_seed(0)
    x, kernel = torch.rand(9, 3, 14, 14, generator=g), torch.randn(16, 3, 3, 3, generator=g)
    assert same_by_threads(lambda: [kernels.first_block_folded(x, kernel, torch.linspace(-1, 1, 16))])


@pytest.mark.parametrize("place", range(4))
def test_an_image_that_is_not_a_number_has_no_embedding(place: int) -> None:
    x = torch.rand(2, 1, 16, 16)
    x[1, 0, 4 + place // 2, 4 + place % 2] = float("nan")
    network = Conv4(1, 16).eval()
    with torch.inference_mode():
        embeddings = network(x)
    assert embeddings[0].isfinite().all() and embeddings[1].isnan().all()


def test_a_bias_alone_gets_its_gradient_in_evaluation() -> None:
    block = ConvBlock(1, 4).eval()
    for parameter in (block.conv.weight, block.conv.bias, block.norm.weight):
        parameter.requires_grad_(False)  # type: ignore[union-attr]
    block(torch.rand(2, 1, 6, 6)).sum().backward()
    assert block.norm.bias.grad is not None and block.norm.bias.grad.abs().sum() > 0


def test_a_network_can_be_traced() -> None:
    network = Conv4(1, 16).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer PyTorch calls tracing old
        traced = torch.jit.trace(network, torch.rand(2, 1, 16, 16))  # type: ignore[no-untyped-call]
        x = torch.rand(2, 1, 16, 16)
        assert_close(traced(x), network(x))


def test_evaluation_is_the_norm_folded_into_the_kernel() -> None:
    """With the kernels and without, and with gradients, for which PyTorch's operations are taken."""
    torch.manual_seed(0)
    block = ConvBlock(1, 4).to(memory_format=torch.channels_last)
    for _ in range(3):
        block(torch.rand(4, 1, 6, 6))  # running statistics of its own
    block.eval()
    x = torch.rand(3, 1, 6, 6)
    expected = nn.functional.max_pool2d(block.norm(block.conv(x)).relu(), 2)
    with torch.inference_mode():
        assert_close(block(x), expected.detach())
    found = block(x)
    assert_close(found, expected)
    parameters = list(block.parameters())
    for ours, theirs in zip(
        *(torch.autograd.grad(out.square().sum(), parameters) for out in (found, expected)), strict=True
    ):
        assert_close(ours, theirs)
