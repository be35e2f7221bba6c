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

from sala.cli import console
from sala.cli.labeling_options import (
    Encoder,
    Folders,
    Labels,
    Outliers,
    Precision,
    check_precision,
    serve_command,
    tell_predicted,
    two_folders,
)
from sala.text import counted, printable

if TYPE_CHECKING:
    from sala.encoders import Encoder as Network
    from sala.labeling.project import Project
    from sala.web.journal import Journal
    from sala.web.server import PageServer
    from sala.web.session import Session


def serve(
    folders: Folders,
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    host: Annotated[
        str, typer.Option(help="Another interface than loopback; the address then has a token.")
    ] = "127.0.0.1",
    state: Annotated[
        Path | None,
        typer.Option(help="Where each correction is saved.", show_default="POOL.sala.jsonl beside the pool"),
    ] = None,
    encoder: Encoder = "lite0",
    labels: Labels = None,
    outliers: Outliers = None,
    precision: Precision = 0.9,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Label a pool of images in the browser, from a few examples of each class. Each correction is saved and used at once.

    The page downloads labels, model and report as `sala label` writes them; `sala label --state FILE` labels with what was
    corrected here.

    Example: `sala serve labeled/ pool/`
    """
    from sala.encoders import open_encoder
    from sala.labeling.places import Places
    from sala.labeling.project import open_project
    from sala.web.journal import Journal
    from sala.web.server import check_address

    labeled, pool = two_folders(folders, labels)
    check_precision(precision)
    places = Places(pool, labeled, labels, outliers)
    project = open_project(places)
    tell_predicted(project.n_predicted, labels)
    place = state or pool.resolve().with_name(f"{pool.resolve().name}.sala.jsonl")
    check_address(host, port)
    network = open_encoder(encoder)  # before the state: what fails leaves no new one behind
    with closing(Journal(place)) as journal:
        session = _session(project, network, encoder, journal, precision)
        session.command = serve_command(places, encoder, precision, state)
        _tell(session, place)
        _serve(session, host, port, printable(pool.resolve().name), browser)
        kept = journal.where()
    if kept != place:
        console.warn(f"{printable(str(place))} is not what was saved there; go on with --state {printable(str(kept))}")
    console.err.print(f"ended; your labels are in {kept}", markup=False)


def _session(project: Project, network: Network, which: str, journal: Journal, precision: float) -> Session:
    import torch

    from sala.labeling.embedding import describe_encoder, embed_project
    from sala.web.session import Session

    with console.embedding("embedding") as progress:
        images = embed_project(project, network, which=describe_encoder(which), needs_examples=False, progress=progress)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))  # the browser and its pictures need the other cores
    return Session(images, journal, precision)


def _serve(session: Session, host: str, port: int, title: str, browser: bool) -> None:
    from sala.web.server import PageServer

    server = PageServer(session, host, port, title=title)
    session.snapshot()
    console.out.print(f"[bold]{escape(server.address)}[/]  (Ctrl-C ends it)")
    if browser:
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    _serve_until_asked(server)
    server.rest()


def _tell(session: Session, place: Path) -> None:
    """What was found, on stderr."""
    skipped = list(session.project.skipped.values())
    for sentence in skipped[:5]:
        console.warn(f"skipped: {sentence}")
    if len(skipped) > 5:
        console.warn(f"skipped: {len(skipped) - 5} more; the page lists them")
    if session.n_lost:
        console.warn(
            f"of images or classes that are not there now, {place} has {counted(session.n_lost, 'label')}, which it keeps"
        )
    if session.n_events:
        console.err.print(f"going on with {counted(session.n_events, 'change')} from {place}", markup=False)
    else:
        console.err.print(f"each correction is saved in {place}", markup=False)


def _serve_until_asked(server: PageServer) -> None:
    """Serve until Ctrl-C or SIGTERM; a second signal changes nothing. A change is on disk before its answer."""

    def stop(signum: int, frame: FrameType | None) -> None:
        server.stop()

    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run()
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
