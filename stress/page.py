"""A client of the page: starts `sala serve` in a fork, asks it, and makes the same corrections each time."""

from __future__ import annotations

import http.client
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stress.asking import Answer, ask
from stress.children import Child, command
from stress.world import World
from stress.writes import Act, watch

OUTLIER, CLEAR = -2, -3
CORRECTIONS: tuple[dict[str, Any], ...] = (
    {"do": "label", "items": [7], "to": 0},
    {"do": "label", "items": [20, 21], "to": 1},
    {"do": "add", "name": "violet"},
    {"do": "label", "items": [9, 10], "to": 3},
    {"do": "rename", "class": 3, "name": "lilac"},
    {"do": "label", "items": [30], "to": OUTLIER},
    {"do": "undo"},
    {"do": "label", "items": [31], "to": OUTLIER},
    {"do": "label", "items": [7], "to": CLEAR},
)


class Page:
    """A running `sala serve`."""

    def __init__(
        self,
        world: World,
        state: Path,
        folder: Path,
        act: Act | None = None,
        name: str = "page",
        more: Sequence[object] = (),
    ):
        words = ["serve", *world.images, "--no-browser", "--port", "0", "--state", state, "--encoder"]
        call = command([*words, world / "features.npy", *more])
        self.token = ""
        self.child = Child(lambda: _serve(call, state.parent, act), folder, name)
        self.port = self._wait_for_port()

    def _wait_for_port(self) -> int:
        """0 if it ends before it listens."""
        for _ in range(6000):
            if found := re.search(r"http://\S+?:(\d+)/(?:\?token=(\S+))?", self.child.said()):
                self.token = found[2] or ""
                return int(found[1])
            if self.child.poll() is not None:
                return 0
            time.sleep(0.01)
        return 0

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str | None) -> Answer | None:
        """A request as the page makes it; None if there is no answer."""
        try:
            return ask(self.port, path, body, method, **headers)
        except (OSError, http.client.HTTPException):
            return None

    def state(self) -> dict[str, Any]:
        """What the page shows: not its times, nor what is of this run alone."""
        answer = self.ask("/api/state")
        if answer is None or answer.status != 200:
            raise RuntimeError(f"the page does not answer: {answer}, {self.child.said('err')[-300:]}")
        return {key: answer.json[key] for key in ("classes", "given", "label", "undo", "checked", "agreed")}

    def end(self) -> None:
        self.child.signal(signal.SIGTERM)
        self.child.wait(30)


def _serve(call: Callable[[], object], folder: Path, act: Act | None) -> None:
    if act is not None:
        watch(folder, act)
    call()


def correct(page: Page, first: int = 0, n_tries: int = 1) -> int:
    """Make the corrections from the `first` on, one after the other; how many are saved by then."""
    for k, body in enumerate(CORRECTIONS[first:], first):
        answers = []
        while len(answers) < n_tries and not (answers and answers[-1] is not None and answers[-1].status == 200):
            answers.append(page.ask("/api/act", body))
        if answers[-1] is None or answers[-1].status != 200:
            return k
        page.ask("/api/state")
    return len(CORRECTIONS)


def states_of_corrections(world: World, folder: Path) -> list[dict[str, Any]]:
    """What the page shows after none, one, two, ... of the corrections, undisturbed."""
    (folder / "w").mkdir(parents=True)
    page = Page(world, folder / "w" / "state.jsonl", folder)
    states = [page.state()]
    for body in CORRECTIONS:
        answer = page.ask("/api/act", body)
        if answer is None or answer.status != 200:
            raise RuntimeError(f"the undisturbed page refuses {body}: {answer}")
        states.append(page.state())
    page.end()
    return states


def kill_in(pid: int, seconds: float, folder: Path) -> Child:
    """A process that kills another one after a while."""

    def kill() -> None:
        time.sleep(seconds)
        os.kill(pid, 9)

    return Child(kill, folder, "killer")
