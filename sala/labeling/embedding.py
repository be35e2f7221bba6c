"""The readable images of a project with their features, each content counted once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.encoders import EmbeddedFiles, EmbedProgress, Encoder, embed_files
from sala.encoders.base import Features
from sala.encoders.hub import PREFIX
from sala.encoders.manifest import read_manifest
from sala.encoders.sharded import is_sharded
from sala.errors import SalaError
from sala.labeling.duplicates import contradiction, duplicate, first_of_content, first_of_digests
from sala.labeling.folders import as_text
from sala.labeling.large_pools import in_memory_or_mapped, is_mapped, rows_of, some_rows
from sala.labeling.near_duplicates import near_duplicates
from sala.labeling.project import OUTLIER, UNLABELED, Item, Project
from sala.text import printable

BY_HAND = "add classes and examples by hand with `sala serve`"


@dataclass(frozen=True)
class ProjectFeatures:
    """A project of readable images, their features row by row, and which encoder made them."""

    project: Project
    features: Features
    encoder: dict[str, str]  # which, name, identity: how a model opens it again
    n_cached: int = 0
    opened: Encoder | None = None  # the encoder itself, for what is embedded later

    @cached_property
    def near_duplicates(self) -> list[list[int]]:
        """Groups of images of one scene, each content once; found on the first request, and the same for all labels. Of
        features on disk, those of images that came with a label and of a sample of the others are compared."""
        first = np.unique(self.project.first)
        if is_mapped(self.features):
            first = some_rows(first, self.project.given[first] != UNLABELED)
        features = self.features if len(first) == len(self.features) else self.features[first]
        return [first[group].tolist() for group in near_duplicates(features)]


def embed_project(
    project: Project,
    encoder: Encoder,
    *,
    which: str = "",
    needs_examples: bool = True,
    progress: Callable[[EmbedProgress], None] | None = None,
) -> ProjectFeatures:
    """Embed all images. Labeled ones come first and alone, since the pool may take hours: contradictions between labels, and
    where `needs_examples`, a class of which no image can be used, are told before that."""
    known = np.flatnonzero((project.given != UNLABELED) | ~project.is_pool)
    _deduplicate(project, known, embedded := embed_files(project.files(known.tolist()), encoder))
    if needs_examples:
        _check_examples(project, known, embedded)
    everything = np.arange(len(project.items))
    n_just_now = len(embedded.kept) - embedded.n_cached  # which the next pass finds in the cache

    def report(told: EmbedProgress) -> None:
        if progress:
            progress(replace(told, n_cached=max(0, told.n_cached - n_just_now)))

    embedded = embed_files(project.files(everything.tolist()), encoder, progress=report)
    kept, rows = _deduplicate(project, everything, embedded)
    features = embedded.features if len(rows) == len(embedded.kept) else rows_of(embedded.features, np.array(rows))
    about = {"which": which, "name": encoder.name, "identity": encoder.identity}
    n_cached = max(0, embedded.n_cached - n_just_now)
    return ProjectFeatures(kept, in_memory_or_mapped(features), about, n_cached, encoder)


def _deduplicate(project: Project, indices: NDArray[np.int64], embedded: EmbeddedFiles) -> tuple[Project, list[int]]:
    """The project of those images that can be read, and their rows in the features.

    Images of one content have one label. A labeled image or known outlier that is there twice would count twice, and would
    vouch for itself when the other is held out: it is skipped. Copies in the pool stay, with the label of the others.
    """
    kept = [int(indices[row]) for row in embedded.kept]
    known = embedded.digests
    first = first_of_content([project.path(i) for i in kept]) if known is None else first_of_digests(known)
    given = _given_by_content(project, kept, first)
    skipped = project.skipped | {project.path(int(indices[row])): why for row, why in embedded.skipped.items()}
    items: list[Item] = []
    rows: list[int] = []
    same: dict[int, list[int]] = {}
    for row, (index, original) in enumerate(zip(kept, first.tolist(), strict=True)):
        item = project.items[index]
        if row != original and item.root != "pool":
            skipped[project.path(index)] = duplicate(project.path(index), project.path(kept[original]))
            continue
        same.setdefault(original, []).append(len(items))
        label = given.get(original, UNLABELED)
        items.append(item if item.given == label else replace(item, given=label))
        rows.append(row)
    copies = tuple(tuple(group) for group in same.values() if len(group) > 1)
    return replace(project, items=tuple(items), skipped=skipped, copies=copies), rows


def _given_by_content(project: Project, kept: list[int], first: NDArray[np.int64]) -> dict[int, int]:
    """The label of each content that has one. SalaError where two files of it have different ones."""
    source: dict[int, int] = {}
    for index, original in zip(kept, first.tolist(), strict=True):
        given = project.items[index].given
        if given == UNLABELED:
            continue
        other = source.setdefault(original, index)
        if project.items[other].given != given:
            is_outlier = OUTLIER in (given, project.items[other].given)
            raise contradiction(project.path(other), project.path(index), is_outlier=is_outlier)
    return {original: project.items[index].given for original, index in source.items()}


def _check_examples(project: Project, known: NDArray[np.int64], embedded: EmbeddedFiles) -> None:
    """Refuse fewer than two classes, a class of which no image can be used, and known outliers of which none can."""
    _check_number(project)
    given = project.given[known]
    usable = set(given[embedded.kept].tolist())
    problems = {int(given[row]): reason for row, reason in reversed(embedded.skipped.items())}
    for c, name in enumerate(project.classes):
        if c not in usable:
            raise _no_example(project, c, name, problems.get(c))
    if "outliers" in project.roots and OUTLIER not in usable:
        folder = project.roots["outliers"]
        why = problems.get(OUTLIER) or next(
            (why for path, why in project.skipped.items() if folder in path.parents), None
        )
        raise SalaError(
            f"{printable(str(folder))} has no image{f' that can be used ({why})' if why else ''}; put known outliers into it, "
            "or leave it out"
        )


def _no_example(project: Project, c: int, name: str, problem: str | None) -> SalaError:
    folder = project.roots["labeled"] / name
    reason = problem or next((why for path, why in project.skipped.items() if folder in (path, *path.parents)), None)
    why = f": {reason}" if reason else ""
    return SalaError(
        f"no image of the class {printable(name)} can be used{why}; give it a sound one, remove the class, or {BY_HAND}"
    )


def _check_number(project: Project) -> None:
    n_classes = len(project.classes)
    if n_classes > 1:
        return
    folder = printable(str(project.roots["labeled"]))
    if n_classes == 1:
        raise SalaError(
            f"there is one class only ({printable(project.classes[0])}), and nothing to tell apart; give images of another "
            f"class, or {BY_HAND}"
        )
    if project.is_listed:
        raise SalaError("the labels file names no class, and only outliers; add rows with the label of a class")
    loose = f" ({next(iter(project.skipped.values()))})" if project.skipped else ""
    raise SalaError(
        f"{folder} has no class folders{loose}; make one folder for each class in it, named as the class, with 1 to 10 images "
        "each (this folder is named first, the one to label second)"
    )


def describe_encoder(which: str) -> str:
    """How to open it again from another folder."""
    if is_sharded(Path(which)):
        return read_manifest(Path(which)).which  # what made the features embeds later images
    scheme, named = (PREFIX, which.removeprefix(PREFIX)) if which.startswith(PREFIX) else ("", which)
    return scheme + as_text(Path(named).resolve()) if Path(named).exists() else which
