"""Many clients of the page at once, bad ones, and clients while a fit runs."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from sala.labeling import label
from sala.labeling.project import OUTLIER
from sala.web.server import PageServer
from sala.web.session import Session
from stress.asking import ask
from tests.helpers.pages import LABEL, change, read_to_end, request


def half_closed(connection: socket.socket) -> bytes:
    connection.shutdown(socket.SHUT_WR)
    return read_to_end(connection)


def test_a_body_on_a_get_is_no_request(port: int) -> None:
    inner = request(port, "/no-such-page")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request(port, "/icon.svg", f"Content-Length: {len(inner)}") + inner)
        connection.sendall(request(port, "/icon.svg"))
        answers = half_closed(connection)
    assert answers.count(b"HTTP/1.1 200") == 2 and b"HTTP/1.1 404" not in answers


def test_requests_on_one_connection_are_answered_in_order_also_by_a_client_that_sends_no_more(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request(port, "/api/state") * 10 + request(port, "/no-such-page"))
        answers = half_closed(connection)
    assert answers.count(b"HTTP/1.1 200") == 10 and answers.rindex(b"HTTP/1.1 200") < answers.index(b"HTTP/1.1 404")


def test_two_hundred_clients_that_connect_at_once_are_all_answered(session: Session) -> None:
    """They connect before the server accepts the first, so that the queue has to hold them all."""
    server = PageServer(session, port=0)
    with ExitStack() as end:
        clients = [end.enter_context(socket.socket()) for _ in range(200)]
        for client in clients:
            client.settimeout(2)  # a handshake that is dropped is tried again after 1 s, 3 s
            client.connect(("127.0.0.1", server.port))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        end.callback(thread.join)
        end.callback(server.stop)
        for client in clients:
            client.settimeout(None)
            client.sendall(request(server.port, "/api/state", "Connection: close"))
        assert all(read_to_end(client).startswith(b"HTTP/1.1 200") for client in clients)


def test_slow_requests_are_cut_off_and_keep_nobody_waiting(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sala.web.connection.REQUEST_SECONDS", 0.5)
    with ExitStack() as end:
        slow = [end.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(60)]
        parts = [b"GET / HTTP/1.1\r\nX: ", change(port, LABEL)[:-5]]
        for i, client in enumerate(slow):
            client.sendall(parts[i % 2])
        assert ask(port, "/").status == 200
        assert [read_to_end(client) for client in slow] == [b""] * 60


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_first_part(port: int) -> None:
    """Nagle's algorithm and delayed acknowledgements together cost 40 ms a request on a connection that is kept."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    took = []
    for _ in range(40):
        begun = time.perf_counter()
        connection.request("GET", "/icon.svg")
        connection.getresponse().read()
        took.append(time.perf_counter() - begun)
    connection.close()
    assert min(took[20:]) < 0.03


@pytest.fixture
def held_fit(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Events of every fit: it has begun; it may end."""
    begun, may_end, fit = threading.Event(), threading.Event(), label.fit_rows

    def held(*arrays: Any, **options: Any) -> Any:
        begun.set()
        may_end.wait()
        return fit(*arrays, **options)

    monkeypatch.setattr(label, "fit_rows", held)
    return begun, may_end


def test_a_change_is_saved_while_a_fit_runs(port: int, held_fit: tuple[threading.Event, threading.Event]) -> None:
    """Also where more clients wait for the fit than there are threads."""
    begun, may_end = held_fit
    with ThreadPoolExecutor(60) as clients:
        states = [clients.submit(ask, port, "/api/state") for _ in range(60)]
        begun.wait()
        try:
            for i in range(10):
                assert ask(port, "/api/act", {"do": "label", "items": [9 + i], "to": OUTLIER}).json == {"saved": i + 1}
            assert ask(port, "/thumb/9").status == 200
            assert not any(state.done() for state in states)
        finally:
            may_end.set()
        assert {state.result().status for state in states} == {200}


def test_the_end_waits_for_the_fit_that_is_under_way(
    session: Session, held_fit: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that still computes while Python ends would abort it."""
    monkeypatch.setattr("sala.web.server.LAST_ANSWERS_SECONDS", 0)
    (begun, may_end), done = held_fit, []
    server = PageServer(session, port=0)
    running = threading.Thread(target=lambda: (server.run(), server.rest(), done.append("end")))
    running.start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(request(server.port, "/api/state"))
        begun.wait()
        server.stop()
        server.stop()
        time.sleep(0.5)
        assert done == []
        may_end.set()
        running.join()
    assert done == ["end"]
    threading.Thread(target=session.snapshot, daemon=True).start()  # waits for ever
    threading.Thread(target=server.page.map.points, daemon=True).start()
    assert done == ["end"]
