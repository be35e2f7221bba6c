"""Embedding networks: images `[n, C, H, W]` in [0, 1] -> embeddings `[n, d]`; `out_dim` tells d.

`BACKBONES` maps a name to a function of (channels, image size) that makes a network.

>>> list(BACKBONES)
['conv4', 'resnet12', 'identity']
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala.errors import SalaError
from sala.nn import kernels
from sala.nn.base import Backbone, Film, Recipe
from sala.nn.own import GROUP, own_backbone
from sala.nn.plugins import entry_point_names
from sala.nn.resnet12 import ResNet12

__all__ = ["BACKBONES", "Backbone", "Conv4", "Film", "Identity", "ResNet12", "Scaled", "build_backbone"]


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


class Identity(Backbone):
    """The backbone of ready-made features: embeddings pass as they are, so that every method runs on any features.

    Images, if it is built for them (`sala.build_backbone("identity", store.image_shape)`), become vectors of their pixels.

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
        self.recipe = Recipe("identity", (out_dim,))

    def forward(self, features: Tensor) -> Tensor:
        return features if self.image_shape is None else features.flatten(1)


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


def _pixels(in_channels: int, image_size: int) -> Identity:
    return Identity(in_channels * image_size**2)


BACKBONES: dict[str, Callable[[int, int], Backbone]] = {"conv4": Conv4, "resnet12": ResNet12, "identity": _pixels}


def build_backbone(
    name: str | type[nn.Module] | nn.Module, image_shape: tuple[int, ...], *, distance_scale: float | None = None
) -> Backbone:
    """A network for images of one shape, in channels-last memory.

    Parameters
    ----------
    name : str, type of Module or Module
        A name of `sala.BACKBONES`, of an installed plug-in, `path/to/file.py:Class`, or a class. A class of yours is any
        `torch.nn.Module` that is made by `Class(in_channels, image_size)` and maps images `[n, C, H, W]` to `[n, d]`, or to
        maps, which are flattened. Or a network that is made already, with its weights.
    image_shape : tuple of int
        `(H, W, C)`, as `ImageStore.image_shape`; `(d,)` of features, for "identity".
    distance_scale : float, optional
        Squared distances between embeddings are multiplied by this over `out_dim`; by default they are as they are.

    Returns
    -------
    Backbone
        From images `[n, C, H, W]` in [0, 1] to embeddings `[n, out_dim]`.

    Raises
    ------
    SalaError
        If there is no such backbone, or it does not take such images.

    Examples
    --------
    >>> import sala, torch
    >>> backbone = sala.build_backbone("conv4", (28, 28, 1))
    >>> backbone(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 64])
    >>> sala.build_backbone("conv4", (84, 84, 3), distance_scale=64).factor  # the root of 64 / 1600
    0.2
    >>> class Mean(torch.nn.Module):
    ...     def __init__(self, in_channels, image_size):
    ...         super().__init__()
    ...     def forward(self, images):
    ...         return images.mean((-2, -1))
    >>> sala.build_backbone(Mean, (28, 28, 3)).out_dim
    3
    >>> sala.build_backbone(torch.nn.AvgPool2d(14), (28, 28, 3)).out_dim
    12
    """
    if image_shape is None:
        raise SalaError("features have no image shape; their backbone is sala.Identity(store.width)")
    if len(image_shape) == 1:
        if name != "identity":
            raise SalaError(f"features [n, d] are for the backbone identity; got {name!r}; or build it for images")
        backbone: Backbone = Identity(image_shape[0])
    else:
        height, width, channels = image_shape
        backbone = _for_images(name, (height, width, channels))
    backbone = backbone if distance_scale is None else Scaled(backbone, distance_scale)
    backbone.recipe = None if isinstance(name, nn.Module) else Recipe(name, tuple(image_shape), distance_scale)
    return backbone


def backbone_names() -> list[str]:
    """Of this package, then of installed ones."""
    return [*BACKBONES, *entry_point_names(GROUP)]


def _for_images(name: str | type[nn.Module] | nn.Module, image_shape: tuple[int, int, int]) -> Backbone:
    height, width, channels = image_shape
    if isinstance(name, str) and name in BACKBONES:
        if height != width:
            raise SalaError(
                f"{name} takes square images; got {height} x {width}; resize them, or give a backbone of yours"
            )
        backbone = BACKBONES[name](channels, height)
    elif (found := own_backbone(name, image_shape)) is not None:
        backbone = found
    else:
        known = ", ".join(backbone_names())
        raise SalaError(
            f"there is no backbone {name!r}; the backbones are {known}, or give your own as path/to/file.py:Class"
        )
    backbone.image_shape = image_shape
    placed: Backbone = backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed
