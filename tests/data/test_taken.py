"""When a picture was taken."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import Image

from sala.data.taken import date_taken

TAKEN = 1_577_934_245  # 2020-01-02 03:04:05, as the camera's clock had it


@pytest.mark.parametrize(
    ("suffix", "where"),
    [("jpg", "original"), ("webp", "original"), ("jpg", "changed"), ("webp", "changed"), ("tif", "changed")],
)
def test_the_camera_says_when(tmp_path: Path, suffix: str, where: str) -> None:
    exif = Image.Exif()
    if where == "original":
        exif.get_ifd(0x8769)[0x9003] = "2020:01:02 03:04:05"
    else:
        exif[0x0132] = "2020:01:02 03:04:05"
    Image.new("RGB", (8, 8)).save(tmp_path / f"a.{suffix}", exif=exif)
    with (tmp_path / f"a.{suffix}").open("rb") as file:
        assert date_taken(file) == TAKEN


@pytest.mark.parametrize("said", [None, "yesterday", "0000:00:00 00:00:00", "\0" * 19])
def test_else_the_file_says_when(tmp_path: Path, said: str | None) -> None:
    exif = Image.Exif()
    if said is not None:
        exif[0x0132] = said
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    os.utime(tmp_path / "a.jpg", (TAKEN, TAKEN))
    with (tmp_path / "a.jpg").open("rb") as file:
        assert date_taken(file) == TAKEN


def test_what_is_no_picture_and_no_file_has_no_date() -> None:
    assert date_taken(io.BytesIO(b"\xff\xd8\xff\xe1\xff\xffExif\0\0")) == 0
