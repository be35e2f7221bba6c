"""The Soft k-Means family: each formula against loops, each limit against the simpler method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from sala.data import ImageStore
from sala.episodes.protocol import PROTOCOLS, EpisodeShape
from sala.episodes.sampler import EpisodeRows, EpisodeSampler
from sala.episodes.task import Task
from sala.evaluation.evaluate import evaluate
from sala.functional import squared_distances
from sala.methods import build_method
from sala.methods.kmeans import SoftKMeansCluster
from sala.methods.masked_kmeans import MaskedSoftKMeans, distance_statistics
from sala.nn.backbones import Backbone, build_backbone
from sala.training.loop import TrainConfig, train
from tests.helpers import reference
from tests.helpers.tasks import as_tensor, gradients_agree, lists, on_features, random_task, with_gradients

GLYPHS = PROTOCOLS["glyphs"]


@pytest.mark.parametrize("form", ["released", "paper"])
@pytest.mark.parametrize("radius", [1.5, 100.0])
def test_cluster_follows_its_paper_and_its_code(form: str, radius: float) -> None:
    task = random_task(shots=(1, 2, 3), n_unlabeled=9)
    method = on_features("soft-kmeans-cluster", form=form, distractor_radius=radius)
    support, labels, unlabeled, query = lists(task)
    slow = reference.cluster_logits(support, labels, unlabeled, query, 3, radius, form == "released")
    assert_close(method.logits(task), as_tensor(slow), rtol=1e-6, atol=1e-6)  # the radius is kept in float32


def test_the_paper_form_with_an_infinite_radius_is_soft_kmeans() -> None:
    task = random_task()
    method = on_features("soft-kmeans-cluster", form="paper")
    with torch.no_grad():
        method.log_radius.fill_(400.0)
    assert_close(method.logits(task), on_features("soft-kmeans").logits(task))


def test_the_released_cluster_has_a_column_for_none_of_the_classes() -> None:
    """Two classes at (10, 0) and (0, 10); a query at the origin belongs to neither."""
    support = torch.tensor([[10.0, 0.0], [0.0, 10.0]])
    task = Task(support, torch.tensor([0, 1]), support[:0], torch.tensor([[0.0, 0.0], [9.0, 0.0]]), 2)
    method = on_features("soft-kmeans-cluster", d=2, dtype=torch.float32)
    assert method.logits(task).argmax(-1).tolist() == [2, 0]
    assert on_features("soft-kmeans-cluster", d=2, dtype=torch.float32, form="paper").logits(task).shape == (2, 2)


def test_the_cluster_takes_the_point_that_is_far_from_every_class() -> None:
    support = torch.tensor([[10.0, 0.0], [0.0, 10.0]])
    unlabeled = torch.tensor([[9.5, 0.5], [0.5, 0.2], [-6.0, -6.0]])
    task = Task(support, torch.tensor([0, 1]), unlabeled, unlabeled, 2)
    method = on_features("soft-kmeans-cluster", d=2, dtype=torch.float32)
    assert method.pseudo_labels(task).selected.tolist() == [True, False, False]
    assert_close(method.centers(task)[2], unlabeled[1:].mean(0), rtol=0.05, atol=0.05)


def test_without_unlabeled_images_the_distractor_cluster_is_as_wide_as_in_the_released_code() -> None:
    """Two classes at (4, 0) and (0, 4); squared distance 16 to the nearer one is too far for radius 100 (8 > log 100) and
    near enough for 1e5 (8 < log 1e5)."""
    support = torch.tensor([[4.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    query = torch.tensor([[4.0, -4.0], [0.0, 4.0]], dtype=torch.float64)
    task = Task(support, torch.tensor([0, 1]), support[:0], query, 2)
    method = on_features("soft-kmeans-cluster", d=2)
    assert method.logits(task).argmax(-1).tolist() == [0, 1]
    assert method.logits(replace(task, unlabeled=support)).argmax(-1).tolist() == [2, 1]
    slow = reference.cluster_logits(*lists(task), 2, 100.0, released=True)
    assert_close(method.logits(task), as_tensor(slow))


class AtTheOrigin(EpisodeSampler):
    """Support and queries by hand: classes 0 and 1 at rows 0 and 1, a query of each there and one at row 2."""

    def batch(self, first: int, n: int) -> EpisodeRows:
        support, query, truth, none = (np.tile(row, (n, 1)) for row in ([0, 1], [0, 2, 1, 2], [0, 0, 1, 1], [[]]))
        none = none.astype(np.int64)
        return EpisodeRows(support, support, unlabeled=none, unlabeled_labels=none, query=query, query_labels=truth)


class Tens(SoftKMeansCluster):
    """Embeds rows 0, 1 and 2 of the store at 10, 20 and 0."""

    def embed_images(self, images: torch.Tensor) -> torch.Tensor:
        return torch.tensor([10.0, 20.0, 0.0])[images[:, 0, 0, 0].long()][:, None]


class OneNumber(Backbone):
    out_dim = 1


def test_a_query_that_falls_to_the_distractor_cluster_is_an_error(make_store) -> None:  # type: ignore[no-untyped-def]
    store = make_store({"test": [2, 2]})
    sampler = AtTheOrigin(store, EpisodeShape(n_way=2, n_shot=1, n_query=1, n_unlabeled=0), split="test", seed=0)
    result = evaluate(Tens(OneNumber()), sampler, 3)
    assert result.accuracies == (0.5, 0.5, 0.5)
    assert result.diagnostics["accuracy_among_classes"] == 75.0  # 0 is nearer to 10 than to 20


def test_a_cluster_centered_on_the_data_leaves_a_class_at_the_origin_alone() -> None:
    """Classes at 0.2 and 10: a query at -0.5 is nearer to the cluster at the origin than to its class; one at 5 is far."""
    support, unlabeled, query = (
        torch.tensor(part, dtype=torch.float64)[:, None] for part in ([0.2, 10.0], [-0.3, 9.8], [-0.5, 10.5])
    )
    task = Task(support, torch.tensor([0, 1]), unlabeled, query, 2)
    for center, expected in (("origin", [2, 1]), ("data", [0, 1])):
        method = on_features("soft-kmeans-cluster", d=1, distractor_radius=1.0, center=center)
        assert method.logits(task).argmax(-1).tolist() == expected


def test_a_cluster_centered_on_the_data_does_not_see_where_the_origin_is() -> None:
    task, method = random_task(), on_features("soft-kmeans-cluster", distractor_radius=1.0, center="data")
    moved = Task(task.support + 7, task.labels, task.unlabeled + 7, task.query + 7, 3)
    assert_close(method.logits(moved), method.logits(task))
    assert_close(method.pseudo_labels(moved).probabilities, method.pseudo_labels(task).probabilities)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    assert_close(method.logits(replace(task, unlabeled=task.unlabeled[order])), method.logits(task))


@pytest.mark.parametrize("sign", ["signed", "positive"])
def test_features_that_are_too_far_apart_are_warned_of(sign: str) -> None:
    """Squared distances of about 60 within a class. The warning comes once, and both repairs that it names are ones."""
    task = random_task(n_way=5, d=64, n_query=50, n_unlabeled=50, dtype=torch.float32)
    large = 1.4 if sign == "signed" else 1.9
    far = [large * (part if sign == "signed" else part.relu()) for part in (task.support, task.unlabeled, task.query)]
    task, truth = Task(far[0], task.labels, far[1], far[2], 5), torch.arange(50) % 5
    method = on_features("soft-kmeans-cluster", d=64, dtype=torch.float32)
    with pytest.warns(UserWarning, match="distractor cluster.*scale.*paper") as told:
        logits = [method.logits(task) for _ in range(3)]
    assert len(told) == 1
    assert (logits[0].argmax(-1) == 5).all()
    small = Task(far[0] / 6, task.labels, far[1] / 6, far[2] / 6, 5)
    assert (method.logits(small).argmax(-1) == truth).float().mean() > 0.9
    paper = on_features("soft-kmeans-cluster", d=64, dtype=torch.float32, form="paper")
    assert (paper.logits(task).argmax(-1) == truth).float().mean() > 0.9


def test_the_cluster_without_unlabeled_images_stays_at_the_origin() -> None:
    task = random_task(n_unlabeled=0)
    assert on_features("soft-kmeans-cluster").centers(task)[-1].abs().max() == 0


@pytest.mark.parametrize("squared", [False, True])
def test_masked_follows_its_paper(squared: bool) -> None:
    task = random_task(shots=(1, 2, 3), n_unlabeled=9)
    method = loud(on_features("masked-soft-kmeans", squared_mask=squared))
    support, labels, unlabeled, query = lists(task)
    parameters = [p.tolist() for p in method.border.parameters()]
    prototypes = [reference.class_mean(support, labels, c) for c in range(3)]
    weights = reference.masked_weights(unlabeled, prototypes, *parameters, power=2 if squared else 1)
    refined = reference.weighted_prototypes(support, labels, unlabeled, weights)
    assert_close(method.logits(task), as_tensor(reference.logits(query, refined)))


def loud(method: MaskedSoftKMeans) -> MaskedSoftKMeans:
    """With an MLP whose outputs are not nearly zero."""
    with torch.no_grad():
        for parameter in method.border.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    return method


def test_the_released_mask_is_the_square() -> None:
    task = random_task()
    once, twice = (on_features("masked-soft-kmeans", squared_mask=s) for s in (False, True))
    z, mask = once.assignments(task)
    assert not torch.allclose(once.logits(task), twice.logits(task))
    assert_close(twice.logits(task), -squared_distances(task.query, weighted(task, z * mask * mask)))


def weighted(task: Task, weights: torch.Tensor) -> torch.Tensor:
    support, labels, unlabeled, _ = lists(task)
    return as_tensor(reference.weighted_prototypes(support, labels, unlabeled, weights.tolist()))


def test_the_mask_begins_with_the_border_at_the_mean_distance() -> None:
    """beta and gamma start near 1: a point at the mean distance of a class passes by half."""
    torch.manual_seed(0)
    mask = on_features("masked-soft-kmeans").mask(torch.tensor([[1.0], [3.0], [2.0]], dtype=torch.float64))
    expected = torch.tensor([[0.5], [1.5], [1.0]], dtype=torch.float64)
    assert_close(mask, torch.sigmoid(1 - expected), atol=0.02, rtol=0)


def test_without_unlabeled_images_masked_is_the_prototypical_network() -> None:
    task = random_task(n_unlabeled=0)
    assert_close(on_features("masked-soft-kmeans").logits(task), on_features("protonet").logits(task))


def test_an_open_mask_is_soft_kmeans() -> None:
    task, method = random_task(), on_features("masked-soft-kmeans")
    with torch.no_grad():
        method.border[2].bias.copy_(torch.tensor([10.0, 0.0, 5.0]))  # a border far out
    assert_close(method.logits(task), on_features("soft-kmeans").logits(task))


def test_statistics_of_distances() -> None:
    """0, 0, 0, 4: mean 1, variance 3, third moment 6, fourth 21."""
    column = torch.tensor([[0.0], [0.0], [0.0], [4.0]], dtype=torch.float64)
    expected = [0.0, 4.0, 3.0, 6 / 3**1.5, 21 / 9 - 3]
    assert_close(distance_statistics(column)[0], torch.tensor(expected, dtype=torch.float64))
    assert_close(as_tensor([reference.mask_statistics([0.0, 0.0, 0.0, 4.0])])[0], distance_statistics(column)[0])


def test_equal_distances_have_no_shape_even_after_rounding() -> None:
    column = torch.full((7, 1), 0.21965)
    assert distance_statistics(column / column.mean(0))[0, 2:].tolist() == [1.0, 0.0, -3.0]


@pytest.mark.parametrize("radius", [0.5, 0.78, 1.15, 2.0])
@pytest.mark.parametrize("scale", [1.0, 2.0, 3.0])
def test_a_small_radius_gives_no_broken_gradient(radius: float, scale: float) -> None:
    task = random_task(n_way=5, d=64, n_unlabeled=25, dtype=torch.float32)
    embeddings = [(scale * part.abs()).requires_grad_() for part in (task.support, task.unlabeled, task.query)]
    method = with_gradients(on_features("soft-kmeans-cluster", d=64, dtype=torch.float32, distractor_radius=radius))
    method.logits(Task(embeddings[0], task.labels, embeddings[1], embeddings[2], 5)).log_softmax(-1)[
        :, 0
    ].sum().backward()
    assert all(torch.isfinite(point.grad).all() for point in embeddings)


@pytest.mark.parametrize("unlabeled", [[[0.0, 0.0]], [[3.0, 3.0]] * 4])
def test_equal_distances_are_no_problem_for_the_mask(unlabeled: list[list[float]]) -> None:
    support = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    embeddings = torch.tensor(unlabeled).requires_grad_()
    task = Task(support, torch.tensor([0, 1]), embeddings, support, 2)
    logits = with_gradients(on_features("masked-soft-kmeans", d=2, dtype=torch.float32)).logits(task)
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert torch.isfinite(embeddings.grad).all()


@pytest.mark.parametrize("name", ["soft-kmeans-cluster", "masked-soft-kmeans"])
def test_gradients_flow_through_the_assignments(name: str) -> None:
    """Unlike in Soft k-Means. Masked's statistics are held, so its check is on the cluster and, for Masked, on the embeddings
    with a frozen border."""
    task, method = random_task(d=4), on_features(name, d=4)
    if name == "masked-soft-kmeans":
        with torch.no_grad():
            method.border[0].weight.zero_()  # the border no longer depends on the statistics
    gradients_agree(method, task)


def test_the_statistics_of_masked_do_not_train_the_embedding() -> None:
    task, method = random_task(), loud(on_features("masked-soft-kmeans"))
    unlabeled = task.unlabeled.clone().requires_grad_()
    distances = squared_distances(unlabeled, task.support[:3])
    features = distance_statistics((distances / distances.mean(-2, keepdim=True)).detach())
    o1, _, o3 = method.border(features).unbind(-1)
    normalized = distances / distances.mean(-2, keepdim=True)
    by_hand = torch.sigmoid(o3.exp() * (o1.exp() - normalized))
    (expected,) = torch.autograd.grad(by_hand.sum(), unlabeled, retain_graph=True)
    (got,) = torch.autograd.grad(method.mask(distances).sum(), unlabeled)
    assert_close(got, expected)


def test_semi_inference_trains_as_the_prototypical_network(glyphs: ImageStore) -> None:
    weights = []
    for name in ("protonet", "semi-inference"):
        torch.manual_seed(0)
        method = build_method(name, build_backbone("conv4", glyphs.image_shape))
        sampler = EpisodeSampler(glyphs, GLYPHS.train, split="train", seed=0, labeled_share=GLYPHS.labeled_share)
        train(method, sampler, TrainConfig(n_episodes=5))
        weights.append(method.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_semi_inference_is_soft_kmeans_at_test() -> None:
    task = random_task()
    assert torch.equal(on_features("semi-inference").logits(task), on_features("soft-kmeans").logits(task))
    assert not torch.allclose(on_features("semi-inference").logits(task), on_features("protonet").logits(task))


def test_a_radius_is_positive() -> None:
    with pytest.raises(Exception, match=r"distractor_radius .* -1"):
        on_features("soft-kmeans-cluster", distractor_radius=-1.0)


def test_the_learned_radius_is_logged() -> None:
    method = on_features("soft-kmeans-cluster")
    assert method.diagnostics(random_task())["distractor_radius"] == pytest.approx(100, rel=1e-5)


def test_the_cluster_keeps_a_distractor_out_of_the_prototypes() -> None:
    """Two classes on the axes, one unlabeled point near the origin: Soft k-Means lets it in, the cluster hardly."""
    support = torch.tensor([[6.0, 0.0], [0.0, 6.0]], dtype=torch.float64)
    task = Task(support, torch.tensor([0, 1]), torch.tensor([[0.3, 0.2]], dtype=torch.float64), support, 2)
    moved = -on_features("soft-kmeans", d=2).logits(replace(task, query=support)).diagonal()
    cluster = on_features("soft-kmeans-cluster", d=2)
    assert moved.max() > 1
    assert (cluster.centers(task)[:2] - support).norm(dim=-1).max() < 0.01
