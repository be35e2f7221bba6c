"""Photos that lie on their side: an encoder that sees the colors of the four sides, and classes that differ above."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sala.labeling.embedding import embed_project
from sala.labeling.label import LabelingResult, classify
from sala.labeling.places import Places
from sala.labeling.project import open_project
from sala.labeling.turned import Turns


class Edges:
    """The mean of each side of an image, in each channel."""

    name, identity, image_size, mode = "edges", "edges-1", 8, "RGB"

    def embed(self, images: np.ndarray) -> np.ndarray:
        x = images.astype(np.float32) / 255
        middle = slice(2, -2)  # corners belong to two sides
        sides = x[:, :2, middle], x[:, -2:, middle], x[:, middle, :2], x[:, middle, -2:]
        return np.concatenate([side.mean((1, 2)) for side in sides], 1)


def draw(path: Path, color: tuple[int, ...], turn: int, rng: np.random.Generator) -> None:
    """A dark image with a color above and green below, turned by quarters."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = rng.normal(30, 8, (8, 8, 3))
    pixels[:2], pixels[-2:] = rng.normal(color, 8, (2, 8, 3)), rng.normal((30, 230, 30), 8, (2, 8, 3))
    Image.fromarray(np.rot90(np.clip(pixels, 0, 255).astype(np.uint8), turn)).save(path)


@pytest.fixture
def result(tmp_path: Path) -> LabelingResult:
    """Red above and blue above, four examples and fifteen images of the pool each; one red image lies on its left side."""
    rng = np.random.default_rng(0)
    for name, color in {"red": (230, 30, 30), "blue": (30, 30, 230)}.items():
        for i in range(4):
            draw(tmp_path / "labeled" / name / f"{i}.png", color, 0, rng)
        for i in range(15):
            draw(tmp_path / "pool" / f"{name}-{i}.png", color, 0, rng)
    draw(tmp_path / "pool" / "sideways.png", (230, 30, 30), 1, rng)
    images = embed_project(open_project(Places(tmp_path / "pool", tmp_path / "labeled")), Edges())
    return classify(images, images.project.classes, images.project.given)


def test_the_image_on_its_side_is_found_with_its_class_and_its_turn(result: LabelingResult) -> None:
    found = Turns(result.images).find(result)
    assert [result.project.path(i).name for i in found] == ["sideways.png"]
    (hint,) = found.values()
    assert "red" in hint and "90° to the right" in hint
