"""What the page gives it takes back: labels of a file are one change, on disk, and undone at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.security import MAX_UPLOAD
from sala.web.session import Session
from stress.asking import Answer, ask
from tests.helpers.pages import fail_once, open_session, row_of, running
from tests.web.test_redo import look, make_changes


def upload(port: int, content: bytes, **headers: str | None) -> Answer:
    own: dict[str, str | None] = {"Content_Type": "application/octet-stream"}
    return ask(port, "/api/upload", content, None, **own | headers)


def label_of(session: Session, path: str) -> str:
    number = session.snapshot().given[row_of(session, path)]
    return {OUTLIER: "outlier", UNLABELED: ""}[number] if number < 0 else session.snapshot().names[number]


def test_a_table_gives_labels_and_adds_classes_in_one_change(session: Session, port: int) -> None:
    before = look(session)
    table = (
        "path,label\npool/red-0.png,red\ngreen-1.png,Green\n/else/where/blue-2.png,BLUE\nred-9.png,outlier\nx.png,red\n"
    )
    answer = upload(port, table.encode())
    assert answer.json == {"saved": 1, "taken": 4, "same": 0, "missing": 1, "predicted": 0, "added": ["Green"]}
    given = [label_of(session, f"{name}.png") for name in ("red-0", "green-1", "blue-2", "red-9")]
    assert given == ["red", "Green", "blue", "outlier"]
    assert session.snapshot().n_checked == 0  # nobody looked at predictions
    assert ask(port, "/api/act", {"do": "undo"}).status == 200
    assert look(session) == before


@pytest.mark.parametrize("name", ["labels.csv", "label-studio.json", "coco.json", "state.jsonl"])
def test_every_download_with_labels_comes_back_into_an_empty_session(folders: tuple[Path, Path], name: str) -> None:
    first = open_session(folders)
    make_changes(first)
    first.add_class("leaf green")
    first.label([row_of(first, "green-3.png"), row_of(first, "green-4.png")], to=1)
    first.label([row_of(first, "red-7.png")], to=OUTLIER)
    labels = {i.path: label_of(first, i.path) for i in first.project.items if i.root == "pool"}
    with running(first) as server:
        content = ask(server.port, f"/download/{name}").body
    second = open_session(folders, folders[1].parent / "second.jsonl")
    with running(second) as server:
        answer = upload(server.port, content)
    assert answer.status == 200, answer.body
    assert {path: label_of(second, path) for path in labels} == labels
    assert answer.json["taken"] >= sum(map(bool, labels.values())) > 2 and answer.json["missing"] == 0


def test_what_is_here_already_is_no_change(session: Session, port: int) -> None:
    table = b"path,label\nred-0.png,red\n"
    assert upload(port, table).json["taken"] == 1
    assert upload(port, table).json == {
        "saved": 1, "taken": 0, "same": 1, "missing": 0, "predicted": 0, "added": [],
    }  # fmt: skip
    assert session.n_events == 1


def test_predictions_of_a_table_are_passed_over(session: Session, port: int) -> None:
    session.label([row_of(session, "green-0.png")], to=0)
    table = ask(port, "/download/labels.csv").body
    session.undo()
    answer = upload(port, table).json
    assert (answer["taken"], answer["predicted"]) == (1, 29)


def test_labels_of_a_file_are_there_after_a_restart_and_can_be_undone_and_redone(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    with running(first) as server:
        upload(server.port, b"path,label\ngreen-0.png,leaf\ngreen-1.png,moss\n")
    after = look(first)
    first.close()
    second = open_session(folders)
    assert look(second) == after
    second.undo()
    assert "leaf" not in second.snapshot().names
    second.redo()
    assert look(second) == after
    second.add_class("sky")
    second.label([row_of(second, "blue-1.png")], to=4)
    assert label_of(second, "blue-1.png") == "sky"


def test_a_state_of_another_pool_gives_what_it_can(folders: tuple[Path, Path]) -> None:
    """A class whose folder is not here comes by its name; images that are not here are counted."""
    lines: list[dict[str, Any]] = [
        {"kind": "sala-labels", "format": 2},
        {"do": "label", "items": ["pool/red-1.png", "pool/gone.png"], "to": "folder/cherry", "checked": 0, "agreed": 0},
        {"do": "label", "items": ["pool/red-2.png"], "to": "folder/red", "checked": 0, "agreed": 0},
        {"do": "undo"},
        {"do": "audit", "seed": 1, "n": 1},
    ]
    content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
    session = open_session(folders)
    with running(session) as server:
        answer = upload(server.port, content + b'{"do":"la').json
    assert (answer["taken"], answer["missing"], answer["added"]) == (1, 1, ["cherry"])
    assert label_of(session, "red-1.png") == "cherry" and label_of(session, "red-2.png") == ""


def test_a_state_of_the_release_before_is_taken(session: Session, port: int) -> None:
    event = '{"do":"label","items":["pool/red-1.png"],"to":"none","checked":0,"agreed":0}\n'
    assert upload(port, f'{{"kind":"sala-labels","format":1}}\n{event}'.encode()).json["taken"] == 1
    assert label_of(session, "red-1.png") == "outlier"


REFUSED = [
    b"",
    b"\x89PNG\r\n",
    b"path,label\n",
    b"path,label\nnowhere.png,red\n",
    b"path,label\nred-0.png,red\npool/red-0.png,blue\n",
    b"path,label\nred-0.png,red\nred-1.png,a/b\n",  # no class of the page can be called so: nothing is taken
    b"path,label\nred-0.png,.hidden\n",
    b'{"kind":"sala-labels","format":2}\n',
    b'{"kind":"sala-labels","format":3}\n',
    b'{"kind":"sala-labels","format":2}\n{"do":"la\n',
    b'{"kind":"sala-labels","format":2}\n{"do":"undo"}\n',
    b'{"kind":"sala-la',
    b'{"kind"' * 10_000 + b"\n",
    b"path,label\n" + "".join(f"red-0.png,{i}\n" for i in range(2)).encode(),
]


@pytest.mark.parametrize("content", REFUSED)
def test_a_file_that_cannot_be_taken_is_refused_in_one_sentence(session: Session, port: int, content: bytes) -> None:
    answer = upload(port, content)
    assert answer.status == 400 and "\n" not in answer.json["error"] and ";" in answer.json["error"], answer.body
    assert session.n_events == 0


def test_no_more_classes_come_than_the_limit(session: Session, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sala.web.imports.MAX_CLASSES", 3)
    assert upload(port, b"path,label\nred-0.png,a\nred-1.png,b\n").status == 400
    assert upload(port, b"path,label\nred-0.png,a\n").json["added"] == ["a"]


def test_an_upload_obeys_the_rules_of_changes(session: Session, port: int) -> None:
    table = b"path,label\nred-0.png,red\n"
    assert upload(port, table, Origin="http://evil.example").status == 403
    assert upload(port, table, Origin=None).status == 403
    assert upload(port, table, Host="evil.example").status == 403
    for kind in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded", "application/json", None):
        assert upload(port, table, Content_Type=kind).status == 415
    assert upload(port, b"", Content_Length=str(MAX_UPLOAD + 1)).status == 413
    assert upload(port, b"", Content_Length=None, Transfer_Encoding="chunked").status == 411
    assert ask(port, "/api/upload").status == 405
    assert session.n_events == 0


def test_an_upload_needs_the_token(folders: tuple[Path, Path]) -> None:
    session = open_session(folders)
    with running(session, "0.0.0.0") as server:
        assert upload(server.port, b"path,label\nred-0.png,red\n").status == 403
        token = server.address.partition("?")[2]
        own: dict[str, str | None] = {"Content_Type": "application/octet-stream"}
        assert ask(server.port, f"/api/upload?{token}", b"path,label\nred-0.png,red\n", None, **own).status == 200


def test_what_cannot_be_saved_is_not_taken(session: Session, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_once(monkeypatch, "fsync")
    assert upload(port, b"path,label\nred-0.png,red\n").status == 500
    assert session.n_events == 0 and upload(port, b"path,label\nred-0.png,red\n").status == 200
