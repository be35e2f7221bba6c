"""`python -m stress --seed 0 --minutes 15 --out stress/here.json`: everything that is tried, within that time."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stress import commands, faults, kills, large, naming, readers, report, requests
from stress.mounts import unmount_below
from stress.trials import Outcome, Trial, run_trials
from stress.warm import warm_up
from stress.world import World, make_world

KEPT = Path("stress/failed")
Make = Callable[..., list[Trial]]
# each kind with its share of the time that is left when it begins
KINDS: dict[str, tuple[Make, float]] = {
    "commands": (commands.trials, 0.2),
    "requests": (requests.trials, 0.2),
    "faults": (faults.trials, 0.3),
    "kills": (kills.trials, 0.45),
    "large": (large.trials, 0.3),
    "names": (naming.trials, 0.2),
    "files": (partial(readers.trials, keep=KEPT), 1.0),
}


def main() -> int:
    asked = _asked()
    begun = time.monotonic()
    warm_up()
    with tempfile.TemporaryDirectory(prefix="sala-stress-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # one trial is done as another user
        world = make_world(Path(name) / "world", asked.seed)
        if asked.reader:
            return _again(world, Path(name), asked.reader, asked.input)
        shutil.rmtree(KEPT, ignore_errors=True)
        deadline = begun + 60 * (min(asked.minutes, 3.0) if asked.quick else asked.minutes)
        try:
            outcomes = _try_all(world, Path(name), asked.only or list(KINDS), deadline, quick=asked.quick)
        finally:
            unmount_below(Path(name))
    report.tell(outcomes)
    if asked.out:
        report.write(asked.out, report.to_json(outcomes, asked.seed, time.monotonic() - begun))
    return 1 if report.unexpected(outcomes) else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m stress", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--only", action="append", choices=list(KINDS), help="this kind alone; repeatable")
    parser.add_argument("--quick", action="store_true", help="a part of everything, in about three minutes")
    parser.add_argument("--out", type=Path, help="write a JSON file with the figures")
    parser.add_argument("--reader", help="try one input of a reader again, with its traceback")
    parser.add_argument("--input", type=int, default=0)
    return parser.parse_args()


def _try_all(world: World, folder: Path, kinds: list[str], deadline: float, *, quick: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for kind in [kind for kind in KINDS if kind in kinds]:
        make, share = KINDS[kind]
        own = 1.0 if kind == kinds[-1] else share
        until = time.monotonic() + own * (deadline - time.monotonic())
        trials = make(world, folder / kind, quick=quick)
        print(f"{kind}: {len(trials):,} trials, at most {until - time.monotonic():.0f} s", file=sys.stderr)
        outcomes += run_trials(trials, folder / f"{kind}-lanes", until)
    return outcomes


def _again(world: World, folder: Path, reader: str, number: int) -> int:
    problem = readers.again(world, folder, reader, number)
    print(problem or "nothing is wrong with it")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
