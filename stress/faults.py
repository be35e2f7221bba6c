"""Full disks, read-only folders, files that vanish or change, two processes in one place, and signals.

Each must end in one sentence (or not be harmed at all), leave nothing broken, and let the work go on when the fault is gone.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stress import signals, together
from stress.children import Ended, last_line, run
from stress.kills import Work, chosen_points, difference, go_on, label, point_of, train, undisturbed
from stress.mounts import disk, make_read_only, make_roomy
from stress.page import CORRECTIONS, Page, correct, states_of_corrections
from stress.trials import Trial
from stress.world import World, copy
from stress.writes import Act, do_at, fail_from

SIZES = ("16k", "200k", "700k", "2m")  # of a disk that is too small, for a run of 3 MB and labels of 1 MB


def trials(world: World, folder: Path, *, quick: bool) -> list[Trial]:
    rng = random.Random(f"faults {world.seed}")
    works = {work.name: (work, undisturbed(work, folder / work.name)) for work in (train(world), label(world))}
    made = []
    for work, reference in works.values():
        made += _no_room_at_writes(work, reference, rng, 4 if quick else 25)
        made += _small_disks(work, reference, SIZES[1::2] if quick else SIZES)
        made += _vanishing(work, reference, rng, 2 if quick else 10)
        made.append(_trial(f"{work.name} to a read-only folder", partial(_read_only_out, work, reference)))
        made.append(_trial(f"{work.name} with a read-only cache", partial(_read_only_cache, work, reference)))
        made.append(_trial(f"{work.name} as a user without rights", partial(_without_rights, work)))
        made += together.two_at_once(work, reference)
        made += signals.trials(work, reference, rng, quick=quick)
    made += _of_page(world, states_of_corrections(world, folder / "states"), rng, quick=quick)
    made += signals.of_page(world) + signals.of_real_commands(world, quick=quick)
    made.append(_trial("evaluate a run in a read-only folder", partial(_evaluate_read_only, world)))
    made.append(_trial("two pages on one state", partial(together.two_pages, world)))
    return made


def _trial(name: str, attempt: Callable[[Path], str | None]) -> Trial:
    return Trial("faults", name, attempt)


def one_sentence(ended: Ended, codes: tuple[int, ...] = (1,)) -> str | None:
    """What is wrong with the end of a command that could not do its work."""
    if ended.trouble:
        return ended.trouble
    if ended.code not in codes:
        return f"it ended with {ended.code}: {last_line(ended.err)}"
    sentences = [line for line in ended.err.splitlines() if line.startswith(("error: ", "stopped"))]
    return None if len(sentences) == 1 else f"not one sentence: {ended.err[-200:]!r}"


def harmed(work: Work, folder: Path, ended: Ended, reference: Path) -> str | None:
    """After a fault: an end with a sentence, or with success; and then the work, done again, is whole."""
    problem = None if ended.code == 0 and not ended.trouble else one_sentence(ended)
    if problem is not None:
        return problem
    again = go_on(work, folder)
    if again.trouble or again.code != 0:
        return f"it cannot go on: {again.trouble or last_line(again.err)}"
    return difference(work, folder / "w", reference / "w")


# no room


def _no_room_at_writes(work: Work, reference: Path, rng: random.Random, n: int) -> list[Trial]:
    points = [point for point, torn in chosen_points(reference / "points.txt") if not torn]
    made = []
    for point in sorted(rng.sample(points, min(n, len(points)))):
        what, path = point_of(reference, point)
        for number, is_short in ((errno.ENOSPC, False), (errno.EIO, True)):
            act = fail_from(point, number, 1 if is_short else 10**9)
            name = (
                f"{work.name}: {errno.errorcode[number]} {'at' if is_short else 'from'} write {point} ({what} {path})"
            )
            made.append(_trial(name, partial(_fail_at_write, work, reference, act)))
    return made


def _fail_at_write(work: Work, reference: Path, act: Act, folder: Path) -> str | None:
    return harmed(work, folder, work.start(folder, act).wait(), reference)


def _small_disks(work: Work, reference: Path, sizes: tuple[str, ...]) -> list[Trial]:
    return [_trial(f"{work.name} on a disk of {size}", partial(_small_disk, work, reference, size)) for size in sizes]


def _small_disk(work: Work, reference: Path, size: str, folder: Path) -> str | None:
    with disk(folder / "w", size) as is_real:
        if not is_real:
            return _fail_at_write(work, reference, fail_from(3, errno.ENOSPC), folder)
        ended = work.start(folder, None).wait()
        problem = None if ended.code == 0 else one_sentence(ended)
        if problem is None and ended.code == 1 and str(folder / "w") not in ended.err:
            problem = f"a full disk names no place: {last_line(ended.err)}"
        make_roomy(folder / "w")
        return problem or harmed(work, folder, ended, reference)


# what may not be written


def _read_only_out(work: Work, reference: Path, folder: Path) -> str | None:
    with disk(folder / "w", "20m") as is_real:
        if is_real:
            make_read_only(folder / "w")
        act = None if is_real else fail_from(1, errno.EROFS)
        return one_sentence(work.start(folder, act).wait())


def _read_only_cache(work: Work, reference: Path, folder: Path) -> str | None:
    """A training needs its data there, and says so; labels do without."""
    with disk(folder / "w" / "cache", "20m") as is_real:
        if not is_real:
            return None
        make_read_only(folder / "w" / "cache")
        ended = work.start(folder, None).wait()
        if work.name == "label" and ended.code == 0 and "SALA_CACHE" in ended.err:
            return None if not ended.trouble else ended.trouble
        return one_sentence(ended)


def _without_rights(work: Work, folder: Path) -> str | None:
    """As nobody, in a folder of root's."""
    if os.geteuid() != 0:
        return None
    (folder / "w").mkdir()

    def call() -> None:
        os.environ["SALA_CACHE"] = str(folder / "w" / "cache")
        os.environ["HOME"] = "/nonexistent"
        os.setgid(65534)
        os.setuid(65534)
        from stress.children import command

        command(work.words(folder / "w"))()

    for path in (folder, *folder.parents[:3]):
        path.chmod(0o755)
    return one_sentence(run(call, folder))


def _evaluate_read_only(world: World, folder: Path) -> str | None:
    """Someone else's run is measured, and not written to."""
    with disk(folder / "disk", "20m") as is_real:
        if not is_real:
            return None
        copy(world.run, folder / "disk" / "run")
        shutil.rmtree(folder / "disk" / "run" / "results")
        make_read_only(folder / "disk")
        from stress.children import sala

        ended = sala(["evaluate", folder / "disk" / "run", "--episodes", "3"], folder)
        return None if ended.code == 0 and "%" in ended.out else f"it ended with {ended.code}: {last_line(ended.err)}"


# what vanishes or changes under way


def _vanishing(work: Work, reference: Path, rng: random.Random, n: int) -> list[Trial]:
    points = [point for point, torn in chosen_points(reference / "points.txt") if not torn]
    made = []
    for point in sorted(rng.sample(points, min(n, len(points)))):
        for name, change in CHANGES.items():
            title = f"{work.name}: {name} before write {point}"
            made.append(_trial(title, partial(_change_at_write, work, reference, point, change)))
    return made


def _remove_all(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path, ignore_errors=True)


def _remove_files(folder: Path) -> None:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.unlink()


def _put_folders(folder: Path) -> None:
    """A folder in place of each file."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.unlink()
        path.mkdir()


CHANGES: dict[str, Callable[[Path], None]] = {
    "everything is removed": _remove_all,
    "all files are removed": _remove_files,
    "folders take the place of files": _put_folders,
}


def _change_at_write(
    work: Work, reference: Path, point: int, change: Callable[[Path], None], folder: Path
) -> str | None:
    """Whatever is in the folder is gone: the command ends with a sentence or with success, and works in a new folder."""
    ended = work.start(folder, do_at(point, partial(change, folder / "w"))).wait()
    problem = None if ended.code == 0 and not ended.trouble else one_sentence(ended)
    if problem is not None:
        return problem
    shutil.rmtree(folder / "w")
    again = work.start(folder, None, "again").wait()
    if again.code != 0:
        return f"it cannot begin anew: {last_line(again.err)}"
    return difference(work, folder / "w", reference / "w")


# the page


def _of_page(world: World, states: list[dict[str, object]], rng: random.Random, *, quick: bool) -> list[Trial]:
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
