"""Which encoder a name, a folder or a file stands for; and those that are networks of ours: EfficientNet-Lite and runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from sala.encoders.base import Encoder, Features, Images, file_hash
from sala.encoders.foreign import TORCHSCRIPT_SUFFIXES, OnnxEncoder, TorchScriptEncoder, channels_first
from sala.encoders.lite import LITE, N_FEATURES, lite_weights, load_lite
from sala.encoders.ready import ReadyFeatures
from sala.errors import SalaError
from sala.runconfig import read_config, run_folder, shipped_runs
from sala.trained import load
from sala.wording import printable


def open_encoder(which: str | Path | Encoder = "lite0") -> Encoder:
    """`lite0`, `lite1` or `lite2`; a run folder, or the name of a run that comes with sala; an `.onnx`,
    TorchScript (`.pt`) or `.npy` file; or an encoder, as it is."""
    if not isinstance(which, str | Path):
        return which
    if str(which) in LITE:
        return LiteEncoder(str(which))
    path = run_folder(which)
    if path.is_dir():
        return RunEncoder(path)
    if not path.is_file():
        raise _missing(path)
    if path.suffix.lower() == ".onnx":
        return OnnxEncoder(path)
    if path.suffix.lower() in TORCHSCRIPT_SUFFIXES:
        return TorchScriptEncoder(path)
    if path.suffix.lower() == ".npy":
        return ReadyFeatures(path)
    raise SalaError(f"{path} is of no known kind; an encoder is a run folder or a file in .onnx, .pt or .npy")


def is_ours(which: str) -> bool:
    """Whether it is the name of an encoder that comes with sala or its extras, and no file or folder."""
    return which in LITE or (which in shipped_runs() and not Path(which).exists())


def _missing(path: Path) -> SalaError:
    """For what is no name of ours: a path, by its looks, or a mistyped name."""
    shown = printable(str(path))
    if path.suffix.lower() in {".onnx", ".npy", *TORCHSCRIPT_SUFFIXES} or len(path.parts) > 1:
        return SalaError(f"there is no file or folder {shown} to be an encoder; look at its name and where it is")
    names = ", ".join([*LITE, *shipped_runs()])
    return SalaError(f"there is no encoder {shown}; take {names}, a run folder, or a .onnx, .pt or .npy file")


class LiteEncoder:
    """EfficientNet-Lite with ImageNet weights: 1280 features of any photo."""

    mode = "RGB"
    is_thread_safe = True
    batch_size = 2  # images: their maps stay in a core's cache

    def __init__(self, name: str = "lite0"):
        self.name, self.image_size = name, LITE[name].image_size
        path = lite_weights(name)
        self.identity = f"{name}-{file_hash(path)[:16]}"
        # channels last: twice as fast on a CPU
        network = load_lite(name, path).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = traced(network, self._input(np.zeros((1, self.image_size, self.image_size, 3), np.uint8)))

    @torch.inference_mode()
    def embed(self, images: Images) -> Features:
        if not len(images):
            return np.empty((0, N_FEATURES), np.float32)
        parts = (self._input(images[i : i + self.batch_size]) for i in range(0, len(images), self.batch_size))
        features: Features = torch.cat([self.network(part) for part in parts]).numpy()
        return features

    def _input(self, images: Images) -> Tensor:
        x = (channels_first(images).float() - 127) / 128
        return x.contiguous(memory_format=torch.channels_last)


@torch.inference_mode()
def traced(network: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
    """The network as one call: workers then do not wait for each other between its layers, as Python's threads do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sizes that become constants, as they are; newer PyTorch calls tracing old
        frozen: Callable[[Tensor], Tensor] = torch.jit.freeze(torch.jit.trace(network, example))  # type: ignore[no-untyped-call]
    return frozen


LETTERS = {"omniglot", "glyphs"}  # datasets that are drawn light on dark, whatever their files are


class RunEncoder:
    """The backbone of a method that `sala train` trained, on images of the size it was trained on. If that was on letters,
    which are light on dark there, an image that is more light than dark is inverted: ink on paper is what most have."""

    def __init__(self, folder: Path):
        self.method = load(folder)
        assert self.method.backbone.image_shape is not None
        self.image_size, _, channels = self.method.backbone.image_shape
        if channels not in (1, 3):
            raise SalaError(f"{folder} was trained on images of {channels} channels; an encoder takes 1 or 3")
        self.mode = "L" if channels == 1 else "RGB"
        weights = next(path for name in ("best", "last") if (path := folder / f"{name}.safetensors").is_file())
        self.is_of_letters = read_config(folder).protocol.dataset in LETTERS
        self.name = folder.name
        self.identity = f"run-{file_hash(weights)[:16]}{'-letters' if self.is_of_letters else ''}"

    @torch.inference_mode()
    def embed(self, images: Images) -> Features:
        if self.is_of_letters:
            is_light = images.mean((1, 2, 3), keepdims=True) > 127.5
            images = np.where(is_light, 255 - images, images)
        features: Features = self.method.embed_images(channels_first(images)).float().flatten(1).numpy()
        return features
