"""Near-duplicates: crops, recompressed copies and bursts, found by their features.

    groups = near_duplicates(features)    # [[3, 17], [5, 8, 9]]: rows that show the same scene

Two images are near-duplicates if their cosine distance is below `RATIO` of the pool's typical one, the median distance of an
image to its `NEIGHBOR`-th nearest; what near means thus follows the encoder and the pool. Features of few dimensions have
close neighbors by chance: there the distance is so small that an image has `BY_CHANCE` of them. Of photos, recompressed,
scaled, brightened and mirrored copies are found, half or more of the crops to 90 %, and none to 60 %; of satellite images
and of images of 32 pixels, no heavily recompressed copies.

The cost is near linear: images are compared only with those that have a nearest leader in common (an inverted file). There are
about 2 sqrt(n) leaders, images themselves, so that dense regions have more of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from sala.classifier.normalize import to_tensor
from sala.encoders.base import Features
from sala.functional import unit_length

RATIO = 0.25  # docs/results/choices.md
NEIGHBOR = 10  # a burst of up to so many images does not change what is typical
BY_CHANCE = 0.05  # expected neighbors within the distance, if the pool had no near-duplicates
N_QUERIES = 256  # images whose neighbors tell what is typical
EXACT = 2_000  # images up to which all are compared with all
N_SHARED = 2  # leaders of an image
ROWS = 4_096  # at a time; a larger bucket is compared in overlapping parts
SAMPLE = 10_000  # images from which center and scale are estimated
ROUNDING = 1e-5  # distances below are those of equal features


@torch.inference_mode()
def near_duplicates(features: Features) -> list[list[int]]:
    """Groups of rows that are near-duplicates of each other, directly or over others.

    Parameters
    ----------
    features : array of shape (n, d)
        From any encoder, one row for each image.

    Returns
    -------
    list of list of int
        Groups of two or more rows in rising order; rows without a near-duplicate are in none.

    Examples
    --------
    >>> import numpy as np
    >>> from sala.labeling.near_duplicates import near_duplicates
    >>> x = np.random.default_rng(0).normal(size=(40, 64)).astype(np.float32)
    >>> x[7] = x[3] + 0.05 * x[8]
    >>> near_duplicates(x)
    [[3, 7]]
    """
    pool = _Pool(features)
    if len(pool) < 2 * NEIGHBOR:  # too few to tell what is typical
        return []
    cut = largest_distance(pool)
    links = [link for rows in _buckets(pool) for link in _links(pool.rows(rows), rows, 1 - cut)]
    return _groups(links, len(pool))


class _Pool:
    """Normalized embeddings of some rows at a time: no second copy of a large pool is made."""

    def __init__(self, features: Features):
        self._features = features
        sample = to_tensor(features[:: max(1, len(features) // SAMPLE)])
        self._center = sample.mean(0)
        deviation = (sample - self._center).square().mean(0).sqrt()
        self._scale = (deviation + 0.1 * deviation.mean()).clamp_min(torch.finfo(torch.float32).tiny)

    def __len__(self) -> int:
        return len(self._features)

    def rows(self, rows: Tensor | slice) -> Tensor:  # -> [m, d]
        chosen = self._features[rows if isinstance(rows, slice) else rows.numpy()]
        return unit_length((to_tensor(chosen) - self._center) / self._scale)

    def blocks(self) -> Iterator[Tensor]:
        for start in range(0, len(self), ROWS):
            yield self.rows(slice(start, start + ROWS))


def largest_distance(pool: _Pool) -> float:
    """The distance below which two images are near-duplicates.

    In d dimensions the number of neighbors grows as distance ** (d / 2), since a cosine distance is half a squared one. d
    follows from the distances at which there are `NEIGHBOR` and half as many.
    """
    queries = pool.rows(slice(None, None, max(1, len(pool) // N_QUERIES)))
    nearest = queries.new_full((len(queries), NEIGHBOR + 1), -1.0)  # the image itself is the nearest
    for block in pool.blocks():
        nearest = torch.cat([nearest, queries @ block.T], 1).topk(NEIGHBOR + 1).values
    half, whole = (float((1 - nearest[:, k]).median()) for k in (NEIGHBOR // 2, NEIGHBOR))
    if half <= ROUNDING:
        return ROUNDING
    dimension = 2 * math.log(2) / max(math.log(whole / half), 1e-9)
    by_chance: float = (BY_CHANCE / NEIGHBOR) ** (2 / dimension)
    return max(whole * min(RATIO, by_chance), ROUNDING)


def _buckets(pool: _Pool) -> Iterator[Tensor]:
    """Rows to compare with each other."""
    if len(pool) <= EXACT:
        yield torch.arange(len(pool))
        return
    leaders = pool.rows(slice(None, None, len(pool) // (2 * math.isqrt(len(pool)))))
    best = [(block @ leaders.T).topk(N_SHARED) for block in pool.blocks()]
    similarity, leader = (torch.cat(parts) for parts in zip(*best, strict=True))
    for number in range(len(leaders)):
        rows, place = (leader == number).nonzero().unbind(1)
        rows = rows[similarity[rows, place].argsort(stable=True)]
        for start in range(
            0, len(rows), ROWS * 3 // 4
        ):  # by similarity to the leader, in which near-duplicates are near
            yield rows[start : start + ROWS]


def _links(x: Tensor, rows: Tensor, threshold: float) -> Iterator[tuple[int, int]]:
    """Pairs of rows that connect those above the threshold, one for each row at most."""
    pairs = np.array((x @ x.T > threshold).triu(1).nonzero().numpy())
    if not len(pairs):
        return
    local = _components(pairs, len(x))
    first = np.unique(local, return_index=True)[1][local]
    for i in np.flatnonzero(first != np.arange(len(x))):
        yield int(rows[first[i]]), int(rows[i])


def _groups(links: list[tuple[int, int]], n: int) -> list[list[int]]:
    if not links:
        return []
    component = _components(np.array(links), n)
    found: dict[int, list[int]] = {}
    for row in sorted({row for link in links for row in link}):
        found.setdefault(int(component[row]), []).append(row)
    return list(found.values())


def _components(pairs: np.ndarray, n: int) -> np.ndarray:
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    component: np.ndarray = connected_components(graph, directed=False)[1]
    return component
