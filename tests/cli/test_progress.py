"""Progress where there is no terminal: lines, a minute apart at least."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import TextColumn

from sala.cli import console, sweep_view
from sala.cli.training_view import watching
from sala.encoders import EmbedProgress
from sala.episodes.protocol import PROTOCOLS
from sala.reproduction.plan import Cell, Run
from sala.reproduction.runner import Job
from sala.training.config import RunConfig
from sala.training.loop import TrainState


class Clock:
    """Goes on when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all progress of a test."""
    one = Clock()
    monkeypatch.setattr(console, "pace", console.Pace())
    monkeypatch.setattr(console, "clock", one)
    return one


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The lines on stderr so far, which is no terminal."""
    text = io.StringIO()
    plain = Console(file=text, highlight=False, soft_wrap=True, force_terminal=False)
    monkeypatch.setattr(console, "err", plain)
    monkeypatch.setattr("sala.cli.training_view.err", plain)
    return lambda: text.getvalue().splitlines()


Said = Callable[[], list[str]]


def test_work_that_ends_at_once_says_nothing(clock: Clock, said: Said) -> None:
    with console.counting("preparing") as report:
        for done in range(1, 11):
            clock.tick(0.4)
            report(done, 10)
    assert said() == []


def test_long_work_says_a_line_after_seconds_and_then_one_a_minute(clock: Clock, said: Said) -> None:
    with console.counting("preparing cats") as report:
        for second in range(1, 200):
            clock.tick(1)
            report(10 * second, 4000)
    lines = said()
    assert len(lines) == 4  # after 5, 65, 125 and 185 seconds
    assert lines[0].split() == ["preparing", "cats", "50/4000", "images", "7", "min", "left"]
    assert "650/4000" in lines[1] and "images" in lines[1] and "6 min left" in lines[1]


def test_a_pause_for_a_validation_leaves_the_time_left_believable(clock: Clock, said: Said) -> None:
    """100 episodes in 100 s, then a validation of 150 s: the remaining 100 take two to five minutes, not hours."""
    with console.counting("training", "episodes") as report:
        for done in range(1, 101):
            clock.tick(1)
            report(done, 200)
        clock.tick(150)
        report(101, 200)
    assert "101/200" in said()[-1] and said()[-1].endswith("4 min left")


def test_two_works_in_turn_share_the_minute(clock: Clock, said: Said) -> None:
    for name in ("one", "two"):
        with console.counting(name) as report:
            for done in range(1, 31):
                clock.tick(1)
                report(done, 100)
    assert len(said()) == 1


def test_a_total_that_is_not_known_has_no_time_left(clock: Clock, said: Said) -> None:
    with console.counting("downloading", "KiB") as report:
        for done in range(1, 8):
            clock.tick(1)
            report(done, 0)
    (line,) = said()
    assert "5/?" in line and "KiB" in line and "left" not in line


def test_embedding_tells_rate_and_cache(clock: Clock, said: Said) -> None:
    with console.embedding("embedding") as report:
        for second in range(1, 8):
            clock.tick(1)
            report(EmbedProgress(20 * second, 1_000, 40, 0))
    assert "100/1000" in said()[0] and "20 images/s" in said()[0] and "40 from the cache" in said()[0]


def test_labeling_without_an_end_counts_images(clock: Clock, said: Said) -> None:
    with console.running("labeling") as report:
        for _ in range(130):
            clock.tick(1)
            report(1_000)
    assert [line.split("  ")[1] for line in said()] == ["5,000 images", "65,000 images", "125,000 images"]


def test_a_training_tells_loss_validation_and_rate(clock: Clock, said: Said) -> None:
    protocol = PROTOCOLS["glyphs"]
    config = RunConfig("sala", protocol, replace(protocol.budget("cpu"), n_episodes=1_000))
    with watching(config) as watch:
        for episode in range(1, 8):
            clock.tick(1)
            watch.on_episode(TrainState({}, episode=episode), 0.5)
    (line,) = said()
    assert "training sala" in line and "5/1000" in line and "loss 0.500" in line and "ep/s" in line


def test_a_terminal_has_a_bar_and_no_lines(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "err", Console(file=io.StringIO(), force_terminal=True))
    assert not isinstance(console.progress_bar(), console.Lines)


def test_a_sweep_tells_each_running_run_once_a_minute(tmp_path: Path, clock: Clock, said: Said) -> None:
    run = Run(Cell("glyphs", 1, 0, "sala"), "cpu", 0)
    folder = tmp_path / run.name
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"episode": 500, "val_accuracy": 71.25}\n')
    waiting = Job(Run(Cell("glyphs", 1, 0, "tpn"), "cpu", 0), tmp_path / "other")
    jobs = [Job(run, folder, state="training"), waiting]
    tell = sweep_view.Telling(3)
    for _ in range(300):
        clock.tick(0.5)
        tell(jobs)
    assert said() == [f"3 of 5 runs finished; {run.name}: 500 of 20,000 episodes, best validation 71.25 %"] * 3
    jobs[0].state, jobs[0].accuracy = "finished", {"ren": "80.00 %"}
    tell(jobs)
    assert said()[-1].startswith(f"finished: {run.name}")


def test_a_line_is_plain_text(clock: Clock, said: Said) -> None:
    lines = console.Lines(TextColumn("{task.fields[note]}", markup=False))
    task = lines.add_task("", total=10, note="[bold]")
    clock.tick(10)
    lines.update(task, completed=1)
    assert said() == ["[bold]"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(4, "4 s"), (61, "1 min"), (3_600, "1 h 00 min"), (9_000, "2 h 30 min")]
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert console.duration(seconds) == words
