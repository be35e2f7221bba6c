"""`sala label` and `sala predict`: labels for folders of images."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.markup import escape
from rich.table import Table

from sala import console
from sala.errors import SalaError
from sala.names import FORMATS
from sala.wording import counted, printable

if TYPE_CHECKING:
    from sala.labelling import Labelling

# readable=False: those who read them tell what to do about it, too
Labelled = Annotated[
    Path, typer.Argument(help="A folder with a folder for each class: 1 to 10 images in each.", readable=False)
]
Pool = Annotated[Path, typer.Argument(help="A folder of images to label, and all below it.", readable=False)]
Model = Annotated[Path, typer.Argument(help="The model.safetensors that `sala label` wrote.", readable=False)]
Encoder = Annotated[
    str, typer.Option(help="lite0, lite1, lite2, a run (folder or name), or a .onnx, .pt or .npy file.")
]
Form = Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")]
Forms = Annotated[
    list[str], typer.Option("--format", help=f"Also write one of {', '.join(FORMATS)}; may be given more than once.")
]


def label(
    labelled: Labelled,
    pool: Pool,
    out: Annotated[Path, typer.Option(help="Where labels, model and report go.")] = Path("out"),
    encoder: Encoder = "lite0",
    junk: Annotated[
        Path | None,
        typer.Option(
            help="A folder of images that are of no class: they help to recognise others like them.", readable=False
        ),
    ] = None,
    precision: Annotated[
        float,
        typer.Option(
            help="A label is sure from this probability on; of what is set aside as junk, this share is estimated to be."
        ),
    ] = 0.9,
    copy_to: Annotated[
        Path | None, typer.Option(help="Also sort copies of the images into class folders here.")
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="With --copy-to: links in place of copies.")] = False,
    forms: Forms = ["csv"],  # noqa: B006
) -> None:
    """Label a folder of images from a few examples of each class. Images of no class are set aside.

    Writes `out/labels.csv`, `out/report.html` to look through, `out/model.safetensors` for `sala predict`, and
    `out/set-aside.csv` with the files that could not be read. Your images are neither changed nor moved.

    Example: `sala label labelled/ photos/ --copy-to sorted/` with examples in `labelled/cat/`, `labelled/dog/`, ...
    """
    from sala.encoders import open_encoder
    from sala.labelling import label_folders, sort_copies
    from sala.labelling.fit import describe_encoder
    from sala.labelling.folders import check_file, check_out, check_places, check_writable
    from sala.labelling.junk import check_junk
    from sala.modelfile import NAME as MODEL

    for form in forms:
        _check_form(form)
    if not 0 < precision <= 1:
        raise SalaError(f"--precision is a share above 0 and up to 1, such as 0.9; got {precision:g}")
    if link and copy_to is None:
        raise SalaError("--link goes with --copy-to; name the folder for the links")
    check_places(labelled, pool, [copy_to] if copy_to else [])
    if junk is not None:
        check_junk(junk, labelled, pool, out, copy_to)
    check_out(out, labelled)
    for name in ("labels.csv", "set-aside.csv", "report.html", MODEL):
        check_file(out / name, "--out")
    if copy_to is not None:
        check_writable(copy_to, "--copy-to")
    network = open_encoder(encoder)
    with console.embedding("embedding") as progress:
        result = label_folders(
            labelled, pool, network, junk=junk, precision=precision, which=describe_encoder(encoder), progress=progress
        )
    _write(result, out, {"csv", *forms})
    _tell(result, out)
    if copy_to is not None:
        done = sort_copies(result.rows(), copy_to, link=link)
        there = f", {done.n_there:,} {'was' if done.n_there == 1 else 'were'} there already" if done.n_there else ""
        n = done.placed.total()
        what = counted(n, "link") if link else f"{n:,} {'copy' if n == 1 else 'copies'}"
        console.out.print(f"{escape(printable(str(copy_to)))}: {what} in class folders{there}")


def _check_form(form: str) -> None:
    if form not in FORMATS:
        raise SalaError(f"--format is one of {', '.join(FORMATS)}; got {form!r}")


def _write(result: Labelling, out: Path, forms: set[str]) -> None:
    from sala.labelling import label_studio_config, write_report, write_rows, write_set_aside, written_whole
    from sala.modelfile import NAME as MODEL

    out.mkdir(parents=True, exist_ok=True)
    for form in sorted(forms):
        with written_whole(out / ("labels.csv" if form == "csv" else f"{form}.json")) as file:
            write_rows(result.rows(), file, form, result.model.classes)
    if "label-studio" in forms:
        with written_whole(out / "label-studio.xml") as file:
            file.write(label_studio_config(result.model.classes))
    for other in set(FORMATS) - forms:
        if (out / f"{other}.json").exists():
            console.warn(f"{printable(str(out))}/{other}.json is of an earlier run; --format {other} writes it anew")
    write_set_aside(out / "set-aside.csv", result.set_aside)
    result.model.save(out / MODEL)
    with console.err.status("writing the report"):
        write_report(out / "report.html", result)


def _tell(result: Labelling, out: Path) -> None:
    """Counts a class, what was odd, and where things are."""
    from sala.encoders.networks import is_ours
    from sala.labelling import DOUBTFUL, NONE_OF_THESE, SURE

    table = Table(box=None, pad_edge=False)
    for column in ("class", "labelled", SURE, DOUBTFUL):
        table.add_column(column, justify="left" if column == "class" else "right", overflow="fold")
    counts = {(name, kind): 0 for name in result.model.classes for kind in (SURE, DOUBTFUL, NONE_OF_THESE)}
    for row in result.rows():
        counts[row.label, row.verdict] += 1
    for c, name in enumerate(result.model.classes):
        n_given = result.examples.labels.count(c)
        table.add_row(escape(printable(name)), f"{n_given}", f"{counts[name, SURE]:,}", f"{counts[name, DOUBTFUL]:,}")
    n_none = sum(n for (_, kind), n in counts.items() if kind == NONE_OF_THESE)
    table.add_row("[dim]none of these[/]", f"{result.n_junk}" if result.n_junk else "", f"{n_none:,}", "")
    console.out.print(table)
    n_perhaps = sum(row.verdict == DOUBTFUL and row.none_of_these > 0.5 for row in result.rows())
    if n_perhaps:
        console.err.print(
            f"doubtful images that are rather of none of these, but not surely enough to set them aside: {n_perhaps:,} "
            "(--junk with some of them, or a lower --precision, sets more aside)"
        )
    if not result.paths:
        console.warn("the pool has no image that can be read; the model is made all the same, for `sala predict`")
    if result.n_labelled_copies:
        console.err.print(
            f"pool images that are copies of labelled ones and have their label: {result.n_labelled_copies:,}"
        )
    if result.n_junk_copies:
        console.err.print(f"pool images that are copies of those of --junk and set aside: {result.n_junk_copies:,}")
    if result.n_copies:
        console.err.print(f"pool images that are copies of other ones and count once: {result.n_copies:,}")
    if result.set_aside:
        first = next(iter(result.set_aside.values()))
        n_files = counted(len(result.set_aside), "file")
        console.warn(f"set aside: {n_files}, listed in {printable(str(out))}/set-aside.csv; the first: {first}")
    place = printable(str(out))
    console.out.print(f"labels: {place}/labels.csv   look through: {place}/report.html", markup=False)
    which = str(result.model.note["encoder"]["which"])
    named = "" if is_ours(which) else f" --encoder {printable(shlex.quote(which))}"
    console.out.print(f"label more images with: sala predict {place}/model.safetensors IMAGES{named}", markup=False)


def predict(
    model: Model,
    images: Annotated[list[str], typer.Argument(help="Files, folders, or - for a list of paths on stdin, one a line.")],
    out: Annotated[Path | None, typer.Option(help="Write to this file; stdout by default.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Where the encoder of the model is now, if not where it was.")
    ] = None,
    form: Form = "csv",
    null: Annotated[
        bool, typer.Option("--null", "-0", help="Paths on stdin end with a NUL, as by find -print0.")
    ] = False,
    cache: Annotated[bool, typer.Option(help="Keep features on disk, so that a second run starts at once.")] = True,
) -> None:
    """Label new images with a model of `sala label`: one or a million, in the same memory.

    Files that cannot be read are told on stderr, a line each.

    Example: `find photos -name '*.jpg' | sala predict out/model.safetensors - --out new.csv`
    """
    from sala.engine import LabelModel
    from sala.labelling import encoder_of, predict_files, write_rows
    from sala.labelling.folders import check_file
    from sala.labelling.predict import given_files

    _check_form(form)
    if out is not None:
        check_file(out, "--out")
    if "" in images:
        raise SalaError(
            "one of the names of images is empty, perhaps a variable of the shell that is not set; leave it out"
        )
    fitted = LabelModel.load(model)
    network = encoder_of(fitted, encoder)
    n_bad = 0

    def on_problem(path: Path, reason: str) -> None:
        nonlocal n_bad
        n_bad += 1
        console.err.print(reason, markup=False)

    files = given_files([Path(i) for i in images if i != "-"], _listed(null) if "-" in images else [])
    with console.running("labelling") as on_batch:
        rows = predict_files(fitted, network, files, cache=cache, on_problem=on_problem, on_batch=on_batch)
        first = next(rows, None)  # before anything is written: what fails leaves no header behind
        if first is None:
            raise SalaError(f"{_nothing_of(n_bad)}; name image files, or folders that hold some")
        with _output(out) as file:
            n = write_rows(chain([first], rows), file, form, fitted.classes)
    console.err.print(f"{counted(n, 'image')} labelled" + (f", {n_bad:,} could not be read" if n_bad else ""))


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
    from sala.labelling import written_whole

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
