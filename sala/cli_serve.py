"""`sala serve`: a page in the browser to label a pool and to correct its labels."""

from __future__ import annotations

import os
import signal
import threading
import webbrowser
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sala import console
from sala.cli_label import Encoder
from sala.wording import counted, printable

if TYPE_CHECKING:
    from sala.serve import PageServer
    from sala.session import Session


def serve(
    labelled: Annotated[Path, typer.Argument(help="A folder with a folder of images for each class.")],
    pool: Annotated[Path, typer.Argument(help="A folder of images without labels.")],
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    host: Annotated[
        str, typer.Option(help="Another interface than loopback; the address then has a token.")
    ] = "127.0.0.1",
    state: Annotated[
        Path | None, typer.Option(help="Where each click is saved.", show_default="POOL.sala.jsonl beside the pool")
    ] = None,
    encoder: Encoder = "lite0",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Label a pool of images in the browser, from a few examples of each class. Every click is saved and fits anew.

    Example: `sala serve labelled/ pool/`
    """
    import torch

    from sala.collection import embedded, list_images
    from sala.encoders import open_encoder
    from sala.journal import Journal
    from sala.serve import PageServer, check_address
    from sala.session import Session

    collection = list_images(labelled, pool)
    place = state or pool.resolve().with_name(f"{pool.resolve().name}.sala.jsonl")
    check_address(host, port)
    network = open_encoder(encoder)  # before the state: what fails leaves no new one behind
    with closing(Journal(place)) as journal:
        with console.embedding("embedding") as progress:
            collection, features = embedded(collection, network, progress)
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))  # the browser and its pictures need the other cores
        session = Session(collection, features, journal)
        server = PageServer(session, host, port, title=printable(pool.resolve().name))
        _tell(session, place)
        session.snapshot()
        console.out.print(f"[bold]{escape(server.address)}[/]  (Ctrl-C ends it)")
        if browser:
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        _serve_until_asked(server)
        server.rest()
        kept = journal.where()
    if kept != place:
        console.warn(f"{printable(str(place))} is not what was saved there; go on with --state {printable(str(kept))}")
    console.err.print(f"ended; your labels are in {kept}", markup=False)


def _tell(session: Session, place: Path) -> None:
    """What was found, on stderr."""
    for sentence in session.collection.set_aside[:5]:
        console.warn(f"set aside: {sentence}")
    if (n := len(session.collection.set_aside)) > 5:
        console.warn(f"set aside: {n - 5} more; the page lists them")
    if session.n_lost:
        console.warn(
            f"of images or classes that are not there now, {place} has {counted(session.n_lost, 'label')}, which it keeps"
        )
    if session.n_events:
        console.err.print(f"going on with {counted(session.n_events, 'change')} from {place}", markup=False)
    else:
        console.err.print(f"each click is saved in {place}", markup=False)


def _serve_until_asked(server: PageServer) -> None:
    """Ctrl-C and SIGTERM end it; an answer that is being written ends with it, a change is on disk before its answer."""

    def stop(signum: int, frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()  # shutdown waits for the loop that runs here

    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        server.server_close()
        for s, handler in before.items():
            signal.signal(s, handler)
