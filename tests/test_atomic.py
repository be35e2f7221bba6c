"""Partial files in folders that several machines share."""

from __future__ import annotations

from pathlib import Path

import pytest

from sala import atomic
from sala.atomic import partial_file, remove_stale

GONE = "4194304"  # no process has this number


def test_partial_files_of_another_machine_stay(tmp_path: Path) -> None:
    mine, theirs = (tmp_path / f".a.{GONE}-{host}.partial" for host in (atomic.HOST, "elsewhere"))
    mine.touch()
    theirs.touch()
    remove_stale(tmp_path)
    assert [mine.exists(), theirs.exists()] == [False, True]


def test_the_partial_file_of_this_process_is_known_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with partial_file(tmp_path / "a") as place:
        place.touch()
        monkeypatch.setattr(atomic, "HOST", "elsewhere")
        remove_stale(tmp_path)
        assert place.exists()
        monkeypatch.undo()
        remove_stale(tmp_path)
        assert not place.exists()
