"""Encoders and the embedding of files: formats, hostile files, threads, networks of users."""

from __future__ import annotations

import base64
import io
import os
import threading
import time
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import torch
from PIL import Image

import sala
from sala.encoders import EmbedProgress, embed_files, open_encoder, read_features
from sala.encoders import embed as embed_module
from sala.encoders.cache import FeatureCache
from sala.errors import SalaError
from tests.helpers.flat import MeanColor, saved, some_images


def embed_one(path: Path) -> np.ndarray:
    embedded = embed_files([path], MeanColor(), cache=False)
    assert not embedded.skipped
    return embedded.features[0]


@pytest.mark.parametrize(
    ("name", "image", "color"),
    [
        ("rgb.png", Image.new("RGB", (20, 10), (200, 100, 50)), (200, 100, 50)),
        ("gray.png", Image.new("L", (20, 10), 90), (90, 90, 90)),
        ("clear.png", Image.new("RGBA", (20, 10), (0, 0, 0, 0)), (255, 255, 255)),
        ("deep.png", Image.fromarray(np.full((9, 9), 65535, np.uint16)), (255, 255, 255)),
        ("print.jpg", Image.new("CMYK", (20, 10), (0, 0, 0, 0)), (255, 255, 255)),
        ("palette.gif", Image.new("P", (20, 10), 0), (0, 0, 0)),
    ],
)
def test_every_kind_of_image_becomes_rgb(tmp_path: Path, name: str, image: Image.Image, color: tuple[int, ...]) -> None:
    np.testing.assert_allclose(embed_one(saved(tmp_path / name, image)), color, atol=3)


def test_of_an_animation_the_first_picture_counts(tmp_path: Path) -> None:
    red, blue = (Image.new("RGB", (8, 8), color) for color in ("red", "blue"))
    path = saved(tmp_path / "film.gif", red, save_all=True, append_images=[blue])
    np.testing.assert_allclose(embed_one(path), (255, 0, 0), atol=3)


def test_a_photo_is_turned_as_the_camera_noted(tmp_path: Path) -> None:
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8] = 255
    exif = Image.Exif()
    exif[274] = 6  # turned by 90 degrees
    path = saved(tmp_path / "turned.png", Image.fromarray(pixels), exif=exif)
    seen: list[np.ndarray] = []

    class Seeing(MeanColor):
        def embed(self, images: np.ndarray) -> np.ndarray:
            seen.append(images)
            return super().embed(images)

    embed_files([path], Seeing(), cache=False)
    assert seen[0][0, :, -1].mean() == 255 and seen[0][0, :, 0].mean() == 0


def hostile_files(folder: Path) -> list[Path]:
    good = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(good, "JPEG")
    contents = {
        "empty.jpg": b"",
        "text.jpg": b"not an image",
        "cut.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        "<script>'\".jpg": good.getvalue()[:100],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    Image.new("1", (10_000, 10_000)).save(folder / "bomb.png")
    (folder / "folder.jpg").mkdir()
    (folder / "dangling.jpg").symlink_to(folder / "nowhere.jpg")
    os.mkfifo(folder / "pipe.jpg")
    others = ("bomb.png", "folder.jpg", "dangling.jpg", "pipe.jpg", "missing.jpg", "nul\0.jpg", "line\nbreak.jpg")
    return [folder / name for name in (*contents, *others)]


def test_bad_files_are_skipped_with_a_reason_and_the_rest_is_embedded(tmp_path: Path) -> None:
    bad = hostile_files(tmp_path)
    good = saved(tmp_path / "good.png", Image.new("RGB", (8, 8), "white"))
    reports: list[EmbedProgress] = []
    embedded = embed_files([*bad, good], MeanColor(), progress=reports.append)
    assert sorted(embedded.skipped) == list(range(len(bad)))
    assert all("\n" not in reason and "\0" not in reason and ";" in reason for reason in embedded.skipped.values())
    assert embedded.kept.tolist() == [len(bad)] and embedded.features.tolist() == [[255, 255, 255]]
    assert (reports[-1].done, reports[-1].total, reports[-1].n_skipped) == (len(bad) + 1, len(bad) + 1, len(bad))


@pytest.mark.parametrize(("size", "is_kept"), [((1, 1), False), ((5000, 2), False), ((7, 28), False), ((8, 8), True)])
def test_an_image_of_hardly_any_pixels_is_skipped(tmp_path: Path, size: tuple[int, int], is_kept: bool) -> None:
    path = saved(tmp_path / "x.png", Image.new("RGB", size, "red"))
    reasons = embed_files([path], MeanColor(), cache=False).skipped
    assert is_kept or f"{size[0]} x {size[1]} pixels, too small to tell anything from" in reasons[0]
    assert (not reasons) is is_kept


def test_images_that_an_encoder_has_no_numbers_for_are_skipped(tmp_path: Path) -> None:
    class Dividing(MeanColor):
        def embed(self, images: np.ndarray) -> np.ndarray:
            features = super().embed(images)
            return np.where(features == 0, np.nan, features)  # type: ignore[no-any-return]

    paths, store = some_images(tmp_path, 3), FeatureCache("x", tmp_path / "cache")
    for _ in range(2):  # nor are they kept
        embedded = embed_files(paths, Dividing(), cache=store)
        assert embedded.kept.tolist() == [1, 2] and "0.png has features that are not finite" in embedded.skipped[0]


def test_no_files_are_no_features() -> None:
    assert embed_files([], MeanColor(), cache=False).features.shape == (0, 0)


def test_ready_features_are_found_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.arange(6).reshape(3, 2))
    (tmp_path / "f.txt").write_text("a.jpg\nb c.jpg\nd.jpg\n")
    embedded = embed_files(
        [tmp_path / "d.jpg", tmp_path / "x.jpg", tmp_path / "a.jpg"], open_encoder(tmp_path / "f.npy")
    )
    assert embedded.features.tolist() == [[4, 5], [0, 1]] and list(embedded.skipped) == [1]


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2), object), np.full((2, 2), np.nan), np.zeros((0, 3))])
def test_features_that_are_none_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "f.npy", array, allow_pickle=True)
    with pytest.raises(SalaError):
        read_features(tmp_path / "f.npy")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_torchscript_file_is_an_encoder(tmp_path: Path) -> None:
    pool = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    torch.jit.save(torch.jit.trace(pool, torch.zeros(1, 3, 16, 16)), tmp_path / "net.pt")
    (tmp_path / "net.json").write_text('{"image_size": 16, "mean": [0, 0, 0], "std": [1, 1, 1]}')
    encoder = open_encoder(tmp_path / "net.pt")
    assert encoder.image_size == 16
    np.testing.assert_allclose(encoder.embed(np.full((2, 16, 16, 3), 51, np.uint8)), 0.2, atol=1e-6)


# x [n, 3, h, w] -> GlobalAveragePool -> [n, 3, 1, 1], as the `onnx` package writes it
MEAN_OF_CHANNELS = base64.b64decode(
    "CAgSADpcChkKAXgSAW8iEUdsb2JhbEF2ZXJhZ2VQb29sEgFnWh4KAXgSGQoXCAESEwoDEgFuCgIIAwoDEgFoCgMSAXdiHAoBbxIXChUIARIRCgMSAW4KAggD"
    "CgIIAQoCCAFCBAoAEBE="
)


def test_an_onnx_file_is_an_encoder(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(MEAN_OF_CHANNELS)
    encoder = open_encoder(tmp_path / "net.onnx")
    assert encoder.image_size == 224
    expected = (0.2 - np.array([0.485, 0.456, 0.406])) / [0.229, 0.224, 0.225]  # what a user's network is given
    np.testing.assert_allclose(encoder.embed(np.full((2, 224, 224, 3), 51, np.uint8)), [expected] * 2, atol=1e-3)
    (tmp_path / "net.json").write_text('{"image_size": 16, "mean": [0, 0, 0], "std": [1, 1, 1]}')
    other = open_encoder(tmp_path / "net.onnx")
    assert other.image_size == 16 and other.identity != encoder.identity
    embedded = embed_files(some_images(tmp_path, 3), other, cache=FeatureCache("x", tmp_path / "cache"))
    assert embedded.features.shape == (3, 3) and 0 <= embedded.features.min() <= embedded.features.max() <= 1


# x half [4, 16, 16, 3] -> mean over height and width -> [4, 3]
CHANNELS_LAST = base64.b64decode(
    "CAgSADppCjIKAXgSAW8iClJlZHVjZU1lYW4qDQoEYXhlc0ABQAKgAQcqDwoIa2VlcGRpbXMYAKABAhIBZ1obCgF4EhYKFAgKEhAKAggECgIIEAoCCBAKAggD"
    "YhMKAW8SDgoMCAoSCAoCCAQKAggDQgQKABAN"
)
# x [n, 3, 16, 16] -> mean over width -> [n, 3, 16]
TOKENS = base64.b64decode(
    "CAgSADptCjAKAXgSAW8iClJlZHVjZU1lYW4qCwoEYXhlc0ADoAEHKg8KCGtlZXBkaW1zGACgAQISAWdaHAoBeBIXChUIARIRCgMSAW4KAggDCgIIEAoCCBBi"
    "GAoBbxITChEIARINCgMSAW4KAggDCgIIEEIECgAQDQ=="
)
# x [n, 3, 16, 16] -> GlobalAveragePool, times the three numbers in net.data -> [n, 3, 1, 1]
WEIGHTS_BESIDE = base64.b64decode(
    "CAg6rAEKGQoBeBIBbSIRR2xvYmFsQXZlcmFnZVBvb2wKDgoBbQoBdxIBbyIDTXVsEgFnKkAIAQgDCAEIARABQgF3ahQKCGxvY2F0aW9uEghuZXQuZGF0YWoL"
    "CgZvZmZzZXQSATBqDAoGbGVuZ3RoEgIxMnABWhwKAXgSFwoVCAESEQoDEgFuCgIIAwoCCBAKAggQYhwKAW8SFwoVCAESEQoDEgFuCgIIAwoCCAEKAggBQgQK"
    "ABAN"
)
PLAIN = '{"mean": [0, 0, 0], "std": [1, 1, 1]}'


def test_an_onnx_file_may_want_channels_last_half_precision_and_a_fixed_number_of_images(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(CHANNELS_LAST)
    (tmp_path / "net.json").write_text(PLAIN)
    encoder = open_encoder(tmp_path / "net.onnx")
    assert encoder.image_size == 16
    images = np.zeros((6, 16, 16, 3), np.uint8)
    images[..., 1] = np.arange(6)[:, None, None] * 51
    expected = [[0, i / 5, 0] for i in range(6)]
    np.testing.assert_allclose(encoder.embed(images), expected, atol=1e-2)


def test_tokens_of_an_onnx_file_are_averaged(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(TOKENS)
    (tmp_path / "net.json").write_text(PLAIN)
    images = np.zeros((2, 16, 16, 3), np.uint8)
    images[1, 5] = 255
    expected = np.zeros((2, 16))
    expected[1, 5] = 1
    np.testing.assert_allclose(open_encoder(tmp_path / "net.onnx").embed(images), expected, atol=1e-6)


def test_an_onnx_file_with_other_weights_in_the_file_beside_it_is_another_encoder(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(WEIGHTS_BESIDE)
    (tmp_path / "net.json").write_text(PLAIN)
    identities = []
    for weights in ([1, 2, 3], [1, 2, 4]):
        (tmp_path / "net.data").write_bytes(np.array(weights, np.float32).tobytes())
        encoder = open_encoder(tmp_path / "net.onnx")
        np.testing.assert_allclose(encoder.embed(np.full((1, 16, 16, 3), 255, np.uint8)), [weights], atol=1e-6)
        identities.append(encoder.identity)
    assert identities[0] != identities[1]


def test_weights_without_their_network_are_told_from_torchscript(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "net.pth")
    with pytest.raises(SalaError, match=r"torch\.jit\.save") as caught:
        open_encoder(tmp_path / "net.pth")
    assert "miniz" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_run_folder_is_an_encoder(tmp_path: Path) -> None:
    folder = Path(sala.__file__).parent / "pretrained" / "omniglot-sala"
    encoder = open_encoder(folder)
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 1), dtype=np.uint8)
    images //= 2  # more dark than light
    expected = sala.load(folder).embed_images(torch.from_numpy(images).permute(0, 3, 1, 2)).detach().numpy()
    np.testing.assert_allclose(encoder.embed(images), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.embed(255 - images), expected, atol=1e-5)  # ink on paper, as its files are
    assert open_encoder("omniglot-sala").identity == encoder.identity
    embedded = embed_files(some_images(tmp_path, 2), encoder, cache=FeatureCache("x", tmp_path / "cache"))
    assert embedded.features.shape == (2, 64)  # photos in color and of any size become what it was trained on


@pytest.mark.parametrize(("name", "content"), [("a.pt", b"no"), ("a.onnx", b"no"), ("a.npy", b"no"), ("a.xyz", b"no")])
def test_a_file_that_is_no_encoder_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SalaError):
        open_encoder(tmp_path / name)


def test_an_encoder_that_does_not_exist_is_named() -> None:
    with pytest.raises(SalaError, match=r"lite9.*lite0"):
        open_encoder("lite9")


def test_no_file_is_read_once_the_embedding_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the first batch is embedded, and the thread is at the first file of the next."""
    paths, names_read, is_ahead = some_images(tmp_path, 100), [], threading.Event()
    read, before = embed_module.open_regular, set(threading.enumerate())

    def slow(path: Path) -> BinaryIO:
        names_read.append(path.name)
        if len(names_read) > 32:
            is_ahead.set()
            time.sleep(0.02)  # the one file that is waited for; 31 more would be read meanwhile
        return read(path)

    class Interrupted(MeanColor):
        def embed(self, images: np.ndarray) -> np.ndarray:
            is_ahead.wait()
            raise KeyboardInterrupt

    monkeypatch.setattr(embed_module, "open_regular", slow)
    monkeypatch.setattr("sala.encoders.workers.n_workers", lambda: 2)
    with pytest.raises(KeyboardInterrupt):
        embed_files(paths, Interrupted(), cache=False)
    assert set(threading.enumerate()) <= before  # none is left to go on
    assert 33 <= len(names_read) < 64


def test_decoding_on_many_threads_leaves_the_filters_of_warnings_as_they_were(tmp_path: Path) -> None:
    paths, before = some_images(tmp_path, 100), list(warnings.filters)
    (tmp_path / "broken.png").write_bytes(b"no")
    embedded = embed_files([*paths, tmp_path / "broken.png"], MeanColor(), cache=False)
    assert warnings.filters == before
    assert embedded.kept.tolist() == list(range(100)) and list(embedded.skipped) == [100]
    one_by_one = np.concatenate([embed_files([path], MeanColor(), cache=False).features for path in paths])
    np.testing.assert_array_equal(embedded.features, one_by_one)


def test_cached_features_of_another_length_are_refused_with_the_file_to_delete(tmp_path):
    paths, store = some_images(tmp_path, 3), FeatureCache("x", tmp_path / "cache")
    embed_files(paths, MeanColor(), cache=store)
    store._database.execute("UPDATE features SET value = zeroblob(8) WHERE hash = (SELECT min(hash) FROM features)")
    with pytest.raises(SalaError, match="different lengths"):
        embed_files(paths, MeanColor(), cache=store)
