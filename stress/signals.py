"""Ctrl-C, Ctrl-C twice and SIGTERM: a sentence, no traceback, exit code 130, and the work can go on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from stress.children import CRASHED, Ended, last_line
from stress.kills import Work, problem_after
from stress.page import CORRECTIONS, Page
from stress.trials import Trial
from stress.world import World

WAYS: dict[str, tuple[signal.Signals, ...]] = {
    "SIGINT": (signal.SIGINT,),
    "SIGINT twice": (signal.SIGINT, signal.SIGINT),
    "SIGTERM": (signal.SIGTERM,),
}


def trials(work: Work, reference: Path, rng: random.Random, *, quick: bool) -> list[Trial]:
    """At random moments of a command that is warm: its imports are done."""
    made = []
    for way in WAYS:
        for _ in range(1 if quick else 5):
            share = rng.random()
            attempt = partial(_stop, work, reference, way, share)
            made.append(Trial("faults", f"{way} to {work.name} after {share:.4f} of its time", attempt))
    return made


def _stop(work: Work, reference: Path, way: str, share: float, folder: Path) -> str | None:
    child = work.start(folder, None)
    time.sleep(0.1 + share * float((reference / "seconds").read_text()))
    for number in WAYS[way]:
        child.signal(number)
        time.sleep(0.01)
    problem = how_it_stopped(child.wait(), is_hasty=len(WAYS[way]) > 1)
    if problem is not None:
        return problem
    return problem_after(work, folder, reference)


def how_it_stopped(ended: Ended, *, is_hasty: bool = False) -> str | None:
    """It may have been done already; else it says that it stopped, unless a second signal came while it was saying so."""
    is_late = ended.code in (CRASHED, -signal.SIGINT) and "Traceback" not in ended.err  # a second one when it is ending
    if ended.trouble and not is_late:
        return ended.trouble
    if ended.code == 0:
        return None
    if ended.code != 130 and not is_late:
        return f"it ended with {ended.code}: {last_line(ended.err)}"
    return None if "stop" in ended.err or is_hasty else f"it does not say that it stopped: {ended.err[-200:]!r}"


def of_page(world: World) -> list[Trial]:
    return [Trial("faults", f"{way} to serve", partial(_stop_page, world, way)) for way in WAYS]


def _stop_page(world: World, way: str, folder: Path) -> str | None:
    page = Page(world, folder / "state.jsonl", folder)
    answer = page.ask("/api/act", CORRECTIONS[0])
    before = page.state()
    for number in WAYS[way]:
        page.child.signal(number)
    ended = page.child.wait(20)
    if ended.trouble or ended.code not in (0, 130) or answer is None or answer.status != 200:
        return f"it ended with {ended.code}: {ended.trouble or last_line(ended.err)}"
    again = Page(world, folder / "state.jsonl", folder, name="again")
    after = again.state()
    again.end()
    return None if before == after else "the state is another afterwards"


def of_real_commands(world: World, *, quick: bool) -> list[Trial]:
    """Processes of their own, from the first line of Python on: imports can be interrupted, and Python must end well."""
    folder = world.folder
    lines = {
        "train": [*map(str, world.train(folder / "x"))][:-1],
        "label": ["label", f"{folder}/labeled", f"{folder}/pool", "--encoder", f"{folder}/run", "--out"],
        "data prepare": ["data", "prepare", "glyphs"],
    }
    made = []
    for name, words in lines.items():
        for way in WAYS:
            for seconds in (1.0,) if quick else (0.3, 1.5, 4.0):
                attempt = partial(_stop_command, words, way, seconds)
                made.append(Trial("faults", f"{way} to a real {name} after {seconds} s", attempt))
    return made


def _stop_command(words: list[str], way: str, seconds: float, folder: Path) -> str | None:
    out = [] if words[0] == "data" else [str(folder / "out")]
    environment = os.environ | {"SALA_CACHE": str(folder / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-m", "sala", *words, *out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        time.sleep(seconds)
        for number in WAYS[way]:
            process.send_signal(number)
            time.sleep(0.05)
        said, err = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "no end after 90 s"
    if process.returncode == -signal.SIGTERM and not err.strip():
        return None  # before Python could be asked: the shell says it
    return how_it_stopped(Ended(process.returncode, said, err, 0), is_hasty=len(WAYS[way]) > 1)
