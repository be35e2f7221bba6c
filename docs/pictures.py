"""The two pictures of the README, made from what a user sees: the page of `sala serve` and the report of `sala demo`.

    python docs/pictures.py                    # draws images, serves them, runs the demo (about five minutes)
    python docs/pictures.py --demo sala-demo   # takes the report of a demo that is there

Needs Playwright and Chromium (`pip install 'sala[dev]'`). The images to label are drawn here, so none is anybody's photo.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from playwright.sync_api import sync_playwright

ASSETS = Path(__file__).parent / "assets"
WIDTH, HEIGHT, SCALE = 320, 240, 3  # drawn three times as large
MAX_BYTES = 150_000
N_LABELED, N_POOL, N_OUTLIERS = 3, 16, 14
SALA = [sys.executable, "-m", "sala"]
Color = tuple[int, int, int]
Pencil = ImageDraw.ImageDraw
PAINTS: list[Color] = [
    (226, 84, 62), (242, 160, 53), (247, 205, 84), (94, 168, 92), (58, 134, 168), (92, 94, 170), (196, 96, 148), (120, 84, 62),
]  # fmt: skip
SKIES: list[Color] = [(232, 241, 247), (252, 240, 220), (225, 240, 226), (240, 230, 245), (250, 228, 224)]
INK, CREAM, BROWN = (52, 50, 58), (255, 250, 238), (128, 92, 66)


# Each draws around the origin, about 2 wide and 2 high; `at` maps to pixels.
def fish(pen: Pencil, at: Callable[..., list[Any]], paint: Color, other: Color) -> None:
    pen.polygon(at((0.45, 0), (1.0, -0.5), (0.88, 0), (1.0, 0.5)), fill=other)
    pen.polygon(at((-0.2, -0.35), (0.1, -0.85), (0.35, -0.3)), fill=other)
    pen.ellipse(at((-0.95, -0.5), (0.6, 0.5)), fill=paint)
    pen.arc(at((-0.75, -0.45), (-0.25, 0.45)), -60, 60, fill=CREAM, width=9)
    pen.ellipse(at((-0.75, -0.25), (-0.55, -0.05)), fill=CREAM)
    pen.ellipse(at((-0.7, -0.2), (-0.6, -0.1)), fill=INK)


def sailboat(pen: Pencil, at: Callable[..., list[Any]], paint: Color, other: Color) -> None:
    pen.rectangle(at((-0.04, -0.95), (0.04, 0.45)), fill=BROWN)
    pen.polygon(at((-0.1, -0.9), (-0.1, 0.25), (-0.75, 0.25)), fill=paint)
    pen.polygon(at((0.1, -0.7), (0.1, 0.25), (0.65, 0.25)), fill=other)
    pen.polygon(at((-0.9, 0.4), (0.9, 0.4), (0.6, 0.85), (-0.6, 0.85)), fill=BROWN)
    pen.rectangle(at((-1.1, 0.85), (1.1, 0.95)), fill=(92, 158, 196))


def house(pen: Pencil, at: Callable[..., list[Any]], paint: Color, other: Color) -> None:
    pen.rectangle(at((0.3, -0.85), (0.5, -0.3)), fill=BROWN)
    pen.rectangle(at((-0.7, -0.15), (0.7, 0.85)), fill=CREAM)
    pen.polygon(at((-0.9, -0.12), (0, -0.9), (0.9, -0.12)), fill=paint)
    pen.rectangle(at((-0.15, 0.3), (0.15, 0.85)), fill=other)
    for x in (-0.5, 0.28):
        pen.rectangle(at((x, 0.05), (x + 0.25, 0.32)), fill=(120, 178, 208), outline=INK, width=4)


def flower(pen: Pencil, at: Callable[..., list[Any]], paint: Color, other: Color) -> None:
    pen.rectangle(at((-0.04, 0.1), (0.04, 0.98)), fill=(82, 148, 82))
    pen.ellipse(at((0.02, 0.5), (0.5, 0.72)), fill=(94, 168, 92))
    for k in range(8):
        x, y = 0.45 * math.cos(k * math.pi / 4), 0.45 * math.sin(k * math.pi / 4) - 0.3
        pen.ellipse(at((x - 0.24, y - 0.24), (x + 0.24, y + 0.24)), fill=paint)
    pen.ellipse(at((-0.26, -0.56), (0.26, -0.04)), fill=other)


def mushroom(pen: Pencil, at: Callable[..., list[Any]], paint: Color, other: Color) -> None:
    pen.rounded_rectangle(at((-0.25, -0.1), (0.25, 0.85)), 30, fill=CREAM, outline=(222, 212, 196), width=5)
    pen.pieslice(at((-0.95, -0.85), (0.95, 0.75)), 180, 360, fill=paint)
    for x, y, r in ((-0.5, -0.3, 0.13), (0.05, -0.55, 0.16), (0.5, -0.25, 0.12), (-0.1, -0.2, 0.09)):
        pen.ellipse(at((x - r, y - r), (x + r, y + r)), fill=CREAM)


def pattern(pen: Pencil, at: Callable[..., list[Any]], paint: Color, other: Color) -> None:
    """An outlier: stripes or dots."""
    n = 4 + sum(paint) % 4
    for i in range(-n, n + 1):
        if sum(other) % 2:
            pen.rectangle(at((2 * i / n, -1.6), ((2 * i + 0.8) / n, 1.6)), fill=paint if i % 2 else other)
        else:
            for j in range(-n, n + 1):
                x, y, r = 2 * i / n, 2 * j / n, 0.55 / n
                pen.ellipse(at((x - r, y - r), (x + r, y + r)), fill=paint if (i + j) % 2 else other)


DRAWINGS = {"fish": fish, "flower": flower, "house": house, "mushroom": mushroom, "sailboat": sailboat}


def drawn(draw: Callable[..., None], rng: np.random.Generator) -> Image.Image:
    """One image: a drawing in two colors, turned a little, before a soft background."""
    size = (WIDTH * SCALE, HEIGHT * SCALE)
    top, bottom = (np.array(SKIES[i], float) for i in rng.choice(len(SKIES), 2, replace=False))
    share = np.linspace(0, 1, size[1])[:, None, None]
    image = Image.fromarray(np.broadcast_to(top + share * (bottom - top), (size[1], size[0], 3)).astype(np.uint8))
    layer = Image.new("RGBA", size, (0, 0, 0, 0))
    radius = float(rng.uniform(0.3, 0.42)) * size[1]
    x0, y0 = size[0] * float(rng.uniform(0.4, 0.6)), size[1] * float(rng.uniform(0.45, 0.55))

    def at(*points: tuple[float, float]) -> list[tuple[float, float]]:
        return [(x0 + radius * x, y0 + radius * y) for x, y in points]

    paint, other = (PAINTS[i] for i in rng.choice(len(PAINTS), 2, replace=False))
    draw(ImageDraw.Draw(layer), at, paint, other)
    layer = layer.rotate(float(rng.uniform(-14, 14)), Image.Resampling.BICUBIC, center=(x0, y0))
    shadow = Image.new("RGBA", size, (60, 50, 40, 255))
    shadow.putalpha(layer.getchannel("A").point(lambda a: a // 4).filter(ImageFilter.GaussianBlur(14)))
    image.paste(shadow, (10, 16), shadow)
    image.paste(layer, (0, 0), layer)
    return image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def draw_folders(folder: Path) -> tuple[Path, Path]:
    """Labeled images in a folder for each class, and a pool."""
    rng = np.random.default_rng(4)
    labeled, pool = folder / "labeled", folder / "drawings"
    pool.mkdir(parents=True)
    files = [labeled / name / f"{name}-{i}.jpg" for name in DRAWINGS for i in range(N_LABELED)]
    kinds = [name for name in DRAWINGS for _ in range(N_POOL)] + ["pattern"] * N_OUTLIERS
    order = rng.permutation(len(kinds))
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn(DRAWINGS[path.parent.name], rng).save(path, quality=90)
    for number, k in enumerate(order):
        drawn(DRAWINGS.get(kinds[k], pattern), rng).save(pool / f"IMG_{4100 + 3 * number}.jpg", quality=90)
    return labeled, pool


@contextmanager
def served(labeled: Path, pool: Path) -> Iterator[str]:
    """The address of the page while `sala serve` runs."""
    command = [*SALA, "serve", str(labeled), str(pool), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    try:
        found = (re.search(r"http://\S+", line) for line in process.stdout)
        yield next(match[0] for match in found if match)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def save(png: bytes, name: str) -> None:
    """As a PNG of few colors, small enough for a README."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    for n_colors in (256, 128, 64):
        image.quantize(n_colors, kmeans=3, dither=Image.Dither.NONE).save(ASSETS / name, optimize=True)
        if (size := (ASSETS / name).stat().st_size) <= MAX_BYTES:
            print(f"{ASSETS / name}: {image.width} x {image.height}, {n_colors} colors, {size:,} bytes")
            return
    raise SystemExit(f"{ASSETS / name} has {size:,} bytes, above {MAX_BYTES:,}; make the window smaller")


def photograph_page(browser: Any, folder: Path) -> None:
    with served(*draw_folders(folder)) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 750})
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        page.locator("#tabs").get_by_text("Suggestions").click()
        page.mouse.move(0, 0)
        page.wait_for_function("() => [...document.images].every(image => image.complete)")
        save(page.screenshot(), "page.png")
        page.close()


def photograph_report(browser: Any, report: Path) -> None:
    page = browser.new_page(viewport={"width": 1060, "height": 1470})
    page.goto(report.resolve().as_uri())
    save(page.screenshot(), "report.png")
    page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, help="the folder of a demo that is there")
    demo = parser.parse_args().demo
    ASSETS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        photograph_page(browser, Path(folder))
        if demo is None:
            demo = Path(folder) / "sala-demo"
            subprocess.run([*SALA, "demo", "--out", str(demo)], check=True)
        photograph_report(browser, demo / "report.html")
        browser.close()


if __name__ == "__main__":
    main()
