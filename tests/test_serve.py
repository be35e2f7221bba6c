"""The page: its server and what it refuses, its state and kill -9, and the page itself in a real browser."""

from __future__ import annotations

import csv
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium
from PIL import Image

from sala.collection import embedded, list_images
from sala.downloads import _pool, member_name, verdict_word
from sala.errors import SalaError
from sala.journal import Journal
from sala.labelling import label_folders
from sala.projection import pool_map
from sala.serve import PageServer, check_address
from sala.session import CLEAR, NONE, UNKNOWN, Session, checked_name

ROOT = Path(__file__).parent.parent
COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220), "green": (30, 200, 30)}
HOSTILE = ["<script>alert(1)<", "quote\"'s & co", "line\nbreak", "x../up", "=1+1", "\udcff raw"]


class MeanColour:
    """The mean of each channel, and a constant."""

    name, identity, image_size, mode = "mean-colour", "mean-colour-page", 8, "RGB"

    def embed(self, images: np.ndarray) -> np.ndarray:
        means = images.mean((1, 2)) / 255
        return np.concatenate([means, means**2, np.ones((len(images), 1))], 1).astype(np.float32)


def draw(path: Path, colour: tuple[int, ...], rng: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noisy = np.clip(np.array(colour) + rng.normal(0, 12, 3), 0, 255).astype(np.uint8)
    Image.new("RGB", (24, 16), tuple(map(int, noisy))).save(path)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """labelled/red and labelled/blue with two images each; a pool of ten red, ten blue and ten green."""
    rng = np.random.default_rng(0)
    for name in ("red", "blue"):
        for i in range(2):
            draw(tmp_path / "labelled" / name / f"{i}.png", COLOURS[name], rng)
    for name, colour in COLOURS.items():
        for i in range(10):
            draw(tmp_path / "pool" / f"{name}-{i}.png", colour, rng)
    return tmp_path / "labelled", tmp_path / "pool"


def open_session(folders: tuple[Path, Path], state: Path | None = None) -> Session:
    collection, features = embedded(list_images(*folders), MeanColour())
    return Session(collection, features, Journal(state or folders[1].parent / "state.jsonl"))


@contextmanager
def running(session: Session, host: str = "127.0.0.1") -> Iterator[PageServer]:
    server = PageServer(session, host, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
        connection.putrequest(method or ("POST" if body is not None else "GET"), path, skip_host=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(content)
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


@pytest.fixture
def session(folders: tuple[Path, Path]) -> Session:
    return open_session(folders)


@pytest.fixture
def port(session: Session) -> Iterator[int]:
    with running(session) as server:
        yield server.server_port


# -- the session


def row_of(session: Session, path: str) -> int:
    return next(i for i, item in enumerate(session.collection.items) if item.path == path)


def test_red_images_of_the_pool_are_red_and_the_users_word_is_final(session: Session) -> None:
    shown = session.snapshot()
    red = [row_of(session, f"red-{i}.png") for i in range(10)]
    assert {shown.names[shown.label[i]] for i in red} == {"red"}
    session.label([red[0]], to=shown.names.index("blue"))
    after = session.snapshot()
    assert after.names[after.verdict()[red[0]]] == "blue"
    assert (after.n_checked, after.n_agreed) == (1, 0)


def test_a_class_that_is_added_and_given_one_example_finds_its_images(session: Session) -> None:
    session.add_class("green")
    assert "green" not in {session.snapshot().names[label] for label in session.snapshot().label}
    session.label([row_of(session, "green-0.png")], to=2)
    shown = session.snapshot()
    assert {shown.names[shown.label[row_of(session, f"green-{i}.png")]] for i in range(10)} == {"green"}


def test_undo_takes_back_the_last_change_of_any_kind(session: Session) -> None:
    first = session.snapshot()
    session.label([10], to=NONE)
    session.add_class("green")
    session.rename_class(0, "sky")
    for _ in range(3):
        session.undo()
    shown = session.snapshot()
    assert shown.names == first.names
    assert (shown.given == first.given).all()
    with pytest.raises(SalaError, match="nothing to undo"):
        session.undo()


def test_taking_a_label_back_restores_what_the_folder_says(session: Session) -> None:
    session.label([0, 10], to=NONE)
    session.label([0, 10], to=CLEAR)
    given = session.snapshot().given
    assert given[0] == 0 and given[10] == UNKNOWN


def test_images_of_none_of_the_classes_are_no_examples_and_not_predicted(session: Session) -> None:
    green = [row_of(session, f"green-{i}.png") for i in range(10)]
    session.label(green, to=NONE)
    assert (session.snapshot().verdict()[green] == NONE).all()


def test_every_example_may_be_taken_away(session: Session) -> None:
    session.label([0, 1, 2, 3], to=NONE)
    shown = session.snapshot()
    assert (shown.verdict()[4:] == UNKNOWN).all() and not len(shown.label_next)


def test_an_empty_pool_and_no_class_at_all_are_fine(tmp_path: Path) -> None:
    for name in ("labelled", "pool"):
        (tmp_path / name).mkdir()
    session = open_session((tmp_path / "labelled", tmp_path / "pool"))
    assert session.snapshot().estimate == 1.0
    session.add_class("owl")
    assert session.snapshot().names == ("owl",)


def test_threads_that_label_at_once_lose_nothing(session: Session) -> None:
    def label(rows: range) -> None:
        for i in rows:
            session.label([i], to=NONE)
            session.snapshot()

    threads = [threading.Thread(target=label, args=(range(4 + k, 34, 3),)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (session.snapshot().given[4:] == NONE).all()


@pytest.mark.parametrize("name", ["", "  ", "a/b", "..", ".hidden", "a\\b", "x" * 81, "RED", "bell\a"])
def test_a_name_that_could_be_no_folder_of_its_own_is_refused(name: str) -> None:
    with pytest.raises(SalaError, match=r"a class's name|already"):
        checked_name(name, ["red"])


def test_the_map_keeps_groups_together_and_is_linear_beyond_its_landmarks() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), 60)
    features = (np.eye(8)[groups] * 9 + rng.normal(size=(180, 8))).astype(np.float32)
    for n_landmarks in (4_000, 90):
        points = pool_map(features, n_landmarks=n_landmarks)
        assert points.min() >= 0 and points.max() <= 1
        nearest = np.argsort(((points[:, None] - points[None]) ** 2).sum(-1), 1)[:, 1:6]
        assert (groups[nearest] == groups[:, None]).mean() > 0.95
    assert pool_map(features[:0]).shape == (0, 2) and pool_map(features[:1]).shape == (1, 2)


# -- the journal


def test_a_session_goes_on_where_the_journal_ends(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    first.add_class("green")
    first.label([20, 21], to=2)
    first.rename_class(0, "sky")
    first.undo()
    first._journal.close()
    (folders[0] / "amber").mkdir()  # a folder that comes between the others
    again = open_session(folders)
    shown = again.snapshot()
    assert shown.names == ("amber", "blue", "red", "green")
    assert [shown.names[c] for c in shown.given[[20, 21]]] == ["green", "green"]


def test_a_line_that_was_cut_short_is_removed_and_the_rest_is_kept(folders: tuple[Path, Path]) -> None:
    state = folders[1].parent / "state.jsonl"
    first = open_session(folders)
    first.label([20], to=NONE)
    first._journal.close()
    whole = state.read_bytes()
    for cut in (b'{"do":"lab', b"\0\0\0"):
        state.write_bytes(whole + cut)
        again = open_session(folders)
        assert again.snapshot().given[20] == NONE
        again._journal.close()
        assert state.read_bytes() == whole


@pytest.mark.parametrize(
    "content", [b"my diary\n", b"my diary", b'{"kind":"sala-labels","format":99}\n', b"[]\n", b"{}\n"]
)
def test_a_file_that_is_no_state_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(SalaError, match="not"):
        Journal(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == content


def test_one_state_is_not_written_by_two(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state")
    with pytest.raises(SalaError, match="open in another"):
        Journal(tmp_path / "state")
    journal.close()


def test_labels_of_images_that_are_gone_are_counted_and_kept(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    first.label([row_of(first, "red-0.png")], to=NONE)
    first._journal.close()
    (folders[1] / "red-0.png").rename(folders[1] / "elsewhere.png")
    assert open_session(folders).n_lost == 1


def test_what_cannot_be_saved_has_not_happened(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    size = session._journal.path.stat().st_size

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SalaError, match="No space left"):
        session.label([20], to=NONE)
    assert session.snapshot().given[20] == UNKNOWN
    assert session._journal.path.stat().st_size == size


# -- what the server refuses


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
    {"do": "undo"},
])  # fmt: skip
def test_a_change_that_makes_no_sense_is_refused_with_a_sentence(session: Session, port: int, body: Any) -> None:
    answer = ask(port, "/api/act", body)
    assert answer.status == 400 and answer.json["error"]
    assert session.n_events == 0


@pytest.mark.parametrize("path", [
    "/../../etc/passwd", "/thumb/../../../etc/passwd", "/thumb/..%2f..%2fetc/passwd", "/%2e%2e/state.jsonl", "/thumb/-1",
    "/thumb/34", "/thumb/999999999", "/thumb/1e1", "/thumb/", "/image/٣", "/web/app.js", "//evil.example/", "/pool/red-0.png",
    "/thumb/0/../../x", "/app.js/..", "/journal.py",
])  # fmt: skip
def test_nothing_but_the_page_and_numbered_images_is_there(port: int, path: str) -> None:
    assert ask(port, path.encode("utf-8").decode("latin-1") if path.isascii() else "/image/%D9%A3").status == 404


def test_other_methods_are_not_known(port: int) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert ask(port, "/", method=method).status == 501


def test_a_token_is_needed_on_other_interfaces(session: Session) -> None:
    with running(session, "0.0.0.0") as server:
        port, token = server.server_port, server.token
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
        assert server.token is None and server.server_address[0] == "127.0.0.1"


def test_a_port_in_use_is_said_so(session: Session) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SalaError, match=r"in use.*--port"):
            PageServer(session, port=taken.getsockname()[1])
        with pytest.raises(SalaError, match="in use"):
            check_address("127.0.0.1", taken.getsockname()[1])


# -- hostile folders


def test_links_out_of_the_folders_are_never_served(folders: tuple[Path, Path], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    draw(secret / "s.png", (1, 2, 3), np.random.default_rng(0))
    (folders[1] / "link.png").symlink_to(secret / "s.png")
    (folders[1] / "dir").symlink_to(secret)
    session = open_session(folders)
    assert len(session.collection.items) == 34 and len(session.collection.set_aside) == 2
    changed = folders[1] / "red-0.png"  # a link that is put there while the server runs
    changed.unlink()
    changed.symlink_to(secret / "s.png")
    with running(session) as server:
        assert ask(server.server_port, f"/thumb/{row_of(session, 'red-0.png')}").status == 404
        archive = zipfile.ZipFile(io.BytesIO(ask(server.server_port, "/download/sorted.zip").body))
        assert not [name for name in archive.namelist() if name.endswith("red-0.png")]


def test_names_of_any_kind_arrive_as_they_are(folders: tuple[Path, Path]) -> None:
    rng = np.random.default_rng(0)
    names = [name.replace("/", "∕") + ".png" for name in HOSTILE]
    for name in names:
        draw(folders[1] / name, COLOURS["red"], rng)
    draw(folders[0] / "<img src=x>\n" / "0.png", COLOURS["green"], rng)
    session = open_session(folders)
    with running(session) as server:
        port = server.server_port
        assert set(names) <= set(ask(port, "/api/items").json["names"])
        assert (
            ask(port, "/api/act", {"do": "label", "items": [row_of(session, name) for name in names], "to": 0}).status
            == 200
        )
        table = ask(port, "/download/labels.csv").body.decode("utf-8", "surrogateescape")
        rows = {row["path"]: row for row in csv.DictReader(io.StringIO(table, newline=""))}
        shown = [rows["./" + name if name.startswith("=") else name] for name in names]
        assert all(row["label"] == "<img src=x>\n" and row["verdict"] == "given" for row in shown)
        members = zipfile.ZipFile(io.BytesIO(ask(port, "/download/sorted.zip").body)).namelist()
        assert len(members) == len(set(members)) == 30 + len(names)
        assert not any(set(m) & set('<>:"|?*\n\\') or ".." in m.split("/") or m.startswith("/") for m in members)
        assert len(ask(port, "/download/label-studio.json").json) == 30 + len(names)


def test_members_of_the_zip_stay_below_and_apart() -> None:
    taken: set[str] = set()
    assert member_name("..", "../../x.png", taken) == "__/..-..-x.png".replace("__", "___")
    assert member_name("A", "x/1.PNG", taken) == "A/x-1.PNG"
    assert member_name("a", "x-1.png", taken) == "a/x-1-2.png"


def test_files_that_are_no_images_are_set_aside(folders: tuple[Path, Path]) -> None:
    (folders[1] / "empty.png").write_bytes(b"")
    (folders[1] / "page.jpg").write_bytes(b"<script>alert(1)</script>")
    (folders[1] / "notes.txt").write_text("not an image")
    session = open_session(folders)
    assert len(session.collection.items) == 34 and len(session.collection.set_aside) == 2


def test_the_page_and_the_command_say_the_same(folders: tuple[Path, Path]) -> None:
    """Also of hidden folders, odd formats and copies of labelled images."""
    labelled, pool = folders
    rng = np.random.default_rng(1)
    for place in (labelled / ".checkpoints" / "a.png", pool / ".thumbs" / "b.png"):
        draw(place, COLOURS["red"], rng)
    (pool / "photo.heic").write_bytes(b"not read")
    shutil.copy(labelled / "red" / "0.png", pool / "copy.png")
    shutil.copy(labelled / "red" / "0.png", labelled / "red" / "twice.png")
    Image.open(pool / "green-0.png").save(pool / "green.jfif", "JPEG")
    for i in range(8):
        shutil.copy(pool / "red-1.png", pool / f"red-1-again-{i}.png")
    session = open_session(folders)
    shown = session.snapshot()
    by_command = label_folders(labelled, pool, MeanColour())
    assert session.collection.classes == by_command.model.classes
    assert set(session.collection.set_aside) == set(by_command.set_aside.values())
    words = {Path(session.collection.items[i].path).name: verdict_word(shown, i) for i in _pool(session.collection)}
    assert words.pop("copy.png") == "given"
    found = {row.path.name: row for row in by_command.rows()}
    assert found.pop("copy.png").probability == 1.0
    assert words == {name: row.verdict for name, row in found.items()} and "green.jfif" in words
    for name, row in found.items():
        i = row_of(session, name)
        assert shown.probability[i] == pytest.approx(row.probability, abs=1e-5)
        assert shown.none_score[i] == pytest.approx(row.none_of_these, abs=1e-5)


def test_copies_have_one_label_whatever_is_said_of_one(folders: tuple[Path, Path]) -> None:
    labelled, pool = folders
    shutil.copy(labelled / "red" / "0.png", pool / "copy.png")
    shutil.copy(pool / "green-0.png", pool / "again.png")
    session = open_session(folders)
    original, copy = row_of(session, "red/0.png"), row_of(session, "copy.png")
    green, again = row_of(session, "green-0.png"), row_of(session, "again.png")
    session.add_class("green")
    session.label([again], 2)  # an example of the new class, given by its copy
    shown = session.snapshot()
    assert shown.given[[green, again]].tolist() == [2, 2]
    assert (shown.label[[row_of(session, f"green-{i}.png") for i in range(1, 10)]] == 2).mean() > 0.8
    session.label([original], NONE)
    assert session.snapshot().given[[original, copy]].tolist() == [NONE, NONE]
    session.undo()
    assert session.snapshot().given[[original, copy]].tolist() == [1, 1]
    session.label([copy], 0)
    assert session.snapshot().given[[original, copy]].tolist() == [0, 0]
    session.label([original], CLEAR)
    assert session.snapshot().given[[original, copy]].tolist() == [1, 1]


def test_an_image_in_two_classes_is_refused_with_both_names(folders: tuple[Path, Path]) -> None:
    shutil.copy(folders[0] / "red" / "0.png", folders[0] / "blue" / "same.png")
    with pytest.raises(SalaError, match="are the same image in two classes"):
        open_session(folders)


def test_no_class_is_called_what_junk_is_called(folders: tuple[Path, Path]) -> None:
    with pytest.raises(SalaError, match="a class cannot be called 'None of these'"):
        open_session(folders).add_class("None of these")
    draw(folders[0] / "none of these" / "a.png", COLOURS["red"], np.random.default_rng(0))
    with pytest.raises(SalaError, match="these need no examples: leave them in the pool"):
        list_images(*folders)


def test_downloads_say_what_the_page_says(session: Session, port: int) -> None:
    blue = row_of(session, "blue-3.png")
    ask(port, "/api/act", {"do": "label", "items": [blue], "to": 1})
    shown = session.snapshot()
    rows = list(csv.DictReader(io.StringIO(ask(port, "/download/labels.csv").body.decode(), newline="")))
    assert len(rows) == 30
    for row in rows:
        i = row_of(session, row["path"])
        assert row["label"] == shown.names[shown.label[i]]
        assert (row["verdict"] == "none-of-these") == (shown.verdict()[i] == NONE)
    tasks = ask(port, "/download/label-studio.json").json
    (said,) = [task for task in tasks if "annotations" in task]
    assert said["data"]["image"].endswith("blue-3.png")
    assert said["annotations"][0]["result"][0]["value"] == {"choices": ["red"]}
    archive = zipfile.ZipFile(io.BytesIO(ask(port, "/download/sorted.zip").body))
    assert archive.testzip() is None
    assert archive.read("red/blue-3.png") == (session.collection.path(blue)).read_bytes()


# -- the command


def ready_features(folders: tuple[Path, Path]) -> Path:
    """The features in a file, so that the command needs no network."""
    collection, features = embedded(list_images(*folders), MeanColour())
    place = folders[1].parent / "features.npy"
    np.save(place, features)
    names = [str(collection.path(i)) for i in range(len(features))]
    place.with_suffix(".txt").write_text("\n".join(names) + "\n")
    return place


def start(folders: tuple[Path, Path], *more: str) -> tuple[subprocess.Popen[str], str]:
    """`sala serve`, and the address it prints."""
    features = folders[1].parent / "features.npy"
    if not features.exists():
        ready_features(folders)
    command = [
        sys.executable,
        "-m",
        "sala",
        "serve",
        *map(str, folders),
        "--no-browser",
        "--encoder",
        str(features),
        *more,
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("http"):
        process.kill()
        raise AssertionError(process.communicate()[1])
    return process, line.split()[0]


def end(process: subprocess.Popen[str], with_signal: signal.Signals) -> str:
    process.send_signal(with_signal)
    return process.communicate(timeout=30)[1]


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


# -- the page in a browser


@pytest.fixture
def page(folders: tuple[Path, Path]) -> Iterator[Any]:
    """The page, open; whatever it complains of on its console is a failure."""
    draw(folders[1] / "<img src=x onerror=alert(1)>.png", COLOURS["red"], np.random.default_rng(1))
    with chromium() as browser, running(open_session(folders)) as server:
        complaints: list[str] = []
        context = browser.new_context(viewport={"width": 1300, "height": 800}, accept_downloads=True)
        opened = context.new_page()
        opened.set_default_timeout(20_000)
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        opened.session = server.session  # type: ignore[attr-defined]
        opened.goto(server.address)
        opened.wait_for_selector("body[data-ready]")
        yield opened
        assert not [text for text in complaints if "400 (Bad Request)" not in text]  # a name that is taken
        context.close()


def tile(page: Any, name: str) -> Any:
    return page.locator(f'.tile[title="{name}"]')


def count(page: Any, number: int) -> int:
    return int(page.locator(f'.class[data-class="{number}"] .count').inner_text())


def settled(page: Any, version: int) -> None:
    """Wait until the page shows this version, saved and fitted."""
    page.wait_for_function(
        "() => document.querySelector('#saved').dataset.state === 'saved' && !document.querySelector('#saved').dataset.fitting"
    )
    assert page.session.snapshot().version == version


def test_the_page_in_a_browser(page: Any, tmp_path: Path) -> None:
    """One long story, since a browser takes long to start: label, undo, add, rename, drag, download."""
    session: Session = page.session
    assert page.locator(".class .name").all_inner_texts() == ["blue", "red", "none of these"]
    before = count(page, 0), count(page, 1)

    # by a click on the class
    tile(page, "red-4.png").click()
    page.locator('.class[data-class="0"] .pick').click()
    settled(page, 1)
    red4 = row_of(session, "red-4.png")
    assert session.snapshot().given[red4] == 0
    in_pool = np.array([item.root == "pool" for item in session.collection.items])
    where = session.snapshot().verdict()[in_pool]  # the label is wrong on purpose: others may move too
    assert (count(page, 0), count(page, 1)) == ((where == 0).sum(), (where == 1).sum())
    assert page.inner_text("#n-given").startswith("1 of ")
    assert page.inner_text("#checked") == "0 of 1 right"
    assert tile(page, "red-4.png").locator(".mark").inner_text() == "✓"

    # undone
    page.keyboard.press("u")
    settled(page, 2)
    assert session.snapshot().given[red4] == UNKNOWN
    assert (count(page, 0), count(page, 1)) == before
    assert page.locator("#undo").is_disabled()

    # by a digit, which goes on to the next image
    tile(page, "red-4.png").click()
    page.keyboard.press("2")
    settled(page, 3)
    assert session.snapshot().given[red4] == 1
    assert page.locator(".tile.selected").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".tile.selected").count() == 0

    # a new class, one example, and the others follow; then it is renamed
    page.fill("#new-name", "<b>green</b>".replace("/", ""))
    page.click("#add-class button")
    settled(page, 4)
    assert "<b>green<b>" in page.locator(".class .name").all_inner_texts()
    tile(page, "green-0.png").drag_to(page.locator('.class[data-class="2"]'))
    settled(page, 5)
    page.wait_for_function("() => Number(document.querySelector('.class[data-class=\"2\"] .count').textContent) >= 10")
    page.locator('.class[data-class="2"]').hover()
    page.locator('.class[data-class="2"] .rename').click()
    page.keyboard.type("leaf")
    page.keyboard.press("Enter")
    settled(page, 6)
    page.wait_for_function("() => document.querySelector('.class[data-class=\"2\"] .name').textContent === 'leaf'")

    # a name that is taken is refused in words
    page.fill("#new-name", "LEAF")
    page.click("#add-class button")
    page.wait_for_selector("#toast:not([hidden])")
    assert "already" in page.inner_text("#toast")

    # none of these, by key, from the queue
    page.click('[data-view="next"]')
    asked = int(page.locator(".tile.selected").get_attribute("data-id"))
    page.keyboard.press("0")
    settled(page, 7)
    assert session.snapshot().given[asked] == NONE
    page.click('[data-view="junk"]')
    page.wait_for_selector(f'.tile[data-id="{asked}"]')

    # the map: a point under the mouse shows its picture
    page.click('[data-view="map"]')
    page.wait_for_selector("#map-wait", state="hidden")
    box = page.locator("#points").bounding_box()
    u, v = map(float, pool_map(session.features)[red4])
    side = min(box["width"], box["height"]) - 50
    stretch = min(1.7, max(1, box["width"] / box["height"]))
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] + (u - 0.5) * side * stretch + 30, middle[1] + (v - 0.5) * side)
    page.mouse.move(middle[0] + (u - 0.5) * side * stretch, middle[1] + (v - 0.5) * side)
    page.wait_for_selector("#peek:not([hidden])")

    # downloads
    page.click("#download summary")
    with page.expect_download() as waiting:
        page.click('a[href="download/labels.csv"]')
    waiting.value.save_as(tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="") as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    assert rows["green-0.png"]["label"] == "leaf" and len(rows) == 31

    # and all of it is there after a reload
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator(".class .name").all_inner_texts() == ["blue", "red", "leaf", "none of these"]
