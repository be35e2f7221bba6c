"""A training that is killed at any of its first writes can be begun again in its folder, and ends as if nothing had been."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sala.atomic import partial_file, remove_stale
from sala.episodes.protocol import PROTOCOLS, Budget
from sala.errors import SalaError
from sala.training.config import RunConfig
from sala.training.run import resume_run, start_run
from tests.helpers.painted import invoke
from tests.helpers.trees import gray

# One process forks a child a trial: the child trains, and ends without a word at its n-th write.
TRIALS = """
    import builtins, json, os, sys
    from dataclasses import replace
    from pathlib import Path
    import torch
    from sala.episodes.protocol import PROTOCOLS
    from sala.training.config import RunConfig
    from sala.training.run import resume_run, start_run

    torch.set_num_threads(1)
    protocol = PROTOCOLS["glyphs"]
    budget = replace(protocol.budget("cpu", 4), validate_every=2, n_validation_episodes=2)
    config = RunConfig("protonet", protocol, budget, threads=1)
    config.open_store()
    folder = Path(sys.argv[1])

    def dies_at(n):
        left = n
        def counted(function):
            def call(*words, **more):
                nonlocal left
                left -= 1
                if left == 0:
                    os._exit(9)
                return function(*words, **more)
            return call
        for name in ("replace", "fsync", "link", "unlink", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        builtins.open = counted(builtins.open)

    def weights(run):
        return (run / "last.safetensors").read_bytes()

    start_run(folder / "whole", config)
    told = {}
    for n in range(1, 60):
        run = folder / str(n)
        if (child := os.fork()) == 0:
            dies_at(n)
            start_run(run, config)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        is_begun = (run / "last.safetensors").is_file() or (run / "previous.safetensors").is_file()
        (resume_run if is_begun else lambda r: start_run(r, config))(run)
        left = [p.name for p in run.iterdir() if p.name.endswith(".partial")]
        told[n] = [died, is_begun, weights(run) == weights(folder / "whole"), left]
        if not died:
            break
    print(json.dumps(told))
"""


@pytest.mark.slow
def test_a_kill_at_any_write_loses_nothing(tmp_path: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TRIALS), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert not ran.returncode, ran.stderr
    trials = json.loads(ran.stdout)
    assert sum(died for died, *_ in trials.values()) > 20  # of them some before, some after the first checkpoint
    assert {is_begun for _, is_begun, *_ in trials.values()} == {True, False}
    assert all(is_same and not left for *_, is_same, left in trials.values()), trials


def config() -> RunConfig:
    return RunConfig("protonet", PROTOCOLS["glyphs"], Budget(1, 1, 2))


def test_a_run_without_a_checkpoint_is_resumed_from_its_beginning(tmp_path: Path) -> None:
    run = tmp_path / "run"
    start_run(run, config())
    (run / "last.safetensors").unlink()
    (run / "previous.safetensors").unlink(missing_ok=True)
    assert resume_run(run).episode == 1


@pytest.mark.parametrize("name", ["config.json", "notes.txt", "photo.partial.jpg"])
def test_a_folder_with_files_that_are_not_a_runs_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(SalaError, match="not empty"):
        start_run(tmp_path, config())
    assert (tmp_path / name).read_text() == "{}"


def test_partial_files_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    gone, alive, other = (
        tmp_path / name for name in (".a.4194304.partial", f".a.{os.getppid()}.partial", ".a.partial")
    )
    for path in (gone, alive, other):
        path.touch()
    remove_stale(tmp_path)
    assert [path.exists() for path in (gone, alive, other)] == [False, True, True]
    with partial_file(tmp_path / "b") as place:
        place.touch()
    assert not place.exists()


def test_a_run_goes_on_where_its_data_is_now(tmp_path: Path) -> None:
    for label in "abcdefghijklmnop":
        (tmp_path / "data" / label).mkdir(parents=True)
        for i in range(60):
            (tmp_path / "data" / label / f"{i}.png").write_bytes(gray(i, size=(16, 16)))
    words = ["--dataset", "folder", "--method", "protonet", "--image-size", "16", "--episodes", "2", "--ways", "2"]
    words += ["--root", str(tmp_path / "data"), "--out", str(tmp_path / "run"), "--validate-every", "1"]
    begun = invoke("train", *words)
    assert not begun.exception, begun.output
    (tmp_path / "data").rename(tmp_path / "moved")
    further = ["train", "--resume", tmp_path / "run", "--episodes", "3"]
    assert isinstance(invoke(*further).exception, SalaError)
    resumed = invoke(*further, "--root", tmp_path / "moved")
    assert not resumed.exception and "after episode 2 of 3" in resumed.stderr
