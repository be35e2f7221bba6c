"""What downloads say of each label, and downloads that take long, and many of them."""

from __future__ import annotations

import csv
import io
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.classifier.model import LabelModel
from sala.labeling.predictions import Thresholds
from sala.labeling.project import OUTLIER, UNLABELED
from sala.web import downloads
from sala.web.server import PageServer
from sala.web.session import Session
from stress.asking import ask
from tests.helpers.pages import row_of


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


def test_the_table_says_who_gave_each_label(session: Session, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    half = Thresholds(precision=0.9, outlier=0.5, confident=0.9)
    monkeypatch.setattr("sala.labeling.label.find_thresholds", lambda *_: half)
    session.snapshot()  # the user sees predictions
    session.label([row_of(session, "blue-3.png")], to=1)
    session.label([row_of(session, "red-1.png")], to=1)
    session.label([row_of(session, f"green-{i}.png") for i in range(5)], to=OUTLIER)
    rows = csv.DictReader(io.StringIO(ask(port, "/download/labels.csv").body.decode(), newline=""))
    source = {Path(row["path"]).name: row["source"] for row in rows}
    assert (source["blue-3.png"], source["red-1.png"]) == ("given", "confirmed")
    assert (source["red-5.png"], source["green-9.png"]) == ("predicted", "rejected")
    assert set(source.values()) == {"given", "confirmed", "predicted", "rejected"}


def test_the_model_predicts_what_the_page_shows(session: Session, port: int, tmp_path: Path) -> None:
    session.label([row_of(session, f"green-{i}.png") for i in range(5)], to=OUTLIER)
    (tmp_path / "model").write_bytes(ask(port, "/download/model.safetensors").body)
    shown, model = session.snapshot(), LabelModel.load(tmp_path / "model")
    there = np.flatnonzero(session.project.is_pool & (shown.given == UNLABELED))
    found = model.predict(session.images.features[there])
    assert model.classes == shown.names
    np.testing.assert_array_equal(found.label, shown.label[there])
    np.testing.assert_allclose(
        found.outlier_probability, shown.outlier_probability[there], atol=0.02
    )  # see `sala predict`
