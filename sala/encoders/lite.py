"""The encoders `lite0`, `lite1` and `lite2`: EfficientNet-Lite with ImageNet weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn

from sala.encoders.base import Features, Images, file_hash
from sala.encoders.efficientnet_lite import LITE, N_FEATURES, lite_weights, load_lite
from sala.encoders.exported import channels_first


class LiteEncoder:
    """EfficientNet-Lite with ImageNet weights: 1280 features of any photo."""

    mode = "RGB"
    is_thread_safe = True
    batch_size = 2  # images: their maps stay in a core's cache

    def __init__(self, name: str = "lite0"):
        self.name, self.image_size = name, LITE[name].image_size
        path = lite_weights(name)
        self.weights = [path]
        self.identity = f"{name}-{file_hash(path)[:16]}"
        # channels last: twice as fast on a CPU
        self._plain = load_lite(name, path).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._traced: Callable[[Tensor], Tensor] | None = None
        self._tracing = Lock()

    @property
    def network(self) -> Callable[[Tensor], Tensor]:
        """The network, traced at its first use: where all features are cached, nobody waits for it."""
        with self._tracing:
            if self._traced is None:
                example = np.zeros((1, self.image_size, self.image_size, 3), np.uint8)
                self._traced = traced(self._plain, self._input(example))
            return self._traced

    @torch.inference_mode()
    def embed(self, images: Images) -> Features:
        if not len(images):
            return np.empty((0, N_FEATURES), np.float32)
        parts = (self._input(images[i : i + self.batch_size]) for i in range(0, len(images), self.batch_size))
        network = self.network
        features: Features = torch.cat([network(part) for part in parts]).numpy()
        return features

    def module(self) -> nn.Module:
        """The encoder as a module from pixels to features, for `sala export`."""
        return PixelModule(deepcopy(self._plain).to(memory_format=torch.contiguous_format))

    def _input(self, images: Images) -> Tensor:
        return scaled(channels_first(images)).contiguous(memory_format=torch.channels_last)


class PixelModule(nn.Module):
    """`[n, size, size, 3]` in bytes to `[n, 1280]`."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.network(scaled(pixels.permute(0, 3, 1, 2)))
        return features


def scaled(pixels: Tensor) -> Tensor:
    """Bytes as the network was trained on."""
    return (pixels.float() - 127) / 128


@torch.inference_mode()
def traced(network: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
    """The network as one call: workers then do not wait for each other between its layers, as Python's threads do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sizes that become constants, as they are; newer PyTorch calls tracing old
        trace = torch.jit.trace(network, example, check_trace=False)  # type: ignore[no-untyped-call]
        frozen: Callable[[Tensor], Tensor] = torch.jit.freeze(trace)
    return frozen
