"""All sorts of images, and the pixels that they are decoded to."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from sala.data.images import decode
from tests.helpers.trees import encoded


def pixel(content: bytes, mode: str = "RGB") -> list[int]:
    """The upper left pixel after decoding at 8 x 8."""
    return [int(level) for level in decode(content, "here", image_size=8, mode=mode)[0, 0]]


def test_a_cmyk_jpeg_becomes_rgb() -> None:
    red, green, blue = pixel(encoded((0, 255, 255, 0), "JPEG", "CMYK"))
    assert red > 200 and green < 50 and blue < 50


def test_a_gray_image_has_three_equal_channels() -> None:
    assert pixel(encoded(77, mode="L")) == [77, 77, 77]


def test_a_color_image_becomes_gray_where_one_channel_is_asked_for() -> None:
    assert pixel(encoded((100, 100, 100)), mode="L") == [100]


def test_a_transparent_palette_image_lies_on_white() -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([200, 0, 0, 0, 200, 0])
    file = io.BytesIO()
    image.save(file, "PNG", transparency=0)
    assert pixel(file.getvalue()) == [255, 255, 255]


def test_half_transparent_black_over_white_is_gray() -> None:
    assert np.allclose(pixel(encoded((0, 0, 0, 128), mode="RGBA")), 127, atol=1)


@pytest.mark.parametrize(("level", "expected"), [(65535, 255), (32896, 128), (200, 1), (0, 0)])
def test_16_bit_gray_is_scaled_to_8_bits(level: int, expected: int) -> None:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), level, np.uint16)).save(file, "TIFF")
    assert pixel(file.getvalue(), mode="L") == [expected]


@pytest.mark.parametrize(("level", "expected"), [(1.0, 255), (200.0, 200), (float("nan"), 0)])
def test_a_tiff_of_floats_is_scaled_by_its_range(level: float, expected: int) -> None:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), level, np.float32)).save(file, "TIFF")
    assert pixel(file.getvalue(), mode="L") == [expected]


def test_an_image_that_the_camera_says_is_turned_is_turned_back() -> None:
    image = Image.new("RGB", (8, 8), "black")
    image.paste((255, 255, 255), (0, 0, 4, 8))  # left half white
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise: left comes to the top
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    upright = decode(file.getvalue(), "here", image_size=8, mode="L")[:, :, 0]
    assert upright[0].tolist() == [255] * 8 and upright[-1].tolist() == [0] * 8


def test_broken_camera_notes_do_not_spoil_an_image() -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (90, 90, 90)).save(file, "JPEG", exif=b"Exif\0\0garbage, not TIFF")
    assert np.allclose(pixel(file.getvalue()), 90, atol=2)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_counts(form: str) -> None:
    frames = [Image.new("RGB", (8, 8), (level,) * 3) for level in (50, 150, 250)]
    file = io.BytesIO()
    frames[0].save(file, form, save_all=True, append_images=frames[1:])
    assert np.allclose(pixel(file.getvalue()), 50, atol=3)


def test_a_large_jpeg_is_scaled_with_antialiasing() -> None:
    stripes = np.tile(np.array([0, 255], np.uint8), (800, 400))
    file = io.BytesIO()
    Image.fromarray(stripes).save(file, "JPEG", quality=95)
    assert np.allclose(decode(file.getvalue(), "here", image_size=8, mode="L"), 127, atol=6)
