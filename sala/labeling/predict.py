"""Labels for new images from a model, a batch at a time: one image or a million, in the same memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from sala.classifier.fit import LabelModel
from sala.encoders import Encoder, embed_files, open_encoder
from sala.encoders.base import cache_key
from sala.encoders.cache import FeatureCache
from sala.encoders.registry import is_ours
from sala.errors import SalaError
from sala.labeling.folders import image_files
from sala.labeling.predictions import Row, Thresholds
from sala.labeling.table import rows_of
from sala.text import printable

BATCH = 256  # images


def encoder_of(model: LabelModel, which: str | None = None) -> Encoder:
    """Open the encoder that a model was fitted with.

    Parameters
    ----------
    model : LabelModel
        From `label_folder`, or loaded from the file that `sala label` or the page wrote. It names its encoder.
    which : str, optional
        Where the encoder is now. A file or run that a model names is opened only if you name it here: a model may come from
        anyone.

    Returns
    -------
    Encoder
        For `predict_files`.

    Raises
    ------
    SalaError
        If the model names no encoder, or one that is not named here, or if this is another one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> from sala import encoder_of, label_folder
    >>> root, places = Path(tempfile.mkdtemp()), ["labeled/red/1.png", "labeled/blue/1.png", "pool/2.png"]
    >>> for place, color in zip(places, ["red", "blue", "navy"]):
    ...     (root / place).parent.mkdir(parents=True, exist_ok=True)
    ...     Image.new("RGB", (32, 32), color).save(root / place)
    >>> features = str(root / "features.npy")  # ready-made: row i is of the file in line i of features.txt
    >>> np.save(features, np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0.5]], np.float32))
    >>> _ = (root / "features.txt").write_text("\\n".join(places))
    >>> model = label_folder(root / "labeled", root / "pool", features).model
    >>> encoder_of(model, features).identity == model.note["encoder"]["identity"]
    True
    """
    try:
        noted = model.note["encoder"]
        named, identity = str(noted["which"]), str(noted["identity"])
    except (KeyError, TypeError):
        raise SalaError(
            "the model does not tell its encoder, so it takes features only; make a model for images with `sala label`"
        ) from None
    if which is None and not is_ours(named):  # the model may come from anyone, and what it names be anything
        raise SalaError(
            f"the model was made with the encoder {printable(named)}; if you trust it, name it with --encoder"
        )
    encoder = open_encoder(which or named)
    if encoder.identity != identity:
        raise SalaError(
            f"the model was made with the encoder {identity}, and {which or named} is {encoder.identity}: its features "
            "mean other things; give the same one with --encoder, or fit again with `sala label`"
        )
    return encoder


def thresholds_of(model: LabelModel) -> Thresholds:
    try:
        return Thresholds.from_json(model.note["thresholds"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise SalaError("the model does not tell its thresholds; make it with `sala label`") from None


def predict_files(
    model: LabelModel,
    encoder: Encoder,
    files: Iterable[tuple[Path, str | None]],
    *,
    cache: bool = True,
    on_problem: Callable[[Path, str], None] = lambda path, reason: None,
    on_batch: Callable[[int], None] = lambda n_images: None,
) -> Iterator[Row]:
    """Label new images with a model, a batch at a time.

    Parameters
    ----------
    model : LabelModel
        From `label_folder`, or loaded from the file that `sala label` or the page wrote.
    encoder : Encoder
        The one that the model was fitted with; `encoder_of(model)` opens it.
    files : iterable of (Path, str or None)
        Image files, each with None, or with what is wrong with it: then it is told to `on_problem` and not read.
    cache : bool
        Keep features on disk.
    on_problem : callable
        Told of each file that cannot be read, with the reason.
    on_batch : callable
        Told of the number of images of each finished batch.

    Returns
    -------
    iterator of Row
        In the order of the files, in constant memory.

    Raises
    ------
    SalaError
        If the model does not hold thresholds.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from sala import label_folder, predict_files
    >>> class MeanColor:
    ...     name, identity, image_size, mode = "mean-color", "mean-color-1", 8, "RGB"
    ...
    ...     def embed(self, images):
    ...         return images.mean((1, 2)).astype("float32")
    >>> root = Path(tempfile.mkdtemp())
    >>> for place, color in [("labeled/red/1", "red"), ("labeled/blue/1", "blue"), ("pool/2", "navy"), ("new", "maroon")]:
    ...     (root / place).parent.mkdir(parents=True, exist_ok=True)
    ...     Image.new("RGB", (32, 32), color).save(root / f"{place}.png")
    >>> model = label_folder(root / "labeled", root / "pool", MeanColor()).model
    >>> [row.label for row in predict_files(model, MeanColor(), [(root / "new.png", None)])]
    ['red']
    """
    thresholds = thresholds_of(model)  # here, not with the first row: a model without them is refused at once
    return _rows(model, encoder, thresholds, files, cache, on_problem, on_batch)


def _rows(
    model: LabelModel,
    encoder: Encoder,
    thresholds: Thresholds,
    files: Iterable[tuple[Path, str | None]],
    cache: bool,
    on_problem: Callable[[Path, str], None],
    on_batch: Callable[[int], None],
) -> Iterator[Row]:
    quick = replace(model, config=replace(model.config, n_suggestions=0))
    store = FeatureCache(cache_key(encoder)) if cache else None
    stream = iter(files)
    try:
        while batch := list(islice(stream, BATCH)):
            paths = [path for path, problem in batch if problem is None]
            embedded = embed_files(paths, encoder, cache=store or False)
            for path, problem in batch:
                if problem is not None:
                    on_problem(path, problem)
            for i, problem in embedded.skipped.items():
                on_problem(paths[i], problem)
            if len(embedded.kept):
                predicted = quick.predict(embedded.features)
                yield from rows_of(predicted, [paths[i] for i in embedded.kept], model.classes, thresholds)
            on_batch(len(batch))
    finally:
        if store:
            store.close()


def given_files(places: Iterable[Path], listed: Iterable[Path]) -> Iterator[tuple[Path, str | None]]:
    """Files as they are and in their order, folders with all below them by name, and then the paths of a list."""
    for place in places:
        if place.is_dir():
            yield from image_files(place)
        else:
            yield place, None
    yield from ((path, None) for path in listed)
