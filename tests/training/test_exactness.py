"""The same in, the same out: killed runs, truncated checkpoints."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sala.data import ImageStore
from sala.episodes.protocol import PROTOCOLS, Budget
from sala.errors import SalaError
from sala.training.checkpoint import load_checkpoint, save_checkpoint
from sala.training.config import RunConfig
from sala.training.run import Watch, resume_run, start_run

GLYPHS = PROTOCOLS["glyphs"]


def config(n_episodes: int = 12) -> RunConfig:
    return RunConfig("sala", GLYPHS, Budget(n_episodes, 4, 3), seed=3, threads=1)


def same_weights(a: Path, b: Path) -> bool:
    one, two = (load_checkpoint(run / "last.safetensors")[0] for run in (a, b))
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_the_same_seed_gives_the_same_weights(tmp_path: Path, glyphs: ImageStore) -> None:
    for name in ("a", "b"):
        start_run(tmp_path / name, config(8))
    start_run(tmp_path / "other", replace(config(8), seed=4))
    assert same_weights(tmp_path / "a", tmp_path / "b")
    assert not same_weights(tmp_path / "a", tmp_path / "other")


@pytest.mark.slow
def test_ten_kills_at_random_moments_change_nothing(tmp_path: Path, glyphs: ImageStore) -> None:
    """Real processes, real kill -9, saving after every episode so that each life gets somewhere."""
    code = (
        "import sys, sala.training.keeper; from sala.cli.app import main\n"
        "sala.training.keeper.SAVE_EVERY = 0.0; sys.argv[0] = 'sala'; main()"
    )
    command = [sys.executable, "-c", code, "train"]
    options = ["--dataset", "glyphs", "--episodes", "400", "--validate-every", "50", "--threads", "1", "--seed", "3"]
    subprocess.run([*command, *options, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    draw = random.Random(0)
    n_kills = 0
    words = [*options, "--out", str(tmp_path / "killed")]
    while n_kills < 10:
        process = subprocess.Popen([*command, *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        first = position(tmp_path / "killed")
        while process.poll() is None and position(tmp_path / "killed") <= first:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 1.0))
        process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            n_kills += 1
        words = ["--resume", str(tmp_path / "killed")]
        if position(tmp_path / "killed") >= 400:
            break
    assert n_kills >= 5
    subprocess.run([*command, *words], check=True, capture_output=True)
    assert same_weights(tmp_path / "whole", tmp_path / "killed")


def position(run: Path) -> int:
    """The episode of the last checkpoint, as far as it can be read while another process replaces it."""
    for name in ("last.safetensors", "previous.safetensors"):
        try:
            return int(load_checkpoint(run / name)[1]["episode"])
        except SalaError:
            continue
    return -1


def test_a_checkpoint_truncated_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    save_checkpoint(path, {"weight": torch.randn(3, 4), "bias": torch.randn(2)}, {"episode": 7})
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(SalaError, match="is damaged"):
            load_checkpoint(path)


@pytest.mark.parametrize("length", [0, 7, 300, -1])
def test_the_checkpoint_before_a_truncated_one_is_used(length: int, tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "whole", config())
    calls = iter(range(100))
    start_run(tmp_path / "run", config(), Watch(should_stop=lambda: next(calls) >= 10))
    last = tmp_path / "run" / "last.safetensors"
    last.write_bytes(last.read_bytes()[:length])
    said: list[str] = []
    resume_run(tmp_path / "run", Watch(on_warning=said.append))
    assert len(said) == 1
    assert "last.safetensors is damaged" in said[0]
    assert "The one before it is used: previous.safetensors" in said[0]
    assert same_weights(tmp_path / "whole", tmp_path / "run")


def test_two_damaged_checkpoints_are_an_error(tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "run", config())
    for name in ("last", "previous"):
        (tmp_path / "run" / f"{name}.safetensors").write_bytes(b"short")
    with pytest.raises(SalaError, match=r"previous.safetensors is damaged"):
        resume_run(tmp_path / "run", Watch(on_warning=lambda _: None))
