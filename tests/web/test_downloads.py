"""Downloads that take long, and many of them."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from sala.web import downloads
from sala.web.server import PageServer
from sala.web.session import Session
from stress.asking import ask


def test_downloads_take_turns_and_those_that_wait_do_not_delay_the_end(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sala.web.server.LAST_ANSWERS_SECONDS", 0)
    begun, may_end = [], threading.Event()

    def slow(session: Session) -> Any:
        begun.append("report")
        may_end.wait()
        return iter([b"report"])

    monkeypatch.setitem(downloads.DOWNLOADS, "report.html", (slow, "text/html"))
    server = PageServer(session, port=0)
    running = threading.Thread(target=server.run)
    running.start()
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
    for client in clients:
        client.sendall(f"GET /download/report.html HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
    while len(begun) < 2:
        time.sleep(0.01)
    assert ask(server.port, "/download/state.jsonl").status == 200  # it waits for none of them
    server.stop()
    time.sleep(0.5)
    may_end.set()
    running.join()
    assert len(begun) == 2
    for client in clients:
        client.close()
