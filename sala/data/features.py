"""The feature store: features of labeled images in memory, for a sampler to draw episodes from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sala.data.arrays import by_class, splits_of
from sala.data.build import with_starts
from sala.data.store import ClassEntry
from sala.errors import SalaError


class FeatureStore:
    """Features of images by class. Methods run on them, and are trained, with the backbone `sala.Identity(store.width)`.

    Parameters
    ----------
    name : str
        Where they come from.
    features : mapping of str to array of shape (n, d)
        By name of the class.
    split : str or mapping, default "test"
        "train", "val" or "test" for all classes, or one of them by class.

    Raises
    ------
    SalaError
        If there are none, they are not of one width, or not finite.

    Examples
    --------
    >>> import numpy as np, sala
    >>> features = {name: np.random.default_rng(0).normal(size=(9, 4)) for name in ("cat", "dog", "owl")}
    >>> shape = sala.EpisodeShape(n_way=2, n_query=3, n_unlabeled=5)
    >>> sampler = sala.EpisodeSampler(sala.FeatureStore("pets", features), shape, split="test", seed=0)
    >>> sampler[0].task.unlabeled.shape
    torch.Size([10, 4])
    """

    def __init__(
        self, name: str, features: Mapping[str, NDArray[np.floating]], *, split: str | Mapping[Any, str] = "test"
    ):
        shapes = {part.shape[1:] for part in features.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            shown = ", ".join(str(list(part.shape)) for part in list(features.values())[:3])
            raise SalaError(f"features of classes must be [n, d] with one d: got {shown or 'none'}")
        splits = splits_of([str(c) for c in features], split, 0, name)
        entries = with_starts(ClassEntry(str(c), splits[str(c)], len(part)) for c, part in features.items())
        self._fill(name, np.concatenate(list(features.values())), entries)

    def _fill(self, name: str, features: NDArray[np.floating], classes: list[ClassEntry]) -> None:
        if not np.isfinite(features).all():
            raise SalaError(f"features are finite numbers; {name} has NaN or infinity; remove those images")
        self.name, self.classes = name, classes
        self.images: NDArray[np.float32] = features.astype(np.float32)  # [n, d]
        self.image_shape = None  # any method on `sala.Identity` fits

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        labels: Any,
        *,
        split: str | Mapping[Any, str] | None = None,
        classes: Sequence[str] | None = None,
        name: str = "features",
        split_seed: int = 0,
    ) -> FeatureStore:
        """A store of features `[n, d]` with a label each; the options are those of `ImageStore.from_arrays`.

        Examples
        --------
        >>> import numpy as np, sala
        >>> store = sala.FeatureStore.from_arrays(np.zeros((6, 8)), [0, 0, 1, 1, 2, 2], classes=["cat", "dog", "owl"])
        >>> store.width, len(store.split("train"))
        (8, 1)
        """
        if isinstance(features, Tensor):  # NumPy has no bfloat16
            features = (features.float() if features.is_floating_point() else features).detach().cpu().numpy()
        table = np.asarray(features)
        if table.ndim != 2 or table.dtype.kind != "f":
            raise SalaError(
                f"features are floats [n, d], a row per image; got {table.dtype} {list(table.shape)}; images go to "
                "sala.ImageStore.from_arrays, and whole numbers are converted by .astype(float)"
            )
        grouped = by_class(labels, name, n=len(table), split=split, classes=classes, split_seed=split_seed)
        store = cls.__new__(cls)
        store._fill(name, table[grouped.rows], grouped.classes)
        return store

    @property
    def item_shape(self) -> tuple[int, ...]:
        """What a backbone is built for: `(d,)`."""
        return (self.width,)

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
        """The classes of one split."""
        found = [entry for entry in self.classes if entry.split == name]
        if not found:
            has = ", ".join(sorted({entry.split for entry in self.classes}))
            raise SalaError(f"{self.name} has no {name} classes, but {has}; say the split of each class with `split`")
        return found
