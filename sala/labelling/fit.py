"""Label a folder of images from folders of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.data.files import printable
from sala.encoders import EmbeddedFiles, EmbedProgress, Encoder, embed_files
from sala.engine import Fitted, HeldOut, LabelModel, fit_labels
from sala.errors import SalaError
from sala.labelling.folders import Examples, as_text, check_places, first_of_content, image_files, read_examples
from sala.labelling.rows import Columns, Row, Thresholds, columns_of, find_thresholds


@dataclass(frozen=True)
class Labelling:
    """The labels of a pool, the model that gave them, and what there is to tell of the images."""

    model: LabelModel
    paths: list[Path]  # of the pool's readable images
    columns: Columns  # of them
    thresholds: Thresholds
    label_next: NDArray[np.int64]  # indices in paths, the most useful first
    held_out: HeldOut
    examples: Examples  # those that were used
    set_aside: dict[Path, str]  # labelled or of the pool
    n_copies: int  # pool images with the content of another one
    n_labelled_copies: int  # pool images with the content of a labelled one
    n_cached: int

    def rows(self) -> Iterator[Row]:
        return self.columns.rows(self.paths, self.model.classes, self.thresholds)


def label_folders(
    labelled: Path,
    pool: Path,
    encoder: Encoder,
    *,
    precision: float = 0.9,
    which: str = "",
    progress: Callable[[EmbedProgress], None] | None = None,
) -> Labelling:
    """`labelled/class/*.jpg` and a folder of images, which may be empty. `which` tells later how to open the encoder."""
    check_places(labelled, pool)
    examples = read_examples(labelled)
    found = list(image_files(pool, skip=labelled))
    unread = examples.set_aside | {path: problem for path, problem in found if problem is not None}
    paths = [*examples.paths, *(path for path, problem in found if problem is None)]
    embedded = embed_files(paths, encoder, progress=progress)
    unread |= {paths[i]: reason for i, reason in embedded.set_aside.items()}
    kept = [paths[i] for i in embedded.kept]
    n_labelled = int((embedded.kept < len(examples.paths)).sum())
    first = first_of_content(kept)
    rows = _distinct_examples(examples, embedded, first[:n_labelled], kept)
    labels = np.array([examples.labels[embedded.kept[i]] for i in rows], np.int64)
    used = replace(examples, paths=[kept[i] for i in rows], labels=labels.tolist())
    _check_every_class(examples, labels, unread)
    distinct = np.flatnonzero(first == np.arange(len(first)))
    distinct = distinct[distinct >= n_labelled]
    features = embedded.features
    # a view where there are no copies: the features of a large pool are not held twice
    pool_features = features[n_labelled:] if len(distinct) == len(kept) - n_labelled else features[distinct]
    fitted = fit_labels(features[rows], labels, pool_features, classes=examples.classes)
    columns = _spread(fitted, first, distinct, n_labelled, dict(zip(rows, labels.tolist(), strict=True)), features)
    thresholds = find_thresholds(columns, precision)
    note = {
        "encoder": {"which": which, "name": encoder.name, "identity": encoder.identity},
        "thresholds": thresholds.to_json(),
        "labelled": dict(
            zip(examples.classes, np.bincount(labels, minlength=len(examples.classes)).tolist(), strict=True)
        ),
        "n_pool": len(columns.label),
    }
    return Labelling(
        model=replace(fitted.model, note=note),
        paths=kept[n_labelled:],
        columns=columns,
        thresholds=thresholds,
        label_next=distinct[fitted.pool.label_next] - n_labelled,
        held_out=fitted.held_out,
        examples=used,
        set_aside=unread,
        n_copies=int((first[n_labelled:] >= n_labelled).sum()) - len(distinct),
        n_labelled_copies=int((first[n_labelled:] < n_labelled).sum()),
        n_cached=embedded.n_cached,
    )


def _distinct_examples(
    examples: Examples, embedded: EmbeddedFiles, first: NDArray[np.int64], kept: Sequence[Path]
) -> list[int]:
    """Each labelled image once: a copy would count twice, and would vouch for itself when the other is left out."""
    for i, original in enumerate(first.tolist()):
        a, b = (examples.labels[embedded.kept[k]] for k in (original, i))
        if a != b:
            raise SalaError(
                f"{printable(str(kept[original]))} and {printable(str(kept[i]))} are the same image in two classes; "
                "remove it from one of them"
            )
    return [i for i, original in enumerate(first.tolist()) if i == original]


def _check_every_class(examples: Examples, labels: NDArray[np.int64], set_aside: dict[Path, str]) -> None:
    for c, name in enumerate(examples.classes):
        if c not in labels:
            mine = [path for path, label in zip(examples.paths, examples.labels, strict=True) if label == c]
            raise SalaError(f"no image of the class {printable(name)} can be used: {set_aside[mine[0]]}")


def _spread(
    fitted: Fitted,
    first: NDArray[np.int64],
    distinct: NDArray[np.int64],
    n_labelled: int,
    known: dict[int, int],
    features: NDArray[np.float32],
) -> Columns:
    """From the distinct images of the pool to all of it: copies have what the first has, copies of labelled ones its label."""
    columns = columns_of(fitted.pool)
    position = np.zeros(len(first), np.int64)
    position[distinct] = np.arange(len(distinct))
    copies = np.flatnonzero(first[n_labelled:] < n_labelled)
    if len(distinct) == len(first) - n_labelled:
        return columns
    if not len(distinct):  # all of the pool is labelled: there is no row to take
        columns = columns_of(fitted.model.predict(features[n_labelled:]))
        spread = columns
    else:
        source = position[first[n_labelled:]]
        spread = Columns(*(column[source] for column in vars(columns).values()))
    for i in copies.tolist():
        label = known[int(first[n_labelled + i])]
        p = fitted.model.predict(features[n_labelled + i][None]).probabilities[0]
        p[label] = -1
        spread.label[i], spread.runner_up[i] = label, int(p.argmax())
        spread.probability[i], spread.none_of_these[i], spread.used[i] = 1.0, 0.0, True
    return spread


def describe_encoder(which: str) -> str:
    """How to open it again from another folder."""
    return as_text(Path(which).resolve()) if Path(which).exists() else which
