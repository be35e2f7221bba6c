"""How much memory images take while they are decoded, and that doing it in bands changes no pixel."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from sala.data import images
from sala.data.decoding import decoding_bytes
from sala.data.images import MAX_BYTES, decode, thumbnail
from sala.errors import SalaError
from tests.helpers.trees import encoded

MEASURED = """
    import sys, threading
    from pathlib import Path
    from sala.data.images import decode
    from sala.data.memory import keep_freed_memory
    def peak():
        return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) / 1000
    keep_freed_memory()  # as the command does
    before = peak()
    def work(path):
        with open(path, "rb") as file:
            decode(file, path, image_size=224, mode="RGB")
    threads = [threading.Thread(target=work, args=(path,)) for path in sys.argv[1:]]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(peak() - before)
"""


def growth(*paths: Path) -> float:
    """MB by which a process grows that decodes all of these at once."""
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEASURED), *map(str, paths)], capture_output=True, text=True, check=True
    )
    assert not ran.stderr
    return float(ran.stdout)


def saved(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_four_huge_images_at_once_stay_within_400_mb(tmp_path: Path) -> None:
    side = 8_900
    paths = [
        saved(Image.new("I;16", (side, side), 500), tmp_path / "deep.png"),
        saved(Image.new("F", (5_500, 5_500), 0.5), tmp_path / "float.tiff", compression="tiff_adobe_deflate"),
        saved(Image.new("RGBA", (side, side), (10, 20, 30, 40)), tmp_path / "alpha.png"),
        saved(Image.new("RGB", (6_000, 6_000), "red"), tmp_path / "scans.jpg", progressive=True),
    ]
    assert growth(*paths) < 400


def test_what_would_take_more_is_refused_before_it_is_decoded() -> None:
    content = encoded((1, 2, 3), "WEBP", size=(5_000, 5_000))  # 16 bytes a pixel: 400 MB
    with pytest.raises(SalaError, match="MB to decode"):
        decode(content, "photo.webp", image_size=8, mode="RGB")


def test_a_format_that_is_decoded_by_a_loop_is_small() -> None:
    plain = b"P3 3000 2000 255\n" + b"0 " * 100
    with pytest.raises(SalaError, match="slow"):
        decode(plain, "plain.ppm", image_size=8, mode="RGB")


def test_a_jpeg_of_12_megapixels_is_decoded_at_an_eighth_of_its_size() -> None:
    content = encoded((90, 90, 90), "JPEG", size=(4_000, 3_000))
    image = Image.open(io.BytesIO(content))
    image.draft("RGB", (224, 224))
    assert image.size == (500, 375)
    assert decoding_bytes(image, (4_000, 3_000)) == 500 * 375 * 4


@pytest.mark.parametrize("options", [{"progressive": True}, {"progressive": False}])
def test_of_a_jpeg_in_several_scans_all_coefficients_count(options: dict[str, bool]) -> None:
    file = io.BytesIO()
    Image.new("RGB", (800, 800)).save(file, "JPEG", **options)
    image = Image.open(file)
    size = image.size
    image.draft("RGB", (100, 100))
    assert (decoding_bytes(image, size) > 800 * 800 * 3 * 2) == options["progressive"]


def test_decoders_wait_until_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two images of which each takes more than half of the room are decoded one after the other."""
    content = encoded((1, 2, 3), size=(100, 100))  # 100 * 100 * 8 + the file
    monkeypatch.setattr(images, "MAX_BYTES", 130_000)
    now, most, lock = 0, 0, threading.Lock()
    load = PngImageFile.load

    def counted(image: PngImageFile) -> object:
        nonlocal now, most
        with lock:
            now += 1
            most = max(now, most)
        threading.Event().wait(0.01)
        with lock:
            now -= 1
        return load(image)

    monkeypatch.setattr(PngImageFile, "load", counted)
    threads = [
        threading.Thread(target=decode, args=(content, "x"), kwargs={"image_size": 8, "mode": "RGB"}) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "LA", "I;16", "F", "I"])
@pytest.mark.parametrize("orientation", [1, 2, 3, 4, 5, 6, 7, 8])
def test_bands_change_no_pixel(mode: str, orientation: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content = noise(mode, orientation)
    whole = decode(content, "x", image_size=16, mode="RGB")
    monkeypatch.setattr(images, "BAND_PIXELS", 100)
    assert (decode(content, "x", image_size=16, mode="RGB") == whole).all()
    monkeypatch.setattr(
        images, "WHOLE_PIXELS", 100
    )  # narrowed band by band: rows first, where Pillow may begin with columns
    narrowed = decode(content, "x", image_size=16, mode="RGB")
    assert np.abs(narrowed.astype(int) - whole).max() <= 1


def noise(mode: str, orientation: int) -> bytes:
    """A TIFF or PNG of random pixels that its notes say is turned."""
    values = np.random.default_rng(0).integers(0, 256, (37, 51, 4), np.uint8)
    deep = {
        "I;16": np.uint16(200) * values[..., 0],
        "F": np.float32(0.01) * values[..., 0],
        "I": values[..., 0].astype(np.int32),
    }
    image = Image.fromarray(deep[mode]) if mode in deep else Image.fromarray(values).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    image.save(file, "TIFF" if mode in deep else "PNG", exif=exif)
    return file.getvalue()


def test_a_thumbnail_keeps_its_proportions_and_never_grows() -> None:
    assert thumbnail(encoded((1, 2, 3), size=(400, 100)), "x", side=200).size == (200, 50)
    assert thumbnail(encoded((1, 2, 3), size=(40, 10)), "x", side=200).size == (40, 10)
    assert MAX_BYTES < 400_000_000
