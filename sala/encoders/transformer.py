"""Encoders of the `transformers` library by name: Dinov2, CLIP, SigLIP, ViT, ConvNeXt, Swin, ResNet and other vision models.

    open_encoder("hf:facebook/dinov2-small")     # of the hub, downloaded once
    open_encoder("hf:models/dinov2-small")       # a folder that save_pretrained wrote

An image is prepared as the model's own processor says (size, crop, interpolation, rescaling, mean, std), by the library's
code for Pillow; torchvision is not needed. Its features are, by family:

| family | features |
|---|---|
| models of images and text (CLIP, SigLIP, ...) | the image embedding in the space that they share |
| ViT, DeiT, ViT-MSN, Dinov2, Dinov3 | the class token after the last normalization |
| others whose checkpoint has a pooled output (ConvNeXt, Swin, ResNet, CLIP's vision tower alone, BEiT, ...) | that output |
| others | the mean over the last map or tokens |

A ViT's own pooler is passed over: checkpoints for classification come without its weights, which would then be random. Weights
are read from safetensors files only, and no code of a repository is ever run. On CUDA the network computes in bfloat16 where
the GPU can.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from sala.encoders.base import Features, file_hash
from sala.encoders.hub import CONFIG, PREPROCESSING, missing_library, model_folder, read_json, safetensors_files
from sala.errors import SalaError
from sala.text import printable

CLASS_TOKEN = {"vit", "deit", "vit_msn", "dinov2", "dinov2_with_registers", "dinov3_vit"}  # config.model_type
RANDOM = {"vit_mae"}  # hide parts of an image at random
CHANGES_NOTHING = {"transformers_version", "_name_or_path", "torch_dtype", "dtype", "architectures"}  # of settings
POOLING = "1"  # of the table above; a change to it is a change of features
PROBES = [(64, 48), (48, 96)]  # pixels: whatever comes in, images of one size must come out


class TransformersEncoder:
    """A vision model of `transformers` with its own preprocessing.

    Parameters
    ----------
    which : str
        `hf:OWNER/NAME`, `hf:OWNER/NAME@REVISION` or `hf:FOLDER`.
    device : str, optional
        "cpu" or "cuda". Default: "cuda" where there is one.
    """

    mode = "RGB"

    def __init__(self, which: str, device: str | None = None):
        self.folder, self.name = model_folder(which), which
        self.weights = safetensors_files(self.folder)
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.is_thread_safe = self.device.type == "cpu"
        self.batch_size = 8 if self.is_thread_safe else 64
        self.processor, model, self.pooling = opened(self.folder, which)
        self.model = model.to(self.device)
        self.image_size = self._checked_size()
        self.identity = f"hf-{identity_of(self.folder, self.weights)}"
        self.is_bfloat16 = self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        # features of another precision are close, and a model takes either; in a cache they are not mixed
        self.cache_key = f"{self.identity}-bfloat16" if self.is_bfloat16 else self.identity

    def prepare(self, image: Image.Image) -> NDArray[np.float32]:  # -> [3, h, w]
        """What the network takes, from an upright RGB image of any size."""
        pixels = self.processor(images=image, return_tensors="np").get("pixel_values")
        if pixels is None or np.ndim(pixels) != 4 or np.shape(pixels)[1] != 3:
            got = "none" if pixels is None else list(np.shape(pixels))
            raise SalaError(
                f"{self.name} prepares images as {got}, and [1, 3, height, width] can be used; take another model"
            )
        return np.ascontiguousarray(pixels[0], np.float32)

    @torch.inference_mode()
    def embed(self, images: NDArray[Any]) -> Features:
        """Features `[n, d]` of prepared images `[n, 3, h, w]`."""
        x = torch.from_numpy(np.asarray(images, np.float32)).to(self.device)
        try:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_bfloat16):
                features = pooled(self.model, x, self.pooling)
        except (RuntimeError, ValueError, TypeError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise SalaError(
                f"{self.name} does not embed images of {list(x.shape)} ({reason}); take another model"
            ) from None
        result: Features = features.float().cpu().numpy()
        return result

    def _checked_size(self) -> int:
        shapes = {self.prepare(Image.new("RGB", size)).shape for size in PROBES}
        if len(shapes) > 1:
            raise SalaError(
                f"{self.name} keeps images in their proportions ({sorted(shapes)}), and images of one size are needed; set "
                f"do_center_crop and crop_size in its {PREPROCESSING[0]}"
            )
        return int(shapes.pop()[-1])


def opened(folder: Path, which: str) -> tuple[Any, Any, str]:
    """The processor and the model of a folder, and how its output becomes features: "shared", "class", "pooled" or "mean"."""
    try:
        from transformers import AutoImageProcessor, AutoModel
    except ImportError:
        raise missing_library(which) from None
    shown, own = printable(which), {"local_files_only": True, "trust_remote_code": False}
    family = str(read_json(folder / CONFIG).get("model_type", ""))
    if family in RANDOM:
        raise SalaError(
            f"{shown} hides parts of an image at random ({family}), so it has no fixed features; take another model"
        )
    if not any((folder / name).is_file() for name in PREPROCESSING):
        raise SalaError(
            f"{shown} has no {PREPROCESSING[0]}, so it is no model of images; take another, or add that file"
        )
    try:
        with quiet():
            processors: Any = AutoImageProcessor
            processor = processors.from_pretrained(folder, backend="pil", **own)
            model, about = AutoModel.from_pretrained(
                folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True, **own
            )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError, AttributeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise SalaError(
            f"{shown} cannot be opened as a vision model of transformers ({reason}); code of a repository is never run: take "
            "a model that the library itself has"
        ) from None
    missing = sorted(about["missing_keys"])
    if lost := [key for key in missing if "pooler" not in key]:
        raise SalaError(f"{shown} lacks weights, the first of them {lost[0]}, which would be random; get a whole copy")
    return processor, model.eval().requires_grad_(False), pooling_of(model, family, has_pooler=not missing)


def pooling_of(model: Any, family: str, *, has_pooler: bool) -> str:
    """Which row of the table above it is."""
    if hasattr(model, "get_image_features"):
        return "shared"
    if family in CLASS_TOKEN:
        return "class"
    return "pooled" if has_pooler else "mean"


def pooled(model: Any, x: Tensor, pooling: str) -> Tensor:  # [n, 3, h, w] -> [n, d]
    """The features among the model's outputs."""
    output = model.get_image_features(pixel_values=x) if pooling == "shared" else model(pixel_values=x)
    if isinstance(output, Tensor):
        return output.flatten(1)
    if pooling in ("shared", "pooled") and (found := output.get("pooler_output")) is not None:
        return torch.as_tensor(found).flatten(1)
    last: Tensor = output["last_hidden_state"]
    if pooling == "class":
        return last[:, 0]
    return last.flatten(2).mean(2) if last.ndim == 4 else last.mean(1)


def identity_of(folder: Path, weights: list[Path]) -> str:
    """Of the weights, the architecture and how images are prepared."""
    settings = [read_json(folder / name) for name in (CONFIG, *PREPROCESSING) if (folder / name).is_file()]
    plain = [{key: value for key, value in part.items() if key not in CHANGES_NOTHING} for part in settings]
    together = "".join(map(file_hash, weights)) + json.dumps(plain, sort_keys=True) + POOLING
    return hashlib.sha256(together.encode()).hexdigest()[:16]


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the library logs, of weights that are not used, as those of a classifier; and without its bars for the
    reading of a file."""
    from transformers import utils

    logging: Any = utils.logging
    level, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_bars:
            logging.enable_progress_bar()
