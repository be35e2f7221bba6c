"""Bytes on a socket that no browser sends."""

from __future__ import annotations

import re
import socket
import time

_HOST = b"Host: 127.0.0.1:{port}\r\n"
_UNDO = b'{"do":"undo"}'
# a change that would have every right, were it a request of its own
SMUGGLED = (
    b"POST /api/act HTTP/1.1\r\n" + _HOST + b"Origin: http://127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    b"Content-Length: 13\r\nConnection: close\r\n\r\n" + _UNDO
)
_FOREIGN = SMUGGLED.replace(b"Origin: http://127.0.0.1:{port}", b"Origin: http://evil.example")

ODD_REQUESTS: dict[str, bytes] = {
    "nothing at all": b"",
    "only line ends": b"\r\n" * 50,
    "HTTP/0.9": b"GET /\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\n" + _HOST + b"\r\n",
    "no version": b"GET / HTTP/\r\n\r\n",
    "a version of letters": b"GET / HTTP/a.b\r\n" + _HOST + b"\r\n",
    "four words": b"GET / x HTTP/1.1\r\n" + _HOST + b"\r\n",
    "no host": b"GET /api/state HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /api/state HTTP/1.1\r\n" + _HOST + b"Host: evil.example\r\n\r\n",
    "a foreign host by a full address": b"GET http://evil.example/api/state HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\n" + _HOST + b"nonsense\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\n" + _HOST + b"X: a\r\n b\r\n\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\n" + _HOST + b"X: \0\r\n\r\n",
    "two hundred headers": b"GET / HTTP/1.1\r\n" + _HOST + b"X: y\r\n" * 200 + b"\r\n",
    "a header of 200 KB": b"GET / HTTP/1.1\r\n" + _HOST + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
    "an address of 100 KB": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + _HOST + b"\r\n",
    "line feeds alone": b"GET / HTTP/1.1\nHost: 127.0.0.1:{port}\n\n",
    "carriage returns alone": b"GET / HTTP/1.1\rHost: 127.0.0.1:{port}\r\r",
    "a hello of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
    "a preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a wish to continue": SMUGGLED.replace(b"Connection: close", b"Expect: 100-continue").replace(_UNDO, b""),
    "a length and chunks": _FOREIGN.replace(b"Content-Length: 13", b"Content-Length: 13\r\nTransfer-Encoding: chunked"),
    "two lengths": SMUGGLED.replace(b"Content-Length: 13", b"Content-Length: 99\r\nContent-Length: 13"),
    "a body shorter than it says": SMUGGLED.replace(b"Content-Length: 13", b"Content-Length: 1300"),
    "a body longer than it says": SMUGGLED.replace(b"Content-Length: 13", b"Content-Length: 2") + _FOREIGN,
    "a foreign change behind a good request": b"GET /api/state HTTP/1.1\r\n" + _HOST + b"\r\n" + _FOREIGN,
    "a cookie of nonsense": b"GET / HTTP/1.1\r\n" + _HOST + b"Cookie: =;;;\x01=\x02; sala-{port}=\xff\r\n\r\n",
}
BODY_ON_GET = (
    b"GET /api/state HTTP/1.1\r\n"
    + _HOST
    + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED.replace(b"{port}", b"00000"))
    + SMUGGLED
)


def sent(port: int, content: bytes, seconds: float = 1.5) -> bytes:
    """What comes back until the other side ends it, or is quiet for a while."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(seconds)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and (part := connection.recv(1 << 16)):
                received += part
        except OSError:
            pass
    return received


def first_status(answer: bytes) -> int | None:
    found = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return int(found[1]) if found else None
