"""Matching Networks: attention over the support against loops, and full context embeddings against an LSTM's equations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from sala.data import ImageStore
from sala.errors import SalaError
from sala.functional import attention
from sala.methods import build_method
from sala.methods.matchingnet import MatchingNet
from sala.nn.backbones import build_backbone
from tests.helpers import beyond_reference as reference
from tests.helpers.tasks import as_tensor, gradients_agree, images_task, learns_glyphs, lists, on_features, random_task


def test_attention_weights_are_a_softmax_of_products() -> None:
    task = random_task(n_query=3)
    support, _, _, query = lists(task)
    by_hand = [reference.softmax([0.7 * reference.dot(q, x) for x in support]) for q in query]
    assert_close(attention(task.query, task.support, scale=0.7), as_tensor(by_hand))


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_probabilities_are_attention_summed_over_each_class(scale: float) -> None:
    task = random_task(shots=(1, 2, 3))
    support, labels, _, query = lists(task)
    by_hand = [reference.matching_probabilities(q, support, labels, 3, scale) for q in query]
    assert_close(on_features("matchingnet", scale=scale).logits(task).exp(), as_tensor(by_hand))


def test_only_the_direction_of_an_embedding_matters() -> None:
    task, method = random_task(), on_features("matchingnet")
    assert_close(method.logits(replace(task, query=3 * task.query, support=0.1 * task.support)), method.logits(task))


def test_a_query_in_one_direction_with_one_image_of_five() -> None:
    """The largest probability that the paper's attention can give: e^2 / (e^2 + 4)."""
    support = torch.tensor([[1.0], [-1.0], [-1.0], [-1.0], [-1.0]], dtype=torch.float64)
    task = replace(random_task(n_way=5, shots=1, d=1), support=support, query=support[:1])
    assert on_features("matchingnet", d=1).logits(task)[0, 0].exp() == pytest.approx(math.e**2 / (math.e**2 + 4))


def test_no_embedding_of_a_relu_is_opposite_to_another() -> None:
    """Cosines are from 0 to 1 then, and the largest probability is e / (e + 4)."""
    eye = torch.eye(5, dtype=torch.float64)
    task = replace(random_task(n_way=5, shots=1, d=5), support=eye, query=eye[:1])
    assert on_features("matchingnet", d=5).logits(task)[0, 0].exp() == pytest.approx(math.e / (math.e + 4))
    torch.manual_seed(0)
    method = build_method("matchingnet", build_backbone("conv4", (28, 28, 1))).eval()
    assert method.embed(images_task()[0]).query.min() >= 0


def test_a_large_scale_is_the_nearest_neighbor_and_stays_finite() -> None:
    task = random_task(dtype=torch.float32)
    logits = on_features("matchingnet", dtype=torch.float32, scale=1e4).logits(task)
    cosines = torch.nn.functional.cosine_similarity(task.query[:, None], task.support[None], dim=-1)
    assert torch.isfinite(logits).all()
    assert torch.equal(logits.argmax(-1), task.labels[cosines.argmax(-1)])


@pytest.mark.parametrize("n_reads", [1, 3])
def test_full_context_embeddings_follow_the_equations(n_reads: int) -> None:
    task = random_task(shots=(1, 2, 1), d=4)
    method = on_features("matchingnet", d=4, context=True, n_reads=n_reads)
    support, labels, _, query = lists(task)
    forward, backward, reader = cells(method)
    g = reference.context_of_support(support, forward, backward)
    f = [reference.context_of_query(q, g, reader, n_reads) for q in query]
    embedded = method.context(task)
    assert_close(embedded.support, as_tensor(g))
    assert_close(embedded.query, as_tensor(f))
    by_hand = [reference.matching_probabilities(q, g, labels, 3, 1.0) for q in f]
    assert_close(method.logits(task).exp(), as_tensor(by_hand))


def cells(method: MatchingNet) -> tuple[reference.Cell, reference.Cell, reference.Cell]:
    """The LSTM over the support, forward and backward, and the reader."""
    assert method.context is not None
    over, reader = method.context.over_support, method.context.reader
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    both = [[getattr(over, f"{name}_l0{end}").tolist() for name in names] for end in ("", "_reverse")]
    return (
        reference.Cell(*both[0]),
        reference.Cell(*both[1]),
        reference.Cell(*(getattr(reader, name).tolist() for name in names)),
    )


def test_without_weights_the_context_adds_nothing() -> None:
    """All states are 0 then, and only the plain embeddings remain."""
    task, method = random_task(), on_features("matchingnet", context=True)
    with torch.no_grad():
        for parameter in method.context.parameters():
            parameter.zero_()
    assert_close(method.logits(task), on_features("matchingnet").logits(task))


def test_with_context_the_order_of_the_support_matters() -> None:
    task, method = random_task(), on_features("matchingnet", context=True)
    turned = replace(task, support=task.support.flip(0), labels=task.labels.flip(0))
    assert not torch.allclose(method.logits(turned), method.logits(task))


def test_with_context_queries_do_not_see_each_other_and_batches_are_single_tasks() -> None:
    tasks, method = random_task(batch=(2,), n_query=5), on_features("matchingnet", context=True)
    together = method.logits(tasks)
    for i in range(2):
        for j in range(5):
            parts = (tasks.support[i], tasks.labels[i], tasks.unlabeled[i], tasks.query[i, j : j + 1])
            alone = replace(tasks, **dict(zip(("support", "labels", "unlabeled", "query"), parts, strict=True)))
            assert_close(together[i, j : j + 1], method.logits(alone))


@pytest.mark.parametrize("context", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gradients_match_finite_differences(context: bool) -> None:
    gradients_agree(on_features("matchingnet", d=3, context=context, n_reads=2), random_task(d=3, n_query=2))


def test_options_that_make_no_attention_are_refused() -> None:
    with pytest.raises(SalaError, match="scale"):
        on_features("matchingnet", scale=0.0)
    with pytest.raises(SalaError, match="n_reads"):
        on_features("matchingnet", context=True, n_reads=0)


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"context": True, "n_reads": 2}, marks=pytest.mark.slow)], ids=str
)
def test_it_learns_letters(options: dict[str, object], glyphs: ImageStore) -> None:
    learns_glyphs("matchingnet", glyphs, **options)
