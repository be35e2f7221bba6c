"""TADAM: the scale against Soft k-Means, the conditions against loops."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from sala.data import ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.task import Task
from sala.errors import SalaError
from sala.evaluation.evaluate import evaluate
from sala.methods import build_method
from sala.methods.tadam import TADAM, ResidualNetwork
from sala.nn.backbones import Conv4, build_backbone
from sala.training.loop import TrainConfig, TrainState
from tests.helpers import reference
from tests.helpers.tasks import as_tensor, descend, gradients_agree, images_task, lists, on_features, random_task


def conditioned(*, multiplier: float, seed: int = 0) -> TADAM:
    torch.manual_seed(seed)
    method = build_method("tadam", build_backbone("conv4", (28, 28, 1)), {"variant": "B"})
    with torch.no_grad():
        method.conditions.multipliers.fill_(multiplier)
    return method


def test_tadam_starts_as_soft_kmeans() -> None:
    task = random_task()
    theirs = on_features("soft-kmeans", flow=True).logits(task)
    assert torch.equal(on_features("tadam").logits(task), theirs)


def test_the_scale_multiplies_the_distances_of_unlabeled_images_and_queries() -> None:
    """Scaling the metric by a is scaling all embeddings by sqrt(a)."""
    task, method = random_task(shots=(1, 2, 3)), on_features("tadam")
    with torch.no_grad():
        method.log_scale.fill_(torch.tensor(2.5).log())
    support, labels, unlabeled, query = lists(task)
    grown = [[[2.5**0.5 * v for v in x] for x in part] for part in (support, unlabeled, query)]
    refined = reference.soft_kmeans_prototypes(grown[0], labels, grown[1], 3)
    assert_close(method.logits(task), as_tensor(reference.logits(grown[2], refined)), rtol=1e-6, atol=1e-6)


def test_gradients_of_tadam_match_finite_differences() -> None:
    gradients_agree(on_features("tadam", d=4), random_task(d=4))


@pytest.mark.parametrize("mode", [True, False])
def test_without_multipliers_the_conditions_do_nothing(mode: bool) -> None:
    """In training and in evaluation, and to the running statistics."""
    task, _ = images_task()
    torch.manual_seed(0)
    plain = build_method("tadam", build_backbone("conv4", (28, 28, 1))).train(mode)
    method = conditioned(multiplier=0.0).train(mode)
    assert_close(method.classify(task), plain.classify(task), rtol=1e-4, atol=1e-4)
    assert_close(method.backbone.state_dict(), plain.backbone.state_dict(), rtol=1e-4, atol=1e-5)


def test_the_conditions_change_the_embedding_with_the_task() -> None:
    method = conditioned(multiplier=0.5).eval()
    first, second = images_task(seed=0)[0], images_task(seed=1)[0]
    with torch.no_grad():
        alone = method.embed(first).query
        elsewhere = method.embed(replace(second, query=first.query)).query
    assert method.embeds_per_task
    assert not torch.allclose(alone, elsewhere)


def test_a_batch_of_tasks_is_conditioned_task_by_task() -> None:
    method = conditioned(multiplier=0.5).eval()
    task, _ = images_task(batch=(3,))
    with torch.no_grad():
        together = method.classify(task)
        single = [
            method.classify(Task(task.support[i], task.labels[i], task.unlabeled[i], task.query[i], 3))
            for i in range(3)
        ]
    assert_close(together, torch.stack(single), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", [True, False])
def test_film_scales_and_shifts_after_batch_norm_and_before_relu(mode: bool) -> None:
    """Each block against its parts: conv, batch norm, (1 + gamma) h + beta, ReLU, pool."""
    torch.manual_seed(0)
    network = Conv4(1, 28, width=4).train(mode)
    for block in network.blocks:
        torch.nn.init.normal_(block.norm.weight)
        torch.nn.init.normal_(block.norm.bias)
    film = [(torch.randn(6, 4), torch.randn(6, 4)) for _ in range(4)]
    images = torch.rand(6, 1, 28, 28)
    x = images
    for block, (gamma, beta) in zip(network.blocks, film, strict=True):
        h = block.norm(block.conv(x))
        rows = [(1 + gamma[i])[:, None, None] * h[i] + beta[i][:, None, None] for i in range(6)]
        x = torch.max_pool2d(torch.stack(rows).relu(), 2)
    assert_close(network(images, film), x.flatten(1), rtol=1e-4, atol=1e-5)


def test_the_residual_network_follows_its_paper() -> None:
    torch.manual_seed(0)
    network = ResidualNetwork(3, 4).double()
    x = [0.3, -1.2, 0.7]

    def linear(layer: torch.nn.Linear, values: list[float]) -> list[float]:
        rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
        return [b + sum(w * v for w, v in zip(row, values, strict=True)) for row, b in rows]

    h = [reference.swish(v) for v in linear(network.first, x)]
    h = [reference.swish(a + b) for a, b in zip(h, linear(network.second, h), strict=True)]
    out = [a + b for a, b in zip(h, linear(network.third, h), strict=True)]
    assert_close(network(as_tensor([x]))[0], as_tensor([out])[0])


@pytest.mark.parametrize("mode", [True, False])
def test_the_task_vector_is_the_mean_of_the_plain_prototypes(mode: bool) -> None:
    """By running statistics, in training as at test, with a gradient, and over classes, not images."""
    method = conditioned(multiplier=0.5).train(mode)
    task, _ = images_task()
    unequal = replace(task, support=torch.cat([task.support, task.query[:2]]), labels=torch.tensor([0, 1, 2, 2, 2]))
    vector = method.task_vector(unequal)
    assert method.backbone.training == mode
    vector.sum().backward()
    assert method.backbone.blocks[0].conv.weight.grad.abs().sum() > 0
    with torch.no_grad():
        plain = method.eval().backbone(unequal.support.float() / 255)
    assert_close(vector.detach(), (plain[0] + plain[1] + plain[2:].mean(0)) / 3, rtol=1e-4, atol=1e-5)


def test_the_multipliers_are_penalized() -> None:
    task, labels = images_task()
    method = conditioned(multiplier=0.5).eval()
    penalty = 0.01 / 2 * 8 * 0.25
    plain = torch.nn.functional.cross_entropy(method.classify(task), labels)
    assert_close(method.loss(task, labels), plain + penalty)


def test_the_multipliers_learn_from_zero() -> None:
    task, labels = images_task()
    method = conditioned(multiplier=0.0)
    optimizer = TrainState.fresh(method, TrainConfig()).optimizers["classifier"]
    for _ in range(3):
        descend(method, optimizer, method.loss(task, labels), 1e-3)
    assert (method.conditions.multipliers != 0).all()


def test_evaluation_embeds_a_conditioned_method_task_by_task(glyphs: ImageStore) -> None:
    method = conditioned(multiplier=0.5).eval()
    sampler = EpisodeSampler(glyphs, EpisodeShape(n_query=3, n_unlabeled=2), split="val", seed=1)
    result = evaluate(method, sampler, 3)
    by_hand = []
    with torch.no_grad():
        for i in range(3):
            episode = sampler.episode(i)
            right = method.classify(episode.task).argmax(-1) == episode.query_labels
            by_hand.append(float(right.double().mean()))
    assert result.accuracies == pytest.approx(by_hand)


def test_variant_b_needs_a_network_that_takes_conditions() -> None:
    with pytest.raises(SalaError, match="variant B"):
        on_features("tadam", variant="B")


def test_the_scale_is_logged() -> None:
    assert on_features("tadam").diagnostics(random_task()) == {"metric_scale": 1.0}
