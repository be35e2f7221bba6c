"""Several episodes a step, in one process and in several real ones under torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from sala.data import ImageStore
from sala.episodes.protocol import PROTOCOLS, Budget
from sala.episodes.sampler import EpisodeSampler
from sala.errors import SalaError
from sala.methods import METHODS, Method, build_method
from sala.nn.backbones import build_backbone
from sala.nn.distributed import Ranks
from sala.training.checkpoint import load_checkpoint
from sala.training.config import RunConfig, read_config
from sala.training.loop import TrainConfig, TrainState, gradients, train
from sala.training.run import start_run

GLYPHS = PROTOCOLS["glyphs"]


def fresh(name: str, glyphs: ImageStore) -> tuple[Method, EpisodeSampler]:
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", glyphs.image_shape)).train()
    return method, EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=GLYPHS.labeled_share)


@pytest.mark.parametrize("name", ["sala", "protonet", "metagan"])
def test_the_gradient_of_a_step_is_the_mean_over_its_episodes(name: str, glyphs: ImageStore) -> None:
    config = TrainConfig(n_episodes=10)
    method, sampler = fresh(name, glyphs)
    episodes = [(i, sampler.episode(i, with_unlabeled=method.trains_on_unlabeled)) for i in range(3)]
    player = method.players[0]
    start = {key: value.clone() for key, value in method.state_dict().items()}
    alone = []
    for i, episode in episodes:
        method.load_state_dict(start)
        loss = gradients(method, player, [(i, episode)], 1.0, config)
        found = [p.grad.clone() for p in method.parameters_of(player)]
        statistics = {key: value.clone() for key, value in method.named_buffers()}
        alone.append((loss, found, statistics))
    method.load_state_dict(start)
    loss = gradients(method, player, episodes, 1 / 3, config)
    assert loss == pytest.approx(sum(part[0] for part in alone) / 3)
    names = {id(p): name for name, p in method.named_parameters()}
    for k, parameter in enumerate(method.parameters_of(player)):
        if names[id(parameter)].endswith("conv.bias"):  # has no influence: its gradient is rounding
            continue
        assert_close(parameter.grad, sum(part[1][k] for part in alone) / 3, rtol=1e-3, atol=1e-4)
    for key, buffer in method.named_buffers():
        if buffer.is_floating_point():
            assert_close(buffer, sum(part[2][key] for part in alone) / 3, rtol=1e-5, atol=1e-6)


def test_episodes_are_counted_however_many_make_a_step(glyphs: ImageStore) -> None:
    method, sampler = fresh("protonet", glyphs)
    seen: list[int] = []
    records: list[int] = []
    config = TrainConfig(n_episodes=10, validate_every=5, episodes_per_step=4)
    state = train(
        method, sampler, config,
        on_episode=lambda s, _: seen.append(s.episode), on_record=lambda s, _: records.append(s.episode),
    )  # fmt: skip
    assert (seen, records, state.episode) == ([4, 8, 10], [8, 10], 10)


def test_each_process_takes_its_episodes() -> None:
    shares = [Ranks(rank, 3).share(range(4, 11), first=4) for rank in range(3)]
    assert [[i for i, _ in share] for share in shares] == [[6, 9], [4, 7, 10], [5, 8]]


def test_more_processes_than_episodes_a_step_are_refused(tmp_path: Path, glyphs: ImageStore) -> None:
    config = RunConfig("protonet", GLYPHS, Budget(4, 2, 2), episodes_per_step=2)
    with pytest.raises(SalaError, match="3 processes, and a step of this run has 2 episodes"):
        start_run(tmp_path / "run", config, ranks=Ranks(0, 3))


OPTIONS = ["--dataset", "glyphs", "--validate-every", "6", "--threads", "1", "--seed", "3"]


def sala(*words: str) -> list[str]:
    return [sys.executable, "-m", "sala", *words]


def torchrun(n: int, *words: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={n}",
        "-m",
        "sala",
        *words,
    ]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sala", "metagan"])
def test_two_processes_train_as_one_with_two_episodes_a_step(method: str, tmp_path: Path, glyphs: ImageStore) -> None:
    options = ["train", "--method", method, *OPTIONS, "--episodes", "13"]
    one = run(sala(*options, "--episodes-per-step", "2", "--out", str(tmp_path / "one")))
    two = run(torchrun(2, *options, "--out", str(tmp_path / "two")))
    assert one.returncode == 0, one.stderr
    assert two.returncode == 0, two.stderr
    assert two.stdout.strip() == str(tmp_path / "two")  # said once
    assert read_config(tmp_path / "two").episodes_per_step == 2
    compare_runs(tmp_path / "one", tmp_path / "two")


def compare_runs(a: Path, b: Path) -> None:
    """The same weights and statistics to float tolerance. Biases before a batch norm have no influence, and their gradient is
    rounding noise, which Adam turns into steps: they are held out."""
    (one, note), (two, other) = (load_checkpoint(run / "last.safetensors") for run in (a, b))
    assert note["episode"] == other["episode"]
    for name, tensor in one.items():
        if not name.startswith("optimizer.") and not name.endswith("conv.bias") and "running_mean" not in name:
            assert_close(tensor, two[name], rtol=1e-2, atol=2e-3, msg=lambda text, name=name: f"{name}: {text}")
    losses = [[json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()] for run in (a, b)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


@pytest.mark.slow
def test_a_process_without_an_episode_in_the_last_step_goes_along(tmp_path: Path, glyphs: ImageStore) -> None:
    """Three processes and seven episodes: in the third step there is one episode. MetaGAN writes notes, too."""
    options = ["train", "--method", "metagan", *OPTIONS, "--episodes", "7"]
    one = run(sala(*options, "--episodes-per-step", "3", "--out", str(tmp_path / "one")))
    three = run(torchrun(3, *options, "--out", str(tmp_path / "three")))
    assert one.returncode == 0, one.stderr
    assert three.returncode == 0, three.stderr
    compare_runs(tmp_path / "one", tmp_path / "three")


@pytest.mark.slow
def test_a_killed_process_stops_the_job_and_it_goes_on_with_another_number(tmp_path: Path, glyphs: ImageStore) -> None:
    options = ["train", "--method", "protonet", *OPTIONS, "--episodes", "60"]
    whole = run(sala(*options, "--episodes-per-step", "2", "--out", str(tmp_path / "whole")))
    assert whole.returncode == 0, whole.stderr
    job = subprocess.Popen(
        torchrun(2, *options[:-1], "100000", "--out", str(tmp_path / "killed")),
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    metrics = tmp_path / "killed" / "metrics.jsonl"
    while job.poll() is None and not (metrics.is_file() and len(metrics.read_text().splitlines()) >= 2):
        time.sleep(0.02)
    second = [pid for pid in children(job.pid) if environment(pid).get("RANK") == "1"]
    os.kill(second[0], signal.SIGKILL)
    _, words = job.communicate()
    assert job.returncode != 0
    assert "process 0 of 2 has lost the others" in words, words
    assert f"sala train --resume {tmp_path / 'killed'}" in words.replace("\n", ""), words
    shorten(tmp_path / "killed", 60)
    resumed = run(sala("train", "--resume", str(tmp_path / "killed")))
    assert resumed.returncode == 0, resumed.stderr
    assert load_checkpoint(tmp_path / "killed" / "last.safetensors")[1]["episode"] == 60


def shorten(folder: Path, n_episodes: int) -> None:
    """The job was asked for more than it could do before it was killed."""
    content = json.loads((folder / "config.json").read_text())
    content["budget"]["n_episodes"] = n_episodes
    (folder / "config.json").write_text(json.dumps(content))


def children(pid: int) -> list[int]:
    found = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return found + [grandchild for child in found for grandchild in children(child)]


def environment(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(entry.decode().split("=", 1) for entry in entries if b"=" in entry)


@pytest.mark.slow
def test_resuming_with_another_number_of_processes(tmp_path: Path, glyphs: ImageStore) -> None:
    """Begun by two, stopped after the first half, ended by one: as if one had done it all."""
    options = ["train", "--method", "soft-kmeans", *OPTIONS]
    begun = run(torchrun(2, *options, "--episodes", "12", "--out", str(tmp_path / "run")))
    assert begun.returncode == 0, begun.stderr
    shorten(tmp_path / "run", 12)
    refused = run(torchrun(3, "train", "--resume", str(tmp_path / "run")))
    assert refused.returncode != 0
    assert "3 processes, and a step of this run has 2 episodes" in refused.stderr
    state = load_checkpoint(tmp_path / "run" / "last.safetensors")[1]
    assert state["episode"] == 12


@pytest.mark.parametrize("name", METHODS)
def test_two_episodes_a_step_train_every_method(name: str, glyphs: ImageStore) -> None:
    method, sampler = fresh(name, glyphs)
    config = TrainConfig(n_episodes=4, validate_every=4, episodes_per_step=2)
    state = train(method, sampler, config, state=TrainState.fresh(method, config))
    assert state.episode == 4
    assert all(torch.isfinite(value).all() for value in method.state_dict().values())


def test_bfloat16_stays_in_the_backbone(glyphs: ImageStore) -> None:
    method, sampler = fresh("sala", glyphs)
    method.mixed_precision = True
    seen: list[torch.dtype] = []
    method.backbone.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    state = train(method, sampler, TrainConfig(n_episodes=2, validate_every=2))
    assert state.episode == 2
    assert torch.bfloat16 in seen
    assert method.embed_images(sampler.episode(0).task.support).dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in method.parameters())


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    config = RunConfig("sala", GLYPHS, Budget(4, 2, 2))
    assert config.torch_device == torch.device("cpu")
    assert not config.mixed_precision
    with pytest.raises(SalaError, match="PyTorch sees no GPU here; use --device cpu or auto"):
        _ = replace(config, device="cuda").torch_device
    with pytest.raises(SalaError, match="a device is one of auto, cpu, cuda; got 'tpu'"):
        replace(config, device="tpu")
    with pytest.raises(SalaError, match="a precision is one of auto, float32, bfloat16; got 'int8'"):
        replace(config, precision="int8")
