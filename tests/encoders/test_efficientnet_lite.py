"""EfficientNet-Lite: its parts by what one can work out, its weights file, and the features of the published weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from sala.data.files import Tree
from sala.data.images import decode
from sala.encoders import Encoder
from sala.encoders.efficientnet_lite import (
    LITE,
    Block,
    EfficientNetLite,
    SameConv,
    fold,
    load_lite,
    round_channels,
)
from sala.errors import SalaError


def test_batch_norm_is_folded_without_a_trace() -> None:
    conv, norm = torch.nn.Conv2d(3, 5, 3, bias=False).double(), torch.nn.BatchNorm2d(5, eps=1e-3).double().eval()
    for tensor in (norm.weight, norm.bias, norm.running_mean):
        torch.nn.init.normal_(tensor.data)  # type: ignore[union-attr]
    norm.running_var.data.uniform_(0.5, 2)  # type: ignore[union-attr]
    state = {f"c.{k}": v for k, v in conv.state_dict().items()} | {f"n.{k}": v for k, v in norm.state_dict().items()}
    folded = fold(state, "c", "n", "x")
    x = torch.randn(2, 3, 7, 7, dtype=torch.float64)
    torch.testing.assert_close(torch.nn.functional.conv2d(x, folded["x.weight"], folded["x.bias"]), norm(conv(x)))


@pytest.mark.parametrize(("wanted", "channels"), [(16, 16), (17.6, 16), (26.4, 24), (123.2, 120), (352, 352)])
def test_channels_are_rounded_to_eights(wanted: float, channels: int) -> None:
    assert round_channels(wanted) == channels


@pytest.mark.parametrize("name", LITE)
def test_the_sizes_of_the_family_build(name: str) -> None:
    with torch.inference_mode():
        assert EfficientNetLite(LITE[name])(torch.zeros(1, 3, 64, 64)).shape == (1, 1280)


def test_photos_of_one_class_are_alike(lite0: Encoder, real_data: Path) -> None:
    """Real weights, real photos: each sunflower is nearest to the other one, as each piano is."""
    archive = real_data / "caltech" / "caltech-16.zip"
    if not archive.is_file():
        pytest.skip(f"{archive} is not there")
    tree = Tree(archive)
    names = [f"caltech-16/{c}/image_000{i}.jpg" for c in ("sunflower", "grand_piano") for i in (1, 2)]
    images = np.stack([decode(tree.read(n), n, image_size=224, mode="RGB") for n in names])
    x = lite0.embed(images)
    assert x.shape == (4, 1280)
    x = x - x.mean(0)
    similar = x @ x.T - 1e9 * np.eye(4)
    assert similar.argmax(1).tolist() == [1, 0, 3, 2]


@pytest.mark.parametrize(
    ("kernel", "stride", "height", "width"),
    [
        *[(1, 1, 5, 5), (3, 1, 6, 6), (3, 2, 6, 6), (3, 2, 7, 7), (5, 2, 7, 7), (5, 2, 8, 8)],  # squares
        *[(1, 1, 5, 6), (3, 1, 4, 9), (3, 2, 6, 7), (3, 2, 7, 6), (5, 2, 7, 8), (5, 3, 6, 7), (5, 3, 7, 6)],
    ],
)
def test_convolutions_are_padded_as_tensorflow_pads(kernel: int, stride: int, height: int, width: int) -> None:
    """ceil(size / stride) pixels come out; the odd pixel of padding is right and below."""
    conv = SameConv(4, 3, kernel, stride=stride).double()
    x = torch.randn(2, 4, height, width, dtype=torch.float64)
    wanted = [-(-n // stride) for n in (height, width)]
    above, left = (max((out - 1) * stride + kernel - n, 0) // 2 for out, n in zip(wanted, (height, width), strict=True))
    slow = torch.zeros(2, 3, *wanted, dtype=torch.float64)
    for i in range(wanted[0]):
        for j in range(wanted[1]):
            slow[:, :, i, j] = conv.bias
            for di in range(kernel):
                for dj in range(kernel):
                    row, column = i * stride + di - above, j * stride + dj - left
                    if 0 <= row < height and 0 <= column < width:  # else a zero
                        slow[:, :, i, j] += x[:, :, row, column] @ conv.weight[:, :, di, dj].T
    torch.testing.assert_close(conv(x), slow)


def test_features_of_an_image_do_not_depend_on_the_others(lite0: Encoder) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 224, 224, 3)).astype(np.uint8)
    together = lite0.embed(images)
    alone = np.concatenate([lite0.embed(image[None]) for image in images])
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_a_made_up_image_has_the_features_that_it_always_had(lite0: Encoder) -> None:
    """Red rises downward, green to the right, blue is a checkerboard. Models and caches hold such numbers: a network that
    gives others is another encoder, however sensible they are."""
    place = np.arange(224)
    down, right = np.meshgrid(place, place, indexing="ij")
    image = np.stack([down, right, (down // 28 + right // 28) % 2 * 255], -1).astype(np.uint8)
    (features,) = lite0.embed(image[None])
    largest = [113, 468, 287, 747, 897, 900]
    assert np.argsort(-features)[:6].tolist() == largest
    np.testing.assert_allclose(features[largest], [4.6527, 3.4945, 2.4735, 2.4430, 2.4097, 1.7965], atol=2e-3)
    np.testing.assert_allclose(features.sum(), 70.533, atol=0.05)


@pytest.mark.parametrize("expansion", [1, 6])
def test_a_block_that_has_learned_nothing_passes_its_input_on(expansion: int) -> None:
    """Weights of zero add nothing to the input; where the shape changes there is nothing to add to."""

    def of_zeros(**options: int) -> Block:
        block = Block(**{"channels": 4, "out": 4, "kernel": 3, "stride": 1, "expansion": expansion} | options)
        for weight in block.parameters():
            torch.nn.init.zeros_(weight)
        return block

    x = torch.randn(2, 4, 6, 8)
    with torch.inference_mode():
        assert torch.equal(of_zeros()(x), x)
        assert torch.equal(of_zeros(out=5)(x), torch.zeros(2, 5, 6, 8))
        assert torch.equal(of_zeros(stride=2)(x), torch.zeros(2, 4, 3, 4))


# the weights file

State = dict[str, Tensor]


@pytest.fixture(scope="module")
def published() -> State:
    """A state with the names and shapes of the published one, and ones for numbers."""
    names = {"stem": ("_conv_stem", "_bn0"), "head": ("_conv_head", "_bn1")}
    for i, block in enumerate(EfficientNetLite(LITE["lite0"]).blocks):
        for part, norm in (("expand", "_bn0"), ("depthwise", "_bn1"), ("project", "_bn2")):
            if getattr(block, part) is not None:
                names[f"blocks.{i}.{part}"] = (f"_blocks.{i}._{part}_conv", f"_blocks.{i}.{norm}")
    state: State = {"_fc.weight": torch.ones(1000, 1280), "_fc.bias": torch.ones(1000)}
    ours = EfficientNetLite(LITE["lite0"]).state_dict()
    for name, (conv, norm) in names.items():
        state[f"{conv}.weight"] = torch.ones_like(ours[f"{name}.weight"])
        for key in ("weight", "bias", "running_mean", "running_var"):
            state[f"{norm}.{key}"] = torch.ones_like(ours[f"{name}.bias"])
    return state


def test_weights_under_the_published_names_are_those_of_the_network(published: State, tmp_path: Path) -> None:
    """Whose classifier is not used."""
    torch.save(published, tmp_path / "lite0.pth")
    network = load_lite("lite0", tmp_path / "lite0.pth")
    assert not network.training and not any(weight.requires_grad for weight in network.parameters())
    scale = 1 / (1 + 1e-3) ** 0.5  # ones, by a batch norm of ones
    for name, weight in network.named_parameters():
        wanted = scale if name.endswith("weight") else 1 - scale
        torch.testing.assert_close(weight, torch.full_like(weight, wanted), msg=name)


def without(state: State, *starts: str) -> State:
    return {name: tensor for name, tensor in state.items() if not name.startswith(starts)}


def with_one_block_more(state: State) -> State:
    last = {name: tensor for name, tensor in state.items() if name.startswith("_blocks.15.")}
    return state | {name.replace(".15.", ".16."): tensor for name, tensor in last.items()}


WRONG: dict[str, Callable[[State], State]] = {
    "a kernel of 5 for one of 3": lambda state: state | {"_conv_stem.weight": torch.ones(32, 3, 5, 5)},
    "fewer channels": lambda state: state | {"_blocks.3._project_conv.weight": torch.ones(39, 144, 1, 1)},
    "a convolution is missing": lambda state: without(state, "_blocks.3._project_conv"),
    "an optional convolution is missing": lambda state: without(state, "_blocks.3._expand_conv"),
    "a batch norm is missing": lambda state: without(state, "_bn1.running_var"),
    "the last block is missing": lambda state: without(state, "_blocks.15."),
    "a block too many": with_one_block_more,
    "a convolution too many": lambda state: state | {
        "_blocks.0._expand_conv.weight": torch.ones(32, 32, 1, 1),
        **{f"_blocks.0._bn0.{key}": torch.ones(32) for key in ("weight", "bias", "running_mean", "running_var")},
    },
    "nothing": lambda state: {},
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_weights_that_do_not_fit_the_network_are_refused(published: State, tmp_path: Path, what: str) -> None:
    torch.save(WRONG[what](published), tmp_path / "lite0.pth")
    with pytest.raises(SalaError, match=r"lite0\.pth"):
        load_lite("lite0", tmp_path / "lite0.pth")


def test_weights_of_another_size_of_the_family_are_refused(published: State, tmp_path: Path) -> None:
    torch.save(published, tmp_path / "lite2.pth")
    with pytest.raises(SalaError, match=r"lite2\.pth"):
        load_lite("lite2", tmp_path / "lite2.pth")
