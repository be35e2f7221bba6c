"""The feature store: features of labeled images in memory, for a sampler to draw episodes from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sala.data.store import ClassEntry
from sala.errors import SalaError


class FeatureStore:
    """Features of images by class. Nothing was trained on them, so that all classes are in the split "test".

    Parameters
    ----------
    name : str
        Where they come from.
    features : mapping of str to array of shape (n, d)
        By name of the class.

    Raises
    ------
    SalaError
        If there are none, or they are not of one width.

    Examples
    --------
    >>> import numpy as np, sala
    >>> features = {name: np.random.default_rng(0).normal(size=(9, 4)) for name in ("cat", "dog", "owl")}
    >>> shape = sala.EpisodeShape(n_way=2, n_query=3, n_unlabeled=5)
    >>> sampler = sala.EpisodeSampler(sala.FeatureStore("pets", features), shape, split="test", seed=0)
    >>> sampler[0].task.unlabeled.shape
    torch.Size([10, 4])
    """

    def __init__(self, name: str, features: Mapping[str, NDArray[np.floating]]):
        shapes = {part.shape[1:] for part in features.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            shown = ", ".join(str(list(part.shape)) for part in list(features.values())[:3])
            raise SalaError(f"features of classes must be [n, d] with one d: got {shown or 'none'}")
        self.name = name
        self.images: NDArray[np.float32] = np.concatenate(list(features.values())).astype(np.float32)  # [n, d]
        starts = np.cumsum([0, *map(len, features.values())]).tolist()
        self.classes = [
            ClassEntry(str(c), "test", len(part), start)
            for (c, part), start in zip(features.items(), starts, strict=False)
        ]
        self.image_shape = None  # any method on `sala.Identity` fits

    @property
    def width(self) -> int:
        """d."""
        return int(self.images.shape[1])

    @cached_property
    def content_hash(self) -> str:
        """sha256 of features and classes: stores with the same hash are the same data."""
        digest = hashlib.sha256(repr(self.classes).encode())
        digest.update(np.ascontiguousarray(self.images).tobytes())
        return digest.hexdigest()

    def split(self, name: str) -> list[ClassEntry]:
        """All classes, which are of the split "test"."""
        if name != "test":
            raise SalaError(f"features of classes have one split, test; got {name!r}")
        return self.classes
