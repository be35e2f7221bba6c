"""kill -9 of `sala train`, `sala label` and `sala serve`: at every write, in the middle of writes, and at random moments.

The command is given again afterwards, and must end with what it ends with undisturbed: the same bytes in checkpoints, labels
and models, every correction that was acknowledged, and no file left over.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stress.children import Child, Ended, command, last_line, run
from stress.page import CORRECTIONS, Page, correct, kill_in, states_of_corrections
from stress.trials import Trial
from stress.world import World
from stress.writes import Act, kill_at, listing, watch

METHODS = ("sala", "metagan", "tadam")


@dataclass(frozen=True)
class Work:
    """A command that can be stopped, and what it must have made in the end."""

    name: str
    words: Callable[[Path], list[object]]  # by the folder it writes to
    results: tuple[str, ...]  # files in that folder whose bytes are compared

    def start(self, folder: Path, act: Act | None, name: str = "child") -> Child:
        (folder / "w").mkdir(exist_ok=True)
        return Child(partial(_with_cache, self.words(folder / "w"), folder / "w", act), folder, name)


def _with_cache(words: list[object], folder: Path, act: Act | None) -> None:
    os.environ["SALA_CACHE"] = str(folder / "cache")
    if act is not None:
        watch(folder, act)
    command(words)()


def train(world: World, method: str = "sala") -> Work:
    files = ("run/last.safetensors", "run/best.safetensors", "run/config.json", "run/metrics.jsonl")
    return Work(f"train {method}", lambda w: [*world.train(w / "run"), "--method", method], files)


def label(world: World) -> Work:
    words = ["label", *world.images, "--encoder", world.run, "--out"]
    return Work("label", lambda w: [*words, w / "out"], ("out/labels.csv", "out/model.safetensors", "out/skipped.csv"))


def label_and_copy(world: World) -> Work:
    words = ["label", *world.images, "--encoder", world.run, "--out"]
    return Work("label --copy-to", lambda w: [*words, w / "out", "--copy-to", w / "sorted"], ("out/labels.csv",))


def trials(world: World, folder: Path, *, quick: bool) -> list[Trial]:
    rng = random.Random(f"kills {world.seed}")
    works = [train(world), label(world), label_and_copy(world)]
    made = []
    for work in works:
        reference = undisturbed(work, folder / work.name)
        points = chosen_points(folder / work.name / "points.txt", n_copies=2 if work.name == "label --copy-to" else 99)
        points = rng.sample(points, min(len(points), 8)) if quick else points
        made += [_at_write(work, reference, n, torn) for n, torn in points]
        made += [_at_random(work, reference, rng.random()) for _ in range(2 if quick else 8)]
    for method in METHODS[1:]:
        work = train(world, method)
        reference = undisturbed(work, folder / work.name)
        made += [_at_random(work, reference, rng.random()) for _ in range(1 if quick else 4)]
    return made + _of_serve(world, folder / "serve", rng, quick=quick)


def undisturbed(work: Work, folder: Path) -> Path:
    """Run it to its end once, with its writes in points.txt."""
    folder.mkdir(parents=True)
    ended = work.start(folder, listing(folder / "points.txt")).wait(120)
    if ended.code != 0:
        raise RuntimeError(f"the undisturbed command fails: {ended}")
    (folder / "seconds").write_text(str(ended.seconds))
    return folder


def chosen_points(path: Path, n_copies: int = 99) -> list[tuple[int, bool]]:
    """(n, torn) for every write; of a row of writes to one file the first, the middle one and the last; of the copies of
    images, of which one is like the other, the first few."""
    lines = path.read_text().splitlines()
    rows: list[list[int]] = []
    for i, line in enumerate(lines):
        if i and line == lines[i - 1]:
            rows[-1].append(i)
        else:
            rows.append([i])
    copies = [i for i, row in enumerate(rows) if "/sorted/" in lines[row[0]]][6 * n_copies :]
    kept = [row for i, row in enumerate(rows) if i not in copies]
    numbers = sorted({i for row in kept for i in (row[0], row[len(row) // 2], row[-1])})
    return [(i + 1, torn) for i in numbers for torn in (False, True) if not torn or lines[i].split()[1] == "half"]


def _at_write(work: Work, reference: Path, n: int, torn: bool) -> Trial:
    def attempt(folder: Path) -> str | None:
        ended = work.start(folder, kill_at(n, torn=torn)).wait()
        if ended.code != -signal.SIGKILL or ended.timed_out:
            return f"it was not killed at write {n}, but ended with {ended.code}: {last_line(ended.err)}"
        return problem_after(work, folder, reference)

    what, path = point_of(reference, n)
    name = f"kill {work.name} {'in the middle of' if torn else 'before'} write {n} ({what} {path})"
    return Trial("kills", name, attempt)


def point_of(reference: Path, n: int) -> tuple[str, str]:
    """What the n-th write is, and the name of its file without the number of a process."""
    what, _, path = (reference / "points.txt").read_text().splitlines()[n - 1].split(" ", 2)
    return what, re.sub(r"\d+-?\w*(?=\.partial$|$)", "", Path(path).name)


def _at_random(work: Work, reference: Path, share: float) -> Trial:
    """Up to three kills, each after a part of the time that the command takes, and then to the end."""

    def attempt(folder: Path) -> str | None:
        seconds = share * float((reference / "seconds").read_text())
        for _ in range(3):
            child = work.start(folder, None)
            time.sleep(seconds)
            child.signal(signal.SIGKILL)
            child.wait()
        return problem_after(work, folder, reference)

    return Trial("kills", f"kill {work.name} three times after {share:.4f} of its time", attempt)


def problem_after(work: Work, folder: Path, reference: Path) -> str | None:
    """What is wrong when the command is given again, as a user would."""
    ended = go_on(work, folder)
    if ended.trouble or ended.code != 0:
        return f"it cannot go on: {ended.trouble or last_line(ended.err)}"
    return difference(work, folder / "w", reference / "w")


def go_on(work: Work, folder: Path) -> Ended:
    """The same command; where that names --resume, that."""
    ended = work.start(folder, None, "again").wait()
    if ended.code == 1 and "--resume" in ended.err:
        resume: list[object] = ["train", "--resume", folder / "w" / "run"]
        ended = run(partial(_with_cache, resume, folder / "w", None), folder, name="resume")
    return ended


def difference(work: Work, folder: Path, reference: Path) -> str | None:
    for name in work.results:
        ours, theirs = (comparable(place / name) for place in (folder, reference))
        if ours != theirs:
            return f"{name} is not what it is without the fault"
    ours_there, theirs_there = files_of(folder), files_of(reference)
    if more := sorted(ours_there - theirs_there):
        return f"left over: {', '.join(more)[:200]}"
    if fewer := sorted(theirs_there - ours_there):
        return f"missing: {', '.join(fewer)[:200]}"
    return None


def comparable(path: Path) -> object:
    """The bytes of a file; of metrics, without times."""
    if not path.is_file():
        return None
    if path.name == "metrics.jsonl":
        return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in path.open()]
    return path.read_bytes()


def files_of(folder: Path) -> set[str]:
    """All files by relative name; what SQLite and tensorboard keep beside is not counted."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if not name.endswith(("-journal", "-wal", "-shm")) and "tensorboard" not in name}


def _of_serve(world: World, folder: Path, rng: random.Random, *, quick: bool) -> list[Trial]:
    states = states_of_corrections(world, folder / "states")
    (folder / "w").mkdir()
    page = Page(world, folder / "w" / "state.jsonl", folder, listing(folder / "points.txt"))
    correct(page)
    page.end()
    points = chosen_points(folder / "points.txt")
    points = rng.sample(points, min(len(points), 6)) if quick else points
    lines = (folder / "points.txt").read_text().splitlines()
    made = []
    for n, torn in points:
        where = "in the middle of" if torn else "before"
        name = f"kill serve {where} write {n} ({lines[n - 1].split()[0]})"
        made.append(Trial("kills", name, partial(_kill_page, world, states, kill_at(n, torn=torn), None)))
    for seconds in sorted(rng.uniform(0, 0.6) for _ in range(2 if quick else 12)):
        name = f"kill serve {seconds:.4f} s after its first correction"
        made.append(Trial("kills", name, partial(_kill_page, world, states, None, seconds)))
    return made


def _kill_page(
    world: World, states: list[dict[str, object]], act: Act | None, seconds: float | None, folder: Path
) -> str | None:
    """What was acknowledged is there; the corrections that follow lead to the same end."""
    (folder / "w").mkdir()
    state = folder / "w" / "state.jsonl"
    page = Page(world, state, folder, act)
    killer = kill_in(page.child.pid, seconds, folder) if seconds is not None else None
    n_saved = correct(page) if page.port else 0
    if killer:
        killer.wait()
    if page.child.wait().code != -signal.SIGKILL:
        return f"it was not killed, but ended with {page.child.wait()}"
    again = Page(world, state, folder, name="again")
    if not again.port:
        return f"it cannot go on: {last_line(again.child.wait().err)}"
    shown = again.state()
    found = next((k for k in (n_saved, n_saved + 1) if k < len(states) and states[k] == shown), None)
    if found is None:
        again.end()
        return f"{n_saved} of {len(CORRECTIONS)} corrections were acknowledged, and the state is of another number"
    correct(again, found)
    end = again.state()
    again.end()
    return None if end == states[-1] else "the corrections that followed lead to another state"
