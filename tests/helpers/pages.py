"""A page to test: folders of colored images, their session, its server, and requests as a browser makes them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sala.labeling.embedding import ProjectFeatures, embed_project
from sala.labeling.places import Places
from sala.labeling.project import open_project
from sala.web.journal import Journal
from sala.web.server import PageServer
from sala.web.session import Session

ROOT = Path(__file__).parents[2]
COLORS = {"red": (220, 30, 30), "blue": (30, 30, 220), "green": (30, 200, 30)}
HOSTILE = ["<script>alert(1)<", "quote\"'s & co", "line\nbreak", "x../up", "=1+1", "\udcff raw"]


class MeanColor:
    """The mean of each channel, and a constant."""

    name, identity, image_size, mode = "mean-color", "mean-color-page", 8, "RGB"

    def embed(self, images: np.ndarray) -> np.ndarray:
        means = images.mean((1, 2)) / 255
        return np.concatenate([means, means**2, np.ones((len(images), 1))], 1).astype(np.float32)


def draw(path: Path, color: tuple[int, ...], rng: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noisy = np.clip(np.array(color) + rng.normal(0, 12, 3), 0, 255).astype(np.uint8)
    Image.new("RGB", (24, 16), tuple(map(int, noisy))).save(path)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """labeled/red and labeled/blue with two images each; a pool of ten red, ten blue and ten green."""
    rng = np.random.default_rng(0)
    for name in ("red", "blue"):
        for i in range(2):
            draw(tmp_path / "labeled" / name / f"{i}.png", COLORS[name], rng)
    for name, color in COLORS.items():
        for i in range(10):
            draw(tmp_path / "pool" / f"{name}-{i}.png", color, rng)
    return tmp_path / "labeled", tmp_path / "pool"


def open_session(folders: tuple[Path, Path], state: Path | None = None) -> Session:
    return Session(images_of(folders), Journal(state or folders[1].parent / "state.jsonl"))


def images_of(folders: tuple[Path, Path]) -> ProjectFeatures:
    return embed_project(open_project(Places(folders[1], folders[0])), MeanColor(), needs_examples=False)


@contextmanager
def running(session: Session, host: str = "127.0.0.1") -> Iterator[PageServer]:
    server = PageServer(session, host, 0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


@pytest.fixture
def session(folders: tuple[Path, Path]) -> Session:
    return open_session(folders)


@pytest.fixture
def port(session: Session) -> Iterator[int]:
    with running(session) as server:
        yield server.port


def row_of(session: Session, path: str) -> int:
    return next(i for i, item in enumerate(session.project.items) if item.path == path)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def fail_once(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The next such call finds the disk full, those after it do not."""
    works = getattr(os, call)

    def fails(*_: object) -> None:
        monkeypatch.setattr(os, call, works)
        full()

    monkeypatch.setattr(os, call, fails)


def ready_features(folders: tuple[Path, Path]) -> Path:
    """The features in a file, so that the command needs no network."""
    images = images_of(folders)
    place = folders[1].parent / "features.npy"
    np.save(place, images.features)
    names = [str(images.project.path(i)) for i in range(len(images.features))]
    place.with_suffix(".txt").write_text("\n".join(names) + "\n")
    return place


def start(folders: tuple[Path, Path], *more: str) -> tuple[subprocess.Popen[str], str]:
    """`sala serve`, and the address it prints."""
    features = folders[1].parent / "features.npy"
    if not features.exists():
        ready_features(folders)
    command = [
        sys.executable,
        "-m",
        "sala",
        "serve",
        *map(str, folders),
        "--no-browser",
        "--encoder",
        str(features),
        *more,
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("http"):
        process.kill()
        raise AssertionError(process.communicate()[1])
    return process, line.split()[0]


def end(process: subprocess.Popen[str], with_signal: signal.Signals) -> str:
    process.send_signal(with_signal)
    return process.communicate(timeout=30)[1]


LABEL = {"do": "label", "items": [9], "to": 0}


def request(port: int, path: str, *headers: str) -> bytes:
    """A GET request as bytes."""
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "", ""]).encode()


def change(port: int, body: Any) -> bytes:
    """A change as the page sends it, as bytes."""
    content = json.dumps(body)
    own = [f"Host: 127.0.0.1:{port}", f"Origin: http://127.0.0.1:{port}", "Content-Type: application/json"]
    return "\r\n".join(["POST /api/act HTTP/1.1", *own, f"Content-Length: {len(content)}", "", content]).encode()


def read_to_end(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)
