"""`sala predict`: labels for new images from a model."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from sala.cli import console
from sala.cli.labeling_options import Format, check_format
from sala.errors import SalaError
from sala.text import counted, printable

if TYPE_CHECKING:
    from sala.labeling.predictions import Row


def predict(
    model: Annotated[
        Path, typer.Argument(help="The model.safetensors that `sala label` or the page wrote.", readable=False)
    ],
    images: Annotated[list[str], typer.Argument(help="Files, folders, or - for a list of paths on stdin, one a line.")],
    out: Annotated[Path | None, typer.Option(help="Write to this file; stdout by default.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="The encoder that the model was made with; only asked for if it is a file or a run of yours."
        ),
    ] = None,
    form: Format = "csv",
    copy_to: Annotated[
        Path | None, typer.Option(help="Also sort copies of the images into class folders here.")
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="Paths on stdin end with a NUL, as by find -print0.")
    ] = False,
    cache: Annotated[bool, typer.Option(help="Keep features on disk, so that a second run starts at once.")] = True,
) -> None:
    """Label new images with a model of `sala label`: one or a million, in the same memory.

    Files that cannot be read are named on stderr, a line each.

    Example: `find photos -name '*.jpg' | sala predict out/model.safetensors - --out new.csv`
    """
    from sala.classifier.fit import LabelModel
    from sala.labeling.export import export
    from sala.labeling.predict import encoder_of, given_files, predict_files
    from sala.labeling.sort import SortedFiles, sorting

    check_format(form)
    _check(images, out, copy_to)
    fitted = LabelModel.load(model)
    network, count = encoder_of(fitted, encoder), _Count()
    files = given_files([Path(i) for i in images if i != "-"], _listed(null) if "-" in images else [])
    with console.running("labeling") as on_batch:
        rows = predict_files(fitted, network, files, cache=cache, on_problem=count.problem, on_batch=on_batch)
        first = next(rows, None)  # before anything is written: what fails leaves no header behind
        if first is None:
            raise SalaError(f"{_nothing_of(count.n_bad)}; name image files, or folders that hold some")
        rows = chain([first], rows)
        if copy_to is not None:
            rows = sorting(rows, copy_to, SortedFiles(), classes=fitted.classes)
        with _output(out) as file:
            file.writelines(export(count.counted(rows), form, fitted.classes))
    bad = f", {count.n_bad:,} could not be read" if count.n_bad else ""
    console.err.print(f"{counted(count.n, 'image')} labeled{bad}")


def _check(images: list[str], out: Path | None, copy_to: Path | None) -> None:
    """Refuse, before the work, what cannot be written, and copies into a folder that is read: they would be labeled too."""
    from sala.labeling.folders import check_file, check_writable, is_inside

    if "" in images:
        raise SalaError("one of the names of images is empty, perhaps an unset variable of the shell; leave it out")
    if out is not None:
        check_file(out, "--out")
    if copy_to is None:
        return
    check_writable(copy_to, "--copy-to")
    for name in images:
        if name != "-" and Path(name).is_dir() and is_inside(copy_to, Path(name)):
            raise SalaError(f"--copy-to is in the folder {printable(name)}, which is read; choose another --copy-to")


class _Count:
    """How many images were labeled, and how many could not be read."""

    n = n_bad = 0

    def problem(self, path: Path, reason: str) -> None:
        self.n_bad += 1
        console.err.print(reason, markup=False)

    def counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self.n += 1
            yield row


def _nothing_of(n_bad: int) -> str:
    if n_bad == 1:
        return "the one file that was named could not be read"
    return f"none of the {n_bad:,} files could be read" if n_bad else "there is no image among what was named"


def _listed(null: bool) -> Iterator[Path]:
    """Paths on stdin, as they come; names need not be text."""
    if not null:
        yield from (Path(os.fsdecode(name)) for line in sys.stdin.buffer if (name := line.rstrip(b"\r\n")))
        return
    rest = b""
    while chunk := sys.stdin.buffer.read(1 << 16):
        *names, rest = (rest + chunk).split(b"\0")
        yield from (Path(os.fsdecode(name)) for name in names if name)
    if rest:
        yield Path(os.fsdecode(rest))


@contextmanager
def _output(out: Path | None) -> Iterator[TextIO]:
    """A file that is there when it is whole, or stdout in UTF-8 whatever the terminal's encoding."""
    from sala.labeling.export import written_whole

    if out is not None:
        with written_whole(out) as file:
            yield file
        return
    stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
    try:
        yield stdout
        stdout.flush()
    finally:
        stdout.detach()
