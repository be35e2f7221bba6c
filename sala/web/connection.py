"""One connection of a browser: uvicorn's HTTP/1.1 protocol, with limits on how long a client may keep it busy."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sala.web.security import HEADERS

REQUEST_SECONDS = 30.0  # for a whole request to arrive: a slow-loris client is cut off then
STALLED_SECONDS = 60.0  # for an answer that nobody reads
BAD_REQUEST = "\r\n".join(
    [
        "HTTP/1.1 400 Bad Request",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Length: 19",
        "Connection: close",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
        "",
        "This is not HTTP.\r\n",
    ]
).encode()


class Connection(H11Protocol):
    """Ends when a request or the reading of an answer takes too long."""

    _request: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _is_ended = False  # the client sends no more

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._time_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_request()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Go on if the client half-closed the connection after whole requests: it waits for their answers."""
        self._is_ended = True
        return self._is_answering and not self._is_waiting

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_ended and not self._is_answering:  # else another request was in the pipeline
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._request, self._stalled):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, with the headers of every answer; uvicorn's own fails while another answer is under way."""
        if not self._is_answering:
            self.transport.write(BAD_REQUEST)
        self.transport.close()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_waiting(self) -> bool:
        """Whether a request has yet to begin or to end."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _time_request(self) -> None:
        """Limit the time until a request is complete."""
        if self._is_waiting and self._request is None:
            self._request = self.loop.call_later(REQUEST_SECONDS, self.transport.close)
        elif not self._is_waiting and self._request is not None:
            self._request.cancel()
            self._request = None
