"""Mistakes and haste: each gets one sentence, an exit code, and leaves nothing half-written behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sala.cli import app as cli
from sala.cli.training_view import interruptible, watching
from sala.training import folder as runfolder
from sala.training.config import RunConfig, read_config
from tests.helpers.noise_runs import (  # noqa: F401  (fixtures)
    METHOD,
    TRAIN,
    Sala,
    noise_in_place_of_letters,
    noise_store,
    run_copied,
    sala_called,
    sala_refused,
    trained_once,
)


@pytest.mark.parametrize(
    ("words", "what", "got"),
    [
        (["--episodes", "0"], "episodes", "0"),
        (["--episodes", "-1"], "episodes", "-1"),
        (["--validate-every", "0"], "validations", "0"),
        (["--ways", "1"], "n_way", "1"),
        (["--shots", "0"], "n_shot", "0"),
        (["--queries", "0"], "n_query", "0"),
        (["--unlabeled", "-1"], "n_unlabeled", "-1"),
        (["--labeled-share", "0"], "labeled share", "0"),
        (["--labeled-share", "nan"], "labeled share", "nan"),
        (["--labeled-share", "2"], "labeled share", "2"),
        (["--seed", "-1"], "seed", "-1"),
        (["--seed", str(2**70)], "seed", str(2**70)),
        (["--threads", "-3"], "threads", "-3"),
        (["--method", "sala", "--set", "eta=nan"], "eta", "nan"),
        (["--method", "sala", "--set", "hidden=99999999999999"], "hidden", "99999999999999"),
    ],
)
def test_impossible_numbers_are_refused_before_anything_is_written(
    words: list[str], what: str, got: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    """The sentence names the number and the value received."""
    said = refused(*TRAIN, "protonet", *words, "--out", tmp_path / "run")
    assert what in said and got in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "words", [["--unlabeled", "0"], ["--ways", "2"], ["--seed", str(2**64 - 1)], ["--labeled-share", "0.3"]]
)
def test_unusual_requests_that_can_be_met_are_met(words: list[str], sala: Sala, tmp_path: Path) -> None:
    assert sala(*TRAIN, "sala", *words, "--out", tmp_path / "run")[0] == 0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class Mine(:\n", "SyntaxError"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0 (mine.py, line 2)"),
        ("class Mine: pass\n", "sala.Method"),
        (METHOD.replace("logits(self, task)", "__init__(self, backbone, *, k)") + "pass\n", "argument: 'k'"),
        (METHOD + "raise ValueError('two\\nlines')\n", "ValueError: two lines (mine.py, line 6)"),
        (METHOD + "return task.query[..., :3]\n", "[5, 3]"),
        (METHOD + "return None\n", "NoneType"),
        (METHOD + "return task.query[..., :5] * float('nan')\n", "nan"),
    ],
)
def test_a_broken_method_file_is_named_and_leaves_no_run(
    code: str, message: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(code)
    assert message in refused(*TRAIN, f"{tmp_path}/mine.py:Mine", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_method_that_gives_nan_only_when_tested_is_found_out(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        METHOD + "return task.query[..., :5] * (1.0 if self.training else float('nan'))\n"
    )
    assert "not a number" in refused(*TRAIN, f"{tmp_path}/mine.py:Mine", "--out", tmp_path / "run")


def test_a_name_without_end_does_not_fill_the_terminal(refused: Callable[..., str], tmp_path: Path) -> None:
    said = refused("train", "--dataset", "x" * 50_000, "--out", tmp_path / "run")
    assert said.startswith("error: there is no dataset 'xxx") and said.endswith("folder") and len(said) < 1_600


def test_a_file_in_the_place_of_a_run_folder_is_said(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "is a file, and a run is a folder" in refused(*TRAIN, "protonet", "--out", tmp_path / "file")
    assert "Not a directory" in refused(*TRAIN, "protonet", "--out", tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "mine"


def test_resume_does_not_ignore_other_options(run: Path, refused: Callable[..., str]) -> None:
    assert "leave out --seed" in refused("train", "--resume", run, "--seed", "9")
    assert "leave out --set" in refused("train", "--resume", run, "--set", "a=b")


def test_resume_takes_a_changed_method_file_when_it_is_named(
    sala: Sala, refused: Callable[..., str], tmp_path: Path
) -> None:
    name = f"{tmp_path}/mine.py:Mine"
    (tmp_path / "mine.py").write_text(METHOD + "return task.query[..., :5]\n")
    assert sala(*TRAIN, name, "--out", tmp_path / "run")[0] == 0
    (tmp_path / "mine.py").write_text(METHOD + "return task.query[..., :5] * 2\n")
    assert "name it: --method" in refused("train", "--resume", tmp_path / "run")
    assert sala("train", "--resume", tmp_path / "run", "--method", name)[0] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such lock")
def test_a_second_training_in_the_same_folder_is_refused(run: Path, refused: Callable[..., str]) -> None:
    with runfolder.alone(run):
        assert "another training is writing into" in refused("train", "--resume", run)


def test_paths_with_spaces_brackets_and_letters_are_shown_as_they_are(sala: Sala, tmp_path: Path) -> None:
    folder = tmp_path / "my [bold] rün"
    _, out, err = sala(*TRAIN, "protonet", "--out", folder)
    assert out == f"{folder}\n"
    assert f"sala evaluate '{folder}'" in err
    shown = sala("compare", folder, "--episodes", "2")[1]
    assert "my [bold] rün" in shown


def test_a_linked_run_is_a_run(run: Path, sala: Sala, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    assert sala("evaluate", tmp_path / "link", "--episodes", "2")[0] == 0


def test_a_demo_never_removes_what_is_not_a_demo(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "sala").mkdir()
    (tmp_path / "sala" / "thesis.txt").write_text("years of work")
    assert "is not a run of an earlier demo" in refused("demo", "--out", tmp_path)
    assert (tmp_path / "sala" / "thesis.txt").exists()


def test_a_file_in_the_place_of_a_demo_is_said_before_the_letters_are_drawn(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    assert "is a file, and a demo is a folder" in refused("demo", "--out", tmp_path / "file")


def test_an_impossible_demo_does_not_remove_the_earlier_one(
    run: Path, refused: Callable[..., str], tmp_path: Path
) -> None:
    run.rename(tmp_path / "sala")
    for words in (["--episodes", "0"], ["--seed", "-1"]):
        refused("demo", "--out", tmp_path, *words)
    assert (tmp_path / "sala" / "config.json").exists()


def test_damaged_trust_is_no_trust(sala: Sala, tmp_path: Path, cache: Path, refused: Callable[..., str]) -> None:
    name = f"{tmp_path}/mine.py:Mine"
    (tmp_path / "mine.py").write_text(METHOD + "return task.query[..., :5]\n")
    sala(*TRAIN, name, "--out", tmp_path / "run")
    (cache / "trusted-methods.json").write_text("{broken")
    assert "name it: --method" in refused("evaluate", tmp_path / "run", "--episodes", "2")
    assert sala("evaluate", tmp_path / "run", "--episodes", "2", "--method", name)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["sala.data.prepared_stores", "typer.core.TyperGroup.make_context"])
def test_a_signal_ends_any_command_with_a_word(
    number: signal.Signals, place: str, sala: Sala, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, lambda *_, **__: os.kill(os.getpid(), number))
    assert sala("data", "list") == (130, "", "stopped\n")


def test_an_interrupt_that_a_library_swallowed_ends_with_a_word(sala: Sala, monkeypatch: pytest.MonkeyPatch) -> None:
    def swallow(*_: object) -> None:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        raise AttributeError("module 'numpy' has no attribute 'matrix'")

    monkeypatch.setattr(cli, "_was_interrupted", False)
    monkeypatch.setattr("sala.data.prepared_stores", swallow)
    assert sala("data", "list") == (130, "", "stopped\n")


def test_a_second_ctrl_c_while_the_first_is_taken_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is held when a signal comes would be waited for by the thread that holds it."""
    enter = threading.Condition.__enter__

    def interrupted(self: threading.Condition) -> bool:
        held = enter(self)
        if threading.current_thread() is threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)
        return held

    def give_up(signum: int, frame: object) -> None:
        raise TimeoutError("it waits for itself")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(10)
    try:
        with interruptible(tell=False) as should_stop:
            assert not should_stop()
            with monkeypatch.context() as patch:
                patch.setattr(threading.Condition, "__enter__", interrupted)
                os.kill(os.getpid(), signal.SIGINT)
            assert should_stop()
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_ctrl_c_stops_the_preparation_of_data(run: Path) -> None:
    config: RunConfig = read_config(run)
    with pytest.raises(KeyboardInterrupt), watching(config) as watch:  # noqa: PT012
        assert watch.on_data is not None
        os.kill(os.getpid(), signal.SIGINT)
        watch.on_data(1, 10)
