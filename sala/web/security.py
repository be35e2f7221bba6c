"""Access rules of the page, checked before any route. A request is refused if

- its `Host` is not this server: a foreign site whose name points here (DNS rebinding);
- it is a change whose `Origin` is not this page or whose body is not JSON, or of an upload not bytes: a foreign site in the
  same browser (CSRF), which may send neither;
- it comes without the token of the printed address, where the server listens beyond loopback;
- it is a change with a body of more than a mebibyte, an upload of more than 32, or either of unknown length.

Every answer, also one that refuses or reports an error, carries `HEADERS`.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import secrets
import socket
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

UPLOAD = "/api/upload"
MAX_BODY, MAX_UPLOAD = 1 << 20, 32 << 20  # bytes
EVERYWHERE = ("0.0.0.0", "::")
HEADERS = {
    "Cache-Control": "no-store",  # a route may say otherwise
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Security:
    """ASGI middleware: checks each request, adds `HEADERS` to each answer, and logs what fails inside."""

    def __init__(self, app: ASGIApp, guard: Guard):
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await (self._answer(scope) or self.app)(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass  # nobody is left to answer
        except Exception:
            logging.getLogger(__name__).exception("%s %s failed", scope["method"], scope["path"])

    def _answer(self, scope: Scope) -> Response | None:
        """Return a refusal, or the redirect that moves the token into a cookie; None where the routes decide."""
        guard, headers, method = self.guard, Headers(scope=scope), scope["method"]
        try:
            guard.check_host(headers.get("host", ""))
            query = scope["query_string"].decode("latin-1")
            by_address = guard.needs_cookie(headers.get("cookie", ""), query)
            if method == "POST":
                check_change(headers, is_upload=scope["path"] == UPLOAD)
        except Refusal as refusal:
            return refusal.answer()
        if by_address and method in ("GET", "HEAD") and scope["path"] == "/":
            return Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": "/", "Set-Cookie": guard.cookie})
        return None


class Refusal(Exception):
    """A request that is answered by one plain sentence and the end of its connection."""

    def __init__(self, status: HTTPStatus, sentence: str):
        super().__init__(sentence)
        self.status = status

    def answer(self) -> Response:
        content = f"{self}\n".encode("utf-8", "replace")
        return PlainTextResponse(content, self.status, {"Connection": "close"})


@dataclass(frozen=True)
class Guard:
    """The rules of a server that listens on one host and port."""

    host: str
    port: int
    token: str | None  # None on loopback: everybody on this machine may ask

    @classmethod
    def of(cls, host: str, port: int) -> Guard:
        return cls(host, port, None if is_loopback(host) else secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """The URL to open, with the token if there is one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in EVERYWHERE:
            host = socket.gethostname()
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def check_host(self, header: str) -> None:
        if not self.knows_host(header):
            raise Refusal(HTTPStatus.FORBIDDEN, "This name does not belong to this server; use the printed address.")

    def knows_host(self, header: str) -> bool:
        """Whether a `Host` names this server. A numeric address cannot be rebound, so `0.0.0.0` and `::` accept any."""
        try:
            parts = urlsplit(f"//{header}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.port or parts.username is not None or parts.path or parts.query or parts.fragment:
            return False
        if name in {"localhost", self.host.lower()} or (self.token is None and is_loopback(name)):
            return True
        return self.host in EVERYWHERE and (name == socket.gethostname().lower() or is_address(name))

    def needs_cookie(self, cookies: str, query: str) -> bool:
        """Whether the token is in the address but not yet in a cookie. Raises Refusal where it is in neither."""
        if self.token is None or self._has_cookie(cookies):
            return False
        said = parse_qs(query).get("token", [""])[0]
        if not hmac.compare_digest(said.encode("utf-8", "replace"), self.token.encode()):
            raise Refusal(HTTPStatus.FORBIDDEN, "Open the address that `sala serve` printed, with its token.")
        return True

    @property
    def cookie(self) -> str:
        return f"sala-{self.port}={self.token}; HttpOnly; SameSite=Strict; Path=/"

    def _has_cookie(self, cookies: str) -> bool:
        try:
            cookie = SimpleCookie(cookies).get(f"sala-{self.port}")
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), str(self.token).encode())


def check_change(headers: Headers, *, is_upload: bool = False) -> None:
    """Raise Refusal unless this page sent the request, as JSON, or as the bytes of a file, of a known and bounded length."""
    kind, most = ("application/octet-stream", MAX_UPLOAD) if is_upload else ("application/json", MAX_BODY)
    if headers.getlist("origin") != [f"http://{headers.get('host')}"]:
        raise Refusal(HTTPStatus.FORBIDDEN, "Only the page itself makes changes.")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"A change must be {kind}.")
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "A change needs a Content-Length.")
    if len(length) > 9 or int(length) > most:
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A change has at most {most} bytes.")


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
