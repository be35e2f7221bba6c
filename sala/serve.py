"""The page's server, made of Python's own HTTP server: static files, images by number, and a few JSON requests.

What is refused, and why:
- a `Host` that is not ours: a foreign site whose name was made to point here (DNS rebinding);
- a change whose `Origin` is not this page, or whose body is not JSON: a foreign site that the user has open;
- on another interface than loopback, whoever has not the token, which stands in the address that is printed;
- a body of more than a mebibyte, and one whose length is not told.
There are no paths in requests: an image is a number. Images are decoded and written anew, so that no byte of a file
is ever run by a browser.
"""

from __future__ import annotations

import errno
import gzip
import hmac
import io
import ipaddress
import json
import secrets
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

from sala import downloads
from sala.data.files import open_image
from sala.errors import SalaError
from sala.projection import pool_map
from sala.session import Session, Snapshot

MAX_BODY = 1 << 20
THUMB, FULL = 224, 1280  # pixels of the longer side
STATIC = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/map.js": ("map.js", "text/javascript; charset=utf-8"),
    "/grid.js": ("grid.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
DOWNLOADS = {
    "/download/labels.csv": (downloads.to_csv, "text/csv; charset=utf-8"),
    "/download/label-studio.json": (downloads.to_label_studio, "application/json"),
    "/download/sorted.zip": (downloads.to_zip, "application/zip"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class PageServer(ThreadingHTTPServer):
    """Serves one session. `port=0` takes a free one; `address` is what to open."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, session: Session, host: str = "127.0.0.1", port: int = 8000, title: str = "pool"):
        self.session, self.title, self.host = session, title, host
        self.token = None if is_loopback(host) else secrets.token_urlsafe(24)
        self.pictures = Pictures(session)
        self.page_map = LazyMap(session)
        self.run_id = secrets.token_hex(4)  # in the addresses of images: a browser keeps them as long as this run lasts
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise SalaError(_why_not(host, port, error)) from None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        return f"http://{host}:{self.server_port}/" + (f"?token={self.token}" if self.token else "")

    def knows_host(self, header: str) -> bool:
        """Names that lead here. A number cannot be made to point elsewhere, so all are fine where all were asked for."""
        try:
            parts = urlsplit(f"//{header}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.server_port or parts.username is not None or parts.path:
            return False
        if name in {"localhost", self.host.lower()} or (self.token is None and is_loopback(name)):
            return True
        return self.host in ("0.0.0.0", "::") and (name == socket.gethostname().lower() or is_address(name))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who hangs up is no news."""


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


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


class Pictures:
    """Images as JPEG, at most two being decoded at a time, the last used ones kept."""

    def __init__(self, session: Session, max_bytes: int = 96 << 20):
        self._session, self._max_bytes, self._n_bytes = session, max_bytes, 0
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock, self._decoding = threading.Lock(), threading.Semaphore(2)

    def jpeg(self, index: int, side: int) -> bytes:
        with self._lock:
            if (index, side) in self._kept:
                self._kept.move_to_end((index, side))
                return self._kept[index, side]
        with self._decoding:
            collection = self._session.collection
            image = open_image(collection.read(index), collection.items[index].key, image_size=side, mode="RGB")
            image.thumbnail((side, side))
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=82)
        with self._lock:
            self._kept[index, side] = buffer.getvalue()
            self._n_bytes += len(self._kept[index, side])
            while self._n_bytes > self._max_bytes:
                self._n_bytes -= len(self._kept.popitem(last=False)[1])
        return buffer.getvalue()


class LazyMap:
    """The map, computed when it is first asked for."""

    def __init__(self, session: Session):
        self._session, self._lock = session, threading.Lock()
        self._points: NDArray[np.float32] | None = None

    def points(self) -> NDArray[np.float32]:
        with self._lock:
            if self._points is None:
                self._points = pool_map(self._session.features)
            return self._points


class Refusal(Exception):
    """A request that gets a plain sentence and the end of its connection."""

    def __init__(self, status: HTTPStatus, sentence: str):
        super().__init__(sentence)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sala", ""
    timeout = 60

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_HEAD(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def _guarded(self, answer: Callable[[], None]) -> None:
        """Who may not ask gets a sentence; so does who asks for something that cannot be."""
        try:
            if not self.server.knows_host(self.headers.get("Host", "")):
                raise Refusal(
                    HTTPStatus.FORBIDDEN, "This name does not belong to this server; use the printed address."
                )
            if self._has_token():
                answer()
        except Refusal as refusal:
            self.close_connection = True
            self._bytes(f"{refusal}\n".encode("utf-8", "replace"), "text/plain; charset=utf-8", status=refusal.status)
        except SalaError as error:
            self._json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _has_token(self) -> bool:
        """By cookie; by the address once, which then becomes a cookie and leaves the address."""
        token = self.server.token
        if token is None:
            return True
        name = f"sala-{self.server.server_port}"
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(name)
        except CookieError:
            cookie = None
        if cookie is not None and hmac.compare_digest(cookie.value.encode(), token.encode()):
            return True
        parts = urlsplit(self.path)
        said = parse_qs(parts.query).get("token", [""])[0]
        if not hmac.compare_digest(said.encode("utf-8", "replace"), token.encode()):
            raise Refusal(HTTPStatus.FORBIDDEN, "Open the address that `sala serve` printed, with its token.")
        if self.command == "POST" or parts.path != "/":
            return True
        more = {"Location": "/", "Set-Cookie": f"{name}={token}; HttpOnly; SameSite=Strict; Path=/"}
        self._begin(HTTPStatus.SEE_OTHER, "text/plain", 0, more)
        return False

    def _get(self) -> None:
        path = urlsplit(self.path).path
        if path in STATIC:
            name, kind = STATIC[path]
            return self._bytes((resources.files("sala") / "web" / name).read_bytes(), kind)
        if path in DOWNLOADS:
            return self._download(path)
        if path == "/api/items":
            return self._json(describe_items(self.server))
        if path == "/api/state":
            return self._json(describe(self.server.session, self.server.session.snapshot()))
        if path == "/api/map":
            return self._json({"points": np.rint(self.server.page_map.points() * 4095).astype(int).ravel().tolist()})
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
        name = path.rpartition("/")[2]
        more = {"Content-Disposition": f'attachment; filename="{name}"', "Transfer-Encoding": "chunked"}
        blocks = write(session.collection, session.snapshot())
        self._begin(HTTPStatus.OK, kind, None, more)
        if self.command != "HEAD":
            self._chunks(blocks)

    def _chunks(self, blocks: Iterator[bytes]) -> None:
        for block in blocks:
            if block:
                self.wfile.write(b"%x\r\n" % len(block) + block + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _post(self) -> None:
        """The answer says that the change is on disk; what follows from it is `/api/state`, which may serve several."""
        content = self._body()
        if urlsplit(self.path).path != "/api/act":
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such request.")
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            raise SalaError("the request is not JSON; reload the page") from None
        self._json({"saved": act(self.server.session, body)})

    def _body(self) -> bytes:
        """The body of a request that this page made."""
        self.close_connection = True  # until the body has been read: what is left of it is no next request
        if self.headers.get("Origin") != f"http://{self.headers['Host']}":
            raise Refusal(HTTPStatus.FORBIDDEN, "Changes are made by the page itself.")
        if self.headers.get_content_type() != "application/json":
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A change is JSON.")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "Say how long the body is.")
        if len(length) > 9 or int(length) > MAX_BODY:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A change has at most {MAX_BODY} bytes.")
        content = self.rfile.read(int(length))
        if len(content) < int(length):
            raise ConnectionError("hung up")
        self.close_connection = False
        return content

    def _json(self, content: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._bytes(json.dumps(content, separators=(",", ":")).encode(), "application/json", status=status)

    def _bytes(
        self, content: bytes, kind: str, more: dict[str, str] | None = None, status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        more = dict(more or {})
        wants_gzip = "gzip" in self.headers.get("Accept-Encoding", "") and self.server.token is not None
        if (
            wants_gzip and len(content) > 4096 and kind != "image/jpeg"
        ):  # over a network; on one machine it is only slower
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


def act(session: Session, body: Any) -> int:
    """One change, as the page asks for it; the version that it leads to."""
    what = body.get("do") if isinstance(body, dict) else None
    if what == "label" and _are_numbers(body.get("items")) and _are_numbers([body.get("to")]):
        return session.label(body["items"], body["to"])
    if what == "add" and isinstance(body.get("name"), str):
        return session.add_class(body["name"])
    if what == "rename" and _are_numbers([body.get("class")]) and isinstance(body.get("name"), str):
        return session.rename_class(body["class"], body["name"])
    if what == "undo":
        return session.undo()
    raise SalaError("the request is none that the page makes; reload the page")


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)


def describe_items(server: PageServer) -> dict[str, Any]:
    """What stays as it is while the server runs."""
    collection = server.session.collection
    return {
        "title": server.title,
        "run": server.run_id,
        "names": [item.path for item in collection.items],
        "in_pool": [int(item.root == "pool") for item in collection.items],
        "set_aside": list(collection.set_aside),
    }


def describe(session: Session, shown: Snapshot) -> dict[str, Any]:
    """A snapshot for the page: a list for each column, probabilities in thousandths."""
    return {
        "version": shown.version,
        "classes": list(shown.names),
        "given": shown.given.tolist(),
        "label": shown.label.tolist(),
        "runner_up": shown.runner_up.tolist(),
        "probability": _thousandths(shown.probability),
        "second": _thousandths(shown.second),
        "none": _thousandths(shown.none_score),
        "junk": shown.is_junk.astype(int).tolist(),
        "next": shown.label_next.tolist(),
        "estimate": shown.estimate,
        "checked": shown.n_checked,
        "agreed": shown.n_agreed,
        "undo": shown.n_undo,
        "seconds": round(shown.fit_seconds, 3),
        "sure": round(1000 * shown.sure),
        "history": [h["estimate"] for h in session.history],
    }


def _thousandths(values: NDArray[np.float32]) -> list[int]:
    numbers: list[int] = np.rint(values * 1000).astype(int).tolist()
    return numbers
