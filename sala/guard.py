"""Who may ask the page's server, and for what. What is refused, and why:

- a `Host` that is not ours: a foreign site whose name was made to point here (DNS rebinding);
- a change whose `Origin` is not this page, or whose body is not JSON: a foreign site that the user has open;
- on another interface than loopback, whoever has not the token, which stands in the address that is printed;
- a body of more than a mebibyte, and one whose length is not told.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

MAX_BODY = 1 << 20
EVERYWHERE = ("0.0.0.0", "::")
HEADERS = {  # of every answer
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Refusal(Exception):
    """A request that gets a plain sentence and the end of its connection."""

    def __init__(self, status: HTTPStatus, sentence: str):
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Guard:
    """Of a server that listens on one host and port."""

    host: str
    port: int
    token: str | None  # None: whoever is on this machine

    @classmethod
    def of(cls, host: str, port: int) -> Guard:
        return cls(host, port, None if is_loopback(host) else secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """What to open."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.host in EVERYWHERE:
            host = socket.gethostname()
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def check_host(self, header: str) -> None:
        if not self.knows_host(header):
            raise Refusal(HTTPStatus.FORBIDDEN, "This name does not belong to this server; use the printed address.")

    def knows_host(self, header: str) -> bool:
        """Names that lead here. A number cannot be made to point elsewhere, so all are fine where all were asked for."""
        try:
            parts = urlsplit(f"//{header}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.port or parts.username is not None or parts.path:
            return False
        if name in {"localhost", self.host.lower()} or (self.token is None and is_loopback(name)):
            return True
        return self.host in EVERYWHERE and (name == socket.gethostname().lower() or is_address(name))

    def needs_cookie(self, cookies: str, query: str) -> bool:
        """Whether who asks has the token in the address alone, and may have it as a cookie. Without either it is refused."""
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


def checked_length(headers: Message) -> int:
    """How long the body of a change is, of a request that this page made."""
    if headers.get("Origin") != f"http://{headers['Host']}":
        raise Refusal(HTTPStatus.FORBIDDEN, "Changes are made by the page itself.")
    if headers.get_content_type() != "application/json":
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A change is JSON.")
    length = headers.get("Content-Length", "")
    if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in headers:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "Say how long the body is.")
    if len(length) > 9 or int(length) > MAX_BODY:
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A change has at most {MAX_BODY} bytes.")
    return int(length)


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
