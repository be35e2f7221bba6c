"""Draws of a few labeled images and a pool, with features of EfficientNet-Lite0."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sala.data.files import Tree
from sala.encoders import EmbedProgress, embed_files, open_encoder

BACKGROUND = "BACKGROUND_Google"


@dataclass(frozen=True)
class Draw:
    """Labeled features and labels, and a pool with its true labels (-1: outlier), which only the measuring looks at."""

    support: np.ndarray
    labels: np.ndarray
    pool: np.ndarray
    truth: np.ndarray


def features_of(archive: Path, names: list[str]) -> np.ndarray:
    """Features of files in an archive, unpacked into a temporary folder and read as a user's files are."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(archive) as opened:
        paths = []
        for i, name in enumerate(names):
            paths.append(Path(folder) / f"{i}{Path(name).suffix}")
            with opened.open(name) as source, paths[-1].open("wb") as target:
                shutil.copyfileobj(source, target)
        embedded = embed_files(paths, open_encoder("lite0"), progress=show)
    assert not embedded.skipped, embedded.skipped
    return embedded.features


def show(p: EmbedProgress) -> None:
    print(f"\r{p.done} of {p.total} images, {p.n_cached} from the cache", end="", file=sys.stderr, flush=True)


def caltech(root: Path) -> tuple[np.ndarray, np.ndarray]:
    archive = root / "caltech" / "caltech-16.zip"
    names = [name for name in Tree(archive).files() if name.endswith(".jpg")]
    return features_of(archive, names), np.array([name.split("/")[-2] for name in names])


def data_root() -> Path:
    return Path(os.environ.get("SALA_DATA") or sys.exit("set SALA_DATA to the folder with the datasets"))


def draws(
    features: np.ndarray, names: np.ndarray, class_names: list[str], outliers: np.ndarray, *, n_shot: int | tuple[int, int],
    sizes: list[int], n_outliers: int, n_draws: int, seed: int,
) -> Iterator[Draw]:  # fmt: skip
    """`n_shot` labeled images of each class, or a number between two, drawn for each class. `sizes` are the pool's images of
    each class; which classes have which is drawn too. Outliers are drawn from the rows `outliers` and from the classes that
    a draw does not take."""
    for i in range(n_draws):
        rng = np.random.default_rng([seed, i])
        classes = rng.permutation(class_names)[: len(sizes)]
        rows = [rng.permutation(np.flatnonzero(names == c)) for c in classes]
        shots = [n_shot] * len(sizes) if isinstance(n_shot, int) else rng.integers(n_shot[0], n_shot[1] + 1, len(sizes))
        support = np.concatenate([r[:n] for r, n in zip(rows, shots, strict=True)])
        pool = [r[n : n + size] for r, n, size in zip(rows, shots, sizes, strict=True)]
        candidates = np.concatenate([outliers, np.flatnonzero(np.isin(names, list(set(class_names) - set(classes))))])
        distractors = rng.permutation(candidates)[:n_outliers]
        truth = np.concatenate([np.full(len(p), c) for c, p in enumerate(pool)] + [np.full(len(distractors), -1)])
        labels = np.repeat(np.arange(len(sizes)), shots)
        yield Draw(features[support], labels, features[np.concatenate([*pool, distractors])], truth)
