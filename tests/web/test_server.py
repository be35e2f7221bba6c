"""The page's server: what it answers, and what it refuses."""

from __future__ import annotations

import gzip
import logging
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sala.errors import SalaError
from sala.web.app import static_files
from sala.web.downloads import DOWNLOADS
from sala.web.server import PageServer, check_address
from sala.web.session import Session
from stress.asking import ask
from tests.helpers.pages import LABEL, change, fail_once, read_to_end, request, running


def test_the_page_and_its_parts_are_served_with_strict_headers(port: int) -> None:
    for path, kind in [("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css"),
                       ("/api/items", "application/json"), ("/api/state", "application/json"),
                       ("/api/map", "application/json"), ("/thumb/0", "image/jpeg"), ("/image/0", "image/jpeg")]:  # fmt: skip
        answer = ask(port, path)
        assert answer.status == 200 and answer.headers["content-type"].startswith(kind)
        head = ask(port, path, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == answer.headers["content-length"] == str(len(answer.body))
    page = ask(port, "/").body.decode()
    assert "<script>" not in page and "style=" not in page and "http" not in page  # nothing inline, nothing remote


def test_every_answer_has_the_headers(session: Session, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "snapshot", lambda: 1 / 0)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"no HTTP\r\n\r\n")
        said = read_to_end(connection).decode().lower()
    raw = dict(line.split(": ", 1) for line in said.split("\r\n\r\n")[0].splitlines()[1:])
    answers = [ask(port, path) for path in ("/", "/none", "/api/state", "/thumb/0", "/download/labels.csv")]
    answers += [ask(port, "/", method="PUT"), ask(port, "/", Host="x"), ask(port, "/api/act", {}, Content_Type="x")]
    assert [answer.status for answer in answers] == [200, 404, 500, 200, 500, 405, 403, 415]
    for headers in [raw, *(answer.headers for answer in answers)]:
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers and "cache-control" in headers


def test_another_host_is_refused(port: int) -> None:
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "",
        f"a@127.0.0.1:{port}",
        f"127.0.0.1:{port}#a",
        f"127.0.0.1:{port}?a",
    ):
        assert ask(port, "/api/state", Host=host).status == 403
        assert ask(port, "/api/act", {"do": "undo"}, Host=host).status == 403
    assert ask(port, "/", Host=f"localhost:{port}").status == 200


def test_a_change_from_another_origin_is_refused(session: Session, port: int) -> None:
    for origin in ("http://evil.example", "null", None, f"https://127.0.0.1:{port}", "http://127.0.0.1:1"):
        assert ask(port, "/api/act", LABEL, Origin=origin).status == 403
    assert ask(port, "/api/act", LABEL, Content_Type="text/plain").status == 415  # a form of another site
    assert session.n_events == 0


def test_bodies_are_bounded(port: int) -> None:
    assert ask(port, "/api/act", b"", Content_Length=str(10**8)).status == 413
    assert ask(port, "/api/act", b"", Content_Length=None).status == 411
    assert ask(port, "/api/act", b"", Content_Length=None, Transfer_Encoding="chunked").status == 411
    for length in ("-1", "1e3", "9" * 5000):
        assert ask(port, "/api/act", b"", Content_Length=length).status == 400
    assert ask(port, "/api/act", b" " * (1 << 20)).status == 400  # read, and not JSON


BODIES: list[Any] = [
    b"", b"null", b"{", b"[" * 100_000, b'"x"', {"do": "format"}, {"do": "label"}, {"do": "label", "items": [], "to": 0},
    {"do": "label", "items": [10**30], "to": 0}, {"do": "label", "items": [-1], "to": 0},
    {"do": "label", "items": [0.5], "to": 0},
    {"do": "label", "items": [True], "to": 0}, {"do": "label", "items": [5], "to": 2}, {"do": "label", "items": [5], "to": -1},
    {"do": "add", "name": 5}, {"do": "add", "name": "../x"}, {"do": "add", "name": "red"},
    {"do": "rename", "class": 9, "name": "x"},
    {"do": "redo"}, {"do": ["undo"]}, {"do": "merge", "class": 0, "into": 0}, {"do": "delete", "class": "0"},
    {"do": "order", "classes": [0]}, {"do": "order", "classes": 1}, {"do": "labels", "parts": []},
    {"do": "labels", "parts": [[0]]}, {"do": "labels", "parts": [[0, [9]], [7, [9]]]},
    {"do": "label", "items": [9], "to": 0, "numbering": 5}, {"do": "label", "items": [9], "to": 0, "numbering": "0"},
    {"do": "undo"}, {"do": "undo", "version": 1}, {"do": "undo", "version": "1"}, {"do": "undo", "version": None},
]  # fmt: skip


def test_an_invalid_change_is_refused_with_a_sentence(session: Session, port: int) -> None:
    for body in BODIES:
        answer = ask(port, "/api/act", body)
        assert answer.status == 400 and answer.json["error"]
    assert session.n_events == 0


def test_a_change_that_cannot_be_saved_is_no_refusal(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_once(monkeypatch, "fsync")
    answer = ask(port, "/api/act", LABEL)
    assert answer.status == 500 and "No space left" in answer.json["error"] and not answer.json["stopped"]
    assert ask(port, "/api/act", LABEL).json == {"saved": 1}


def test_a_change_by_a_page_of_an_earlier_run_is_refused(session: Session, port: int) -> None:
    run = ask(port, "/api/items").json["run"]
    answer = ask(port, "/api/act", LABEL | {"run": "another"})
    assert answer.status == 400 and "reload" in answer.json["error"]
    assert session.n_events == 0
    assert ask(port, "/api/act", LABEL | {"run": run}).status == 200


def test_a_fault_is_logged_and_a_client_that_hangs_up_is_not(
    session: Session, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sala")
    for cut in (b"GET / HTT", request(port, "/download/sorted.zip"), change(port, LABEL)[:-5]):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(cut)
    assert ask(port, "/").status == 200
    assert not caplog.records and session.n_events == 0
    monkeypatch.setattr(session, "snapshot", lambda: 1 / 0)
    assert ask(port, "/api/state").status == 500
    while "ZeroDivisionError" not in caplog.text:  # logged after the answer
        time.sleep(0.01)


def test_only_the_page_and_numbered_images_are_there(port: int) -> None:
    for path in (
        "/../../etc/passwd", "/thumb/../../../etc/passwd", "/thumb/..%2f..%2fetc/passwd", "/%2e%2e/state.jsonl", "/thumb/-1",
        "/thumb/34", "/thumb/999999999", "/thumb/" + "9" * 5000, "/thumb/1e1", "/thumb/", "/thumb/0/", "/image/%D9%A3",
        "/web/app.js", "//evil.example/", "/pool/red-0.png", "/thumb/0/../../x", "//[x",  "/app.js/..", "/journal.py",
    ):  # fmt: skip
        assert ask(port, path).status == 404
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "get"):
        assert ask(port, "/", method=method).status == 405


def test_a_token_is_needed_on_other_interfaces(session: Session) -> None:
    with running(session, "0.0.0.0") as server:
        port, token = server.port, server.guard.token
        assert token is not None and len(token) >= 24 and token in server.address
        for path in ("/", "/api/state", "/thumb/0", "/app.js", "/?token=wrong", "/?token=", "/download/labels.csv"):
            assert ask(port, path).status == 403
        assert ask(port, "/", Cookie=f"sala-{port}=wrong").status == 403
        assert ask(port, "/api/act", {"do": "add", "name": "x"}).status == 403
        entry = ask(port, f"/?token={token}")
        assert entry.status == 303 and entry.headers["location"] == "/"
        cookie = entry.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        mine = cookie.split(";")[0]
        assert ask(port, "/api/act", {"do": "add", "name": "x"}, Cookie=mine).status == 200
        assert ask(port, "/", Cookie=mine, Host=f"evil.example:{port}").status == 403
        assert ask(port, "/api/act", {"do": "undo"}, Cookie=mine, Origin="http://evil.example").status == 403
        plain, packed = (ask(port, "/app.js", Cookie=mine, Accept_Encoding=how) for how in ("br", "gzip"))
        assert packed.headers["content-encoding"] == "gzip" and gzip.decompress(packed.body) == plain.body


def test_loopback_needs_no_token_and_listens_nowhere_else(session: Session) -> None:
    with running(session) as server:
        assert server.guard.token is None and server.address == f"http://127.0.0.1:{server.port}/"
        assert "content-encoding" not in ask(server.port, "/app.js", Accept_Encoding="gzip").headers
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", server.port))


def test_a_port_in_use_is_said_so(session: Session) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SalaError, match=r"in use.*--port"):
            PageServer(session, port=taken.getsockname()[1])
        with pytest.raises(SalaError, match="in use"):
            check_address("127.0.0.1", taken.getsockname()[1])


def test_downloads_are_attachments_and_head_computes_nothing(
    session: Session, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in DOWNLOADS:
        answer = ask(port, f"/download/{name}")
        assert answer.status == 200 and answer.body
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    monkeypatch.setattr(session, "snapshot", lambda: 1 / 0)
    for name in DOWNLOADS:
        head = ask(port, f"/download/{name}", method="HEAD")
        assert (head.status, head.body) == (200, b"")


def test_every_module_is_asked_for_at_once(port: int) -> None:
    """Else a browser finds them one after the other, each behind the one that imports it."""
    page = ask(port, "/").body.decode()
    asked = set(re.findall(r'(?:modulepreload" href|type="module" src)="([^"]+)"', page))
    assert asked == {name[1:] for name in static_files() if name.endswith(".js")}


def test_who_waits_for_changes_is_answered_at_the_next_one_and_at_the_end(session: Session) -> None:
    with ThreadPoolExecutor() as clients, running(session) as server:
        port = server.port
        now = ask(port, "/api/changes?after=x").json
        assert now["version"] == 0 and now["run"] == ask(port, "/api/items").json["run"]
        waiting = [clients.submit(ask, port, "/api/changes?after=0") for _ in range(20)]
        time.sleep(0.3)
        assert not any(one.done() for one in waiting)
        session.label([9], to=0)
        assert {one.result(timeout=30).json["version"] for one in waiting} == {1}
        waiting = [clients.submit(ask, port, "/api/changes?after=1")]
        time.sleep(0.3)
        server.stop()
        assert waiting[0].result(timeout=30).json["version"] == 1


def test_only_who_may_ask_is_told_of_changes(session: Session) -> None:
    with running(session, "0.0.0.0") as server:
        for path in ("/api/changes?after=9", "/api/groups", "/api/dates", "/api/suspects"):
            assert ask(server.port, path).status == 403
            assert (
                ask(server.port, f"{path.partition('?')[0]}?token={server.guard.token}", Host="evil.example").status
                == 403
            )
