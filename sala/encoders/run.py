"""The encoder of a trained run. The registry imports this file when such an encoder is asked for: it needs the trainer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from sala.encoders.base import Features, Images, file_hash
from sala.encoders.exported import channels_first
from sala.errors import SalaError
from sala.training.config import read_config, run_folder
from sala.training.loading import load, plain_backbone

LETTERS = {"omniglot", "glyphs"}  # datasets that are drawn light on dark, whatever their files are


class RunEncoder:
    """The backbone of a method that `sala train` trained, on images of the size it was trained on.

    `run` is a folder, or the name of a run that comes with sala. A network trained on letters has seen them light on dark:
    an image that is more light than dark is inverted, since ink on paper is what most users have.
    """

    def __init__(self, run: Path | str):
        folder = run_folder(run)
        self.method = load(folder)
        assert self.method.backbone.image_shape is not None
        self.image_size, _, channels = self.method.backbone.image_shape
        if channels not in (1, 3):
            raise SalaError(f"{folder} was trained on images of {channels} channels; an encoder takes 1 or 3")
        self.mode = "L" if channels == 1 else "RGB"
        weights = next(path for name in ("best", "last") if (path := folder / f"{name}.safetensors").is_file())
        self.is_of_letters = read_config(folder).protocol.dataset in LETTERS
        self.folder, self.name, self.weights = folder, folder.name, [weights]
        self.identity = f"run-{file_hash(weights)[:16]}{'-letters' if self.is_of_letters else ''}"

    @torch.inference_mode()
    def embed(self, images: Images) -> Features:
        if self.is_of_letters:
            is_light = images.mean((1, 2, 3), keepdims=True) > 127.5
            images = np.where(is_light, 255 - images, images)
        features: Features = self.method.embed_images(channels_first(images)).float().flatten(1).numpy()
        return features

    def module(self) -> nn.Module:
        """The encoder as a module from pixels to features, for `sala export`."""
        return PixelModule(plain_backbone(self.method), self.is_of_letters)


class PixelModule(nn.Module):
    """`[n, size, size, channels]` in bytes to `[n, d]`; of letters, an image that is more light than dark is inverted."""

    def __init__(self, backbone: nn.Module, is_of_letters: bool):
        super().__init__()
        self.backbone, self.is_of_letters = backbone, is_of_letters

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels.permute(0, 3, 1, 2).float()
        if self.is_of_letters:
            total, n = pixels.long().sum((1, 2, 3)), math.prod(pixels.shape[1:])
            x = torch.where((2 * total > 255 * n)[:, None, None, None], 255 - x, x)
        features: Tensor = self.backbone(x / 255)
        return features.float().flatten(1)
