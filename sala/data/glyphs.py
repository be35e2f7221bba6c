"""Glyphs: letters of many scripts, drawn from the text fonts inside matplotlib, so that it is there on any machine.

A class is a letter shape. Letters that look alike (A, Alpha and Cyrillic A; o and O once scaled to one size) are one
class and belong to the first script that has them. Each image takes one of the faces that have the letter, then an
affine and a smooth elastic warp, a change of stroke weight, and noise. Whole scripts are train, val or test.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from sala.data.store import ClassEntry, Source
from sala.data.threads import one_thread

VERSION = 1  # of the drawing: changes whenever the images do
N_IMAGES = 20  # a class
CANVAS = 64  # pixels at which letters are drawn before they are warped
SEED = 20200101

# In order of precedence for letters that scripts share: the training scripts come first, so no val or test class has a
# training class's shape.
SCRIPTS = {
    "train": ("LATIN", "CYRILLIC", "CANADIAN", "TIFINAGH", "OGHAM", "LISU", "COPTIC"),
    "val": ("GREEK", "HEBREW", "LAO", "NKO"),
    "test": ("GEORGIAN", "ARMENIAN", "ARABIC", "OLD"),
}
FACES = (
    *(f"DejaVuSans{s}" for s in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{s}" for s in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"DejaVuSansMono{s}" for s in ("", "-Bold")),
    *(f"STIXGeneral{s}" for s in ("", "Bol", "Italic", "BolIta")),
)
LOOK_ALIKE = 0.88  # cosine similarity of two drawings, slightly blurred, above which letters are one class


@dataclass(frozen=True)
class Letter:
    """One class: a character and its drawings, one for each face that has it."""

    character: str
    script: str
    split: str
    drawings: tuple[NDArray[np.uint8], ...]  # each [CANVAS, CANVAS]

    @property
    def name(self) -> str:
        return f"{self.script.lower()}/U+{ord(self.character):04X}"


def read_glyphs(root: Path | None, image_size: int) -> Source:
    """Draw the dataset. `root` is not used: the fonts come with matplotlib."""
    letters = distinct(candidate_letters())
    classes = [ClassEntry(letter.name, letter.split, N_IMAGES) for letter in letters]
    return Source(classes, _images(letters, image_size), (image_size, image_size, 1))


def candidate_letters() -> list[Letter]:
    """All undecorated letters of the scripts, in the order of SCRIPTS and then of Unicode."""
    fonts = [(ImageFont.truetype(str(path), CANVAS), charmap) for path, charmap in _faces()]
    letters = []
    for split, scripts in SCRIPTS.items():
        for script in scripts:
            for code in sorted({code for _, charmap in fonts for code in charmap if _is_letter_of(code, script)}):
                drawings = tuple(_draw(chr(code), font) for font, charmap in fonts if code in charmap)
                letters.append(Letter(chr(code), script, split, drawings))
    return letters


def distinct(letters: list[Letter]) -> list[Letter]:
    """Without the letters that look like an earlier one in a face that both have first."""
    kept: list[Letter] = []
    shapes = _blurred(np.stack([letter.drawings[0] for letter in letters]))
    similarity = (shapes @ shapes.T).numpy()
    kept_rows: list[int] = []
    for row, letter in enumerate(letters):
        if not kept_rows or similarity[row, kept_rows].max() < LOOK_ALIKE:
            kept.append(letter)
            kept_rows.append(row)
    return kept


def _faces() -> list[tuple[Path, set[int]]]:
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    paths = [Path(get_data_path()) / "fonts" / "ttf" / f"{face}.ttf" for face in FACES]
    return [(path, set(FT2Font(str(path)).get_charmap())) for path in paths]


def _is_letter_of(code: int, script: str) -> bool:
    character = chr(code)
    return (
        unicodedata.category(character) in ("Lu", "Ll", "Lo")
        and not unicodedata.decomposition(character)  # not an accented or compatibility form of another letter
        and unicodedata.name(character, "").split(" ")[0] == script
    )


def _draw(character: str, font: ImageFont.FreeTypeFont) -> NDArray[np.uint8]:
    """White on black, scaled so that its longer side fills 3/4 of the canvas, centered."""
    page = Image.new("L", (4 * CANVAS, 4 * CANVAS))
    ImageDraw.Draw(page).text((CANVAS, CANVAS), character, font=font, fill=255)
    ink = page.crop(page.getbbox() or (0, 0, 1, 1))
    scale = 0.75 * CANVAS / max(ink.size)
    width, height = (max(1, round(side * scale)) for side in ink.size)
    canvas = Image.new("L", (CANVAS, CANVAS))
    canvas.paste(
        ink.resize((width, height), Image.Resampling.BILINEAR), ((CANVAS - width) // 2, (CANVAS - height) // 2)
    )
    return np.asarray(canvas)


def _blurred(drawings: NDArray[np.uint8]) -> Tensor:
    """[n, CANVAS, CANVAS] -> unit vectors [n, *]: what is left of a letter after a slight loss of focus."""
    x = torch.from_numpy(drawings).float()[:, None] / 255
    x = F.avg_pool2d(F.avg_pool2d(x, 5, stride=1, padding=2), 5, stride=2, padding=2)
    return F.normalize(x.flatten(1), dim=1)


def _images(letters: list[Letter], image_size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for index, letter in enumerate(letters):
        rng = np.random.default_rng([SEED, ord(letter.character)])  # a class's images depend on nothing but its letter
        faces = rng.permutation(np.arange(N_IMAGES) % len(letter.drawings))
        drawings = torch.from_numpy(np.stack([letter.drawings[face] for face in faces])).float()[:, None] / 255
        with one_thread():  # a letter is small work: threads would wait for each other longer than they compute
            images = jitter(drawings, image_size, rng)
        for image in images:
            yield index, image


def jitter(drawings: Tensor, image_size: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """[n, 1, CANVAS, CANVAS] in [0, 1] -> [n, image_size, image_size, 1]: as if n people had drawn the letter."""
    n = len(drawings)
    warped = F.grid_sample(drawings, _affine(n, rng) + _elastic(n, rng), align_corners=False)
    weighted = _stroke(warped, rng)
    small = F.interpolate(weighted, size=(image_size, image_size), mode="bilinear", antialias=True, align_corners=False)
    noise = torch.from_numpy(rng.normal(0, 1, small.shape).astype(np.float32))
    level = torch.from_numpy(rng.uniform(0.02, 0.12, (n, 1, 1, 1)).astype(np.float32))
    return ((small + level * noise).clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).numpy()


def _affine(n: int, rng: np.random.Generator) -> Tensor:
    """Rotation up to about 20 degrees, unequal scaling, shear and shift, as a sampling grid."""
    angle = np.clip(rng.normal(0, 0.18, n), -0.4, 0.4)
    scale = np.exp(rng.normal(0, 0.14, (n, 2)))
    shear = np.clip(rng.normal(0, 0.18, n), -0.4, 0.4)
    cos, sin, zero, one = np.cos(angle), np.sin(angle), np.zeros(n), np.ones(n)
    turn = np.stack([np.stack([cos, -sin], 1), np.stack([sin, cos], 1)], 1)
    lean = np.stack([np.stack([one, shear], 1), np.stack([zero, one], 1)], 1)
    matrix = turn @ lean @ (scale[:, :, None] * np.eye(2))
    shift = rng.uniform(-0.12, 0.12, (n, 2, 1))
    theta = torch.from_numpy(np.concatenate([matrix, shift], 2).astype(np.float32))
    return F.affine_grid(theta, [n, 1, CANVAS, CANVAS], align_corners=False)


def _elastic(n: int, rng: np.random.Generator) -> Tensor:
    """A smooth random displacement: a 5 x 5 field of shifts, interpolated over the canvas."""
    knots = torch.from_numpy(rng.normal(0, 0.07, (n, 2, 5, 5)).astype(np.float32))
    return F.interpolate(knots, size=(CANVAS, CANVAS), mode="bicubic", align_corners=True).permute(0, 2, 3, 1)


def _stroke(images: Tensor, rng: np.random.Generator) -> Tensor:
    """Thinner or bolder: blur, then a soft threshold at a random height."""
    blurred = F.avg_pool2d(F.avg_pool2d(images, 5, stride=1, padding=2), 3, stride=1, padding=1)
    height = torch.from_numpy(rng.uniform(0.15, 0.6, (len(images), 1, 1, 1)).astype(np.float32))
    return torch.sigmoid((blurred - height) * 12)
