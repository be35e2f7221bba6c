"""Altered files for every reader: no exception but SalaError, an end within 10 seconds, and at most 500 MB.

A reader is a folder of good files and a function that reads a copy of it, as a command does. For each input one of the files
is altered by its number and the seed. Memory is the growth of the process over itself before the reading, with everything
imported: the peak of its resident set.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stress import mutations
from stress.children import Ended, last_line, run, status_of
from stress.trials import Trial
from stress.world import World

SECONDS, MEGABYTES = 10, 500
REFUSED, TRACEBACK, MEMORY = 1, 3, 4  # exit codes of a child that reads
Read = Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """`files` are those of the good `folder` that are altered; patterns."""

    name: str
    folder: Path
    files: tuple[str, ...]
    read: Read
    share: float = 1.0  # of the inputs

    def targets(self) -> list[Path]:
        found = {path for pattern in self.files for path in self.folder.glob(pattern)}
        return sorted(path.relative_to(self.folder) for path in found)


@dataclass(frozen=True)
class Input:
    """What is put in place of a file: bytes, or something special."""

    target: Path
    how: str
    content: bytes | None = None

    def place(self, folder: Path) -> None:
        path = folder / self.target
        path.unlink()
        if self.content is None:
            mutations.SPECIAL[self.how](path)
        else:
            path.write_bytes(self.content)


def make_input(reader: Reader, number: int, seed: int) -> Input:
    """The first inputs of each file are the special ones."""
    targets, special = reader.targets(), list(mutations.SPECIAL)
    if number < len(special) * len(targets):
        return Input(targets[number // len(special)], special[number % len(special)])
    rng = random.Random(f"{seed} {reader.name} {number}")
    target = rng.choice(targets)
    others = [(reader.folder / other).read_bytes() for other in targets if other.suffix == target.suffix]
    content = mutations.altered((reader.folder / target).read_bytes(), target.suffix, others, rng)
    return Input(target, "altered", content)


def problem_of(reader: Reader, given: Input, folder: Path) -> str | None:
    """Read a copy of the good folder with one file replaced, in a child."""
    copy = folder / "files"
    shutil.copytree(reader.folder, copy, symlinks=True)
    given.place(copy)
    ended = run(lambda: read_within_limits(reader.read, copy), folder, SECONDS + 5)
    if ended.code == -signal.SIGALRM or ended.timed_out:
        ended = run(lambda: read_within_limits(reader.read, copy), folder, SECONDS + 5)  # not by a busy machine
    return what_is_wrong(ended)


def what_is_wrong(ended: Ended) -> str | None:
    if ended.code in (0, REFUSED):
        return None
    if ended.code == -signal.SIGALRM or ended.timed_out:
        return f"no end within {SECONDS} s"
    if ended.code == MEMORY:
        return last_line(ended.err)
    if ended.code < 0:
        return f"it ended by {signal.Signals(-ended.code).name}"
    return f"a traceback: {last_line(ended.err)} {_place(ended.err)}"


def _place(err: str) -> str:
    """The last line of sala in a traceback."""
    ours = [line.strip() for line in err.splitlines() if "/sala/" in line and line.strip().startswith("File")]
    return f"({ours[-1].rpartition('/sala/')[2]})" if ours else ""


def read_within_limits(read: Read, folder: Path, megabytes: float | None = None) -> None:
    """In a child: the exit code says what came of it."""
    from sala.errors import SalaError

    warnings.simplefilter("ignore")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = status_of("VmRSS")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    code = 0
    try:
        read(folder)
    except SalaError as error:
        code = REFUSED if _is_sentence(str(error)) else TRACEBACK
        print(f"not one sentence: {error!r}"[:300], file=sys.stderr)
    except OSError as error:
        code = REFUSED if error.errno and error.filename else TRACEBACK  # the command makes a sentence of it
        traceback.print_exc()
    except BaseException:
        traceback.print_exc()
        code = TRACEBACK
    grown = (status_of("VmHWM") - before) / 1000
    if grown > (megabytes or MEGABYTES):
        print(f"{grown:,.0f} MB", file=sys.stderr)
        code = MEMORY
    sys.exit(code)


def _is_sentence(text: str) -> bool:
    return 0 < len(text) < 4000 and "Traceback" not in text


def trials(world: World, folder: Path, *, quick: bool, n_inputs: int = 5_000, keep: Path | None = None) -> list[Trial]:
    """`n_inputs` over all readers by their shares; those that fail are kept, with the command that tries one again."""
    readers = all_readers(world, folder)
    n_inputs = n_inputs // 8 if quick else n_inputs
    whole = sum(reader.share for reader in readers)
    made = []
    for reader in readers:
        n = max(20, round(n_inputs * reader.share / whole))
        made += [_trial(reader, number, world.seed, keep) for number in range(n)]
    random.Random(world.seed).shuffle(made)  # slow readers do not wait for each other
    return made


def all_readers(world: World, folder: Path) -> list[Reader]:
    from stress import reading, reading_labels

    made = [*reading.of_images(folder), *reading.of_datasets(world, folder), *reading.of_runs(world, folder)]
    return [*made, *reading_labels.of_encoders(world, folder), *reading_labels.of_labels(world, folder)]


def _trial(reader: Reader, number: int, seed: int, keep: Path | None) -> Trial:
    again = f"python -m stress --reader {reader.name} --input {number} --seed {seed}"

    def attempt(folder: Path) -> str | None:
        given = make_input(reader, number, seed)
        problem = problem_of(reader, given, folder)
        if problem is not None and keep is not None:
            _keep(given, problem, again, keep / f"{reader.name}-{number}")
        return None if problem is None else f"{given.target} {given.how}: {problem}"

    return Trial(f"files: {reader.name}", f"{reader.name} {number}", attempt, again)


def _keep(given: Input, problem: str, again: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "about.txt").write_text(f"{given.target} ({given.how}): {problem}\n{again}\n")
    if given.content is not None:
        (folder / given.target.name).write_bytes(given.content)


def again(world: World, folder: Path, name: str, number: int) -> str | None:
    """Try one input again, with its traceback on stderr."""
    reader = next(r for r in all_readers(world, folder / "good") if r.name == name)
    own = folder / "again"
    own.mkdir()
    problem = problem_of(reader, make_input(reader, number, world.seed), own)
    print((own / "child.err").read_text(), file=sys.stderr)
    return problem
