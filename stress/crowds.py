"""Many connections to a page at once: readers, slow ones, those who hang up, and writers."""

from __future__ import annotations

import json
import selectors
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stress.asking import ask
from stress.children import Child
from stress.page import Page
from stress.raw import BODY_ON_GET, sent


def answers_of(port: int, request: bytes, n: int, seconds: float = 15) -> list[bytes]:
    """n connections are opened first, then each sends and reads to the end."""
    found = [b""] * n
    with selectors.DefaultSelector() as waiting:
        for i in range(n):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
            waiting.register(connection, selectors.EVENT_WRITE, i)
        deadline = time.monotonic() + seconds
        while waiting.get_map() and time.monotonic() < deadline:
            for key, events in waiting.select(0.2):
                _step(waiting, key, events, request, found)
        for key in list(waiting.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
    return found


def _step(
    waiting: selectors.BaseSelector, key: selectors.SelectorKey, events: int, request: bytes, found: list[bytes]
) -> None:
    connection: socket.socket = key.fileobj  # type: ignore[assignment]
    try:
        if events & selectors.EVENT_WRITE:
            connection.sendall(request)
            waiting.modify(connection, selectors.EVENT_READ, key.data)
            return
        part = connection.recv(1 << 16)
        found[key.data] += part
    except OSError:
        part = b""
    if not part:
        waiting.unregister(connection)
        connection.close()


def _get(port: int, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()


def many_readers(page: Page) -> str | None:
    found = answers_of(page.port, _get(page.port, "/api/state"), 200)
    n = sum(answer.startswith(b"HTTP/1.1 200") for answer in found)
    return None if n == 200 else f"{n} of 200 were answered"


def readers_of_images(page: Page) -> str | None:
    found = answers_of(page.port, _get(page.port, "/image/8"), 5)
    n = sum(answer.startswith(b"HTTP/1.1 200") for answer in found)
    return None if n == 5 else f"{n} of 5 were answered"


def slow_readers(page: Page) -> str | None:
    """Sixty who never end their request; a seventh-first is served meanwhile."""
    slow = []
    try:
        for _ in range(60):
            connection = socket.create_connection(("127.0.0.1", page.port), timeout=10)
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
            slow.append(connection)
        for _ in range(20):
            for connection in slow:
                connection.sendall(b"y")
            time.sleep(0.05)
        begun = time.monotonic()
        answer = page.ask("/api/state")
        seconds = time.monotonic() - begun
    finally:
        for connection in slow:
            connection.close()
    if answer is None or answer.status != 200 or seconds > 5:
        return f"a reader among slow ones got {answer and answer.status} after {seconds:.1f} s"
    return None


def hung_up(page: Page) -> str | None:
    for path in ("/download/sorted.zip", "/download/labels.csv", "/image/8", "/api/items", "/thumb/9") * 4:
        with socket.create_connection(("127.0.0.1", page.port), timeout=10) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
            connection.sendall(_get(page.port, path))
    time.sleep(0.3)
    return None


def pipelined(page: Page) -> str | None:
    one = f"GET /api/items HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n\r\n".encode()
    answer = sent(page.port, one * 20)
    n = answer.count(b"HTTP/1.1 200")
    return None if n == 20 else f"{n} of 20 requests on one connection were answered"


def body_on_get(page: Page) -> str | None:
    """What stands behind the headers of a GET is its body, and no request."""
    answer = sent(page.port, BODY_ON_GET.replace(b"{port}", str(page.port).encode()))
    n = answer.count(b"HTTP/1.1 ")
    return None if n == 1 else f"{n} answers to one request: its body was taken for another"


def four_writers(page: Page) -> str | None:
    """Each adds and takes back labels; every answer is a version of its own, and all of them are there."""
    with tempfile.TemporaryDirectory() as name:
        before = ask(page.port, "/api/state").json["version"]
        writers = [
            Child(lambda w=w: _write(page.port, w, Path(name) / f"saved{w}"), Path(name), f"w{w}") for w in range(4)
        ]  # type: ignore[misc]
        ended = [writer.wait(60) for writer in writers]
        saved = [json.loads((Path(name) / f"saved{w}").read_text()) for w in range(4) if ended[w].code == 0]
    versions = sorted(version for versions in saved for version in versions)
    after = ask(page.port, "/api/state").json["version"]
    if len(saved) < 4 or versions != list(range(before + 1, before + 1 + len(versions))) or after != versions[-1]:
        return f"{len(versions)} versions were saved, up to {versions[-1:]}; the state went from {before} to {after}"
    page.end()  # its state is another now: the next request gets a new page
    return None


def _write(port: int, writer: int, path: Path) -> None:
    bodies = ({"do": "label", "items": [6 + 5 * writer + i % 5], "to": i % 3} for i in range(15))
    path.write_text(json.dumps([ask(port, "/api/act", body).json["saved"] for body in bodies]))


CROWDS: dict[str, Callable[[Page], str | None]] = {
    "five clients ask for one image": readers_of_images,
    "sixty slow clients": slow_readers,
    "clients who hang up": hung_up,
    "twenty requests on one connection": pipelined,
    "four writers at once": four_writers,
    "two hundred clients at once": many_readers,
    "a body on GET": body_on_get,
}
