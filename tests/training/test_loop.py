"""The loop: schedule, step, what a method is told, and that it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sala.data import ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler, fixed_sampler, split_labels
from sala.errors import SalaError
from sala.evaluation.evaluate import evaluate
from sala.methods import METHODS, build_method
from sala.nn.backbones import build_backbone
from sala.training.loop import TrainConfig, TrainState, train
from sala.training.measured import evaluate_run
from sala.training.run import start_run
from sala.training.step import build_optimizer, gradients
from tests.helpers.tasks import GLYPHS, config, slow_but


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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e25])  # the square of the last one is not finite
def test_a_gradient_that_is_not_finite_stops_before_the_step(
    value: float, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = build_method("protonet", build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, EpisodeShape(5, 1, 1, 5), split="train", seed=0, labeled_share=0.5)
    method.backbone.blocks[2].norm.bias.register_hook(lambda g: torch.full_like(g, value))  # type: ignore[index, union-attr]
    with pytest.raises(SalaError, match="gradient of the classifier is no longer finite in episode 7"):
        gradients(method.train(), "classifier", [(7, sampler.episode(7))], 1.0, TrainConfig())


@pytest.mark.parametrize("name", slow_but("protonet"))
def test_some_hundred_episodes_on_glyphs_beat_chance_by_far(name: str, glyphs: ImageStore) -> None:
    """Chance is 20 %. tpn and maml are slow at first, and the last bits of sums decide when they start: 600 episodes of tpn
    have given 40, the others have 55 to 70 after 300."""
    torch.manual_seed(0)
    n_episodes, wanted = (600, 28) if name in ("tpn", "maml") else (300, 34)
    method = build_method(name, build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=GLYPHS.labeled_share)
    train(method, sampler, TrainConfig(n_episodes=n_episodes, validate_every=n_episodes))
    test = EpisodeSampler(glyphs, GLYPHS.validation, split="val", seed=1)
    assert evaluate(method, test, 100).accuracy > wanted


@pytest.mark.slow
def test_after_training_the_metric_is_adaptive_in_fact(glyphs: ImageStore) -> None:
    torch.manual_seed(0)
    method = build_method("sala", build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=GLYPHS.labeled_share)
    train(method, sampler, TrainConfig(n_episodes=200, validate_every=200))
    numbers = evaluate(method, EpisodeSampler(glyphs, GLYPHS.validation, split="val", seed=1), 50).diagnostics
    assert numbers["metric_weight_spread"] > 0.01
    assert numbers["metric_live_units"] > 0.5


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


def test_the_learning_rate_of_the_schedule_is_the_one_that_is_used(glyphs: ImageStore) -> None:
    method = build_method("protonet", build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=0.2)
    schedule = TrainConfig(n_episodes=10, validate_every=10)
    used = []
    train(
        method,
        sampler,
        schedule,
        on_episode=lambda state, _: used.append([g["lr"] for g in state.optimizers["classifier"].param_groups]),
    )
    assert used == [[schedule.learning_rate_at(i)] * 2 for i in range(10)]  # kernels, and all others


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
