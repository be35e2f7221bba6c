"""`sala encoders`: what can be used here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sala.cli import console
from sala.text import printable

if TYPE_CHECKING:
    from sala.encoders.catalog import CatalogRow


def encoders(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Encoders as --encoder takes them; all that are here by default.", show_default=False),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure images per second here: some seconds for each.")
    ] = False,
) -> None:
    """List the encoders that can be used here: size of the weights, dimension of the features, and images per second.

    Models of transformers are listed when they have been downloaded. Speed is of images in memory; reading files comes on top.

    Example: `sala encoders --measure`

    Example: `sala encoders lite0 hf:facebook/dinov2-small --measure`
    """
    from sala.encoders.catalog import catalog

    with console.err.status("opening encoders"):
        rows = list(catalog(names or (), measure=measure))
    console.out.print(_table([row for row in rows if not row.problem], measure))
    for row in rows:
        if row.problem:
            console.err.print(f"{printable(row.name)} cannot be used: {row.problem}", markup=False)


def _table(rows: Iterable[CatalogRow], measured: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("encoder", overflow="fold")
    for column in ("MB", "dimension", *(["images/s"] if measured else [])):
        table.add_column(column, justify="right")
    table.add_column("for", overflow="fold")
    for row in rows:
        size = "" if row.n_bytes is None else f"{row.n_bytes / 1e6:,.1f}"
        rate = [f"{row.images_per_second:,.1f}" if row.images_per_second else ""] if measured else []
        table.add_row(escape(printable(row.name)), size, f"{row.dimension}", *rate, escape(printable(row.summary)))
    return table
