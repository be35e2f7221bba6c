"""The encoders that a user has as a file: ONNX and TorchScript.

It is given images as `[n, 3, size, size]` (an ONNX file that was made for it, `[n, size, size, 3]`), scaled to [0, 1] and then
by ImageNet's mean and deviation. Where it wants something else, a JSON file beside it says so (`model.onnx` has
`model.json`), each key optional:

    {"image_size": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}

Its first output must be features `[n, d]`, or maps `[n, d, h, w]` or tokens `[n, t, d]`, which are averaged.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sala.data.files import read_bounded, read_text
from sala.encoders.base import Features, Images, file_hash
from sala.errors import SalaError

IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
MIN_SIDE, MAX_SIDE, MAX_BATCH = 8, 1024, 1024  # what a network may ask for
MAX_BYTES = 2 << 30  # of an ONNX file: the most that its format holds
BATCH_SIZE = 2  # images: their maps stay in a core's cache
TORCHSCRIPT_SUFFIXES = {".pt", ".pth", ".ts", ".torchscript"}


class TorchScriptEncoder:
    """A TorchScript file. It holds a program: open only files that you trust."""

    mode, is_thread_safe, batch_size = "RGB", True, BATCH_SIZE

    def __init__(self, path: Path):
        self.name, self.settings = path.name, read_settings(path)
        self.image_size = self.settings.get("image_size", 224)
        self.identity = f"torchscript-{identity_of([path], self.settings)}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer PyTorch calls the format old
            try:
                self.network = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
            except (RuntimeError, ValueError, OSError, EOFError) as error:
                reason = str(error).strip().splitlines()[0].split(". ")[0]  # what follows is guesses about the file
                raise SalaError(
                    f"{path} is not a TorchScript file ({reason}); write it with torch.jit.save, which keeps the network with "
                    "its weights, not with torch.save"
                ) from None

    @torch.inference_mode()
    def embed(self, images: Images) -> Features:
        return checked_output(lambda x: self.network(x), standardized(images, self.settings), self.name)


class OnnxEncoder:
    """An ONNX file, run by onnxruntime on the CPU: with channels first or last, in single or half precision, for any number of
    images at once or for a fixed one."""

    mode, is_thread_safe = "RGB", True

    def __init__(self, path: Path):
        try:
            import onnxruntime
        except ImportError:
            raise SalaError(f"{path} needs onnxruntime; run pip install 'sala[onnx]'") from None
        weights = weight_files(path)  # before it is run: a file, and of a size that can be read
        try:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1  # it is asked by several threads
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors share no base class
            reason = str(error).strip().splitlines()[0]
            raise SalaError(f"{path} is not a readable ONNX file ({reason}); export it again") from None
        self.name, self.settings = path.name, read_settings(path)
        self.input, sizes = image_input(self.session.get_inputs(), path)
        self.fixed_batch, second, side, last = sizes
        self.batch_size = self.fixed_batch or BATCH_SIZE
        self.is_channels_last = last == 3 and second != 3
        self.image_size = self.settings.get("image_size", side or 224)
        if not is_image_size(self.image_size) or self.batch_size > MAX_BATCH:
            raise SalaError(
                f"{path} wants {self.batch_size:,} images of {self.image_size:,} pixels a side; up to {MAX_BATCH} of "
                f"{MIN_SIDE} to {MAX_SIDE} can be had: export another"
            )
        self.identity = f"onnx-{identity_of([path, *weights], self.settings)}"

    def embed(self, images: Images) -> Features:
        return checked_output(self._run, standardized(images, self.settings), self.name)

    def _run(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1) if self.is_channels_last else x
        x = x.half() if self.input.type == "tensor(float16)" else x
        n = self.fixed_batch or len(x)
        return torch.cat([self._run_batch(x[i : i + n], n) for i in range(0, len(x), n)])

    def _run_batch(self, x: Tensor, n: int) -> Tensor:
        """Filled up to n images with the last one."""
        full = torch.cat([x, x[-1:].expand(n - len(x), *x.shape[1:])])
        output = self.session.run(None, {self.input.name: np.ascontiguousarray(full.numpy())})[0]
        return torch.from_numpy(np.asarray(output))[: len(x)]


def image_input(inputs: Sequence[Any], path: Path) -> tuple[Any, list[int | None]]:
    """The one input of a network, and its sizes; None stands for any."""
    shapes = [list(taken.shape) for taken in inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise SalaError(f"{path} takes {shapes}, and images are [n, 3, h, w] or [n, h, w, 3]; export another")
    return inputs[0], [n if isinstance(n, int) and n > 0 else None for n in shapes[0]]


def is_image_size(size: object) -> bool:
    """Whether it is a number of pixels that a network may ask for."""
    return isinstance(size, int) and not isinstance(size, bool) and MIN_SIDE <= size <= MAX_SIDE


def channels_first(images: Images) -> Tensor:  # [n, h, w, c] -> [n, c, h, w]
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)


def standardized(images: Images, settings: dict[str, Any]) -> Tensor:
    """Images `[n, 3, h, w]` scaled to [0, 1], then by mean and standard deviation."""
    mean, std = (torch.tensor(settings.get(key, IMAGENET[key]))[:, None, None] for key in ("mean", "std"))
    return ((channels_first(images).float() / 255 - mean) / std).contiguous()


def read_settings(path: Path) -> dict[str, Any]:
    """What the JSON file beside a network says of its input."""
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return {}
    try:
        settings = dict(json.loads(read_text(beside)))
        is_good = is_image_size(settings.get("image_size", 224))
        for key in ("mean", "std"):
            values = [float(x) for x in settings.get(key, IMAGENET[key])]
            is_good &= len(values) == 3 and all(math.isfinite(x) and (key == "mean" or x > 0) for x in values)
    except (SalaError, ValueError, TypeError, OverflowError, RecursionError):
        is_good = False
    if not is_good:
        raise SalaError(f'{beside} is not like {{"image_size": 224, "mean": [r, g, b], "std": [r, g, b]}}; mend it')
    return settings


LOCATION = re.compile(rb"\n\x08location\x12([\x01-\x7f])", re.DOTALL)  # the length of a name, in an ONNX file


def weight_files(path: Path) -> list[Path]:
    """Files beside an ONNX file in which it keeps weights, as exporters do by default with large networks."""
    content = read_bounded(path, MAX_BYTES)
    names = {content[found.end() : found.end() + found[1][0]] for found in LOCATION.finditer(content)}
    places = [path.parent / os.fsdecode(name) for name in sorted(names) if b"\0" not in name]
    return [place for place in places if place.is_file()]


def identity_of(files: list[Path], settings: dict[str, Any]) -> str:
    """Of the weights and of how images are prepared for them."""
    together = "".join(map(file_hash, files)) + json.dumps(settings, sort_keys=True)
    return hashlib.sha256(together.encode()).hexdigest()[:16]


def checked_output(network: Callable[[Tensor], Any], x: Tensor, name: str) -> Features:
    """Features `[n, d]` out of a network that we know nothing of."""
    try:
        out = network(x)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        raise SalaError(
            f"{name} does not take images of {list(x.shape)} ({reason}); set image_size in its .json"
        ) from None
    out = out[0] if isinstance(out, tuple | list) else out
    if isinstance(out, Tensor) and out.ndim == 4:
        out = out.mean((-2, -1))
    if isinstance(out, Tensor) and out.ndim == 3:
        out = out.mean(1)
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != len(x):
        got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise SalaError(
            f"{name} gives {got} for {len(x)} images; it must give features [n, d], maps [n, d, h, w] or tokens [n, t, d]"
        )
    features: Features = out.float().numpy()
    return features
