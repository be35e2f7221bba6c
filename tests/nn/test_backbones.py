"""The embedding networks: shapes, what is folded in evaluation, what they refuse."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from sala.errors import SalaError
from sala.methods import build_method
from sala.nn.backbones import BACKBONES, Conv4, Identity, ResNet12, build_backbone


@pytest.mark.parametrize(("size", "channels", "d"), [(28, 1, 64), (32, 3, 256), (84, 3, 1600), (64, 3, 1024)])
def test_conv4_has_the_papers_widths(size: int, channels: int, d: int) -> None:
    network = build_backbone("conv4", (size, size, channels))
    assert network.out_dim == d
    assert network(torch.rand(3, channels, size, size)).shape == (3, d)


def test_resnet12_ends_in_640_numbers_at_any_size() -> None:
    network = build_backbone("resnet12", (28, 28, 1)).eval()
    assert network(torch.rand(2, 1, 28, 28)).shape == (2, 640)
    widths = [block.main[0].out_channels for block in network.blocks]
    assert widths == [64, 160, 320, 640]


def plain_conv4(network: Conv4, x: torch.Tensor) -> torch.Tensor:
    """Conv4 as the paper says it: convolution, normalization, ReLU, pooling."""
    for block in network.blocks:
        x = F.max_pool2d(F.relu(block.norm(block.conv(x))), 2)
    return x.flatten(1)


def test_the_folded_normalization_is_the_normalization() -> None:
    torch.manual_seed(0)
    network = Conv4(1, 28).double()
    for block in network.blocks:  # negative and zero scales too
        torch.nn.init.normal_(block.norm.weight)
        torch.nn.init.normal_(block.norm.bias)
    network.blocks[0].norm.weight.data[0] = 0.0
    images = torch.rand(6, 1, 28, 28, dtype=torch.float64)
    network.train()(images)
    network.eval()
    assert_close(network(images), plain_conv4(network, images))


def test_training_uses_the_statistics_of_the_batch_and_moves_the_running_ones() -> None:
    network = Conv4(1, 28)
    before = network.blocks[0].norm.running_mean.clone()
    network.train()(torch.rand(4, 1, 28, 28))
    assert not torch.equal(before, network.blocks[0].norm.running_mean)
    assert (network.blocks[0].norm.momentum, network.blocks[0].norm.eps) == (0.1, 1e-5)


def test_in_evaluation_an_image_does_not_see_its_neighbors() -> None:
    network = Conv4(1, 28).eval()
    images = torch.rand(5, 1, 28, 28)
    assert_close(network(images)[:1], network(images[:1]))


def test_an_image_too_small_for_four_halvings_is_refused() -> None:
    with pytest.raises(SalaError, match="at least 16 x 16 pixels; got 12"):
        build_backbone("conv4", (12, 12, 1))


def test_an_unknown_backbone_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SalaError, match=", ".join(BACKBONES)):
        build_backbone("vit", (28, 28, 1))


@pytest.mark.parametrize("side", [32, 84])
def test_a_distance_scale_multiplies_squared_distances_by_itself_over_the_width(side: int) -> None:
    torch.manual_seed(0)
    plain = build_backbone("conv4", (side, side, 3)).eval()
    torch.manual_seed(0)
    scaled = build_backbone("conv4", (side, side, 3), distance_scale=64).eval()
    images = torch.rand(2, 3, side, side)
    distance, as_scaled = ((a - b).square().sum() for a, b in (plain(images), scaled(images)))
    assert_close(as_scaled, distance * 64 / plain.out_dim)
    assert (scaled.out_dim, scaled.out_map, scaled.film_widths) == (plain.out_dim, plain.out_map, plain.film_widths)


def test_a_scale_of_nothing_is_refused() -> None:
    with pytest.raises(SalaError, match="above 0"):
        build_backbone("conv4", (28, 28, 1), distance_scale=0.0)


@pytest.mark.parametrize("mode", [True, False])
def test_the_unpooled_network_has_the_same_weights_and_a_larger_map(mode: bool) -> None:
    torch.manual_seed(0)
    network = build_backbone("conv4", (28, 28, 1)).train(mode)
    images, maps = torch.rand(3, 1, 28, 28), network.unpooled().train(mode)
    assert (network.out_map, maps.out_map, maps.out_dim) == ((64, 1, 1), (64, 7, 7), 64 * 49)
    x = images
    for i, block in enumerate(network.blocks):
        x = block.norm(block.conv(x)).relu()
        x = torch.max_pool2d(x, 2) if i < 2 else x
    assert_close(maps(images), x.flatten(1), rtol=1e-4, atol=1e-5)
    assert maps.state_dict().keys() == network.state_dict().keys()
    assert network(images).shape == (3, 64)  # is as it was


def test_the_unpooled_resnet_ends_before_its_mean() -> None:
    torch.manual_seed(0)
    network = ResNet12(1, 32, widths=(4, 4, 4, 6)).eval()
    maps, images = network.unpooled(), torch.rand(2, 1, 32, 32)
    assert (maps.out_map, maps.out_dim) == ((6, 2, 2), 24)
    assert_close(maps(images).reshape(2, 6, 2, 2).mean((-2, -1)), network(images))


def test_a_distance_scale_is_by_the_width_of_the_unpooled_map() -> None:
    scaled = build_backbone("conv4", (28, 28, 1), distance_scale=64.0)
    assert scaled.unpooled().out_map == (64, 7, 7)
    assert scaled.unpooled().factor == pytest.approx(1 / 7)
    assert Identity(5).unpooled().out_map == (5, 1, 1)


def test_a_network_that_is_made_already_is_a_backbone_with_its_weights() -> None:
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.MaxPool2d(2))
    backbone, images = build_backbone(network, (8, 10, 3)), torch.rand(2, 3, 8, 10)
    assert (backbone.out_dim, backbone.out_map) == (24, (2, 3, 4))
    assert_close(backbone(images), network(images).flatten(1))
    with pytest.raises(SalaError, match="build_backbone"):
        build_method("protonet", network)  # type: ignore[arg-type]


def test_built_in_networks_take_square_images_and_features_an_identity() -> None:
    with pytest.raises(SalaError, match="square images; got 28 x 56"):
        build_backbone("conv4", (28, 56, 1))
    with pytest.raises(SalaError, match=r"Identity\(store.width\)"):
        build_backbone("conv4", None)  # type: ignore[arg-type]
