"""Flat pictures in folders, an encoder whose answer one sees, and the command line on them."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sala.classifier.fit import PoolPredictions
from sala.cli.app import app
from sala.errors import SalaError
from sala.labeling.predictions import Thresholds
from sala.labeling.table import rows_of


class MeanColor:
    """An encoder whose answer one sees: the mean of each channel."""

    name, identity, image_size, mode = "mean-color", "mean-color-label", 8, "RGB"

    def embed(self, images: np.ndarray) -> np.ndarray:
        return images.mean((1, 2)).astype(np.float32)


@pytest.fixture
def color_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--encoder color` needs no weights."""
    from sala.encoders import open_encoder

    def opened(which: object = "lite0") -> object:
        return MeanColor() if which == "color" else open_encoder(which)  # type: ignore[arg-type]

    monkeypatch.setattr("sala.encoders.open_encoder", opened)
    monkeypatch.setattr("sala.labeling.predict.open_encoder", opened)


def invoke(*words: object, stdin: bytes | None = None) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin, catch_exceptions=True)


def sala(*words: object, stdin: bytes | None = None) -> Any:
    """A command that must succeed."""
    result = invoke(*words, stdin=stdin)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refusal(*words: object) -> str:
    """The sentence of a command that must fail."""
    result = invoke(*words)
    assert isinstance(result.exception, SalaError), (result.output, result.exception)
    assert "\n" not in str(result.exception)
    return str(result.exception)


def paint(path: Path, color: tuple[int, int, int], seed: int = 0) -> Path:
    """A flat picture, a little off the color so that no two are copies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    jitter = np.random.default_rng(seed + zlib.crc32(path.name.encode())).integers(-20, 21, 3)
    Image.new("RGB", (12, 9), tuple(int(x) for x in np.clip(np.array(color) + jitter, 0, 255))).save(path, "PNG")
    return path


RED, GREEN, BLUE = (220, 30, 30), (30, 220, 30), (30, 30, 220)
GRAY = (130, 130, 130)


def paint_outliers(pool: Path, known: Path) -> None:
    """Gray pictures are outliers: ten in the pool, and four that are known."""
    for i in range(10):
        paint(pool / f"gray{i}.png", GRAY, i)
    for i in range(4):
        paint(known / f"{i}.png", GRAY, 50 + i)


def painted_folders(root: Path) -> tuple[Path, Path]:
    """Two red and one green and three blue pictures labeled; ten of each, in two folders, to label."""
    for name, color, n in (("red", RED, 2), ("green", GREEN, 1), ("blue", BLUE, 3)):
        for i in range(n):
            paint(root / "labeled" / name / f"{i}.png", color, 100 + i)
        for i in range(10):
            paint(root / "pool" / f"part{i % 2}" / f"{name}{i}.png", color, i)
    return root / "labeled", root / "pool"


@pytest.fixture
def painted(tmp_path: Path) -> tuple[Path, Path]:
    return painted_folders(tmp_path)


@pytest.fixture(name="folders")
def folders_painted(painted: tuple[Path, Path], color_encoder: None) -> tuple[Path, Path]:
    """For the modules that import it, in place of the folders of pages."""
    return painted


def verdict(outlier_probability: float, probability: float, thresholds: Thresholds) -> str:
    """What is said of an image with these probabilities, to be an outlier and among the classes."""
    p, outlier = (np.array([x], np.float32) for x in (probability, outlier_probability))
    said = PoolPredictions(p[:, None], np.array([0]), np.array([0]), outlier, np.array([False]), np.zeros(0, np.int64))
    (row,) = rows_of(said, [Path("image.png")], ("class",), thresholds)
    return row.verdict


def labels(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
