"""Commands about methods: what there is, and what their generators make."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sala.cli import console
from sala.cli import options as opt
from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.methods import Method


def methods() -> None:
    """List the methods and heads: their papers, what they do with unlabeled images, and the methods' options."""
    from sala.methods import BEYOND, COMPARED, METHODS, method_options
    from sala.methods.plugins import installed_plugins
    from sala.nn.backbones import backbone_names

    console.out.print(_methods_table(COMPARED))
    console.out.print("\nbeyond the paper's comparison:\n")
    console.out.print(_methods_table(BEYOND))
    console.out.print("\nin training, at test: what is done with unlabeled images there")
    if names := installed_plugins():
        console.out.print(f"\nof installed packages: {escape(', '.join(names))}")
    console.out.print(f"\nbackbones (--backbone): {escape(', '.join(backbone_names()))}, or path/to/file.py:Class")
    console.out.print("\noptions (--set name=value; where there are choices, the first is the default):")
    for name, cls in METHODS.items():
        if options := method_options(cls):
            console.out.print(f"  {name}: {escape(', '.join(option_text(*item) for item in options.items()))}")
    console.out.print("\nheads, without a training of their own (sala evaluate RUN --head NAME):\n")
    console.out.print(_heads_table())


def _methods_table(group: Mapping[str, type[Method]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("method", "paper", "in training", "at test", "transductive"):
        table.add_column(column, overflow="fold")
    for name, cls in group.items():
        used = [("used" if flag else "not used") for flag in (cls.trains_on_unlabeled, cls.tests_on_unlabeled)]
        table.add_row(name, cls.paper, *used, transductive_text(cls))
    return table


def _heads_table() -> Table:
    from sala.heads import HEADS

    table = Table(box=None, pad_edge=False)
    for column in ("head", "paper", "unlabeled images", "published as transductive"):
        table.add_column(column, overflow="fold")
    for name, cls in HEADS.items():
        used = "used" if cls.uses_unlabeled else "not used"
        table.add_row(name, cls.paper, used, "yes" if cls.is_transductive else "no")
    return table


def transductive_text(cls: type[Method]) -> str:
    from sala.methods import method_options

    return "by --transductive" if "transductive" in method_options(cls) else "no"


def option_text(name: str, option: Parameter) -> str:
    """name=default, or name=default|other|other."""
    choices = typing.get_args(option.annotation) if typing.get_origin(option.annotation) is typing.Literal else ()
    others = [str(choice) for choice in choices if choice != option.default]
    default = str(option.default).lower() if isinstance(option.default, bool | None) else str(option.default)
    return f"{name}={'|'.join([default, *others])}"


def samples(
    run: opt.Run,
    tasks: Annotated[int, typer.Option(help="How many tasks: a row each.")] = 6,
    images: Annotated[int, typer.Option(help="Made-up images in a row, at most.")] = 12,
    split: opt.Split = "test",
    weights: opt.Weights = "best",
    root: opt.MovedRoot = None,
    scale: Annotated[int, typer.Option(help="Enlarge the picture so many times.", min=1, max=32)] = 3,
    out: Annotated[Path | None, typer.Option(help="Where the PNG goes; RUN/samples.png by default.")] = None,
) -> None:
    """Look at what the generator of a run makes: for each task its labeled images, then made-up ones. Writes a PNG.

    Example: `sala samples runs/glyphs-metagan-5way1shot-s0 --tasks 4`
    """
    from PIL import Image

    from sala.training.samples import sample_sheet

    path = out or run / "samples.png"
    if path.suffix.lower() != ".png":
        raise SalaError(f"the picture is a PNG, and {path} is called otherwise; give --out a name ending in .png")
    sheet = sample_sheet(run, n_tasks=tasks, n_images=images, split=split, weights=weights, root=root)
    picture = Image.fromarray(sheet[..., 0] if sheet.shape[-1] == 1 else sheet)
    picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST).save(path)
    print(path)
