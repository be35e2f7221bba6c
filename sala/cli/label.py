"""`sala label`: labels for a folder of images."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sala.cli import console
from sala.cli.labeling_options import (
    Describe,
    Encoder,
    Folders,
    Formats,
    Labels,
    OldOutliers,
    Outliers,
    Precision,
    check_format,
    check_precision,
    serve_command,
    tell_predicted,
    two_folders,
)
from sala.errors import SalaError
from sala.text import counted, printable

if TYPE_CHECKING:
    from sala.labeling.check import Check
    from sala.labeling.label import LabelingResult
    from sala.labeling.places import Places
    from sala.web.replay import State


def label(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Where labels, model and report go.")] = Path("out"),
    encoder: Encoder = "lite0",
    labels: Labels = None,
    outliers: Outliers = None,
    precision: Precision = 0.9,
    describe: Describe = [],  # noqa: B006
    state: Annotated[
        Path | None, typer.Option(help="Corrections that were made on the page of `sala serve`.", readable=False)
    ] = None,
    copy_to: Annotated[
        Path | None, typer.Option(help="Also sort copies of the images into class folders here.")
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="With --copy-to: links in place of copies.")] = False,
    forms: Formats = ["csv"],  # noqa: B006
    junk: OldOutliers = None,
) -> None:
    """Label a folder of images from a few examples of each class. Outliers are rejected.

    Writes `out/labels.csv`, `out/report.html` to look through, `out/model.safetensors` for `sala predict`, and
    `out/skipped.csv` with the files that could not be read. Your images are neither changed nor moved.

    Example: `sala label labeled/ photos/ --copy-to sorted/` with examples in `labeled/cat/`, `labeled/dog/`, ...

    Example: `sala label photos/ --labels labels.csv --state photos.sala.jsonl`
    """
    from sala.labeling.output import write_result
    from sala.labeling.places import Places

    labeled, pool = two_folders(folders, labels)
    places = Places(pool, labeled, labels, outliers or junk)
    _check(places, precision, forms, out, copy_to, link)
    result = _classified(places, encoder, precision, state, describe)
    with console.err.status("writing labels and report"):
        found = write_result(result, out, forms, serve_command(places, encoder, precision, state))
    _tell(result, found, out, forms)
    if copy_to is not None:
        _sort(result, copy_to, link)


def _check(places: Places, precision: float, forms: list[str], out: Path, copy_to: Path | None, link: bool) -> None:
    """Refuse, before the work, what cannot be done."""
    from sala.classifier.model_file import NAME as MODEL
    from sala.labeling.folders import check_file
    from sala.labeling.output import CHECK, NAMES, REPORT, SKIPPED

    for form in forms:
        check_format(form)
    check_precision(precision)
    if link and copy_to is None:
        raise SalaError("--link goes with --copy-to; name the folder for the links")
    places.check(out, copy_to)
    for name in (SKIPPED, CHECK, REPORT, MODEL, *(NAMES[form] for form in {"csv", *forms})):
        check_file(out / name, "--out")


def _classified(
    places: Places, encoder: str, precision: float, state: Path | None, describe: list[str]
) -> LabelingResult:
    from sala.encoders import open_encoder
    from sala.labeling.descriptions import described
    from sala.labeling.embedding import describe_encoder, embed_project
    from sala.labeling.label import classify
    from sala.labeling.project import open_project
    from sala.web.corrections import corrected, read_changes

    changes = [] if state is None else read_changes(state)
    project, network = open_project(places), open_encoder(encoder)
    tell_predicted(project.n_predicted, places.labels)
    texts = described(describe, project.classes, network) if describe and state is None else None  # may be refused
    with console.embedding("embedding") as progress:
        images = embed_project(
            project, network, which=describe_encoder(encoder), needs_examples=state is None, progress=progress
        )
    if state is None:
        return classify(images, precision=precision, descriptions=texts)
    found, answers = corrected(images.project, changes)
    _tell_changes(found, state)
    if not (found.given >= 0).any():
        raise SalaError(
            "no class has an example; label one image of each class on the page, or put one into its folder"
        )
    texts = described(describe, found.names, network) if describe else None
    return classify(images, found.names, found.given, precision=precision, answers=answers, descriptions=texts)


def _tell_changes(found: State, state: Path) -> None:
    shown = printable(str(state))
    if found.n_lost:
        console.warn(f"of images or classes that are not there now, {shown} has {counted(found.n_lost, 'label')}")
    for name, called in zip(found.names, found.called, strict=True):
        if name != called:
            console.warn(f"two classes are called {printable(called)!r}; the second is written as {printable(name)!r}")


def _tell(result: LabelingResult, found: Check, out: Path, forms: list[str]) -> None:
    """Counts a class, what was odd, and where things are."""
    from sala.encoders.registry import is_ours
    from sala.labeling.output import NAMES, SKIPPED, leftovers

    console.out.print(_counts(result))
    _tell_oddities(result)
    _tell_suspects(result, found, out)
    place = printable(str(out))
    if result.skipped:
        first = next(iter(result.skipped.values()))
        console.warn(
            f"skipped: {counted(len(result.skipped), 'file')}, listed in {place}/{SKIPPED}; the first: {first}"
        )
    for other in leftovers(out, forms):
        console.warn(f"{place}/{NAMES[other]} is of an earlier run; --format {other} writes it anew")
    console.out.print(f"labels: {place}/labels.csv   look through: {place}/report.html", markup=False)
    which = str(result.model.note["encoder"]["which"])
    named = "" if is_ours(which) else f" --encoder {printable(shlex.quote(which))}"
    console.out.print(f"label more images with: sala predict {place}/model.safetensors IMAGES{named}", markup=False)


def _counts(result: LabelingResult) -> Table:
    from sala.labeling.predictions import CONFIDENT, GIVEN, REJECTED, UNCERTAIN

    table = Table(box=None, pad_edge=False)
    for column in ("class", "labeled", CONFIDENT, UNCERTAIN):
        table.add_column(column, justify="left" if column == "class" else "right", overflow="fold")
    n = Counter((row.label, row.verdict) for row in result.rows())
    for c, name in enumerate(result.model.classes):
        n_labeled = result.examples.labels.count(c)
        n_confident = n[name, CONFIDENT] + n[name, GIVEN]
        table.add_row(escape(printable(name)), f"{n_labeled}", f"{n_confident:,}", f"{n[name, UNCERTAIN]:,}")
    n_rejected = sum(count for (_, verdict), count in n.items() if verdict == REJECTED)
    table.add_row("[dim]rejected[/]", f"{result.n_outliers}" if result.n_outliers else "", f"{n_rejected:,}", "")
    return table


def _tell_oddities(result: LabelingResult) -> None:
    said = result.predictions
    if result.rejection_obstacle:
        console.err.print(result.rejection_obstacle)
    if n := int((said.is_uncertain & said.is_likely_outlier & result.project.is_pool).sum()):
        console.err.print(
            f"uncertain images that are more probably outliers than their class, but not rejected: {n:,} "
            "(--outliers with some of them rejects more)"
        )
    if not len(result.pool):
        console.warn("the pool has no image that can be read; the model is made all the same, for `sala predict`")
    for n, what in (
        (result.n_labeled_copies, "copies of labeled images, which have their label"),
        (result.n_outlier_copies, "copies of known outliers, which are rejected"),
        (result.n_copies, "copies of other ones, which count once"),
    ):
        if n:
            console.err.print(f"pool images that are {what}: {n:,}")


def _tell_suspects(result: LabelingResult, found: Check, out: Path) -> None:
    from sala.labeling.check import predicted_name

    worst = [
        f"{printable(str(result.project.path(s.row)))} (looks like {printable(predicted_name(s, result))})"
        for s in found.suspects[:3]
    ]
    if worst:
        console.warn(
            f"check {counted(len(found.suspects), 'label')} that the other images disagree with, listed in "
            f"{printable(str(out))}/check.csv; the most suspicious: {', '.join(worst)}"
        )
    if found.unchecked and len(found.unchecked) < len(result.model.classes):
        names = ", ".join(printable(result.model.classes[c]) for c in found.unchecked[:5])
        console.err.print(
            f"labels of classes with a single labeled image cannot be checked: {names}"
            f"{', ...' if len(found.unchecked) > 5 else ''}",
            markup=False,
        )


def _sort(result: LabelingResult, copy_to: Path, link: bool) -> None:
    from sala.labeling.sort import sort_copies

    done = sort_copies(result.rows(), copy_to, link=link, classes=result.model.classes)
    there = f", {done.n_there:,} {'was' if done.n_there == 1 else 'were'} there already" if done.n_there else ""
    n = done.placed.total()
    what = counted(n, "link") if link else f"{n:,} {'copy' if n == 1 else 'copies'}"
    console.out.print(f"{escape(printable(str(copy_to)))}: {what} in class folders{there}")
