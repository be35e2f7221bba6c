"""Options that the labeling commands share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sala.cli import console
from sala.errors import SalaError
from sala.labeling.formats import FORMATS
from sala.text import counted, printable

if TYPE_CHECKING:
    from sala.labeling.places import Places

# readable=False: those who read them tell what to do about it, too
Folders = Annotated[
    list[Path],
    typer.Argument(
        help="A folder with a folder of 1 to 10 images for each class, and a folder of images to label; with --labels the "
        "second alone.",
        metavar="[LABELED] POOL",
        readable=False,
        show_default=False,
    ),
]
Encoder = Annotated[
    str,
    typer.Option(
        help="lite0, lite1, lite2; hf:facebook/dinov2-small or hf:FOLDER, a vision model of transformers; a folder of "
        "`sala embed`; a run (folder or name); or a .onnx, .pt or .npy file. `sala encoders` lists what is there.",
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(help="A CSV file with columns path and label, in place of class folders.", readable=False),
]
Outliers = Annotated[
    Path | None,
    typer.Option(help="A folder of images of none of the classes: others like them are recognized.", readable=False),
]
OldOutliers = Annotated[Path | None, typer.Option("--junk", hidden=True, readable=False)]  # the name before 0.2
Precision = Annotated[
    float,
    typer.Option(
        help="Of the rejected images this share is expected to be outliers. Labels are confident from halfway between it and "
        "certainty on: 0.95 for 0.9."
    ),
]
Describe = Annotated[
    list[str],
    typer.Option(
        help='Experimental, with a model of images and text (CLIP, SigLIP): "CLASS=a photo of a ...", or "a photo of a {}" '
        "for the names of all classes; may be given more than once. Texts count as prior examples.",
        show_default=False,
    ),
]
Format = Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")]
Formats = Annotated[
    list[str], typer.Option("--format", help=f"Also write one of {', '.join(FORMATS)}; may be given more than once.")
]


def two_folders(folders: list[Path], labels: Path | None) -> tuple[Path | None, Path]:
    """The folder of class folders, or None, and the pool."""
    n_wanted = 1 if labels is not None else 2
    if len(folders) != n_wanted:
        wanted = "the pool alone, since --labels names the labels" if labels else "two folders: LABELED and POOL"
        raise SalaError(f"give {wanted}; got {len(folders)}")
    return (None, folders[0]) if labels is not None else (folders[0], folders[1])


def check_precision(precision: float) -> None:
    if not 0 < precision <= 1:
        raise SalaError(f"--precision is a share above 0 and up to 1, such as 0.9; got {precision:g}")


def check_format(form: str) -> None:
    if form not in FORMATS:
        raise SalaError(f"--format is one of {', '.join(FORMATS)}; got {form!r}")


def tell_predicted(n: int, labels: Path | None) -> None:
    """Say that rows of a labels file were predicted, and so are no labels."""
    if n and labels is not None:
        console.warn(
            f"{printable(str(labels))}: {counted(n, 'row')} of predictions, which are no labels; those count whose source "
            "is given or confirmed"
        )


def serve_command(places: Places, encoder: str, precision: float, state: Path | None) -> str:
    """What opens the page on the same folders."""
    words = [str(place) for place in (places.labeled, places.pool) if place is not None]
    options = {"--labels": places.labels, "--outliers": places.outliers, "--state": state}
    named = [(name, str(value)) for name, value in options.items() if value is not None]
    named += [("--encoder", encoder)] if encoder != "lite0" else []
    named += [("--precision", f"{precision:g}")] if precision != 0.9 else []
    return f"sala serve {shlex.join([*words, *(word for pair in named for word in pair)])}"
