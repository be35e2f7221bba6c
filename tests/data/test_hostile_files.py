"""Broken and hostile archives and images: one sentence on stderr, exit code 1, and nothing new in the cache."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from sala.data.files import Tree
from sala.data.images import decode
from sala.errors import SalaError
from tests.helpers.trees import Prepare, gray, jpeg, photos, write, zipped

# archives


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><html>Sign in</html>", b"\n\n <HTML><body>404</body></HTML>"])
def test_a_web_page_saved_as_zip_is_called_one(tmp_path: Path, prepare: Prepare, page: bytes) -> None:
    write(tmp_path, {"images_background.zip": page, "images_evaluation.zip": page})
    assert "images_background.zip is a web page" in prepare("omniglot", tmp_path)


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.99])
def test_a_truncated_archive_is_to_be_downloaded_again(tmp_path: Path, prepare: Prepare, kept: float) -> None:
    path = zipped(tmp_path / "photos.zip", photos())
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert "download it again" in prepare("folder", path)


def test_an_empty_file_is_no_archive(tmp_path: Path, prepare: Prepare) -> None:
    path = tmp_path / "photos.zip"
    path.touch()
    assert "not a zip archive" in prepare("folder", path)


def test_a_damaged_member_is_named(tmp_path: Path, prepare: Prepare) -> None:
    path = zipped(tmp_path / "photos.zip", {**photos(), "cat/0.png": bytes(range(256)) * 8})
    content = bytearray(path.read_bytes())
    content[content.index(b"cat/0.png") + 20] ^= 0xFF
    path.write_bytes(content)
    assert f"cat/0.png in {path}" in prepare("folder", path)


@pytest.mark.parametrize("where", range(-120, 0, 3))
def test_a_damaged_table_of_contents_never_ends_in_a_traceback(tmp_path: Path, where: int) -> None:
    path = zipped(tmp_path / "photos.zip", photos())
    content = bytearray(path.read_bytes())
    content[where] ^= 0xFF
    path.write_bytes(content)
    with suppress(SalaError):
        assert Tree(path).files()  # the byte did not matter


@pytest.mark.parametrize(
    "name",
    [
        "../evil.png",
        "cat/../../evil.png",
        "/etc/evil.png",
        "//host/evil.png",
        "..\\evil.png",
        "C:\\evil.png",
        "C:/e.png",
    ],
)
def test_an_archive_that_points_outside_itself_is_refused(tmp_path: Path, prepare: Prepare, name: str) -> None:
    path = zipped(tmp_path / "photos.zip", {**photos(), name: gray()})
    assert repr(name) in prepare("folder", path)


def test_an_encrypted_archive_is_to_be_unpacked(tmp_path: Path, prepare: Prepare) -> None:
    path = zipped(tmp_path / "photos.zip", photos())
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flags in both headers of each member
        at = content.find(signature)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(signature, at + 1)
    path.write_bytes(content)
    assert "encrypted" in prepare("folder", path)


def test_a_member_that_unpacks_to_far_too_much_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    path = tmp_path / "photos.zip"
    zipped(path, photos())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("cat/bomb.png", "w") as member:
        for _ in range(260):
            member.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    assert "cat/bomb.png" in (told := prepare("folder", path)) and "256 MiB" in told


def test_a_member_that_lies_about_its_size_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    path = zipped(tmp_path / "photos.zip", {**photos(), "cat/0.png": gray() + bytes(1 << 20)})
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 100)  # the unpacked size, in the table of contents
    path.write_bytes(content)
    assert "cat/0.png" in prepare("folder", path)


def test_a_device_is_neither_folder_nor_archive(prepare: Prepare) -> None:
    assert os.devnull in prepare("folder", Path(os.devnull))


def test_a_path_that_is_not_there_is_told_with_what_should_be(tmp_path: Path, prepare: Prepare) -> None:
    told = prepare("tiny-tiered", tmp_path / "x")
    assert f"{tmp_path}/x" in told and "tiny-imagenet-200.zip" in told


# images


def bomb(side: int) -> bytes:
    """The few bytes of a PNG that says it is side x side pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("0.jpg", b"<html>not found</html>", "not an image"),
        ("0.jpg", b"", "not an image"),
        ("0.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        ("0.jpg", jpeg()[:1500], "truncated"),
        ("0.png", gray(7, (64, 64))[:60], "not a readable image"),
        ("0.png", bomb(50_000), "2,500,000,000 pixels"),
        ("0.png", bomb(9_000), "9000 x 9000 pixels"),
    ],
    ids=["web page", "empty", "PostScript", "truncated JPEG", "truncated PNG", "50,000 x 50,000", "9,000 x 9,000"],
)
def test_a_broken_image_is_named(tmp_path: Path, prepare: Prepare, name: str, content: bytes, word: str) -> None:
    write(tmp_path, {**photos(), f"owl/{name}": content})
    told = prepare("folder", tmp_path)
    assert f"{tmp_path}/owl/{name}" in told and word in told


def test_no_damage_to_a_jpeg_raises_anything_but_the_sentence() -> None:
    sound, rng = jpeg(), np.random.default_rng(1)
    for _ in range(200):
        broken = bytearray(sound)
        for at in rng.integers(2, len(sound), 8):
            broken[at] = rng.integers(256)
        with suppress(SalaError):
            assert decode(bytes(broken), "here", image_size=8, mode="RGB").shape == (8, 8, 3)


def test_a_name_that_steers_the_terminal_is_printed_harmlessly(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), "owl/\x1b[2J\n.png": b""})
    assert "owl/\\x1b[2J\\n.png is not an image" in prepare("folder", tmp_path)


def test_a_name_that_is_not_unicode_is_printed_all_the_same(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), os.fsdecode(b"owl/\xff.png"): b""})
    assert "owl/\\udcff.png is not an image" in prepare("folder", tmp_path)
