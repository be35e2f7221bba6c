"""Tasks to choose hyper-parameters and fit coefficients on: photos of tiny-tiered's training and validation classes, and
characters of Omniglot's background alphabets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from draws import Draw, draws, features_of

from sala.data.files import Tree
from sala.data.folder import synset_files
from sala.data.splits import tieredimagenet_splits

N_IMAGES, N_ROWS = 250, 50  # of a class of tiny-tiered, and rows that are made of them


def tiny(root: Path, n_images: int, split: set[str]) -> tuple[np.ndarray, np.ndarray]:
    """Some images of each class of tiny-tiered in these splits."""
    archive, splits = root / "tiny-imagenet" / "tiny-imagenet-200.zip", tieredimagenet_splits()
    files = synset_files(Tree(archive), splits, below="train", complete=False)
    rng = np.random.default_rng(0)
    names, labels = [], []
    for synset in sorted(files):
        drawn = [str(name) for name in rng.permutation(sorted(files[synset]))[:n_images]]
        if splits[synset] in split:
            names += drawn
            labels += [synset] * n_images
    return features_of(archive, names), np.array(labels)


def characters(root: Path, n_classes: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """All 20 drawings of some characters of Omniglot's background alphabets, as their files are: ink on paper."""
    return letters(root / "omniglot" / "images_background.zip", n_classes)


def letters(archive: Path, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    names = [name for name in Tree(archive).files() if name.endswith(".png")]
    classes = ["/".join(name.split("/")[-3:-1]) for name in names]
    chosen = set(np.random.default_rng(0).permutation(sorted(set(classes)))[:n_classes])
    kept = [(name, c) for name, c in zip(names, classes, strict=True) if c in chosen]
    return features_of(archive, [name for name, _ in kept]), np.array([c for _, c in kept])


def mixtures(
    rng: np.random.Generator, features: np.ndarray, names: np.ndarray, shares: dict[str, tuple[float, ...]], n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """`n_rows` rows of each class in `shares`, each the mean of 1, 2, 4 or 8 of its images in these shares: the more, the
    easier the class. No image is in two rows, else rows of a class would be too similar."""
    rows, labels = [], []
    for name, p in shares.items():
        images, start = rng.permutation(np.flatnonzero(names == name)), 0
        for i, m in enumerate(rng.choice([1, 2, 4, 8], n_rows, p=p)):
            n = min(m, (len(images) - start) // (n_rows - i))  # as many remain for each row to come
            rows.append(features[images[start : start + n]].mean(0))
            start += n
        labels += [name] * n_rows
    return np.stack(rows), np.array(labels)


LEVELS = [  # shares of `mixtures`, hard first
    (1.0, 0, 0, 0), (0.5, 0.3, 0.2, 0), (0.2, 0.3, 0.35, 0.15), (0, 0.2, 0.5, 0.3), (0, 0, 0.3, 0.7),
]  # fmt: skip


def random_draws(
    features: np.ndarray,
    names: np.ndarray,
    n_draws: int,
    seed: int,
    sizes: tuple[int, ...] = (8, 15, 25, 40),
    n_levels: int = 4,
) -> Iterator[Draw]:
    """Tasks of many kinds: few and many classes, one and several shots, equal and unequal shots and class sizes, no outliers
    and mostly outliers, from many classes or few, hard and easy; with one level, images are not averaged."""
    class_names = sorted(set(names))
    for i in range(n_draws):
        rng = np.random.default_rng([seed, i])
        n_way = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 50]))
        among = (
            class_names
            if rng.random() < 0.6
            else sorted(rng.permutation(class_names)[: n_way + int(rng.integers(2, 12))])
        )
        size = int(rng.choice(sizes))
        falling = np.geomspace(size / 8, size, n_way).round().astype(int).clip(1)
        sizes_now = np.full(n_way, size) if rng.random() < 0.6 else falling
        sizes_now[rng.permutation(n_way)[: int(rng.choice([0, 0, 0, n_way // 2]))]] = 0  # not in the pool at all
        in_pool = sizes_now.tolist()
        share = float(rng.choice([0, 0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8]))
        most = int(rng.choice([1, 1, 1, 2, 3, 5, 8]))
        level, wide = int(rng.integers(n_levels)), 2 if n_levels > 1 else 1  # some classes are easier than others
        shares = {name: LEVELS[level + int(rng.integers(wide))] for name in among}
        rows, grouped = mixtures(rng, features, names, shares, n_rows=size + most)
        yield from draws(
            rows, grouped, among, np.empty(0, int), n_shot=most if rng.random() < 0.7 else (1, most), sizes=in_pool,
            n_outliers=round(sum(in_pool) * share / (1 - share)), n_draws=1, seed=int(rng.integers(2**31)),
        )  # fmt: skip


def tasks(root: Path, n_draws: int, seed: int) -> dict[str, list[Draw]]:
    """Tasks of photos, and half as many of characters; no test class is looked at."""
    photos = tiny(root, N_IMAGES, split={"train", "val"})
    return {
        "photos": list(random_draws(*photos, n_draws, seed)),
        "characters": list(random_draws(*characters(root), n_draws // 2, seed, (4, 6, 9, 12), n_levels=1)),
    }


COUNTS = {"photos": 1.0, "characters": 0.5}  # weight of a task in a fit to both
