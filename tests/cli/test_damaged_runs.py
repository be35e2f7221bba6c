"""Damaged and altered runs are named in one sentence; what can still be measured is."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from sala.errors import SalaError
from sala.training import measured as trained_runs
from sala.training.checkpoint import load_checkpoint, save_checkpoint
from sala.training.config import read_config
from tests.helpers.noise_runs import (  # noqa: F401  (fixtures)
    TRAIN,
    Sala,
    noise_in_place_of_letters,
    noise_store,
    run_copied,
    sala_called,
    sala_refused,
    trained_once,
)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x81", b"[1, 2]", b"null", b'{"method": ', b"[" * 100_000])
@pytest.mark.parametrize("name", ["config.json", "manifest.json", "last.safetensors"])
def test_a_damaged_file_of_a_run_is_named_on_resume(
    name: str, content: bytes, run: Path, refused: Callable[..., str]
) -> None:
    (run / name).write_bytes(content)
    (run / "previous.safetensors").unlink(missing_ok=True)  # there is no earlier checkpoint to go back to
    assert name in refused("train", "--resume", run)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["seed"], "x"),
        (["threads"], None),
        (["backbone"], ["conv4"]),
        (["options"], [1]),
        (["image_size"], "x"),
        (["protocol", "dataset"], []),
        (["protocol", "test"], {}),
        (["protocol", "train", "n_way"], 2.5),
        (["protocol", "learning_rate"], -1),
        (["protocol", "label_split_seed"], -1),
        (["budget", "n_episodes"], "a"),
    ],
)
def test_a_tampered_configuration_is_refused(keys: list[str], value: object, run: Path) -> None:
    content = json.loads((run / "config.json").read_text())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    (run / "config.json").write_text(json.dumps(content))
    with pytest.raises(SalaError, match=r"config.json is damaged or of another version"):
        read_config(run)


def test_a_damaged_log_does_not_stop_a_resume(run: Path, sala: Sala) -> None:
    (run / "metrics.jsonl").write_bytes(b'\xff\n[1]\n{"no": 1}\n')
    assert sala("train", "--resume", run)[0] == 0


def test_weights_of_another_method_are_refused(
    run: Path, sala: Sala, refused: Callable[..., str], tmp_path: Path
) -> None:
    sala(*TRAIN, "sala", "--out", tmp_path / "other")
    for name in ("best", "last"):
        shutil.copy(tmp_path / "other" / f"{name}.safetensors", run)
    assert "do not fit ProtoNet" in refused("evaluate", run, "--episodes", "2")
    assert "do not fit ProtoNet" in refused("train", "--resume", run)


def test_a_checkpoint_without_a_position_is_refused(run: Path, refused: Callable[..., str]) -> None:
    save_file(load_file(run / "last.safetensors"), run / "last.safetensors")
    assert "no position to continue from" in refused("train", "--resume", run)
    assert "does not say for which images" in refused("evaluate", run, "--weights", "last")


def test_a_position_without_end_is_refused(run: Path, refused: Callable[..., str]) -> None:
    tensors, note = load_checkpoint(run / "last.safetensors")
    save_checkpoint(run / "last.safetensors", tensors, {**note, "episode": float("inf")})
    assert "no position to continue from" in refused("train", "--resume", run)


def test_lost_best_weights_are_not_replaced_silently(run: Path, sala: Sala, refused: Callable[..., str]) -> None:
    (run / "best.safetensors").unlink()
    assert "--weights last" in refused("evaluate", run, "--episodes", "2")
    assert sala("evaluate", run, "--episodes", "2", "--weights", "last")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--weights", "worst"], "'worst'"),
        (["--split", "trainn"], "'trainn'"),
        (["--episodes", "0"], "got 0"),
        (["--method", "soft-kmeans"], "soft-kmeans"),
    ],
)
def test_impossible_evaluations_are_refused(
    words: list[str], message: str, run: Path, refused: Callable[..., str]
) -> None:
    assert message in refused("evaluate", run, *words)
    assert not (run / "results").exists()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_run_that_may_not_be_written_to_is_measured_all_the_same(
    number: int, run: Path, sala: Sala, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(trained_runs, "write_json", refuse)
    code, out, err = sala("evaluate", run, "--episodes", "2")
    assert (code, err) == (0, "") and "%" in out


def test_a_result_that_does_not_fit_on_the_disk_is_told(
    run: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(trained_runs, "write_json", full)
    assert "No space left" in refused("evaluate", run, "--episodes", "2")


@pytest.mark.parametrize("change", [{"accuracies": ["a", "b"]}, {"accuracies": []}, {"split": "val"}, {"shape": [1]}])
def test_a_tampered_result_is_measured_again(change: dict[str, object], run: Path, sala: Sala) -> None:
    words = ("compare", run, "--episodes", "2", "--json")
    before = sala(*words)[1]
    path = next((run / "results").iterdir())
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert sala(*words)[1] == before
