"""The command line: which commands there are, and how they end. Each has a module, imported when the command is given.

These modules import what does the work in the functions that do it: help, and what is said of a wrong option, come without
PyTorch, which takes seconds.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version as package_version
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sala.cli import console
from sala.errors import SalaError

# the module of a command, and what `sala --help` says of it: the first line of its docstring
COMMANDS = {
    "label": (
        "label",
        "Label a folder of images from a few examples of each class. Outliers are rejected.",
    ),
    "serve": (
        "serve",
        "Label a pool of images in the browser, from a few examples of each class. Each correction is saved and used at once.",
    ),
    "predict": (
        "predict",
        "Label new images with a model of `sala label`: one or a million, in the same memory.",
    ),
    "export": (
        "export",
        "Write a model of `sala label`, or the network of a run, as one ONNX file that runs without sala.",
    ),
    "embed": (
        "embed",
        "Embed folders of images once, in shards that `--encoder` takes: for pools of millions, on one machine or several.",
    ),
    "encoders": (
        "encoders",
        "List the encoders that can be used here: size of the weights, dimension of the features, and images per second.",
    ),
    "demo": (
        "demo",
        "Train ProtoNet and SALA on the built-in letters, test both, write a report. About three minutes on two cores.",
    ),
    "train": ("train", "Train a method on a dataset. Writes a run folder; prints its path."),
    "evaluate": (
        "evaluate",
        "Test a run: mean accuracy with its 95 % interval on fixed episodes, and how good the pseudo-labels were.",
    ),
    "compare": (
        "compare",
        "Test several runs on the same episodes: a table with the paired difference of each against the first.",
    ),
    "methods": (
        "methods",
        "List the methods and heads: their papers, what they do with unlabeled images, and the methods' options.",
    ),
    "samples": (
        "methods",
        "Look at what the generator of a run makes: for each task its labeled images, then made-up ones. Writes a PNG.",
    ),
    "reproduce": (
        "reproduce",
        "Regenerate the tables and figures of the SALA paper under one protocol. Finished runs are skipped, begun ones "
        "continued.",
    ),
    "data": ("data", "Look at, prepare and download datasets."),
    "doctor": ("doctor", "Tell what is installed and found here, and what to do about what is missing."),
}
LABELING = ("label", "serve", "predict", "export", "embed", "encoders")
STOPPED = 130  # the exit code of what Ctrl-C ended: 128 and the signal's number


class Commands(TyperGroup):
    """The commands by name and summary; the one that is given is imported."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else imported(name), rest

    def make_context(self, *words: Any, **more: Any) -> Any:
        with _stopping():
            return super().make_context(*words, **more)

    def invoke(self, ctx: Any) -> Any:
        with _stopping():
            return super().invoke(ctx)


@contextmanager
def _stopping() -> Iterator[None]:
    """Ctrl-C, and SIGTERM, end a command with a word, which says what is kept where something is."""
    try:
        yield
    except KeyboardInterrupt as stop:
        console.err.print("stopped" + (f": {stop}" if str(stop) else ""), markup=False)
        raise typer.Exit(STOPPED) from None


_was_interrupted = False


def _interrupt(signum: int, frame: FrameType | None) -> None:
    global _was_interrupted
    _was_interrupted = True
    raise KeyboardInterrupt


def imported(name: str) -> Any:
    """A command as its module has it: a function of its name, or an app of further commands."""
    module = import_module(f"sala.cli.{COMMANDS[name][0]}")
    if name == "data":
        return typer.main.get_command(module.app)
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    alone.command(name)(getattr(module, name))
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=Commands,
    help="Semi-supervised few-shot image classification: a few labeled images, many unlabeled ones, some of them outliers.\n\n"
    "For a folder of your own images: `sala label`, or `sala serve` for the same in the browser.\n\n"
    "To compare few-shot methods: `sala demo`, then `sala train`, `sala evaluate` and `sala compare`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for name, (_, summary) in COMMANDS.items():
    panel = "Label your images" if name in LABELING else "Train and compare few-shot methods"
    app.command(name, help=summary, rich_help_panel=panel)(lambda: None)


def main() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):  # what is half written is cleared away
            signal.signal(number, _interrupt)  # training and page have handlers of their own
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ± shows a question mark
    warnings.showwarning = lambda message, *_, **__: console.warn(str(message))
    try:
        app()
    except SalaError as error:
        console.fail(str(error))
    except BrokenPipeError:  # the reader has seen enough, as in `sala methods | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        place = error.filename2 or error.filename
        what = f"{place}: {error.strerror}" if place else str(error)
        console.fail(f"{what}; look whether that place exists, has room and may be written by you")
    except Exception:
        if not _was_interrupted:
            raise
        console.err.print("stopped")  # some libraries swallow Ctrl-C while they are imported, and fail for it
        sys.exit(STOPPED)


def _tell_version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"sala {package_version('sala')}", markup=False, highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    pass
