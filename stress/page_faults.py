"""The page of `sala serve` on a full disk, and while its state or its images are removed or replaced."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stress.children import last_line, one_sentence
from stress.page import CORRECTIONS, Page, correct, states_of_corrections
from stress.trials import Trial
from stress.world import World, copy
from stress.writes import Act, fail_from


def trials(world: World, folder: Path, rng: random.Random, *, quick: bool) -> list[Trial]:
    states = states_of_corrections(world, folder / "states")
    made = []
    for point in sorted(rng.sample(range(6, 24), 3 if quick else 12)):
        name = f"serve: ENOSPC at write {point} and the one after it"
        act = fail_from(point, errno.ENOSPC, 2)
        made.append(_trial(name, partial(_page_without_room, world, states, act)))
    for name, change in STATE_CHANGES.items():
        made.append(_trial(f"serve: the state is {name}", partial(_state_changed, world, states, change)))
    made.append(_trial("serve: images are removed and replaced", partial(_images_changed, world)))
    return made


def _page_without_room(world: World, states: list[dict[str, object]], act: Act, folder: Path) -> str | None:
    """A correction that could not be saved is tried again, and has happened once."""
    (folder / "w").mkdir()
    page = Page(world, folder / "w" / "state.jsonl", folder, act)
    if not page.port:
        return one_sentence(page.child.wait())
    n_saved = correct(page, n_tries=4)
    shown = page.state()
    page.end()
    if n_saved < len(CORRECTIONS) or shown != states[-1]:
        return f"{n_saved} of {len(CORRECTIONS)} corrections were saved, or the state is not of them"
    again = Page(world, folder / "w" / "state.jsonl", folder, name="again")
    shown = again.state()
    again.end()
    return None if shown == states[-1] else "the state on disk is another"


def _delete(state: Path) -> None:
    state.unlink()


def _empty(state: Path) -> None:
    os.truncate(state, 0)


def _cut(state: Path) -> None:
    os.truncate(state, state.stat().st_size - 5)


def _replace(state: Path) -> None:
    copy(state, state.with_name("other"))
    os.replace(state.with_name("other"), state)


def _folder(state: Path) -> None:
    state.unlink()
    state.mkdir()


STATE_CHANGES: dict[str, Callable[[Path], None]] = {
    "deleted": _delete,
    "emptied": _empty,
    "cut short": _cut,
    "replaced by a copy": _replace,
    "replaced by a folder": _folder,
}


def _state_changed(
    world: World, states: list[dict[str, object]], change: Callable[[Path], None], folder: Path
) -> str | None:
    """Whatever is acknowledged afterwards must be on disk; a second page on the same state is refused."""
    (folder / "w").mkdir()
    state = folder / "w" / "state.jsonl"
    page = Page(world, state, folder)
    for body in CORRECTIONS[:3]:
        page.ask("/api/act", body)
    change(state)
    answer = page.ask("/api/act", CORRECTIONS[3])
    was_saved = answer is not None and answer.status == 200
    second = Page(world, state, folder, name="second") if state.is_file() else None
    if second is not None and second.port:
        second.end()
        page.end()
        return "a second page took the same state"
    page.end()
    if "Traceback" in page.child.said("err"):
        return f"a traceback: {last_line(page.child.said('err'))}"
    if not was_saved:
        return None if answer is not None and b"error" in answer.body else "the page did not answer"
    again = Page(world, state, folder, name="again")
    shown = again.state() if again.port else None
    again.end()
    return None if shown == states[4] else "a correction was acknowledged, and is not on disk"


def _images_changed(world: World, folder: Path) -> str | None:
    """No file outside of the folders is shown, and the page goes on."""
    own = World(copy(world.folder, folder / "world"), world.seed)
    text = (own / "features.txt").read_text().replace(str(world.folder), str(own.folder))
    (own / "features.txt").write_text(text)
    page = Page(own, folder / "state.jsonl", folder)
    images = sorted((own / "pool").iterdir())
    images[0].unlink()
    images[1].write_bytes(b"no image")
    images[2].unlink()
    images[2].symlink_to("/etc/passwd")
    images[3].unlink()
    images[3].symlink_to(world / "pool" / images[3].name)
    images[4].unlink()
    os.mkfifo(images[4])
    answers = [page.ask(f"/{kind}/{6 + i}") for i in range(5) for kind in ("thumb", "image")]
    csv, zipped = page.ask("/download/labels.csv"), page.ask("/download/sorted.zip")
    still = page.ask("/api/act", CORRECTIONS[0])
    page.end()
    if any(answer is None or answer.status != 404 for answer in answers):
        return f"answers {[answer and answer.status for answer in answers]} for images that are gone or lead elsewhere"
    if "Traceback" in page.child.said("err"):
        return f"a traceback: {last_line(page.child.said('err'))}"
    if zipped is not None and b"root:" in zipped.body:
        return "a file from outside is in the download"
    return None if csv is not None and still is not None and still.status == 200 else "the page does not go on"


def _trial(name: str, attempt: Callable[[Path], str | None]) -> Trial:
    return Trial("faults", name, attempt)
