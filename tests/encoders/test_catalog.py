"""The list of encoders: what is here, how large, how fast."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sala.encoders import catalog as module
from sala.encoders.catalog import catalog, images_per_second
from tests.helpers.painted import sala


class Slow:
    """An encoder whose clock one sets: each image takes a tenth of a second."""

    name, identity, image_size, mode = "slow", "slow-1", 8, "RGB"

    def __init__(self) -> None:
        self.now = 0.0

    def embed(self, images: np.ndarray) -> np.ndarray:
        self.now += 0.1 * len(images)
        return np.zeros((len(images), 5), np.float32)


def test_speed_is_images_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Slow()
    monkeypatch.setattr(module.time, "perf_counter", lambda: encoder.now)
    assert images_per_second(encoder) == pytest.approx(10)


def test_a_row_has_size_and_dimension() -> None:
    (row,) = catalog(["omniglot-sala"])
    weights = Path(module.__file__).parents[1] / "pretrained" / "omniglot-sala" / "best.safetensors"
    assert (row.n_bytes, row.dimension, row.images_per_second) == (weights.stat().st_size, 64, None)


def test_features_have_a_dimension_and_no_speed(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros((1, 7), np.float32))
    (tmp_path / "f.txt").write_text("a.png\n")
    (row,) = catalog([str(tmp_path / "f.npy")], measure=True)
    assert (row.dimension, row.images_per_second, row.problem) == (7, None, "")


def test_what_cannot_be_used_is_told_and_the_others_are_listed() -> None:
    done = sala("encoders", "nothing-of-that-name", "omniglot-sala")
    assert "omniglot-sala" in done.stdout and "nothing-of-that-name cannot be used" in done.stderr
