"""Embedding networks: images `[n, C, H, W]` in [0, 1] -> embeddings `[n, d]`; `out_dim` tells d.

`BACKBONES` maps a name to a function of (channels, image size) that makes a network.

>>> list(BACKBONES)
['conv4', 'resnet12']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala.errors import SalaError
from sala.nn import kernels


class Backbone(nn.Module):
    """A network from images to embeddings, and what methods need to know of its shape."""

    out_dim: int
    out_map: tuple[int, int, int]  # [C, h, w]: the map that was flattened to the embedding, d = C h w
    image_shape: tuple[int, int, int] | None = None  # [H, W, C] of the images it was built for
    film_widths: tuple[int, ...] = ()  # channels of each layer that takes a scale and a shift, see `Conv4.forward`

    def unpooled(self) -> Backbone:
        """The same weights without the last pools, for methods that compare maps; `out_map` is larger where there are any."""
        return self


Film = Sequence[tuple[Tensor, Tensor]]  # for each layer (gamma, beta), [n, channels]: h <- (1 + gamma) h + beta


class Conv4(Backbone):
    """Four blocks of conv3x3 (64, with bias) - batch norm - ReLU - max-pool 2x2; flattened (Snell et al., 2017).

    Odd maps lose their last row and column in pooling: 84 -> 42 -> 21 -> 10 -> 5 (d = 1600), 28 -> 14 -> 7 -> 3 -> 1
    (d = 64). PyTorch's default initialization; batch norm with momentum 0.1 and eps 1e-5.
    """

    def __init__(self, in_channels: int, image_size: int, width: int = 64):
        super().__init__()
        if image_size < 16:
            raise SalaError(f"Conv4 halves the image four times and needs at least 16 x 16 pixels; got {image_size}")
        self.blocks = nn.ModuleList(ConvBlock(in_channels if i == 0 else width, width) for i in range(4))
        self.image_size, self.film_widths = image_size, (width,) * 4
        self._pool(4)

    def _pool(self, n_blocks: int) -> None:
        """Pool in the first blocks only."""
        width, side = self.film_widths[0], self.image_size // 2**n_blocks
        self.n_pools, self.out_map, self.out_dim = n_blocks, (width, side, side), width * side**2

    def unpooled(self) -> Conv4:
        """Pools in the first two blocks alone, as in Relation Networks: 84 -> 42 -> 21 -> 21 -> 21, 28 -> 14 -> 7 -> 7 -> 7"""
        network = copy(self)  # shares the blocks
        network._pool(2)
        return network

    def forward(self, images: Tensor, film: Film | None = None) -> Tensor:
        x = images
        for i, block in enumerate(self.blocks):
            x = block(x, film[i] if film else None, is_pooled=i < self.n_pools)
        return x.flatten(1)


class ConvBlock(nn.Module):
    """conv - batch norm - ReLU - max-pool or none. In evaluation the norm is folded into the kernel: one pass less."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x: Tensor, film: tuple[Tensor, Tensor] | None = None, *, is_pooled: bool = True) -> Tensor:
        is_plain = film is None and is_pooled  # what the fused kernels do
        pool = partial(F.max_pool2d, kernel_size=2) if is_pooled else nn.Identity()
        if self.training:
            norm, conv = self.norm, self.conv
            if is_plain and conv.bias is not None and kernels.is_first(x, conv.weight):
                return self._recorded(
                    kernels.first_block(x, conv.weight, conv.bias, norm.weight, norm.bias, norm.eps), over=x
                )
            y = conv(x)
            if is_plain and kernels.is_fusable(y):
                return self._recorded(kernels.norm_relu_pool(y, norm.weight, norm.bias, norm.eps), over=y)
            pooled: Tensor = pool(F.relu(_modulated(norm(y), film)))
            return pooled
        assert self.norm.running_var is not None and self.norm.running_mean is not None and self.conv.bias is not None
        scale = self.norm.weight * (self.norm.running_var + self.norm.eps).rsqrt()
        kernel = self.conv.weight * scale[:, None, None, None]
        bias = (self.conv.bias - self.norm.running_mean) * scale + self.norm.bias
        if is_plain and not (kernel.requires_grad or bias.requires_grad) and kernels.is_first(x, kernel):
            return kernels.first_block_folded(x, kernel, bias)
        x = _modulated(F.conv2d(x, kernel, bias, padding=1), film)
        return F.relu(pool(x))  # ReLU after the pool: a quarter of it

    def _recorded(self, found: tuple[Tensor, Tensor, Tensor], over: Tensor) -> Tensor:
        """The output, once the running statistics are those that `nn.BatchNorm2d` would have kept."""
        norm, (out, mean, variance) = self.norm, found
        if norm.track_running_stats:
            assert norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None
            assert norm.num_batches_tracked is not None
            m = over.numel() / over.shape[1]
            norm.num_batches_tracked.add_(1)
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(variance * (m / (m - 1)), norm.momentum)  # unbiased, as PyTorch keeps it
        return out


def _modulated(x: Tensor, film: tuple[Tensor, Tensor] | None) -> Tensor:
    if film is None:
        return x
    gamma, beta = (part[:, :, None, None] for part in film)
    return (1 + gamma) * x + beta


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


class Identity(Backbone):
    """The backbone of ready-made features: embeddings pass as they are, so that every method runs on any features.

    Parameters
    ----------
    out_dim : int
        The width d of the embeddings.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0, 0.0], [1.0, 1.0]], labels=[0, 1], query=[[0.9, 1.0]])
    >>> sala.build_method("protonet", sala.Identity(2)).eval().classify(task).argmax(-1)
    tensor([1])
    """

    def __init__(self, out_dim: int):
        super().__init__()
        self.out_dim = out_dim
        self.out_map = (out_dim, 1, 1)

    def forward(self, features: Tensor) -> Tensor:
        return features


class Scaled(Backbone):
    """A network whose embeddings are multiplied so that squared distances are `distance_scale / d` times as large.

    Squared distances are sums over the d numbers of an embedding. With `distance_scale=64` they are as large in any width as
    those of Conv4 on 28 x 28 images, where d = 64.
    """

    def __init__(self, network: Backbone, distance_scale: float):
        super().__init__()
        if not 0 < distance_scale < float("inf"):
            raise SalaError(f"a distance scale is above 0, or none for distances as printed; got {distance_scale:g}")
        self.network = network
        self.out_dim, self.out_map, self.image_shape = network.out_dim, network.out_map, network.image_shape
        self.film_widths = network.film_widths
        self.distance_scale = distance_scale
        self.factor: float = (distance_scale / network.out_dim) ** 0.5

    def unpooled(self) -> Scaled:
        """The network's own, scaled by its width."""
        return Scaled(self.network.unpooled(), self.distance_scale)

    def forward(self, images: Tensor, film: Film | None = None) -> Tensor:
        embeddings: Tensor = self.network(images) if film is None else self.network(images, film)
        return embeddings * self.factor


BACKBONES: dict[str, Callable[[int, int], Backbone]] = {"conv4": Conv4, "resnet12": ResNet12}


def build_backbone(name: str, image_shape: tuple[int, int, int], *, distance_scale: float | None = None) -> Backbone:
    """A fresh network for images of one shape, in channels-last memory.

    Parameters
    ----------
    name : str
        A name of `sala.BACKBONES`: "conv4" or "resnet12".
    image_shape : tuple of int
        `(H, W, C)`, as `ImageStore.image_shape`.
    distance_scale : float, optional
        Squared distances between embeddings are multiplied by this over `out_dim`; by default they are as they are.

    Returns
    -------
    Backbone
        From images `[n, C, H, W]` in [0, 1] to embeddings `[n, out_dim]`.

    Raises
    ------
    SalaError
        If there is no such backbone, or the images are below 16 x 16 pixels.

    Examples
    --------
    >>> import sala, torch
    >>> backbone = sala.build_backbone("conv4", (28, 28, 1))
    >>> backbone(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 64])
    >>> sala.build_backbone("conv4", (84, 84, 3), distance_scale=64).factor  # the root of 64 / 1600
    0.2
    """
    if name not in BACKBONES:
        raise SalaError(f"there is no backbone {name!r}; the backbones are {', '.join(BACKBONES)}")
    height, _, channels = image_shape
    backbone = BACKBONES[name](channels, height)
    backbone.image_shape = image_shape
    backbone = backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return backbone if distance_scale is None else Scaled(backbone, distance_scale)
