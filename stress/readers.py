"""Altered files for every reader: no exception but SalaError, an end within 10 seconds, and at most 500 MB.

A reader is a folder of good files and a function that reads a copy of it, as a command does. For each input one of the files
is altered by its number and the seed. Memory is the growth of the process over itself before the reading, with everything
imported: the peak of its resident set.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stress import mutations
from stress.children import Ended, last_line, run, status_of
from stress.trials import Trial
from stress.world import World

SECONDS, MEGABYTES = 10, 500
BATCH = 10  # inputs that one child reads: a fork takes longer than most of them
TOO_LONG = "no end within 10 s"
Read = Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """`files` are those of the good `folder` that are altered; patterns."""

    name: str
    folder: Path
    files: tuple[str, ...]
    read: Read
    share: float = 1.0  # of the inputs
    is_ours: bool = False  # made by sala in its cache, where nobody else puts devices

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
    targets = reader.targets()
    special = [how for how in mutations.SPECIAL if not (reader.is_ours and how in ("a device", "a pipe"))]
    if number < len(special) * len(targets):
        return Input(targets[number // len(special)], special[number % len(special)])
    rng = random.Random(f"{seed} {reader.name} {number}")
    target = rng.choice(targets)
    others = [(reader.folder / other).read_bytes() for other in targets if other.suffix == target.suffix]
    content = mutations.altered((reader.folder / target).read_bytes(), target.suffix, others, rng)
    return Input(target, "altered", content)


def problems_of(reader: Reader, inputs: Sequence[Input], folder: Path) -> list[str | None]:
    """Read a copy of the good folder for each input, with one file replaced; all in one child, as long as that lives."""
    problems: dict[int, str | None] = {}
    left = dict(enumerate(inputs))
    while left:
        own = Path(tempfile.mkdtemp(dir=folder))
        ended = run(partial(_read_all, reader, left, own), own, (SECONDS + 5) * len(left))
        problems |= _written(own)
        left = {i: given for i, given in left.items() if i not in problems}
        if left and ended.code != 0:  # the child ended by what it read last
            i = min(left)
            given = left.pop(i)
            problems[i] = what_ended(ended)
            if problems[i] == TOO_LONG and len(inputs) > 1:  # once more, alone: it may have been the machine
                problems[i] = problems_of(reader, [given], folder)[0]
    return [problems[i] for i in range(len(inputs))]


def _read_all(reader: Reader, inputs: dict[int, Input], own: Path) -> None:
    """In a child: a line for each input that was read. One that has left the child large is the last."""
    before = status_of("VmRSS")
    for i, given in inputs.items():
        files = own / str(i) / "files"
        shutil.copytree(reader.folder, files, symlinks=True)
        given.place(files)
        _write(own, i, problem_in_reading(reader.read, files))
        shutil.rmtree(own / str(i), ignore_errors=True)
        if status_of("VmRSS") - before > 100_000:
            return


def problem_in_child(read: Read, files: Path, folder: Path, megabytes: float | None = None) -> str | None:
    """What is wrong with one reading, in a child of its own. One that takes too long is tried twice, as in `problems_of`."""
    for _ in range(2):
        ended = run(lambda: _write(folder, 0, problem_in_reading(read, files, megabytes)), folder, SECONDS + 5)
        found = _written(folder)
        problem = found[0] if 0 in found else what_ended(ended)
        if problem != TOO_LONG:
            break
    return problem


def _write(folder: Path, number: int, problem: str | None) -> None:
    with (folder / "problems.jsonl").open("a") as file:
        file.write(json.dumps([number, problem]) + "\n")


def _written(folder: Path) -> dict[int, str | None]:
    path = folder / "problems.jsonl"
    return dict(json.loads(line) for line in path.read_text().splitlines()) if path.exists() else {}


def what_ended(ended: Ended) -> str:
    """For a child that did not come to the end of its reading."""
    if ended.code == -signal.SIGALRM or ended.timed_out:
        return TOO_LONG
    if ended.code < 0:
        return f"it ended by {signal.Signals(-ended.code).name}"
    return f"it ended with {ended.code}: {last_line(ended.err)}"


def problem_in_reading(read: Read, files: Path, megabytes: float | None = None) -> str | None:
    """In a child, which SIGALRM ends when the time is over."""
    warnings.simplefilter("ignore")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = status_of("VmRSS")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    problem = _raised(read, files)
    signal.setitimer(signal.ITIMER_REAL, 0)
    grown = (status_of("VmHWM") - before) / 1000
    return f"{grown:,.0f} MB" if grown > (megabytes or MEGABYTES) else problem


def _raised(read: Read, files: Path) -> str | None:
    """What came out that is no sentence. An OSError that names its file is made one by the command."""
    from sala.errors import SalaError

    try:
        read(files)
    except SalaError as error:
        return None if str(error) else "an error without a sentence"
    except BaseException as error:
        if isinstance(error, OSError) and error.errno and error.filename:
            return None
        traceback.print_exc()
        return f"a traceback: {type(error).__name__}: {str(error)[:200]} {_place(error)}"
    return None


def _place(error: BaseException) -> str:
    """The last line of sala in a traceback."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/sala/" in frame.filename]
    return f"({ours[-1].filename.rpartition('/sala/')[2]}, line {ours[-1].lineno})" if ours else ""


def trials(world: World, folder: Path, *, quick: bool, n_inputs: int = 5_000, keep: Path | None = None) -> list[Trial]:
    """`n_inputs` over all readers by their shares; those that fail are kept, with the command that tries one again."""
    readers = all_readers(world, folder)
    n_inputs = n_inputs // 8 if quick else n_inputs
    whole = sum(reader.share for reader in readers)
    made = []
    for reader in readers:
        numbers = range(max(20, round(n_inputs * reader.share / whole)))
        made += [_trial(reader, numbers[i : i + BATCH], world.seed, keep) for i in range(0, len(numbers), BATCH)]
    random.Random(world.seed).shuffle(made)  # slow readers do not wait for each other
    return made


def all_readers(world: World, folder: Path) -> list[Reader]:
    from stress import reading, reading_labels

    made = [*reading.of_images(folder), *reading.of_datasets(world, folder), *reading.of_runs(world, folder)]
    return [*made, *reading_labels.of_encoders(world, folder), *reading_labels.of_labels(world, folder)]


def _trial(reader: Reader, numbers: Sequence[int], seed: int, keep: Path | None) -> Trial:
    """A batch of inputs, each with an outcome of its own."""

    def attempt(folder: Path) -> dict[str, str | None]:
        inputs = [make_input(reader, number, seed) for number in numbers]
        found: dict[str, str | None] = {}
        for number, given, problem in zip(numbers, inputs, problems_of(reader, inputs, folder), strict=True):
            if problem is not None and keep is not None:
                _keep(given, problem, again_words(reader.name, number, seed), keep / f"{reader.name}-{number}")
            found[f"{reader.name} {number}"] = None if problem is None else f"{given.target} {given.how}: {problem}"
        return found

    names = tuple(f"{reader.name} {number}" for number in numbers)
    return Trial(f"files: {reader.name}", names[0], attempt, again_words("{0}", "{1}", seed), names)


def again_words(name: str, number: int | str, seed: int) -> str:
    return f"python -m stress --reader {name} --input {number} --seed {seed}"


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
    (problem,) = problems_of(reader, [make_input(reader, number, world.seed)], own)
    for said in own.glob("*/child.err"):
        print(said.read_text(), file=sys.stderr)
    return problem
