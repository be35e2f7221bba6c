"""scikit-learn's door for images: `ImageEncoder` turns files or arrays into features.

make_pipeline(ImageEncoder(), SALAClassifier()).fit(paths, labels)  # label -1: an unlabeled image
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.base import BaseEstimator, TransformerMixin

from sala.data.threads import one_thread
from sala.encoders import Encoder, embed_files, open_encoder
from sala.encoders.base import Features, prepared
from sala.encoders.workers import batch_size, in_workers, is_thread_safe
from sala.errors import SalaError


class ImageEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transformer from images to features of a frozen encoder.

    Parameters
    ----------
    encoder : str, Path or Encoder, default "lite0"
        What `sala.encoders.open_encoder` takes: the name of an encoder, the path of a model file or run, or an object with
        `name`, `identity`, `image_size`, `mode` and `embed(images)`.
    cache : bool, default True
        Keep the features of files on disk, so that they are computed once.
    on_error : {"raise", "nan"}, default "raise"
        What to do with a file that cannot be read: raise an error that names it, or make its row NaN. A transformer keeps
        every row; `sala.encoders.embed_files` skips such files.

    Examples
    --------
    Any object with these five names is an encoder; this one takes the mean color:

    >>> import numpy as np
    >>> from sala import ImageEncoder
    >>> class MeanColor:
    ...     name, identity, image_size, mode = "mean-color", "mean-color-1", 8, "RGB"
    ...
    ...     def embed(self, images):
    ...         return images.mean((1, 2)).astype(np.float32)
    >>> red = np.zeros((8, 8, 3), np.uint8)
    >>> red[..., 0] = 255
    >>> ImageEncoder(MeanColor()).transform([red])
    array([[255.,   0.,   0.]], dtype=float32)
    """

    def __init__(self, encoder: str | Path | Encoder = "lite0", cache: bool = True, on_error: str = "raise"):
        self.encoder = encoder
        self.cache = cache
        self.on_error = on_error

    def fit(self, X: Any = None, y: Any = None) -> ImageEncoder:
        """This transformer, whose parameters are checked; there is nothing to learn."""
        self._check()
        return self

    def transform(self, X: Any) -> Features:
        """Features of images.

        Parameters
        ----------
        X : list of paths, or images as uint8 [n, h, w], [n, h, w, 3], [n, h, w, 4] or a list of such

        Returns
        -------
        array of shape (n, d)

        Raises
        ------
        SalaError
            If an image cannot be used, unless `on_error="nan"`.
        """
        self._check()
        images = as_images(X)
        encoder = open_encoder(self.encoder)
        return self._of_files(images, encoder) if is_paths(images) else embed_arrays(images, encoder)

    def _check(self) -> None:
        if self.on_error not in ("raise", "nan"):
            raise ValueError(f'on_error must be "raise" or "nan": got {self.on_error!r}')

    def _of_files(self, paths: Sequence[str | Path], encoder: Encoder) -> Features:
        embedded = embed_files(list(paths), encoder, cache=self.cache)
        if embedded.skipped and (self.on_error == "raise" or not len(embedded.kept)):
            problems = list(embedded.skipped.values())
            raise SalaError(f"{len(problems)} of {len(paths)} images cannot be used: {'; '.join(problems[:3])}")
        features = np.full((len(paths), embedded.features.shape[1]), np.nan, np.float32)
        features[embedded.kept] = embedded.features
        return features

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def as_images(X: Any) -> Any:
    """A list of paths, or a list or array of images; a table of one column is a list."""
    if isinstance(X, str | Path):
        raise SalaError(f"X must be a list of paths: got one path; give [{str(X)!r}]")
    if hasattr(X, "columns") or (isinstance(X, np.ndarray) and X.dtype.kind in "OU"):
        table = np.asarray(X, dtype=object)
        if table.ndim == 2 and table.shape[1] != 1:
            raise SalaError(f"X must have one column: got {table.shape[1]}; give the one with the paths")
        X = table.ravel().tolist()
    if not isinstance(X, np.ndarray):
        X = list(X)
        kinds = [None if x is None else isinstance(x, str | Path) for x in X]
        odd = next((i for i, kind in enumerate(kinds) if kind is None or kind != kinds[0]), None)
        if odd is not None:
            raise SalaError(f"X must be all paths or all arrays: number {odd} is {type(X[odd]).__name__}; leave it out")
    elif X.ndim == 3 and X.shape[-1] in (3, 4):
        raise SalaError(f"X must be a list of images: got {list(X.shape)}, one color image; give [X]")
    return X


def is_paths(images: Any) -> bool:
    return len(images) > 0 and isinstance(images[0], str | Path)


def embed_arrays(images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8], encoder: Encoder) -> Features:
    """Features of images in memory, resized for the encoder."""
    if not len(images):
        raise SalaError("X must have at least one image: got none")
    starts = range(0, len(images), n := batch_size(encoder))

    def embed(start: int) -> Features:
        return encoder.embed(np.stack([_resized(image, encoder) for image in images[start : start + n]]))

    if not is_thread_safe(encoder):
        return np.concatenate([embed(start) for start in starts])
    with one_thread():
        return np.concatenate(list(in_workers(embed, starts)))


def _resized(image: Any, encoder: Encoder) -> NDArray[Any]:
    array = np.asarray(image)
    array = array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (3, 4)):
        raise SalaError(f"an image must be uint8 [h, w], [h, w, 3] or [h, w, 4]: got {array.dtype} {list(array.shape)}")
    return prepared(Image.fromarray(array), encoder)
