"""What every row of METHODS must do, free of charge for the next one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sala.episodes.task import Task
from sala.errors import SalaError
from sala.methods import METHODS, build_method, method_options
from sala.methods.base import cross_entropy
from sala.nn.backbones import Identity, build_backbone
from sala.training.loop import TrainConfig, TrainState
from tests.helpers.tasks import descend, images_task, on_features, random_task

every_method = pytest.mark.parametrize("name", METHODS)


@every_method
@pytest.mark.parametrize("n_way", [2, 5])
def test_logits_have_a_row_a_query_and_a_column_a_class(name: str, n_way: int) -> None:
    task = random_task(n_way=n_way, n_query=9)
    method = on_features(name)
    logits = method.logits(task)
    assert logits.shape == (9, n_way + method.n_extra)
    assert torch.isfinite(logits).all()


@every_method
def test_queries_do_not_see_each_other(name: str) -> None:
    task, method = random_task(n_query=6), on_features(name)
    alone = torch.cat([method.logits(replace(task, query=task.query[i : i + 1])) for i in range(6)])
    assert_close(method.logits(task), alone)


@every_method
def test_the_order_of_unlabeled_images_does_not_matter(name: str) -> None:
    task, method = random_task(n_unlabeled=9), on_features(name)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    assert_close(method.logits(task), method.logits(replace(task, unlabeled=task.unlabeled[order])))


@every_method
def test_renumbering_the_classes_renumbers_the_logits(name: str) -> None:
    task, method = random_task(shots=(1, 2, 3)), on_features(name)
    new_number = torch.tensor([2, 0, 1])
    renamed = replace(task, labels=new_number[task.labels])
    extra = torch.arange(3, 3 + method.n_extra)
    assert_close(method.logits(renamed)[:, torch.cat([new_number, extra])], method.logits(task))


@every_method
def test_the_order_of_the_support_does_not_matter(name: str) -> None:
    task, method = random_task(shots=(1, 2, 3)), on_features(name)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    shuffled = replace(task, support=task.support[order], labels=task.labels[order])
    assert_close(method.logits(shuffled), method.logits(task))


@every_method
def test_a_batch_of_episodes_equals_one_at_a_time(name: str) -> None:
    task, method = random_task(batch=(4,)), on_features(name)
    single = [
        method.logits(Task(task.support[i], task.labels[i], task.unlabeled[i], task.query[i], 3)) for i in range(4)
    ]
    assert_close(method.logits(task), torch.stack(single))


@every_method
def test_classes_may_have_different_numbers_of_shots(name: str) -> None:
    """One-hot weights, never a reshape to [ways, shots]."""
    task, method = random_task(shots=(1, 4, 2), n_query=5), on_features(name)
    assert torch.isfinite(method.logits(task)).all()
    if not method.tests_on_unlabeled:
        twice = replace(task, support=task.support.repeat(2, 1), labels=task.labels.repeat(2))
        assert_close(method.logits(twice), method.logits(task))


@every_method
def test_no_unlabeled_images_are_no_problem(name: str) -> None:
    task = random_task(n_unlabeled=0)
    assert torch.isfinite(on_features(name).logits(task)).all()


@every_method
def test_gradients_reach_the_backbone_for_each_player(name: str) -> None:
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", (28, 28, 1)))
    task, labels = images_task()
    for player in method.players:
        method.zero_grad()
        loss = method.loss(task if method.trains_on_unlabeled else task.without_unlabeled(), labels, player)
        loss.backward()
        assert torch.isfinite(loss)
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in method.backbone.parameters())
        assert sum(float(p.grad.abs().sum()) for p in method.backbone.parameters()) > 0


@every_method
def test_one_step_lowers_the_loss_on_its_own_episode(name: str) -> None:
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", (28, 28, 1)))
    task, labels = images_task(n_way=5)
    state = TrainState.fresh(method, TrainConfig())
    for player, optimizer in state.optimizers.items():
        before = method.loss(task, labels, player)
        descend(method, optimizer, before, 1e-5)
        assert method.loss(task, labels, player) < before


@every_method
def test_embedding_a_batch_of_tasks_embeds_each_of_their_images(name: str) -> None:
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", (28, 28, 1))).eval()
    if method.embeds_per_task:
        pytest.skip("there is no embedding of an image alone")
    task, _ = images_task(batch=(2,))
    with torch.inference_mode():
        embedded = method.embed(task)
        for part in ("support", "unlabeled", "query"):
            alone = method.backbone(getattr(task, part)[1].float() / 255)
            assert_close(getattr(embedded, part)[1], alone)


def test_the_loss_is_the_mean_cross_entropy_of_the_queries() -> None:
    logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    expected = (math.log(2) + math.log(1 + math.exp(-2))) / 2
    assert cross_entropy(logits, torch.tensor([0, 0])).item() == pytest.approx(expected)


@every_method
def test_weights_survive_a_round_trip(name: str) -> None:
    first, second = on_features(name, seed=0), on_features(name, seed=1)
    second.load_state_dict(first.state_dict())
    task = random_task()
    assert torch.equal(first.logits(task), second.logits(task))


@every_method
def test_pseudo_labels_are_probabilities_of_the_unlabeled_images(name: str) -> None:
    task = random_task(batch=(2,), n_unlabeled=8)
    labels = on_features(name).pseudo_labels(task)
    if labels is None:
        assert (
            name == "semi-feat" or not METHODS[name].tests_on_unlabeled
        )  # its prototypes attend to images without a label
        return
    assert labels.probabilities.shape == (2, 8, 3)
    assert labels.selected.shape == (2, 8)
    assert_close(labels.probabilities.sum(-1), torch.ones(2, 8, dtype=torch.float64))


@every_method
def test_answers_are_class_scores_and_pseudo_labels(name: str) -> None:
    task, method = random_task(batch=(2,), n_unlabeled=8), on_features(name)
    logits, labels = method.answers(task)
    expected = method.pseudo_labels(task)
    assert torch.equal(logits, method.logits(task))
    assert (labels is None) == (expected is None)
    if labels is not None and expected is not None:
        assert torch.equal(labels.probabilities, expected.probabilities)
        assert torch.equal(labels.selected, expected.selected)


@every_method
def test_a_method_of_ones_own_is_asked_for_its_own_logits(name: str) -> None:
    """Also one that is made from a method with an `answers` of its own."""

    class Own(METHODS[name]):  # type: ignore[misc, valid-type]
        def logits(self, task: Task) -> Tensor:
            logits: Tensor = super().logits(task)
            return -logits

    class Mixed(Opposite, METHODS[name]):  # type: ignore[misc, valid-type]
        pass

    task = random_task()
    for method in (Own(Identity(6)).double().eval(), Mixed(Identity(6)).double().eval()):
        assert torch.equal(method.answers(task)[0], method.logits(task))


class Opposite:
    """Changes the logits of any method."""

    def logits(self, task: Task) -> Tensor:
        logits: Tensor = super().logits(task)  # type: ignore[misc]
        return -logits


@every_method
def test_every_method_names_its_paper_and_its_deviations(name: str) -> None:
    assert METHODS[name].paper
    assert "Deviations:" in (METHODS[name].__doc__ or "")


def test_an_unknown_method_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SalaError, match=r"'salla'.* protonet"):
        on_features("salla")


def test_options_come_as_strings_from_the_command_line() -> None:
    method = on_features("sala", metric="false", eta="2.5", hidden="none", weights="shared")
    assert (method.metric, method.eta) == (None, 2.5)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"etta": "1"}, "'etta'; .*metric"),
        ({"eta": "much"}, "number"),
        ({"metric": "maybe"}, "true or false"),
        ({"weights": "free"}, "adaptive, double, constant, shared"),
    ],
)
def test_a_wrong_option_is_answered_with_what_is_right(option: dict[str, str], message: str) -> None:
    with pytest.raises(SalaError, match=message):
        on_features("sala", **option)


@every_method
def test_methods_that_do_not_look_at_unlabeled_images_say_so(name: str) -> None:
    task, method = random_task(), on_features(name)
    changed = method.logits(replace(task, unlabeled=task.unlabeled + 0.3))
    assert torch.allclose(changed, method.logits(task)) != METHODS[name].tests_on_unlabeled


def test_options_are_the_keyword_arguments_of_the_class() -> None:
    assert list(method_options(METHODS["soft-kmeans"])) == ["flow", "n_refinement_steps", "swap"]
    assert list(method_options(METHODS["protonet"])) == ["swap"]
