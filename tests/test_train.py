"""The loop and the run folder: schedule, resume to the last bit, clean stops, and what happens to a bad loss."""

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
from sala.backbones import build_backbone
from sala.checkpoint import load_checkpoint, save_checkpoint
from sala.data import ImageStore
from sala.errors import SalaError
from sala.evaluate import evaluate
from sala.methods import METHODS, build_method
from sala.protocol import PROTOCOLS, Budget, EpisodeShape
from sala.runconfig import RunConfig, read_config
from sala.runlog import read_metrics
from sala.runs import Watch, resume_run, start_run
from sala.sampler import EpisodeSampler, fixed_sampler, split_labels
from sala.train import TrainConfig, TrainState, build_optimizer, gradients, step, train
from sala.trained import evaluate_run

GLYPHS = PROTOCOLS["glyphs"]


def config(method: str = "sala", n_episodes: int = 12, **changes: object) -> RunConfig:
    budget = Budget(n_episodes, validate_every=5, n_validation_episodes=4)
    return replace(RunConfig(method, GLYPHS, budget, seed=3, threads=1), **changes)  # type: ignore[arg-type]


def test_the_learning_rate_is_halved_at_each_fifth() -> None:
    schedule = TrainConfig(n_episodes=100)
    assert [schedule.learning_rate_at(i) for i in (0, 19, 20, 40, 60, 80, 99)] == [
        1e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4, 6.25e-5, 6.25e-5,
    ]  # fmt: skip


def test_weight_decay_is_on_kernels_only() -> None:
    method = build_method("sala", build_backbone("conv4", (28, 28, 1)))
    decayed, others = build_optimizer(method, "classifier", TrainConfig()).param_groups
    assert (decayed["weight_decay"], others["weight_decay"]) == (5e-5, 0)
    assert {id(p) for p in decayed["params"]} == {id(block.conv.weight) for block in method.backbone.blocks}


def test_a_step_is_to_the_last_bit_that_of_the_optimiser() -> None:
    torch.manual_seed(0)
    ours, theirs = (build_method("sala", build_backbone("conv4", (28, 28, 1))) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    optimizers = [build_optimizer(method, "classifier", TrainConfig()) for method in (ours, theirs)]
    for i in range(4):
        rate = 1e-3 * 0.5**i
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        if i == 1:  # a parameter without a gradient stands still
            next(ours.parameters()).grad = next(theirs.parameters()).grad = None
        step(optimizers[0], rate)
        for group in optimizers[1].param_groups:
            group["lr"] = rate
        optimizers[1].step()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("options", [{"amsgrad": True}, {"maximize": True}, {"fused": False}])
def test_another_adam_makes_its_own_step(options: dict[str, bool]) -> None:
    ours, theirs = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizers = [torch.optim.Adam([p], **options) for p in (ours, theirs)]  # type: ignore[arg-type]
    for i in range(5):
        ours.grad = theirs.grad = torch.tensor([1.0, -2.0, 3.0]) / (i + 1)
        step(optimizers[0], 1e-3)
        optimizers[1].step()
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e25])  # the square of the last one is not finite
def test_a_gradient_that_is_not_finite_stops_before_the_step(
    value: float, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = build_method("protonet", build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, EpisodeShape(5, 1, 1, 5), split="train", seed=0, labeled_share=0.5)
    method.backbone.blocks[2].norm.bias.register_hook(lambda g: torch.full_like(g, value))  # type: ignore[index, union-attr]
    with pytest.raises(SalaError, match="gradient of the classifier is no longer finite in episode 7"):
        gradients(method.train(), "classifier", [(7, sampler.episode(7))], 1.0, TrainConfig())


@pytest.mark.parametrize("name", METHODS)
def test_some_hundred_episodes_on_glyphs_beat_chance_by_far(name: str, glyphs: ImageStore) -> None:
    """Chance is 20 %. tpn is slow at first, and the last bits of sums decide when it starts: 600 episodes have given 40, the
    others have 55 to 70 after 300."""
    torch.manual_seed(0)
    n_episodes, wanted = (600, 28) if name == "tpn" else (300, 34)
    method = build_method(name, build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=GLYPHS.labeled_share)
    train(method, sampler, TrainConfig(n_episodes=n_episodes, validate_every=n_episodes))
    test = EpisodeSampler(glyphs, GLYPHS.validation, split="val", seed=1)
    assert evaluate(method, test, 100).accuracy > wanted


VARIANTS: list[tuple[str, dict[str, object]]] = [
    *((name, {}) for name in METHODS),
    ("soft-kmeans", {"flow": True}),
    ("soft-kmeans-cluster", {"form": "paper"}),
    ("masked-soft-kmeans", {"squared_mask": True}),
    ("tpn", {"transductive": True}),
    ("tadam", {"variant": "B"}),
    ("metagan", {"generator_loss": "matching"}),
    ("metagan", {"adversary": False}),
    ("sala", {"metric": False}),
    ("sala", {"selection": False}),
    *(("sala", {"weights": kind}) for kind in ("constant", "shared", "double")),
    ("sala", {"recompute": True, "context": True, "ramp": 0.2}),
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
    if METHODS[name].tests_on_unlabeled:
        assert 0 < result.pseudo_labels["selected"] <= 100


def test_after_training_the_metric_is_adaptive_in_fact(glyphs: ImageStore) -> None:
    torch.manual_seed(0)
    method = build_method("sala", build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=GLYPHS.labeled_share)
    train(method, sampler, TrainConfig(n_episodes=200, validate_every=200))
    numbers = evaluate(method, EpisodeSampler(glyphs, GLYPHS.validation, split="val", seed=1), 50).diagnostics
    assert numbers["metric_weight_spread"] > 0.01
    assert numbers["metric_live_units"] > 0.5


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


def test_methods_without_unlabeled_images_never_read_them(tmp_path: Path, glyphs: ImageStore) -> None:
    seen = []

    class Spy(METHODS["protonet"]):  # type: ignore[misc]
        def loss(self, task, labels, player="classifier"):  # type: ignore[no-untyped-def]
            seen.append(task.unlabeled.shape[0])
            return super().loss(task, labels, player)

    method = build_method(Spy, build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=0.2)
    train(method, sampler, TrainConfig(n_episodes=3, validate_every=3))
    assert seen == [0, 0, 0]


class Diary(METHODS["sala"]):  # type: ignore[misc]
    """Writes down what the loop tells it."""

    pages: list[dict[str, object]] = []  # noqa: RUF012

    def loss(self, task, labels, player="classifier"):  # type: ignore[no-untyped-def]
        n_selected = self.n_selected(task.unlabeled.shape[0])
        self.pages.append(
            {"progress": self.progress, "n": n_selected, "images": task.support.clone(), "train": self.training}
        )
        return super().loss(task, labels, player)


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    pages: list[dict[str, object]] = []
    monkeypatch.setattr(Diary, "pages", pages)
    monkeypatch.setitem(METHODS, "diary", Diary)
    return pages


def test_the_loop_tells_the_method_its_progress(
    tmp_path: Path, glyphs: ImageStore, diary: list[dict[str, object]]
) -> None:
    start_run(tmp_path / "run", config("diary", n_episodes=10))
    assert [page["progress"] for page in diary] == [(i + 1) / 10 for i in range(10)]
    assert [page["n"] for page in diary] == [0, 1, 2, 4, 7, 11, 15, 20, 23, 25]  # floor(25 exp(-5 (1 - t)^2))
    assert all(page["train"] for page in diary)


def test_with_distractors_half_of_the_unlabeled_images_is_the_most(
    tmp_path: Path, glyphs: ImageStore, diary: list[dict[str, object]]
) -> None:
    protocol = GLYPHS.with_shape(n_distractor=5)
    start_run(tmp_path / "run", config("diary", n_episodes=10, protocol=protocol))
    assert [page["n"] for page in diary][-3:] == [20, 23, 25]  # of 50, as of 25 without distractors
    share = evaluate_run(tmp_path / "run", {"": protocol.validation}, n_episodes=5)[""].pseudo_labels["selected"]
    assert share == 50
    without = replace(protocol.validation, n_distractor=0)
    assert evaluate_run(tmp_path / "run", {"": without}, n_episodes=5)[""].pseudo_labels["selected"] == 100


def test_training_episodes_depend_on_the_seed_and_on_the_label_split(
    tmp_path: Path, glyphs: ImageStore, diary: list[dict[str, object]]
) -> None:
    protocols = [GLYPHS, GLYPHS, replace(GLYPHS, label_split_seed=9)]
    for i, (seed, protocol) in enumerate(zip((0, 1, 0), protocols, strict=True)):
        start_run(tmp_path / str(i), config("diary", n_episodes=1, seed=seed, protocol=protocol))
    first, other_seed, other_split = (page["images"] for page in diary)
    assert not torch.equal(first, other_seed)
    assert not torch.equal(first, other_split)


def test_the_learning_rate_of_the_schedule_is_the_one_that_is_used(
    glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    original = torch._fused_adam_
    monkeypatch.setattr(
        torch, "_fused_adam_", lambda *a, **options: (used.append(options["lr"]), original(*a, **options))
    )
    method = build_method("protonet", build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=0.2)
    schedule = TrainConfig(n_episodes=10, validate_every=10)
    train(method, sampler, schedule)
    assert used == [schedule.learning_rate_at(i) for i in range(10) for _ in range(2)]  # kernels, and all others
    assert used[-1] == pytest.approx(1e-3 / 16)


@pytest.mark.parametrize("name", METHODS)
def test_an_episode_is_one_batch_norm_batch(name: str, glyphs: ImageStore) -> None:
    """The running mean after one step comes from all images the method is given, together, scaled to [0, 1]."""
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=0.2)
    task = sampler.episode(0, with_unlabeled=method.trains_on_unlabeled).task
    images = torch.cat([task.support, task.unlabeled, task.query]).float() / 255
    block = method.backbone.blocks[0]
    expected = 0.1 * block.conv(images).mean((0, 2, 3)).detach()
    train(method, sampler, TrainConfig(n_episodes=1, validate_every=1))
    torch.testing.assert_close(block.norm.running_mean, expected, rtol=1e-4, atol=1e-6)


def test_the_fixed_episodes_of_val_and_test_differ_and_training_classes_keep_their_split(glyphs: ImageStore) -> None:
    samplers = {split: fixed_sampler(glyphs, GLYPHS.validation, split, GLYPHS) for split in ("val", "test")}
    assert samplers["val"].seed != samplers["test"].seed
    training = fixed_sampler(glyphs, replace(GLYPHS.validation, n_query=3), "train", GLYPHS)
    labeled = {row for rows in split_labels(glyphs.split("train"), 0.2, 0)[0] for row in rows}
    assert {row for i in range(20) for row in training.rows(i).query} <= labeled


def stop_after(n: int) -> Watch:
    calls = iter(range(10**6))
    return Watch(should_stop=lambda: next(calls) >= n)


@pytest.mark.parametrize("name", METHODS)
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
    options = ["--dataset", "glyphs", "--episodes", "40", "--validate-every", "8", "--threads", "1", "--seed", "3"]
    command = [sys.executable, "-m", "sala", "train", *options]
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    process = subprocess.Popen([*command, "--out", str(tmp_path / "killed")], stderr=subprocess.DEVNULL)
    metrics = tmp_path / "killed" / "metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and len(metrics.read_text().splitlines()) >= 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    _, note = load_checkpoint(tmp_path / "killed" / "last.safetensors")
    assert note["episode"] < 40
    subprocess.run([*command[:4], "--resume", str(tmp_path / "killed")], check=True, capture_output=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


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
    with pytest.raises(SalaError, match="not empty; continue that run with --resume"):
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


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(glyphs: ImageStore) -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        method = build_method("sala", build_backbone("conv4", glyphs.image_shape))
        sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=seed, labeled_share=0.2)
        train(
            method, sampler, TrainConfig(n_episodes=4, validate_every=4), state=TrainState.fresh(method, TrainConfig(4))
        )
        return method.backbone.blocks[3].conv.weight.detach().clone()

    first, again, other = weights(0), weights(0), weights(1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
