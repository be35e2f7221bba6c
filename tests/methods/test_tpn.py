"""TPN: the graph, the closed form and the two forms of the method, against loops and limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from sala.errors import SalaError
from sala.methods import build_method, tpn
from sala.methods.tpn import LengthScale, bordered, neighbors, propagate, similarities
from sala.nn.backbones import build_backbone
from tests.helpers import reference
from tests.helpers.tasks import as_tensor, gradients_agree, images_task, lists, on_features, random_task, with_gradients


def sigmas(method: tpn.TPN, embeddings: list[list[float]]) -> list[float]:
    return method.length_scale(as_tensor(embeddings))[:, 0].tolist()


def seeds(labels: list[int], n_way: int, n_nodes: int) -> list[list[float]]:
    rows = [[float(c == y) for c in range(n_way)] for y in labels]
    return rows + [[0.0] * n_way] * (n_nodes - len(rows))


@pytest.mark.parametrize("k", [3, 20])
def test_tpn_follows_its_paper_one_query_at_a_time(k: int) -> None:
    """Also with k above the number of nodes."""
    task, method = random_task(shots=(1, 2, 3), n_unlabeled=5), on_features("tpn", k=k, alpha=0.9)
    support, labels, unlabeled, query = lists(task)
    expected = []
    for q in query:
        embeddings = [*support, *unlabeled, q]
        graph = reference.propagation_graph(embeddings, sigmas(method, embeddings), k)
        expected.append(reference.propagate_by_iteration(graph, seeds(labels, 3, len(embeddings)), 0.9, 400)[-1])
    assert_close(method.logits(task), as_tensor(expected))


def test_the_transductive_form_is_one_graph_with_all_queries() -> None:
    task, method = random_task(n_unlabeled=5), on_features("tpn", transductive=True, alpha=0.9)
    support, labels, unlabeled, query = lists(task)
    embeddings = [*support, *unlabeled, *query]
    graph = reference.propagation_graph(embeddings, sigmas(method, embeddings), 20)
    final = reference.propagate_by_iteration(graph, seeds(labels, 3, len(embeddings)), 0.9, 400)
    assert_close(method.logits(task), as_tensor(final[-len(query) :]))


def test_with_one_query_the_two_forms_are_the_same() -> None:
    task = random_task(n_query=1)
    assert_close(on_features("tpn").logits(task), on_features("tpn", transductive=True).logits(task))


def test_the_transductive_form_lets_queries_see_each_other() -> None:
    task, method = random_task(n_query=6), on_features("tpn", transductive=True)
    assert not torch.allclose(method.logits(task)[:1], method.logits(replace(task, query=task.query[:1])))


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99])
def test_the_iteration_reaches_the_closed_form(alpha: float) -> None:
    """F <- alpha S F + Y. At 0.99 it takes a while: 0.99^4000 is 3e-18."""
    W = torch.rand(7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    W = (W + W.T) / 2
    W.fill_diagonal_(1)
    Y = torch.eye(7, 3, dtype=torch.float64)
    S = tpn.normalized(W * neighbors(W, 4))
    state = Y
    for _ in range(4_000):
        state = alpha * S @ state + Y
    assert_close(propagate(W, Y, 4, alpha), state)


def test_the_graph_is_symmetric_and_keeps_the_point_itself() -> None:
    embeddings = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    W = similarities(embeddings, embeddings)
    kept = neighbors(W, 3)
    assert_close(W.diagonal(), torch.ones(9))
    assert kept.diagonal().all()
    assert torch.equal(kept, kept.T)
    assert (kept.sum(-1) >= 3).all()


def test_similarity_is_the_mean_over_features() -> None:
    """(0, 0) and (2, 0): the mean squared difference is 2, so exp(-1)."""
    a, b = torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 0.0]])
    assert similarities(a, b).item() == pytest.approx(0.36787944)


def test_a_bordered_graph_is_the_graph_of_all_its_nodes() -> None:
    embeddings = torch.randn(8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    known, queries = embeddings[:5], embeddings[5:]
    graphs = bordered(similarities(known, known), similarities(queries, known))
    for i in range(3):
        nodes = torch.cat([known, queries[i : i + 1]])
        assert_close(graphs[i], similarities(nodes, nodes))


def test_many_graphs_are_propagated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    task, method = random_task(n_query=7, batch=(2,)), on_features("tpn")
    whole = method.logits(task)
    monkeypatch.setattr(tpn, "ELEMENTS_AT_ONCE", 2 * 2 * 14**2)
    with torch.inference_mode():
        assert_close(method.logits(task), whole)
        assert method.propagated(task).support.shape == (2, 7, 6, 3)


def test_the_loss_of_tpn_gives_support_its_share() -> None:
    """The mean over all query rows, each from its own graph, and all support rows, each averaged over the graphs."""
    torch.manual_seed(0)
    method = build_method("tpn", build_backbone("conv4", (28, 28, 1))).double().eval()
    task, labels = images_task()
    task = replace(task, **{part: getattr(task, part).double() / 255 for part in ("support", "unlabeled", "query")})
    embedded = method.embed(task)
    on_rows = []
    on_support = torch.zeros(3)
    for i, label in enumerate(labels):
        rows = method.propagated(replace(embedded, query=embedded.query[i : i + 1]))
        on_rows.append(-rows.query[0].log_softmax(-1)[label])
        own = -rows.support[0].log_softmax(-1).diagonal()
        on_support = on_support + own / len(labels)
    expected = (torch.stack(on_rows).sum() + on_support.sum()) / (len(labels) + 3)
    assert_close(method.loss(task, labels), expected)


def test_the_loss_of_the_transductive_form_is_on_support_and_queries() -> None:
    torch.manual_seed(0)
    method = build_method("tpn", build_backbone("conv4", (28, 28, 1)), {"transductive": True}).eval()
    task, labels = images_task()
    embedded = method.embed(task)
    scaled = method.scaled(embedded)
    embeddings = torch.cat([scaled.support, scaled.unlabeled, scaled.query])
    W = similarities(embeddings, embeddings)
    S = tpn.normalized(W * neighbors(W, 20))
    Y = torch.eye(len(embeddings), 3)
    rows = (torch.linalg.inv(torch.eye(len(embeddings)) - 0.99 * S) @ Y).log_softmax(-1)
    both = [-rows[i, i] for i in range(3)] + [-rows[7 + i, label] for i, label in enumerate(labels)]
    assert_close(method.loss(task, labels), torch.stack(both).mean(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", [True, False])
def test_the_length_scale_network_by_hand(mode: bool) -> None:
    """Two blocks of conv, batch norm, ReLU and padded pool, then 8 units with ReLU and one linear output, of any sign."""
    torch.manual_seed(0)
    network = LengthScale((3, 5, 5)).train(mode)
    embeddings = torch.randn(6, 75)
    x = embeddings.reshape(6, 3, 5, 5)
    for conv, norm, *_ in network.blocks:
        x = torch.nn.functional.conv2d(x, conv.weight, conv.bias, padding=1)
        mean, variance = (
            (x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)) if mode else (torch.zeros(1), torch.ones(1))
        )
        x = (x - mean.reshape(1, -1, 1, 1)) / (variance.reshape(1, -1, 1, 1) + norm.eps).sqrt()
        x = torch.nn.functional.max_pool2d(x.clamp_min(0), 2, padding=1)
    first, _, last = network.head
    expected = (x.flatten(1) @ first.weight.T + first.bias).clamp_min(0) @ last.weight.T + last.bias
    assert_close(network(embeddings), expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        last.bias.fill_(-3.0)
    assert (network(embeddings) < 0).all()


def test_equal_images_keep_themselves_as_neighbors() -> None:
    assert neighbors(torch.ones(30, 30), 5).diagonal().all()


@pytest.mark.slow  # thousands of parameters, one at a time
def test_gradients_of_tpn_match_finite_differences() -> None:
    method = on_features("tpn", d=4, alpha=0.8)
    gradients_agree(method, random_task(d=4, n_unlabeled=3, n_query=2))


def test_a_chain_carries_the_label_to_its_end() -> None:
    """A query far from both labeled images, at the end of a chain of unlabeled ones that begins at class 0."""
    support = torch.tensor([[0.0], [-4.0]], dtype=torch.float64)
    chain = torch.arange(1.0, 8.0, dtype=torch.float64)[:, None]
    task = replace(random_task(n_way=2, shots=1, d=1), support=support, labels=torch.tensor([0, 1]), unlabeled=chain)
    method = on_features("tpn", d=1, k=3)
    with torch.no_grad():
        method.length_scale.head[2].weight.zero_()
        method.length_scale.head[2].bias.fill_(1.0)
    logits = method.logits(replace(task, query=torch.tensor([[8.0]], dtype=torch.float64)))
    assert logits.argmax().item() == 0
    assert logits[0, 0] > 2 * logits[0, 1]
    assert (method.pseudo_labels(task).probabilities.argmax(-1) == 0).all()  # the whole chain
    other_end = replace(task, unlabeled=torch.cat([chain, -3 - chain]))
    assert method.pseudo_labels(other_end).probabilities.argmax(-1).tolist() == [0] * 7 + [1] * 7


@pytest.mark.parametrize(("in_map", "features"), [((64, 5, 5), 4), ((64, 1, 1), 1), ((64, 2, 2), 4), ((8, 3, 3), 4)])
def test_the_length_scale_network_takes_maps_of_any_size(in_map: tuple[int, int, int], features: int) -> None:
    network = LengthScale(in_map)
    assert network.head[0].in_features == features
    embeddings = torch.randn(4, in_map[0] * in_map[1] * in_map[2])
    assert network(embeddings).shape == (4, 1)


def test_a_length_scale_of_zero_cuts_a_point_off_and_breaks_nothing() -> None:
    task, method = random_task(dtype=torch.float32), on_features("tpn", dtype=torch.float32)
    with torch.no_grad():
        method.length_scale.head[2].weight.zero_()
        method.length_scale.head[2].bias.zero_()
    support = task.support.clone().requires_grad_()
    logits = with_gradients(method).logits(replace(task, support=support))
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert torch.isfinite(support.grad).all()


def test_options_that_make_no_graph_are_refused() -> None:
    with pytest.raises(SalaError, match="alpha"):
        on_features("tpn", alpha=1.0)
    with pytest.raises(SalaError, match="k must"):
        on_features("tpn", k=0)
