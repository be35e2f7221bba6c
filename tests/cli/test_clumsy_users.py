"""Mistakes, damage and haste: each gets one sentence, an exit code, and leaves nothing half-written behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from sala.cli import app as cli
from sala.cli.training_view import interruptible, watching
from sala.data import ImageStore
from sala.data.store import ClassEntry, Source, build_store
from sala.errors import SalaError
from sala.training import config as runconfig
from sala.training import folder as runfolder
from sala.training import loading as trained_runs
from sala.training.checkpoint import load_checkpoint, save_checkpoint
from sala.training.config import RunConfig, read_config

TRAIN = ["train", "--dataset", "glyphs", "--episodes", "2", "--threads", "1", "--method"]
Sala = Callable[..., tuple[int, str, str]]
METHOD = "import sala\n\n\nclass Mine(sala.Method):\n    def logits(self, task):\n        "


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    """Noise in the shape of the built-in letters: quick to make."""
    rng = np.random.default_rng(0)
    classes = [ClassEntry(f"{split}{i}", split, 20) for split in ("train", "val", "test") for i in range(6)]
    images = ((c, rng.integers(0, 256, (16, 16, 1), np.uint8)) for c in range(len(classes)) for _ in range(20))
    return build_store(tmp_path_factory.mktemp("noise") / "store", "glyphs", Source(classes, images, (16, 16, 1)))


@pytest.fixture(scope="module", autouse=True)
def noise(store: ImageStore) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runconfig, "load_dataset", lambda *_, **__: store)
        yield


@pytest.fixture
def sala(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sala:
    """Exit code, stdout and stderr of a command, through the door that users take."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sala", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def refused(sala: Sala) -> Callable[..., str]:
    """The one sentence of a command that must fail."""

    def call(*words: object) -> str:
        code, out, err = sala(*words)
        assert code == 1
        assert not out
        lines = [line for line in err.splitlines() if line.strip()]
        assert lines[-1].startswith("error: ") and "Traceback" not in err
        return lines[-1]

    return call


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, noise: None) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert CliRunner().invoke(cli.app, [*TRAIN, "protonet", "--out", str(folder)]).exit_code == 0
    return folder


@pytest.fixture
def run(tmp_path: Path, trained: Path) -> Path:
    """A finished run to spoil."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--episodes", "0"], "training episodes must be at least 1; got 0"),
        (["--episodes", "-1"], "training episodes must be at least 1; got -1"),
        (["--validate-every", "0"], "between validations must be at least 1; got 0"),
        (["--ways", "1"], "ways n_way must be at least 2; got 1"),
        (["--shots", "0"], "shots n_shot must be at least 1; got 0"),
        (["--queries", "0"], "queries n_query must be at least 1; got 0"),
        (["--unlabeled", "-1"], "n_unlabeled must be at least 0; got -1"),
        (["--labeled-share", "0"], "labeled share is above 0 and at most 1; got 0"),
        (["--labeled-share", "nan"], "labeled share is above 0 and at most 1; got nan"),
        (["--labeled-share", "2"], "labeled share is above 0 and at most 1; got 2"),
        (["--seed", "-1"], "a seed must be at least 0; got -1"),
        (["--seed", str(2**70)], "a seed is a number from 0 to 2**64 - 1"),
        (["--threads", "-3"], "threads are a number from 0"),
        (["--method", "sala", "--set", "eta=nan"], "eta is a finite number; got 'nan'"),
        (["--method", "sala", "--set", "hidden=99999999999999"], "SALA cannot be built with the options"),
    ],
)
def test_impossible_numbers_are_refused_before_anything_is_written(
    words: list[str], message: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    assert message in refused(*TRAIN, "protonet", *words, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "words", [["--unlabeled", "0"], ["--ways", "2"], ["--seed", str(2**64 - 1)], ["--labeled-share", "0.3"]]
)
def test_unusual_requests_that_can_be_met_are_met(words: list[str], sala: Sala, tmp_path: Path) -> None:
    assert sala(*TRAIN, "sala", *words, "--out", tmp_path / "run")[0] == 0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class Mine(:\n", "cannot be imported: SyntaxError"),
        ("import sys\nsys.exit(0)\n", "cannot be imported: SystemExit: 0 (mine.py, line 2)"),
        ("class Mine: pass\n", "is not a subclass of sala.Method"),
        (METHOD.replace("logits(self, task)", "__init__(self, backbone, *, k)") + "pass\n", "argument: 'k'"),
        (METHOD + "raise ValueError('two\\nlines')\n", "failed: ValueError: two lines (mine.py, line 6)"),
        (METHOD + "return task.query[..., :3]\n", "the logits of Mine are [5, 3]; queries and classes make it [5, 5]"),
        (METHOD + "return None\n", "the logits of Mine are NoneType"),
        (METHOD + "return task.query[..., :5] * float('nan')\n", "the loss of the classifier became nan"),
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
        (["--weights", "worst"], "weights are best (by validation) or last; got 'worst'"),
        (["--split", "trainn"], "a split is one of train, val, test; got 'trainn'"),
        (["--episodes", "0"], "the number of episodes must be at least 1; got 0"),
        (["--method", "soft-kmeans"], "is a run of protonet, not of soft-kmeans"),
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


def test_a_name_without_end_does_not_fill_the_terminal(refused: Callable[..., str], tmp_path: Path) -> None:
    said = refused("train", "--dataset", "x" * 50_000, "--out", tmp_path / "run")
    assert said.startswith("error: there is no dataset 'xxx") and said.endswith("folder") and len(said) < 1_600


def test_a_file_in_the_place_of_a_run_folder_is_said(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "is a file, and a run is a folder" in refused(*TRAIN, "protonet", "--out", tmp_path / "file")
    assert "Not a directory" in refused(*TRAIN, "protonet", "--out", tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "mine"


def test_resume_does_not_ignore_other_options(run: Path, refused: Callable[..., str]) -> None:
    assert "leave out --episodes" in refused("train", "--resume", run, "--episodes", "9")
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
    assert "my [bold] rün" in " ".join(shown.split())  # a long path is folded


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
