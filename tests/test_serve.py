"""The page's server: what it answers, what it refuses, and kill -9."""

from __future__ import annotations

import http.client
import io
import re
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pages import ask, end, fail_once, running, start
from rich.console import Console

from sala.cli_serve import serve
from sala.errors import SalaError
from sala.serve import PageServer, check_address
from sala.session import NONE, Session


def test_the_page_and_its_parts_are_served_with_strict_headers(port: int) -> None:
    for path, kind in [("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css"),
                       ("/api/state", "application/json"), ("/thumb/0", "image/jpeg")]:  # fmt: skip
        answer = ask(port, path)
        assert answer.status == 200 and answer.headers["content-type"].startswith(kind)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
    page = ask(port, "/").body.decode()
    assert (
        "<script>" not in page and "style=" not in page and "http" not in page
    )  # nothing inline, nothing from elsewhere


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "a@127.0.0.1:{port}"]
)
def test_another_host_is_refused(port: int, host: str) -> None:
    assert ask(port, "/api/state", Host=host.format(port=port)).status == 403
    assert ask(port, "/api/act", {"do": "undo"}, Host=host.format(port=port)).status == 403


def test_localhost_is_us_too(port: int) -> None:
    assert ask(port, "/", Host=f"localhost:{port}").status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", None, "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_a_change_from_another_origin_is_refused(session: Session, port: int, origin: str | None) -> None:
    answer = ask(port, "/api/act", {"do": "label", "items": [9], "to": 0}, Origin=origin and origin.format(port=port))
    assert answer.status == 403
    assert session.n_events == 0


def test_a_form_of_another_site_is_refused(port: int) -> None:
    assert ask(port, "/api/act", {"do": "undo"}, Content_Type="text/plain").status == 415


def test_bodies_are_bounded(port: int) -> None:
    assert ask(port, "/api/act", b"", Content_Length=str(10**8)).status == 413
    assert ask(port, "/api/act", b"", Content_Length="9" * 5000).status == 413
    for length in (None, "-1", "1e3"):
        assert ask(port, "/api/act", b"", Content_Length=length).status == 411
    assert ask(port, "/api/act", b"", Content_Length=None, Transfer_Encoding="chunked").status == 411


@pytest.mark.parametrize("body", [
    b"", b"null", b"{", b"[" * 100_000, b'"x"', {"do": "format"}, {"do": "label"}, {"do": "label", "items": [], "to": 0},
    {"do": "label", "items": [10**30], "to": 0}, {"do": "label", "items": [-1], "to": 0},
    {"do": "label", "items": [0.5], "to": 0},
    {"do": "label", "items": [True], "to": 0}, {"do": "label", "items": [5], "to": 2}, {"do": "label", "items": [5], "to": -1},
    {"do": "add", "name": 5}, {"do": "add", "name": "../x"}, {"do": "add", "name": "red"},
    {"do": "rename", "class": 9, "name": "x"},
    {"do": "undo"}, {"do": "undo", "version": 1}, {"do": "undo", "version": "1"}, {"do": "undo", "version": None},
])  # fmt: skip
def test_a_change_that_makes_no_sense_is_refused_with_a_sentence(session: Session, port: int, body: Any) -> None:
    answer = ask(port, "/api/act", body)
    assert answer.status == 400 and answer.json["error"]
    assert session.n_events == 0


def test_a_change_that_cannot_be_saved_is_no_refusal(
    session: Session, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, "fsync")
    answer = ask(port, "/api/act", {"do": "label", "items": [9], "to": 0})
    assert answer.status == 500 and "No space left" in answer.json["error"] and not answer.json["stopped"]
    assert ask(port, "/api/act", {"do": "label", "items": [9], "to": 0}).json == {"saved": 1}


def test_a_change_by_a_page_of_an_earlier_run_is_refused(session: Session, port: int) -> None:
    run = ask(port, "/api/items").json["run"]
    change = {"do": "label", "items": [9], "to": 0}
    answer = ask(port, "/api/act", change | {"run": "another"})
    assert answer.status == 400 and "reload" in answer.json["error"]
    assert session.n_events == 0
    assert ask(port, "/api/act", change | {"run": run}).status == 200


def test_a_fault_of_ours_is_told_and_a_reader_who_hangs_up_is_not(
    session: Session, port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", port)) as reader:
        reader.sendall(b"GET / HTT")
    assert ask(port, "/").status == 200
    assert not capfd.readouterr().err

    def broken() -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(session, "snapshot", broken)
    with pytest.raises(http.client.RemoteDisconnected):
        ask(port, "/api/state")
    while "a fault" not in (said := capfd.readouterr().err):
        time.sleep(0.01)
    assert "ZeroDivisionError" in said


@pytest.mark.parametrize("path", [
    "/../../etc/passwd", "/thumb/../../../etc/passwd", "/thumb/..%2f..%2fetc/passwd", "/%2e%2e/state.jsonl", "/thumb/-1",
    "/thumb/34", "/thumb/999999999", "/thumb/1e1", "/thumb/", "/image/٣", "/web/app.js", "//evil.example/", "/pool/red-0.png",
    "/thumb/0/../../x", "//[x",  "/app.js/..", "/journal.py",
])  # fmt: skip
def test_nothing_but_the_page_and_numbered_images_is_there(port: int, path: str) -> None:
    assert ask(port, path.encode("utf-8").decode("latin-1") if path.isascii() else "/image/%D9%A3").status == 404


def test_other_methods_are_not_known(port: int) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert ask(port, "/", method=method).status == 501


def test_a_token_is_needed_on_other_interfaces(session: Session) -> None:
    with running(session, "0.0.0.0") as server:
        port, token = server.server_port, server.guard.token
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
        assert ask(port, "/api/state", Cookie=mine).status == 200
        assert ask(port, "/api/act", {"do": "add", "name": "x"}, Cookie=mine).status == 200
        assert ask(port, "/", Cookie=mine, Host=f"evil.example:{port}").status == 403
        assert ask(port, "/api/act", {"do": "undo"}, Cookie=mine, Origin="http://evil.example").status == 403


def test_loopback_needs_no_token_and_listens_nowhere_else(session: Session) -> None:
    with running(session) as server:
        assert server.guard.token is None and server.server_address[0] == "127.0.0.1"


def test_a_port_in_use_is_said_so(session: Session) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SalaError, match=r"in use.*--port"):
            PageServer(session, port=taken.getsockname()[1])
        with pytest.raises(SalaError, match="in use"):
            check_address("127.0.0.1", taken.getsockname()[1])


# -- the command


@pytest.mark.parametrize("wrong", [{"encoder": "nosuch"}, {"host": "192.0.2.1"}])
def test_a_wrong_option_leaves_no_state_behind(folders: tuple[Path, Path], wrong: dict[str, Any]) -> None:
    with pytest.raises(SalaError):
        serve(*folders, **{"port": 0, "browser": False, "encoder": "lite0", **wrong})
    assert not list(folders[1].parent.glob("*.jsonl"))


def test_kill_9_loses_nothing_that_was_shown_as_saved(folders: tuple[Path, Path]) -> None:
    """Labels as fast as they are answered, a kill at any moment, and all that was answered is there again."""
    process, address = start(folders, "--port", "0")
    port = int(address.rstrip("/").rpartition(":")[2])
    saved: list[int] = []

    def click() -> None:
        for i in range(4, 34):
            for to in (NONE, 0, 1) * 4:
                try:
                    answer = ask(port, "/api/act", {"do": "label", "items": [i], "to": to})
                except (OSError, http.client.HTTPException):
                    return
                if answer.status == 200:
                    saved.append(answer.json["saved"])

    clicking = threading.Thread(target=click)
    clicking.start()
    while len(saved) < 40:
        time.sleep(0.005)
    end(process, signal.SIGKILL)
    clicking.join()
    process, address = start(folders, "--port", "0")
    try:
        port = int(address.rstrip("/").rpartition(":")[2])
        state = ask(port, "/api/state").json
        with pytest.raises(AssertionError, match="open in another"):
            start(folders, "--port", "0")
    finally:
        said = end(process, signal.SIGINT)
    assert state["undo"] in (saved[-1], saved[-1] + 1)  # the last one may have been written and not answered
    for k in range(saved[-1] // 12):
        assert state["given"][4 + k] == 1
    assert "going on with" in said and "ended" in said
    assert process.returncode == 0


def test_the_server_rests_when_the_fit_that_is_under_way_has_ended(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that still computes while Python ends would abort it."""
    begun, may_end, done = threading.Event(), threading.Event(), []

    def slow(*words: Any) -> Any:
        begun.set()
        may_end.wait()
        done.append("fit")
        raise SalaError("enough")

    def ask_for_state() -> None:
        with pytest.raises(SalaError, match="enough"):
            session.snapshot()

    monkeypatch.setattr(Session, "_fitted", slow)
    server = PageServer(session, port=0)
    server.server_close()
    fitting = threading.Thread(target=ask_for_state)
    fitting.start()
    begun.wait()
    resting = threading.Thread(target=lambda: (server.rest(), done.append("rest")))
    resting.start()
    may_end.set()
    fitting.join()
    resting.join()
    assert done == ["fit", "rest"]
    threading.Thread(target=session.snapshot, daemon=True).start()  # waits for ever
    threading.Thread(target=server.page_map.points, daemon=True).start()
    assert done == ["fit", "rest"]


def test_how_fast_images_are_embedded_is_shown(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr("sala.console.err", terminal)
    monkeypatch.setattr("sala.cli_serve._serve_until_asked", lambda server: server.server_close())
    monkeypatch.setattr("torch.set_num_threads", lambda n: None)
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))
    serve(*folders, port=0, encoder="omniglot-sala", browser=False)
    assert re.search(r"34/34.* [1-9]\d* images/s", terminal.file.getvalue())  # type: ignore[attr-defined]
