"""ResNet-12, the larger embedding network of the field."""

from __future__ import annotations

from copy import copy

import torch.nn.functional as F
from torch import Tensor, nn

from sala.errors import SalaError
from sala.nn.base import Backbone


class ResNet12(Backbone):
    """Four residual blocks of three conv3x3 (64-160-320-640), LeakyReLU 0.1, max-pool, then the global mean: d = 640."""

    def __init__(self, in_channels: int, image_size: int, widths: tuple[int, ...] = (64, 160, 320, 640)):
        super().__init__()
        if image_size < 16:
            raise SalaError(
                f"ResNet-12 halves the image four times and needs at least 16 x 16 pixels; got {image_size}"
            )
        channels = (in_channels, *widths)
        self.blocks = nn.Sequential(*(ResidualBlock(a, b) for a, b in zip(channels, widths, strict=False)))
        self.image_size, self.is_averaged = image_size, True
        self.out_dim = widths[-1]
        self.out_map = (widths[-1], 1, 1)

    def unpooled(self) -> ResNet12:
        """Without the global mean: the map of the last block."""
        network = copy(self)  # shares the blocks
        side = self.image_size // 16
        network.is_averaged, network.out_map = False, (self.out_map[0], side, side)
        network.out_dim = self.out_map[0] * side**2
        return network

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.blocks(images)
        return features.mean((-2, -1)) if self.is_averaged else features.flatten(1)


class ResidualBlock(nn.Module):
    """Three conv3x3 with batch norm beside a 1x1 shortcut, LeakyReLU, max-pool 2x2."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        layers: list[nn.Module] = []
        for i in range(3):
            channels = in_channels if i == 0 else out_channels
            layers += [nn.Conv2d(channels, out_channels, 3, padding=1, bias=False), nn.BatchNorm2d(out_channels)]
            layers += [nn.LeakyReLU(0.1)] if i < 2 else []
        self.main = nn.Sequential(*layers)
        self.shortcut = nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(F.leaky_relu(self.main(x) + self.shortcut(x), 0.1), 2)
