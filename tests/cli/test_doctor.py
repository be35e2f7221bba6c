"""`sala doctor`: what is here is told as it is, and what is missing with its repair."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
import torch

from sala.cli import doctor
from tests.helpers.painted import sala


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_kernels: None) -> Path:
    """A cache and data of the test's own."""
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SALA_DATA", str(tmp_path / "data"))
    return tmp_path


def test_versions_threads_caches_and_data_are_those_of_this_machine(place: Path) -> None:
    (place / "cache" / "embeddings" / "one").mkdir(parents=True)
    (place / "cache" / "embeddings" / "one" / "x").write_bytes(bytes(1234))
    (place / "data" / "omniglot").mkdir(parents=True)
    found = json.loads(sala("doctor", "--json").stdout)
    assert found["versions"]["torch"] == metadata.version("torch")
    assert found["extras"]["photos"]["packages"]["starlette"] == metadata.version("starlette")
    assert found["threads"]["torch"] == torch.get_num_threads()
    assert found["cache"] == {
        "place": str(place / "cache"),
        "bytes": {"embeddings": 1234, "stores": 0, "downloads": 0},
    }
    assert found["data"]["datasets"]["omniglot"]["place"] == str(place / "data" / "omniglot")
    advice = "\n".join(found["advice"])
    assert "miniimagenet" in advice and "omniglot" not in advice and "glyphs" not in advice


def test_everything_that_is_found_is_printed(place: Path) -> None:
    printed = sala("doctor").stdout
    for part in (metadata.version("torch"), "kernels", "threads", "glyphs", "built in", "photos", "what to do"):
        assert part in printed


def test_a_missing_package_is_told_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: ['no-such-package>=1; extra == "photos"', "torch>=2.4"])
    assert doctor.missing("photos") == ["no-such-package"]
    assert doctor.missing("onnx") == []
    extras = {"photos": {"missing": ["no-such-package"], "for": "the page"}}
    (line,) = [line for line in doctor.advice(doctor.examine() | {"extras": extras}) if "pip" in line]
    assert "pip install 'sala[photos]'" in line and "no-such-package" in line


def test_what_the_environment_asks_wrongly_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALA_KERNELS", "abacus")
    (place / "file").touch()
    monkeypatch.setenv("SALA_CACHE", str(place / "file" / "cache"))
    found = doctor.examine()
    said = "\n".join(found["advice"])
    assert "SALA_KERNELS" in said and "SALA_CACHE" in said
    assert f"SALA_DATA={place / 'data'} is not a folder" in said


def test_without_a_folder_of_datasets_one_sentence_tells_of_all(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SALA_DATA")
    (line,) = doctor.data_advice(None, doctor.datasets())
    assert "omniglot" in line and "tiny-tiered" in line
