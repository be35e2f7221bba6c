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

from stress import page_faults, signals, together
from stress.children import Ended, command, last_line, one_sentence, run, sala
from stress.kills import Work, chosen_points, difference, label, point_of, problem_after, train, undisturbed
from stress.mounts import disk, make_read_only, make_roomy
from stress.trials import Trial
from stress.world import World, copy
from stress.writes import Act, do_at, fail_from

SIZES = ("16k", "200k", "700k", "2m")  # of a disk that is too small, for a run of 3 MB and labels of 1 MB


def trials(world: World, folder: Path, *, quick: bool) -> list[Trial]:
    rng = random.Random(f"faults {world.seed}")
    works = {work.name: (work, undisturbed(work, folder / work.name)) for work in (train(world), label(world))}
    made = []
    for work, reference in works.values():
        made += _no_room_at_writes(work, reference, rng, 4 if quick else 15)
        made += _small_disks(work, reference, SIZES[1::2] if quick else SIZES)
        made += _vanishing(work, reference, rng, 2 if quick else 5)
        made.append(_trial(f"{work.name} to a read-only folder", partial(_read_only_out, work, reference)))
        made.append(_trial(f"{work.name} with a read-only cache", partial(_read_only_cache, work, reference)))
        made.append(_trial(f"{work.name} as a user without rights", partial(_without_rights, work)))
        made += together.two_at_once(work, reference)
        made += signals.trials(work, reference, rng, quick=quick)
    made += page_faults.trials(world, folder, rng, quick=quick)
    made += signals.of_page(world) + signals.of_real_commands(world, quick=quick)
    made.append(_trial("evaluate a run in a read-only folder", partial(_evaluate_read_only, world)))
    made.append(_trial("two pages on one state", partial(together.two_pages, world)))
    return made


def _trial(name: str, attempt: Callable[[Path], str | None]) -> Trial:
    return Trial("faults", name, attempt)


def harmed(work: Work, folder: Path, ended: Ended, reference: Path) -> str | None:
    """After a fault: an end with a sentence, or with success; and then the work, done again, is whole."""
    problem = None if ended.code == 0 and not ended.trouble else one_sentence(ended)
    if problem is not None:
        return problem
    return problem_after(work, folder, reference)


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
