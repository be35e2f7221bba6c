"""Thumbnails that many ask for at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sala.errors import SalaError
from sala.labeling.project import Project
from sala.web.session import Session
from sala.web.thumbnails import THUMB, Pictures

N = 8


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The images that were read, in order."""
    read, done = Project.open, []

    def counted(self: Project, index: int) -> bytes:
        done.append(index)
        return read(self, index)

    monkeypatch.setattr(Project, "open", counted)
    return done


def ask_at_once(pictures: Pictures, index: int) -> list[bytes]:
    """By N threads; none is served before all have begun to ask."""
    together = threading.Barrier(N + 1)

    def ask() -> bytes:
        together.wait()
        return pictures.jpeg(index, THUMB)

    with ThreadPoolExecutor(N) as threads:
        with pictures._decoding, pictures._decoding:  # both places are taken
            asked = [threads.submit(ask) for _ in range(N)]
            together.wait()
        return [one.result() for one in asked]


def test_one_decode_serves_all_who_ask_at_once(session: Session, reads: list[int]) -> None:
    pictures = Pictures(session)
    for index in range(4, 14):
        assert len(set(ask_at_once(pictures, index))) == 1
    assert reads == list(range(4, 14))


def test_images_are_kept_up_to_the_limit_however_many_ask_at_once(session: Session, reads: list[int]) -> None:
    size = len(Pictures(session).jpeg(4, THUMB))
    pictures = Pictures(session, max_bytes=4 * size + size // 2)  # flat images: all about as large
    for index in range(4, 24):
        ask_at_once(pictures, index)
    reads.clear()
    for index in (23, 22, 21):
        pictures.jpeg(index, THUMB)
    assert reads == []
    assert pictures._n_bytes == sum(map(len, pictures._kept.values())) <= pictures._max_bytes


def test_a_file_that_cannot_be_read_is_told_to_all_and_may_come_back(session: Session) -> None:
    pictures, place = Pictures(session), session.project.path(5)
    content = place.read_bytes()
    place.unlink()
    with pytest.raises(SalaError):
        ask_at_once(pictures, 5)
    place.write_bytes(content)
    assert pictures.jpeg(5, THUMB)
