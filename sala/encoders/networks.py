"""The encoders that are networks: EfficientNet-Lite, our own runs, and ONNX or TorchScript files that a user has.

A file of the user's is given images as `[n, 3, size, size]`, scaled to [0, 1] and then by ImageNet's mean and deviation.
Where it wants something else, a JSON file beside it says so (`model.onnx` has `model.json`), each key optional:

    {"image_size": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}

Its first output must be features `[n, d]` or maps `[n, d, h, w]`, which are averaged.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sala.encoders.base import Encoder, Features, Images, file_hash
from sala.encoders.lite import LITE, N_FEATURES, lite_weights, load_lite
from sala.encoders.ready import ReadyFeatures
from sala.errors import SalaError
from sala.runconfig import read_config, run_folder, shipped_runs
from sala.trained import load
from sala.wording import printable

IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
TORCHSCRIPT_SUFFIXES = {".pt", ".pth", ".ts", ".torchscript"}


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
    n_at_once = 4  # images: their maps stay in a processor's cache

    def __init__(self, name: str = "lite0"):
        self.name, self.image_size = name, LITE[name].image_size
        path = lite_weights(name)
        self.identity = f"{name}-{file_hash(path)[:16]}"
        # channels last: twice as fast on a CPU
        self.network = load_lite(name, path).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @torch.inference_mode()
    def embed(self, images: Images) -> Features:
        if not len(images):
            return np.empty((0, N_FEATURES), np.float32)
        parts = (self._input(images[i : i + self.n_at_once]) for i in range(0, len(images), self.n_at_once))
        features: Features = torch.cat([self.network(part) for part in parts]).numpy()
        return features

    def _input(self, images: Images) -> Tensor:
        x = (channels_first(images).float() - 127) / 128
        return x.contiguous(memory_format=torch.channels_last)


LETTERS = {"omniglot", "glyphs"}  # datasets that are drawn light on dark, whatever their files are


class RunEncoder:
    """The backbone of a method that `sala train` trained, on images of the size it was trained on. If that was on letters,
    which are light on dark there, an image that is more light than dark is inverted: ink on paper is what most have."""

    def __init__(self, folder: Path):
        self.method = load(folder)
        assert self.method.backbone.image_shape is not None
        self.image_size, _, channels = self.method.backbone.image_shape
        self.mode = {1: "L", 3: "RGB"}[channels]
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


class TorchScriptEncoder:
    """A TorchScript file. It holds a program: open only files that you trust."""

    mode = "RGB"

    def __init__(self, path: Path):
        self.name, self.settings = path.name, read_settings(path)
        self.image_size = self.settings.get("image_size", 224)
        self.identity = f"torchscript-{identity_of(path, self.settings)}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer PyTorch calls the format old
            try:
                self.network = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
            except (RuntimeError, ValueError, OSError, EOFError) as error:
                reason = str(error).strip().splitlines()[0]
                raise SalaError(f"{path} is not a TorchScript file ({reason}); write it with torch.jit.save") from None

    @torch.inference_mode()
    def embed(self, images: Images) -> Features:
        return checked_output(lambda x: self.network(x), standardised(images, self.settings), self.name)


class OnnxEncoder:
    """An ONNX file, run by onnxruntime on the CPU."""

    mode = "RGB"

    def __init__(self, path: Path):
        try:
            import onnxruntime
        except ImportError:
            raise SalaError(f"{path} needs onnxruntime; run pip install 'sala[onnx]'") from None
        try:
            self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors share no base class
            reason = str(error).strip().splitlines()[0]
            raise SalaError(f"{path} is not a readable ONNX file ({reason}); export it again") from None
        self.name, self.settings = path.name, read_settings(path)
        self.input = self.session.get_inputs()[0]
        size = self.input.shape[-1] if isinstance(self.input.shape[-1], int) else 224
        self.image_size = self.settings.get("image_size", size)
        self.identity = f"onnx-{identity_of(path, self.settings)}"

    def embed(self, images: Images) -> Features:
        x = standardised(images, self.settings).numpy()
        one_by_one = self.input.shape[0] == 1  # exported for a single image
        parts = np.split(x, len(x)) if one_by_one else [x]

        def run(_: Tensor) -> Tensor:
            outputs = [self.session.run(None, {self.input.name: part})[0] for part in parts]
            return torch.from_numpy(np.concatenate(outputs))

        return checked_output(run, torch.from_numpy(x), self.name)


def channels_first(images: Images) -> Tensor:  # [n, h, w, c] -> [n, c, h, w]
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)


def standardised(images: Images, settings: dict[str, Any]) -> Tensor:
    mean, std = (torch.tensor(settings.get(key, IMAGENET[key]))[:, None, None] for key in ("mean", "std"))
    return ((channels_first(images).float() / 255 - mean) / std).contiguous()


def read_settings(path: Path) -> dict[str, Any]:
    """What the JSON file beside a network says of its input."""
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return {}
    try:
        settings = dict(json.loads(beside.read_text(encoding="utf-8")))
        size = settings.get("image_size", 224)
        is_good = isinstance(size, int) and 8 <= size <= 1024
        for key in ("mean", "std"):
            is_good &= len([float(x) for x in settings.get(key, IMAGENET[key])]) == 3
    except (OSError, ValueError, TypeError, RecursionError):
        is_good = False
    if not is_good:
        raise SalaError(f'{beside} is not like {{"image_size": 224, "mean": [r, g, b], "std": [r, g, b]}}; mend it')
    return settings


def identity_of(path: Path, settings: dict[str, Any]) -> str:
    """Of the weights and of how images are prepared for them."""
    together = file_hash(path) + json.dumps(settings, sort_keys=True)
    return hashlib.sha256(together.encode()).hexdigest()[:16]


def checked_output(network: Callable[[Tensor], Any], x: Tensor, name: str) -> Features:
    """Features `[n, d]` out of a network that we know nothing of."""
    try:
        out = network(x)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise SalaError(
            f"{name} does not take images of {list(x.shape)} ({reason}); set image_size in its .json"
        ) from None
    out = out[0] if isinstance(out, tuple | list) else out
    if isinstance(out, Tensor) and out.ndim == 4:
        out = out.mean((-2, -1))
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != len(x):
        got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise SalaError(f"{name} gives {got} for {len(x)} images; it must give features [n, d] or maps [n, d, h, w]")
    features: Features = out.float().numpy()
    return features
