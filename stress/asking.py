"""Requests to the page as a browser makes them, for the stress suite and for tests."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(port: int, path: str, body: Any = None, method: str | None = None, **headers: str | None) -> Answer:
    """A request as the page makes it; `headers` replace its own, and None leaves one out."""
    own = {"Host": f"127.0.0.1:{port}"}
    content = None
    if body is not None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        own |= {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}
        own |= {"Content-Length": str(len(content))}
    sent = {k: v for k, v in (own | {k.replace("_", "-"): v for k, v in headers.items()}).items() if v is not None}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.putrequest(
            method or ("POST" if body is not None else "GET"), path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(content)
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()
