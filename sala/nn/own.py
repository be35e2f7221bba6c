"""Backbones of users: a class in a file, an installed package's entry point, or a class or network at hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sala.errors import SalaError
from sala.nn import plugins
from sala.nn.base import Backbone

GROUP = "sala.backbones"


def own_backbone(given: str | type[nn.Module] | nn.Module, image_shape: tuple[int, int, int]) -> Backbone | None:
    """A network, or that of a class, `path/to/file.py:Class` or an installed plug-in's name; None without such a plug-in."""
    made = _class(given) if isinstance(given, str) else given
    if made is None:
        return None
    if not callable(made):
        raise SalaError(f"a backbone is a name, a torch.nn.Module or its class; got {type(made).__name__}")
    height, width, channels = image_shape
    cls = type(made) if isinstance(made, nn.Module) else made
    called = given if isinstance(given, str) else getattr(cls, "__name__", repr(cls))
    with plugins.blaming(f"the backbone {called}", plugins.file_of(cls)):
        network = made if isinstance(made, nn.Module) else made(channels, height)
        if not isinstance(network, nn.Module):
            raise SalaError(f"the backbone {called} makes a {type(network).__name__}, which is no torch.nn.Module")
        device = next((parameter.device for parameter in network.parameters()), None)
        return _with_width(network, called, torch.zeros(2, channels, height, width, device=device))


def _class(name: str) -> Any:
    if plugins.is_file(name):
        return plugins.from_file(name, "backbone")
    return plugins.from_entry_point(name, GROUP)


def _with_width(network: nn.Module, called: str, images: Tensor) -> Backbone:
    """The network as a backbone that knows the width of its embeddings: it is shown two blank images."""
    was_training = network.training
    with torch.no_grad():
        found = network.eval()(images)
    network.train(was_training)
    if not isinstance(found, Tensor) or found.ndim not in (2, 4) or len(found) != 2:
        got = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise SalaError(f"the backbone {called} maps images {list(images.shape)} to [2, d] or [2, C, h, w]; got {got}")
    backbone = network if isinstance(network, Backbone) and found.ndim == 2 else Flattened(network)
    channels, height, width = (*found.shape[1:], 1, 1)[:3]
    backbone.out_dim, backbone.out_map = found[0].numel(), (channels, height, width)
    return backbone


class Flattened(Backbone):
    """Any network as a backbone: its maps are flattened."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        embeddings: Tensor = self.network(images).flatten(1)
        return embeddings
