"""The page's server, made of Python's own HTTP server: static files, images by number, and a few JSON requests.

Who may ask is the guard's (sala/guard.py), what is said the messages' (sala/messages.py). There are no paths in requests:
an image is a number. Images are decoded and written anew, so that no byte of a file is ever run by a browser.

A change that makes no sense is answered by 400 and a sentence: nothing has changed. One that could not be written to
disk is answered by 500.
"""

from __future__ import annotations

import errno
import gzip
import json
import secrets
import socket
import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from sala import downloads
from sala.errors import SalaError
from sala.guard import HEADERS, Guard, Refusal, checked_length
from sala.journal import NotSavedError
from sala.messages import StateAnswer, act, describe_items, describe_map, to_json
from sala.pictures import FULL, THUMB, LazyMap, Pictures
from sala.session import Session

KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
DOWNLOADS = {
    "/download/labels.csv": (downloads.to_csv, "text/csv; charset=utf-8"),
    "/download/label-studio.json": (downloads.to_label_studio, "application/json"),
    "/download/sorted.zip": (downloads.to_zip, "application/zip"),
}
STATE = "/download/state.jsonl"  # what --state takes up again; it waits for no fit


class PageServer(ThreadingHTTPServer):
    """Serves one session. `port=0` takes a free one; `address` is what to open."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, session: Session, host: str = "127.0.0.1", port: int = 8000, title: str = "pool"):
        self.session, self.title = session, title
        self.pictures, self.page_map = Pictures(session), LazyMap(session)
        self.run_id = secrets.token_hex(4)  # numbers of images are of this run: so are their addresses, and changes
        self.state_answer = StateAnswer(session, self.run_id)
        self.static = static_files()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise SalaError(_why_not(host, port, error)) from None
        self.guard = Guard.of(host, self.server_port)

    @property
    def address(self) -> str:
        return self.guard.address

    def rest(self) -> None:
        """At the end, so that no thread computes while Python ends, by which PyTorch would abort it."""
        self.session.rest()
        self.page_map.rest()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who hangs up is no news; anything else is a fault of ours."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def static_files() -> dict[str, tuple[bytes, str]]:
    """The files of sala/web by their addresses, with their kinds."""
    files = [(file, KINDS.get(file.name.rpartition(".")[2])) for file in (resources.files("sala") / "web").iterdir()]
    found = {f"/{file.name}": (file.read_bytes(), kind) for file, kind in files if kind}
    return {"/": found.pop("/index.html"), **found}


def check_address(host: str, port: int) -> None:
    """Whether one can listen there, asked before the long work begins."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen()
        except OSError as error:
            raise SalaError(_why_not(host, port, error)) from None


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use, perhaps by another `sala serve`; choose another with --port, or 0 for any"
    if error.errno == errno.EACCES:
        return f"port {port} may not be opened by this user; choose one above 1023 with --port"
    return f"cannot listen on {host}, port {port} ({error.strerror or error}); choose another --host"


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sala", ""
    timeout = 60
    disable_nagle_algorithm = (
        True  # an answer is two writes, and the second would wait 40 ms for the first to be confirmed
    )

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_HEAD(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def _guarded(self, answer: Callable[[str], None]) -> None:
        """Who may not ask gets a sentence; so does who asks for something that cannot be."""
        guard = self.server.guard
        try:
            guard.check_host(self.headers.get("Host", ""))
            path, query = self._asked()
            by_address = guard.needs_cookie(self.headers.get("Cookie", ""), query)
            if by_address and self.command != "POST" and path == "/":  # the token leaves the address
                self._begin(HTTPStatus.SEE_OTHER, "text/plain", 0, {"Location": "/", "Set-Cookie": guard.cookie})
            else:
                answer(path)
        except Refusal as refusal:
            self.close_connection = True
            self._bytes(f"{refusal}\n".encode("utf-8", "replace"), "text/plain; charset=utf-8", status=refusal.status)
        except NotSavedError as error:
            is_stopped = self.server.session.stopped is not None
            self._json({"error": str(error), "stopped": is_stopped}, HTTPStatus.INTERNAL_SERVER_ERROR)
        except SalaError as error:
            self._json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _asked(self) -> tuple[str, str]:
        """Path and query."""
        try:
            parts = urlsplit(self.path)
        except ValueError:
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such page.") from None
        return parts.path, parts.query

    def _get(self, path: str) -> None:
        if path in self.server.static:
            return self._bytes(*self.server.static[path])
        if path in DOWNLOADS:
            return self._download(path)
        if path == STATE:
            return self._attach(path, "application/jsonl", [self.server.session.saved_state()])
        if path == "/api/items":
            return self._json(describe_items(self.server.session, self.server.title, self.server.run_id))
        if path == "/api/state":
            return self._bytes(self.server.state_answer.content(), "application/json")
        if path == "/api/map":
            return self._json(describe_map(self.server.page_map.points()))
        _, kind, number = [*path.split("/", 2), "", ""][:3]
        if kind in ("thumb", "image") and number.isascii() and number.isdigit() and len(number) < 10:
            return self._picture(int(number), THUMB if kind == "thumb" else FULL)
        raise Refusal(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _picture(self, index: int, side: int) -> None:
        if index >= len(self.server.session.collection.items):
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such image.")
        try:
            content = self.server.pictures.jpeg(index, side)
        except SalaError as error:
            raise Refusal(HTTPStatus.NOT_FOUND, str(error)) from None
        self._bytes(content, "image/jpeg", {"Cache-Control": "private, max-age=86400"})

    def _download(self, path: str) -> None:
        write, kind = DOWNLOADS[path]
        session = self.server.session
        self._attach(path, kind, write(session.collection, session.snapshot()))

    def _attach(self, path: str, kind: str, blocks: Iterable[bytes]) -> None:
        name = path.rpartition("/")[2]
        more = {"Content-Disposition": f'attachment; filename="{name}"', "Transfer-Encoding": "chunked"}
        self._begin(HTTPStatus.OK, kind, None, more)
        if self.command != "HEAD":
            self._chunks(blocks)

    def _chunks(self, blocks: Iterable[bytes]) -> None:
        for block in blocks:
            if block:
                self.wfile.write(b"%x\r\n" % len(block) + block + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _post(self, path: str) -> None:
        """The answer says that the change is on disk; what follows from it is `/api/state`, which may serve several."""
        content = self._body()
        if path != "/api/act":
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such request.")
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            raise SalaError("the request is not JSON; reload the page") from None
        self._json({"saved": act(self.server.session, body, self.server.run_id)})

    def _body(self) -> bytes:
        self.close_connection = True  # until the body has been read: what is left of it is no next request
        length = checked_length(self.headers)
        content = self.rfile.read(length)
        if len(content) < length:
            raise ConnectionError("hung up")
        self.close_connection = False
        return content

    def _json(self, content: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._bytes(to_json(content), "application/json", status=status)

    def _bytes(
        self, content: bytes, kind: str, more: dict[str, str] | None = None, status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        more = dict(more or {})
        is_far = self.server.guard.token is not None  # over a network; on one machine it is only slower
        wants_gzip = is_far and "gzip" in self.headers.get("Accept-Encoding", "")
        if wants_gzip and len(content) > 4096 and kind != "image/jpeg":
            content, more["Content-Encoding"] = gzip.compress(content, 3), "gzip"
        self._begin(status, kind, len(content), more)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str, length: int | None, more: dict[str, str]) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Cache-Control": "no-store", **HEADERS, **more}
        if length is not None:
            headers["Content-Length"] = str(length)
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is for the user."""
