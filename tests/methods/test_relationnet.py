"""Relation Networks: the relation module against loops over pairs, the loss by hand, and maps instead of vectors."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from sala.data import ImageStore
from sala.methods import build_method
from sala.nn.backbones import build_backbone
from sala.nn.relation import RelationModule, halved
from tests.helpers.tasks import gradients_agree, images_task, learns_glyphs, lists, on_features, random_task


def pair_by_pair(module: RelationModule, queries: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Sung et al., fig. 2: each pair's maps on top of each other, class first; norms by running statistics."""
    rows = []
    for query in queries:
        scores = []
        for c in classes:
            x = torch.cat([c.reshape(module.in_map), query.reshape(module.in_map)])[None]
            for conv, norm in zip((module.first, module.second), module.norms, strict=True):
                x = norm(conv(x)).clamp_min(0)
                x = x if x.shape[-1] == 1 else torch.max_pool2d(x, 2)
            first, _, last = module.head
            hidden = (x.flatten() @ first.weight.T + first.bias).clamp_min(0)
            scores.append(hidden @ last.weight[0] + last.bias[0])
        rows.append(torch.stack(scores))
    return torch.stack(rows)


def module_on(in_map: tuple[int, int, int]) -> RelationModule:
    torch.manual_seed(0)
    module = RelationModule(in_map, width=5).double().eval()
    for norm in module.norms:
        torch.nn.init.normal_(norm.weight)
        norm.running_mean.normal_()
    return module


@pytest.mark.parametrize("in_map", [(3, 7, 7), (3, 5, 5), (6, 1, 1)])
def test_scores_are_those_of_each_pair_alone(in_map: tuple[int, int, int]) -> None:
    module, d = module_on(in_map), in_map[0] * in_map[1] * in_map[2]
    queries, classes = torch.randn(2, 4, d, dtype=torch.float64), torch.randn(2, 3, d, dtype=torch.float64)
    by_hand = [pair_by_pair(module, *maps) for maps in zip(queries, classes, strict=True)]
    assert_close(module(queries, classes), torch.stack(by_hand))


def test_the_sides_of_a_map_are_halved_and_one_pixel_stays() -> None:
    assert [halved(torch.zeros(1, 1, n, n)).shape[-1] for n in (21, 7, 3, 2, 1)] == [10, 3, 1, 1, 1]


def test_in_training_all_pairs_of_a_task_are_one_batch() -> None:
    """The statistics are over pairs, and the order of queries and classes does not matter."""
    module = module_on((3, 4, 4)).train()
    queries, classes = torch.randn(4, 48, dtype=torch.float64), torch.randn(3, 48, dtype=torch.float64)
    scores = module(queries, classes)
    x = module.first_of_pairs(queries.reshape(-1, 3, 4, 4), classes.reshape(-1, 3, 4, 4))
    assert len(x) == 12
    assert_close(module(queries.flip(0), classes.flip(0)), scores.flip(0).flip(1))


def test_the_loss_is_the_mean_square_over_pairs() -> None:
    method = on_features("relationnet")
    task = random_task(shots=(1, 2, 3), n_query=4)
    labels = torch.tensor([0, 1, 2, 0])
    relations = method.logits(task).sigmoid().tolist()
    pairs = [(r, float(y == c)) for row, y in zip(relations, labels.tolist(), strict=True) for c, r in enumerate(row)]
    assert method.loss(task, labels).item() == pytest.approx(sum((r - t) ** 2 for r, t in pairs) / len(pairs))


def test_maps_of_a_class_are_averaged_or_summed() -> None:
    task = random_task(shots=(1, 2, 3))
    support, labels, _, _ = lists(task)
    means, sums = (on_features("relationnet", class_map=kind).class_maps(task) for kind in ("mean", "sum"))
    for c, n in enumerate((1, 2, 3)):
        total = [sum(x[j] for x, y in zip(support, labels, strict=True) if y == c) for j in range(6)]
        assert_close(sums[c], torch.tensor(total, dtype=torch.float64))
        assert_close(means[c], sums[c] / n)


def test_with_one_shot_the_sum_is_the_mean() -> None:
    task = random_task(shots=1)
    assert_close(*(on_features("relationnet", class_map=kind).logits(task) for kind in ("mean", "sum")))


def test_maps_of_a_small_network_reach_the_relation_module() -> None:
    method = build_method("relationnet", build_backbone("conv4", (28, 28, 1)))
    assert method.embed(images_task()[0]).query.shape == (6, 64 * 7 * 7)
    assert method.relation.head[0].in_features == 64


def test_gradients_match_finite_differences() -> None:
    method = on_features("relationnet", d=3)
    torch.manual_seed(0)
    method.relation = RelationModule((3, 1, 1), width=3, hidden=2).double().eval()
    gradients_agree(method, random_task(d=3, n_query=2))


@pytest.mark.slow
def test_it_learns_letters(glyphs: ImageStore) -> None:
    learns_glyphs("relationnet", glyphs)
