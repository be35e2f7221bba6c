"""The run folder: what it holds, resume to the last bit, clean stops, and what happens to a bad loss."""

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
from safetensors.torch import load_file

from sala import load
from sala.data import ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.errors import SalaError
from sala.methods import METHODS, Method
from sala.training.checkpoint import load_checkpoint, save_checkpoint
from sala.training.config import read_config
from sala.training.log import read_metrics
from sala.training.measured import evaluate_run
from sala.training.run import Watch, resume_run, start_run
from tests.helpers.tasks import GLYPHS, config, slow_but

VARIANTS: list[tuple[str, dict[str, object]]] = [
    *((name, {}) for name in METHODS),
    ("soft-kmeans", {"flow": True}),
    ("soft-kmeans-cluster", {"form": "paper"}),
    ("masked-soft-kmeans", {"squared_mask": True}),
    ("tpn", {"transductive": True}),
    ("tadam", {"variant": "B"}),
    ("metagan", {"generator_loss": "matching"}),
    ("metagan", {"adversary": False}),
    ("metagan", {"discriminator": "relation"}),
    ("matchingnet", {"context": True}),
    ("maml", {"first_order": True, "n_way": None}),
    ("maml", {"transductive": True}),
    ("feat", {"balance": 0.0}),
    ("sala", {"metric": False}),
    ("sala", {"selection": False}),
    *(("sala", {"weights": kind}) for kind in ("constant", "shared", "double")),
    ("sala", {"recompute": True, "context": True, "ramp": 0.2}),
    *((name, {"swap": True, "n_refinement_steps": 2}) for name in ("soft-kmeans", "masked-soft-kmeans", "sala")),
]


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=lambda value: str(value))
def test_every_variant_trains_and_is_measured_with_distractors(
    name: str, options: dict[str, object], tmp_path: Path, glyphs: ImageStore
) -> None:
    asked = config(name, n_episodes=3, protocol=GLYPHS.with_shape(n_distractor=5), options=options)
    start_run(tmp_path / "run", asked)
    result = evaluate_run(tmp_path / "run", GLYPHS.with_shape(n_distractor=5).test, n_episodes=3)["large"]
    assert len(result.accuracies) == 3
    assert 0 <= result.accuracy <= 100
    if METHODS[name].pseudo_labels is not Method.pseudo_labels:
        assert 0 < result.pseudo_labels["selected"] <= 100


def test_a_run_folder_holds_what_it_should(tmp_path: Path, glyphs: ImageStore) -> None:
    state = start_run(tmp_path / "run", config())
    names = {p.name for p in (tmp_path / "run").iterdir()} - {"tensorboard"}
    weights = {f"{name}.safetensors" for name in ("best", "last", "previous")}
    assert names == {"config.json", "manifest.json", "metrics.jsonl", *weights}
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["data_hash"] == glyphs.content_hash
    assert {"versions", "command", "machine", "started"} <= set(manifest)
    metrics = read_metrics(tmp_path / "run")
    assert [line["episode"] for line in metrics] == [5, 10, 12]
    assert {"loss", "val_accuracy", "val_ci95", "metric_weight_spread", "metric_live_units"} <= set(metrics[0])
    assert state.best_accuracy == max(line["val_accuracy"] for line in metrics)
    assert read_config(tmp_path / "run") == config()


def test_the_loaded_method_is_the_trained_one(tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "run", config(n_episodes=10))
    method = load(tmp_path / "run", weights="last")
    assert not method.training
    weights = load_file(tmp_path / "run" / "last.safetensors")
    assert all(torch.equal(weights[name], tensor) for name, tensor in method.state_dict().items())


def test_the_best_weights_are_those_of_the_best_validation(tmp_path: Path, glyphs: ImageStore) -> None:
    state = start_run(tmp_path / "run", config(n_episodes=20))
    _, note = load_checkpoint(tmp_path / "run" / "best.safetensors")
    assert note["episode"] == state.best_episode
    result = evaluate_run(tmp_path / "run", {"": GLYPHS.validation}, split="val", n_episodes=4)[""]
    assert result.accuracy == pytest.approx(state.best_accuracy)


def stop_after(n: int) -> Watch:
    calls = iter(range(10**6))
    return Watch(should_stop=lambda: next(calls) >= n)


@pytest.mark.parametrize("name", slow_but("metagan", "sala"))
def test_a_stopped_run_goes_on_to_the_same_end(name: str, tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "whole", config(name))
    stopped = start_run(tmp_path / "parts", config(name), stop_after(7))
    assert stopped.episode == 7
    resume_run(tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def assert_same_run(a: Path, b: Path) -> None:
    for file in ("last.safetensors", "best.safetensors"):
        (one, note), (two, other_note) = load_checkpoint(a / file), load_checkpoint(b / file)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[name], two[name]) for name in one)
        assert note == other_note
    drop = {"seconds"}
    lines = [[{k: v for k, v in line.items() if k not in drop} for line in read_metrics(run)] for run in (a, b)]
    assert lines[0] == lines[1]


def test_a_killed_process_can_be_resumed_to_the_same_end(tmp_path: Path, glyphs: ImageStore) -> None:
    """A real process and a real kill -9, somewhere in the middle."""
    words = ["--dataset", "glyphs", "--episodes", "40", "--validate-every", "16", "--threads", "1", "--seed", "3"]
    killed, last = tmp_path / "killed", tmp_path / "killed" / "last.safetensors"
    command = [sys.executable, "-m", "sala", "train", *words, "--out", str(killed)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and not last.is_file():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert load_checkpoint(last)[1]["episode"] < 40
    resume_run(killed)
    start_run(tmp_path / "whole", read_config(killed))
    assert_same_run(tmp_path / "whole", killed)


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path, glyphs: ImageStore) -> None:
    command = [sys.executable, "-m", "sala", "train", "--dataset", "glyphs", "--episodes", "100000", "--threads", "1"]
    process = subprocess.Popen([*command, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (tmp_path / "run" / "metrics.jsonl").is_file():
        time.sleep(0.01)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate()
    assert process.returncode == 130
    assert "sala train --resume" in words.replace("\n", " ")
    assert "Traceback" not in words
    _, note = load_checkpoint(tmp_path / "run" / "last.safetensors")
    assert f"stopped at episode {note['episode']}" in words


class Exploding(METHODS["protonet"]):  # type: ignore[misc]
    """A loss that becomes nan in its eighth episode."""

    calls = 0

    def loss(self, task, labels, player="classifier"):  # type: ignore[no-untyped-def]
        self.calls += 1
        return super().loss(task, labels, player) * (float("nan") if self.calls > 7 else 1)


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_weights(
    tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "exploding", Exploding)
    with pytest.raises(SalaError, match=r"became nan in episode 7; the last good weights are kept"):
        start_run(tmp_path / "run", config("exploding"))
    tensors, note = load_checkpoint(tmp_path / "run" / "last.safetensors")
    assert note["episode"] == 5
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(SalaError, match="not empty"):
        start_run(tmp_path / "run", config())


def test_an_impossible_request_leaves_no_folder(tmp_path: Path, glyphs: ImageStore) -> None:
    impossible = replace(GLYPHS, train=EpisodeShape(n_shot=5))
    with pytest.raises(SalaError, match="lower the shots"):
        start_run(tmp_path / "run", config(protocol=impossible))
    assert not (tmp_path / "run").exists()


def test_a_damaged_checkpoint_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_checkpoint(path, {"a": torch.ones(3)}, {"episode": 1})
    whole = path.read_bytes()
    for n in range(0, len(whole), 7):
        path.write_bytes(whole[:n])
        with pytest.raises(SalaError, match="damaged"):
            load_checkpoint(path)


def test_a_checkpoint_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    save_checkpoint(path, {"a": torch.ones(3)}, {"episode": 1})
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(path, {"a": torch.zeros(3)}, {"episode": 2})
    assert load_checkpoint(path)[1] == {"episode": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_run_on_other_data_is_not_resumed(tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "run", config(n_episodes=10), stop_after(6))
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest | {"data_hash": "0" * 64}))
    with pytest.raises(SalaError, match="started on other data"):
        resume_run(tmp_path / "run")
