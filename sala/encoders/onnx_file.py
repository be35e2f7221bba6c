"""Networks as ONNX files, from pixels to what they say; each is compared with PyTorch's answers before it has its name.

The input is `pixels`: bytes `[n, image_size, image_size, channels]`, n from 1 to `MAX_IMAGES`. All scaling is part of the
file, and how to get such pixels from an image file stands in its metadata (`preprocessing`).
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sala.atomic import replaced
from sala.encoders.base import Encoder
from sala.errors import SalaError

MAX_IMAGES = 4_096  # in one call
TOLERANCE = 1e-4  # between PyTorch's answers and those of the file
NEEDED = ("onnx", "onnxscript", "onnxruntime")  # sala[onnx]
CHANNELS = {"L": 1, "RGB": 3}


def encoder_module(encoder: Encoder) -> nn.Module:
    """The encoder as a module from pixels to features, for those that have one: `lite0` to `lite2`, and trained runs."""
    module = getattr(encoder, "module", None)
    if module is None:
        raise SalaError(
            f"the encoder {encoder.name} cannot be exported: only lite0, lite1, lite2 and trained runs can; label again with "
            "one of these"
        )
    found: nn.Module = module()
    return found.eval().requires_grad_(False)


def write_encoder(encoder: Encoder, path: Path) -> float:
    """Write an encoder alone, from `pixels` to `features`. Returns the largest difference to PyTorch's answers."""
    notes = {"encoder": {"name": encoder.name, "identity": encoder.identity}}
    return write_onnx(encoder_module(encoder), encoder, ["features"], notes, path)


def preprocessing(encoder: Encoder) -> dict[str, Any]:
    """How an image file becomes the input, as the metadata tells it."""
    return {
        "input": "pixels",
        "dtype": "uint8",
        "layout": "NHWC",
        "image_size": encoder.image_size,
        "mode": encoder.mode,
        "steps": [
            "decode, JPEG at a fraction of its size that is not below image_size (Pillow's Image.draft)",
            "turn upright as the EXIF orientation says",
            "put transparency over white",
            "convert to mode",
            "resize to image_size x image_size, bilinear with antialiasing; proportions are not kept",
        ],
    }


def write_onnx(
    module: nn.Module, encoder: Encoder, outputs: Sequence[str], notes: Mapping[str, Any], path: Path
) -> float:
    """Write a module from pixels to `outputs`, with notes as JSON in its metadata. Returns the largest difference to
    PyTorch's answers, relative to answers above 1."""
    check_installed(path)
    rng, side = np.random.default_rng(0), encoder.image_size
    pixels = torch.from_numpy(rng.integers(0, 256, (3, side, side, CHANNELS[encoder.mode]), np.uint8))
    program = _program(module.eval(), pixels, list(outputs))
    told = {"sala": version("sala"), "preprocessing": preprocessing(encoder), **notes}
    program.model.metadata_props.update({key: _as_text(value) for key, value in told.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as partial:
        with _quiet():
            program.save(str(partial), external_data=False)
        found = largest_difference(module, partial, pixels)
        if not found <= TOLERANCE:
            raise SalaError(
                f"the ONNX file differs from PyTorch by {found:.1g}, and {TOLERANCE:g} is allowed; nothing was written: "
                "install the versions of constraints.txt"
            )
    return found


def check_installed(path: Path) -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SalaError(f"{path} needs {', '.join(missing)} to be written; run pip install 'sala[onnx]'")


@torch.no_grad()
def _program(module: nn.Module, pixels: Tensor, outputs: list[str]) -> Any:
    n_images = ({0: torch.export.Dim("n", min=1, max=MAX_IMAGES)},)
    with _quiet():
        exported = torch.export.export(module, (pixels,), dynamic_shapes=n_images, strict=False)
        return torch.onnx.export(
            exported, dynamo=True, input_names=["pixels"], output_names=outputs, dynamic_shapes=n_images,
            verbose=False, external_data=False,
        )  # fmt: skip


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says of packages that are not needed, and of its own inner ways."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@torch.no_grad()
def largest_difference(module: nn.Module, path: Path, pixels: Tensor) -> float:
    """Between the answers of a file and of PyTorch, for all images and for one; inf where the file does not take them."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    worst = 0.0
    for part in (pixels, pixels[:1]):
        wanted = module(part)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for ours, theirs in zip(wanted, session.run(None, {"pixels": part.numpy()}), strict=True):
            if ours.shape != theirs.shape:
                return float("inf")
            difference = (ours - torch.from_numpy(theirs)).abs() / ours.abs().clamp_min(1)
            worst = max(worst, float(difference.nan_to_num(nan=torch.inf).max()))
    return worst


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
