"""The stress suite can fail: planted faults are found, and its figures are those of the page."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sala.errors import SalaError
from sala.web.journal import HEADER, Journal
from stress import commands, kills, mutations, readers, report
from stress.children import Child, Ended
from stress.fill import shown
from stress.page import states_of_corrections
from stress.readers import Reader
from stress.trials import Outcome, Trial, run_trials
from stress.world import World, paint_pool
from stress.writes import Act, kill_at, listing, watch

ROOT = Path(__file__).parent.parent
pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the suite needs Linux"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "a.json").write_text('{"n": 1, "names": ["x", "y"]}')
    (tmp_path / "good" / "b.csv").write_text("class,split\ncat,train\n")
    return tmp_path / "good"


def test_an_input_is_a_function_of_seed_and_number(good: Path) -> None:
    reader = Reader("toy", good, ("*",), lambda folder: None)
    inputs = [readers.make_input(reader, number, seed=3) for number in range(60)]
    assert inputs == [readers.make_input(reader, number, seed=3) for number in range(60)]
    assert inputs != [readers.make_input(reader, number, seed=4) for number in range(60)]
    assert {given.how for given in inputs} == {"altered", *mutations.SPECIAL}
    assert len({given.content for given in inputs}) > 30


@pytest.mark.parametrize(
    "suffix", [".json", ".jsonl", ".csv", ".npy", ".zip", ".safetensors", ".png", ".sqlite", ".bin"]
)
def test_a_change_may_follow_any_other(suffix: str) -> None:
    rng = random.Random(0)
    for _ in range(200):
        mutations.altered(rng.randbytes(rng.randrange(90)), suffix, [b"other"], rng)


def fail(folder: Path) -> None:
    raise KeyError("planted")


def hang(folder: Path) -> None:
    time.sleep(60)


def grow(folder: Path) -> None:
    np.ones(15_000_000)


def refuse(folder: Path) -> None:
    raise SalaError("one sentence")


def crash(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (fail, "KeyError: 'planted'"),
        (hang, "no end"),
        (grow, " MB"),
        (crash, "SIGUSR1"),
        (refuse, None),
        (lambda _: 1, None),
    ],
)
def test_a_bad_reader_is_found(
    read: Callable[[Path], object], problem: str | None, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "SECONDS", 1 if read is hang else 30)
    monkeypatch.setattr(readers, "MEGABYTES", 60)
    reader = Reader("toy", good, ("*",), read)
    inputs = [readers.make_input(reader, number, seed=0) for number in (20, 21)]
    for found in readers.problems_of(reader, inputs, tmp_path):
        assert found is None if problem is None else problem in str(found)


class Toy(kills.Work):
    """Writes ten numbers; by parts of its own, or from where an earlier process was."""

    def start(self, folder: Path, act: Act | None, name: str = "child") -> Child:
        (folder / "w").mkdir(exist_ok=True)
        return Child(partial(self.work, folder / "w", act), folder, name)

    def work(self, folder: Path, act: Act | None) -> None:
        if act is not None:
            watch(folder, act)
        is_careful = self.name == "careful"
        with open(folder / ".part" if is_careful else folder / "result", "w" if is_careful else "a") as file:
            for i in range(10):
                file.write(f"{i}\n")
        if is_careful:
            os.replace(folder / ".part", folder / "result")


@pytest.mark.parametrize("name", ["careful", "careless"])
def test_a_result_that_a_kill_spoils_is_found(name: str, tmp_path: Path) -> None:
    """The careless one appends to what is there."""
    toy = Toy(name, lambda folder: [], ("result",))
    reference = kills.undisturbed(toy, tmp_path / "reference")
    problems = []
    for n, torn in kills.chosen_points(reference / "points.txt"):
        (folder := tmp_path / f"{n}{torn}").mkdir()
        ended = toy.start(folder, kill_at(n, torn=torn)).wait(20)
        assert ended.code == -9
        problems.append(kills.problem_after(toy, folder, reference))
    assert len(problems) > 5 and any(problems) is (name == "careless")


def test_every_write_is_seen(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()

    def work() -> None:
        watch(tmp_path / "w", listing(tmp_path / "points.txt"))
        (tmp_path / "w" / "a").write_text("x")
        os.replace(tmp_path / "w" / "a", tmp_path / "w" / "b")
        (tmp_path / "elsewhere").write_text("not watched")
        fd = os.open(tmp_path / "w" / "c", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"x")
        os.fsync(fd)
        (tmp_path / "w" / "b").unlink()

    assert Child(work, tmp_path).wait(20).code == 0
    seen = [line.split()[0] for line in (tmp_path / "points.txt").read_text().splitlines()]
    assert seen == ["open", "write", "close", "replace", "open", "write", "fsync", "unlink"]


@pytest.mark.slow
def test_a_correction_that_is_acknowledged_and_not_written_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "world", 0)
    paint_pool(world)
    states = states_of_corrections(world, tmp_path / "states")

    def attempt(name: str) -> str | None:
        (tmp_path / name).mkdir()
        return kills._kill_page(world, states, None, 0.5, tmp_path / name)

    assert attempt("sound") is None
    append = Journal.append
    monkeypatch.setattr(Journal, "append", lambda self, event: append(self, event) if event == HEADER else None)
    assert "acknowledged" in str(attempt("lossy"))


@pytest.mark.parametrize(
    ("code", "err", "is_fine"),
    [
        (1, "error: there is no dataset 'x'; the datasets are a, b\n", True),
        (1, "Traceback (most recent call last):\n  ...\nKeyError: 'x'\n", False),
        (1, "error: there is no such thing at all\nerror: and another one\n", False),
        (0, "", False),
        (-11, "", False),
        (1, "", False),
    ],
)
def test_how_a_wrong_command_may_end(code: int, err: str, is_fine: bool) -> None:
    assert (commands._problem(Ended(code, "", err, 0.1)) is None) is is_fine


def test_trials_are_shared_out_and_a_broken_one_is_no_success(tmp_path: Path) -> None:
    def broken(folder: Path) -> str | None:
        raise ZeroDivisionError("planted")

    trials = [Trial("toy", f"trial {i}", lambda folder: None) for i in range(6)]
    trials += [Trial("toy", "bad", lambda folder: "it failed"), Trial("toy", "broken", broken)]
    outcomes = run_trials(trials, tmp_path, time.monotonic() + 60)
    assert [outcome.name for outcome in outcomes] == [trial.name for trial in trials]
    assert [outcome.name for outcome in report.unexpected(outcomes)] == ["bad", "broken"]
    late = run_trials(trials, tmp_path / "late", time.monotonic() - 1)
    assert not any(outcome.was_tried for outcome in late)
    assert report.rows_of(late)[-1]["not_tried"] == 8


def test_what_is_known_to_fail_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(report.EXPECTED, known := "known", "a reason")
    outcomes = [Outcome("toy", known, "as ever"), Outcome("toy", "new", "a surprise"), Outcome("toy", "fine")]
    assert [outcome.name for outcome in report.unexpected(outcomes)] == ["new"]
    assert report.rows_of(outcomes)[-1] | {"seconds": 0} == {
        "kind": "all", "tried": 3, "failed": 1, "expected_to_fail": 1, "not_tried": 0, "seconds": 0,
    }  # fmt: skip


def test_the_page_shows_the_last_run() -> None:
    last = json.loads((ROOT / "stress" / "last.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "results" / "stress.md").read_text(encoding="utf-8")
    assert shown(last) in text
