"""Label a folder of images from folders of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.encoders import EmbeddedFiles, EmbedProgress, Encoder, embed_files
from sala.engine import Fitted, HeldOut, LabelModel, fit_labels
from sala.errors import SalaError
from sala.labelling.folders import (
    ON_THE_PAGE,
    Examples,
    as_text,
    check_places,
    copied,
    first_of_content,
    image_files,
    in_two_classes,
    read_examples,
)
from sala.labelling.junk import check_junk, read_junk
from sala.labelling.rows import Columns, Row, Thresholds, columns_of, find_thresholds
from sala.wording import printable


@dataclass(frozen=True)
class UsedExamples:
    """The labelled images that count, each once; `rows` are theirs in the features."""

    classes: tuple[str, ...]
    paths: list[Path]
    labels: list[int]
    rows: list[int]


@dataclass(frozen=True)
class Labelling:
    """The labels of a pool, the model that gave them, and what there is to tell of the images."""

    model: LabelModel
    paths: list[Path]  # of the pool's readable images
    columns: Columns  # of them
    thresholds: Thresholds
    label_next: NDArray[np.int64]  # indices in paths, the most useful first
    held_out: HeldOut
    examples: UsedExamples
    set_aside: dict[Path, str]  # labelled or of the pool
    n_copies: int  # pool images with the content of another one
    n_labelled_copies: int  # pool images with the content of a labelled one
    n_junk: int  # images that were said to be of no class
    n_junk_copies: int  # pool images with the content of one of these
    n_cached: int

    def rows(self) -> Iterator[Row]:
        return self.columns.rows(self.paths, self.model.classes, self.thresholds)


def label_folders(
    labelled: Path,
    pool: Path,
    encoder: Encoder,
    *,
    junk: Path | None = None,
    precision: float = 0.9,
    which: str = "",
    progress: Callable[[EmbedProgress], None] | None = None,
) -> Labelling:
    """`labelled/class/*.jpg` and a folder of images, which may be empty, and perhaps one of images that are of no class.
    `which` tells later how to open the encoder."""
    check_places(labelled, pool)
    if junk is not None:
        check_junk(junk, labelled, pool)
    examples = read_examples(labelled)
    _check_examples(examples, embed_files(examples.paths, encoder))  # alone and first: the pool may take hours
    known_junk = read_junk(junk, encoder)
    known_junk.distinct(examples.paths, len(examples.paths))  # refuses what is of a class, too
    found = list(image_files(pool, skip=labelled))
    paths = [*examples.paths, *(path for path, problem in found if problem is None)]
    embedded = embed_files(paths, encoder, progress=progress)
    set_aside = (
        examples.set_aside | known_junk.set_aside | {path: problem for path, problem in found if problem is not None}
    )
    set_aside |= {paths[i]: reason for i, reason in embedded.set_aside.items()}
    kept = [paths[i] for i in embedded.kept]
    n_labelled = int((embedded.kept < len(examples.paths)).sum())
    known_junk, first, is_junk = known_junk.distinct(kept, n_labelled)
    used = _distinct_examples(examples, embedded.kept[:n_labelled], first[:n_labelled], set_aside)
    fitted, distinct = _fit(used, embedded.features, first, is_junk, known_junk.features, n_labelled)
    columns = _spread(fitted, used, embedded.features, first, is_junk, distinct, n_labelled)
    thresholds = find_thresholds(columns.where(~is_junk[n_labelled:]), precision, fitted.left_out_none)
    note = {
        "encoder": {"which": which, "name": encoder.name, "identity": encoder.identity},
        "thresholds": thresholds.to_json(),
        "labelled": {name: used.labels.count(c) for c, name in enumerate(used.classes)},
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
        set_aside=set_aside,
        n_copies=int(((first >= n_labelled) & ~is_junk)[n_labelled:].sum()) - len(distinct),
        n_labelled_copies=int((first[n_labelled:] < n_labelled).sum()),
        n_junk=len(known_junk.paths),
        n_junk_copies=int(is_junk[n_labelled:].sum()),
        n_cached=embedded.n_cached,
    )


def _check_examples(examples: Examples, embedded: EmbeddedFiles) -> None:
    """Refuse an image that is in two classes, and a class of whose images none can be read."""
    _distinct_examples(examples, embedded.kept, first_of_content([examples.paths[i] for i in embedded.kept]), {})
    there = {examples.labels[i] for i in embedded.kept}
    for c, name in enumerate(examples.classes):
        if c not in there:
            reason = embedded.set_aside[examples.labels.index(c)]
            raise SalaError(
                f"no image of the class {printable(name)} can be used: {reason}; put a sound one into its folder, remove the "
                f"folder, or {ON_THE_PAGE}"
            )


def _distinct_examples(
    examples: Examples, kept: NDArray[np.int64], first: NDArray[np.int64], set_aside: dict[Path, str]
) -> UsedExamples:
    """Each labelled image once: a copy would count twice, and would vouch for itself when the other is left out."""
    rows = []
    for i, original in enumerate(first.tolist()):
        a, b = kept[original], kept[i]
        if examples.labels[a] != examples.labels[b]:
            raise in_two_classes(examples.paths[a], examples.paths[b])
        if i == original:
            rows.append(i)
        else:
            set_aside[examples.paths[b]] = copied(examples.paths[b], examples.paths[a])
    labels = [examples.labels[kept[i]] for i in rows]
    return UsedExamples(examples.classes, [examples.paths[kept[i]] for i in rows], labels, rows)


def _fit(
    used: UsedExamples,
    features: NDArray[np.float32],
    first: NDArray[np.int64],
    is_junk: NDArray[np.bool_],
    junk: NDArray[np.float32] | None,
    n_labelled: int,
) -> tuple[Fitted, NDArray[np.int64]]:
    """On each pool image once; also their rows. Copies of labelled images and of known junk do not count as pool images."""
    is_first = (first == np.arange(len(first))) & ~is_junk
    distinct = n_labelled + np.flatnonzero(is_first[n_labelled:])
    # a view where there are no copies: the features of a large pool are not held twice
    pool = features[n_labelled:] if len(distinct) == len(first) - n_labelled else features[distinct]
    labels = np.array(used.labels, np.int64)
    return fit_labels(features[used.rows], labels, pool, classes=used.classes, junk=junk), distinct


def _spread(
    fitted: Fitted,
    used: UsedExamples,
    features: NDArray[np.float32],
    first: NDArray[np.int64],
    is_junk: NDArray[np.bool_],
    distinct: NDArray[np.int64],
    n_labelled: int,
) -> Columns:
    """From the distinct images of the pool to all of it: copies have what the first has, copies of labelled ones its label,
    and copies of known junk are junk."""
    columns, originals = columns_of(fitted.pool), first[n_labelled:]
    if len(distinct) == len(originals):
        return columns
    copies = np.flatnonzero((originals < n_labelled) | is_junk[n_labelled:])
    predicted = fitted.model.predict(features[n_labelled + copies])
    position = np.full(len(first), -1, np.int64)
    position[distinct] = np.arange(len(distinct))
    both = [np.concatenate([a, b]) for a, b in zip(_values(columns), _values(columns_of(predicted)), strict=True)]
    source = position[originals]
    source[copies] = len(distinct) + np.arange(len(copies))
    spread = Columns(*(column[source] for column in both))
    label_of = dict(zip(used.rows, used.labels, strict=True))
    for i, p in zip(copies.tolist(), predicted.probabilities, strict=True):
        if is_junk[n_labelled + i]:
            spread.none_of_these[i], spread.used[i] = 1.0, False
            continue
        label = label_of[int(originals[i])]
        spread.label[i], spread.runner_up[i] = label, int(np.where(np.arange(len(p)) == label, -1, p).argmax())
        spread.probability[i], spread.none_of_these[i], spread.used[i] = 1.0, 0.0, True
    return spread


def _values(columns: Columns) -> list[NDArray[Any]]:
    return list(vars(columns).values())


def describe_encoder(which: str) -> str:
    """How to open it again from another folder."""
    return as_text(Path(which).resolve()) if Path(which).exists() else which
