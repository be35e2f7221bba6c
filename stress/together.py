"""Two processes in one place."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from stress.children import last_line
from stress.kills import Work, difference
from stress.page import CORRECTIONS, Page
from stress.trials import Trial
from stress.world import World


def two_at_once(work: Work, reference: Path) -> list[Trial]:
    delays = (0.0, 0.1, 0.3)
    return [Trial("faults", f"two of {work.name}, {d} s apart", partial(_two, work, reference, d)) for d in delays]


def _two(work: Work, reference: Path, delay: float, folder: Path) -> str | None:
    """Both end well, or the one that is refused says so in a sentence; the result is whole."""
    first = work.start(folder, None, "first")
    time.sleep(delay)
    second = work.start(folder, None, "second")
    ended = [first.wait(), second.wait()]
    for one in ended:
        if one.trouble:
            return one.trouble
        if one.code not in (0, 1) or (one.code == 1 and one.err.count("error: ") != 1):
            return f"it ended with {one.code}: {last_line(one.err)}"
    if all(one.code for one in ended):
        return f"both were refused: {last_line(ended[0].err)}"
    # a model may differ in the last bits: what one embeds alone, the other has in a batch
    same = replace(work, results=tuple(name for name in work.results if not name.startswith("out/model")))
    return difference(same, folder / "w", reference / "w")


def two_pages(world: World, folder: Path) -> str | None:
    state = folder / "state.jsonl"
    first = Page(world, state, folder)
    second = Page(world, state, folder, name="second")
    answer = first.ask("/api/act", CORRECTIONS[0])
    first.end()
    if second.port:
        second.end()
        return "a second page took the same state"
    ended = second.child.wait()
    if ended.trouble or ended.code != 1 or ended.err.count("error: ") != 1:
        return f"the second ended with {ended.code}: {last_line(ended.err)}"
    return None if answer is not None and answer.status == 200 else "the first was disturbed"
