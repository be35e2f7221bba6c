"""Matching Networks: a query's label is a mean of the support's labels, weighted by attention."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from sala.episodes.task import Task
from sala.errors import SalaError, at_least
from sala.functional import attention, one_hot, unit_length
from sala.methods.base import Method
from sala.nn.backbones import Backbone


class MatchingNet(Method):
    """Attention over the support, by cosine similarity; with full context embeddings each image knows its task.

    Vinyals et al., NeurIPS 2016, arXiv:1606.04080.

    1. P(c | x, S) = sum_i a(x, x_i) 1[y_i = c]                                    (eq. 1)
    2. a(x, x_i) = softmax_i cos(f(x), g(x_i)), over the whole support             (sec. 2.1.1)

    With `context=True` the plain embeddings f', g' become full context embeddings (sec. 2.1.2, appendix A):

    3. g(x_i) = h_i + h'_i + g'(x_i), h and h' the states of an LSTM over
       g'(x_1), ..., g'(x_S), forward and backward
    4. K times: r = sum_i softmax_i(h.g(x_i)) g(x_i); h <- LSTM(f'(x), [h, r]) + f'(x);
       f(x) is the last h

    Unlabeled images are not used: the paper has no form with them. The logits are log P.

    Deviations: f' and g' are one network, as in the paper's experiments, and the common one. `scale` multiplies the cosine
    and is 1 in the paper; then no class of five has more than e^2 / (e^2 + 4) of the probability, and e / (e + 4) where a
    network ends in a ReLU, as here (test_no_embedding_of_a_relu_is_opposite_to_another). The paper gives neither K
    nor the first state: h and the cell begin at 0, so that the first r is the mean of the support. With `context` the order
    of the support matters, as in the paper (test_with_context_the_order_of_the_support_matters). Trained with as many ways
    as tested.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    context : bool, default False
        Whether embeddings are full context embeddings.
    n_reads : int, default 5
        K, how often a query reads the support; with `context`.
    scale : float, default 1.0
        Of the cosine similarity.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 0.0]])
    >>> method = sala.build_method("matchingnet", sala.Identity(2)).eval()
    >>> method.classify(task).exp()  # e / (e + 1)
    tensor([[0.7311, 0.2689]])
    """

    paper = "Vinyals et al., NeurIPS 2016"
    batched = True
    trains_on_unlabeled = tests_on_unlabeled = False
    sums_distances = False  # cosines

    def __init__(self, backbone: Backbone, *, context: bool = False, n_reads: int = 5, scale: float = 1.0):
        super().__init__(backbone)
        at_least(1, n_reads, "the number of reads n_reads")
        if not scale > 0:
            raise SalaError(f"scale must be above 0; got {scale:g}")
        self.scale = scale
        self.context = FullContext(backbone.out_dim, n_reads) if context else None

    def logits(self, task: Task) -> Tensor:
        task = task if self.context is None else self.context(task)
        a = attention(unit_length(task.query), unit_length(task.support), scale=self.scale)
        probabilities = a @ one_hot(task.labels, task.n_way, like=a)
        return probabilities.clamp_min(torch.finfo(a.dtype).tiny).log()


class FullContext(nn.Module):
    """Embeddings that depend on the whole support: an LSTM over it both ways, and an LSTM of the queries that reads it."""

    def __init__(self, dim: int, n_reads: int):
        super().__init__()
        self.n_reads = n_reads
        self.over_support = nn.LSTM(dim, dim, bidirectional=True, batch_first=True)
        self.reader = nn.LSTMCell(
            2 * dim, dim
        )  # of f'(x) and r beside its state h: the LSTM(f', [h, r], c) of the paper

    def forward(self, task: Task) -> Task:
        support = self.of_support(task.support)
        return replace(task, support=support, query=self.of_queries(task.query, support))

    def of_support(self, support: Tensor) -> Tensor:  # [..., S, d] -> [..., S, d]
        """g(x_i): the states of both directions and the plain embedding, added up."""
        states: Tensor = self.over_support(support.reshape(-1, *support.shape[-2:]))[0]
        forward, backward = states.reshape(*support.shape[:-1], -1).chunk(2, dim=-1)
        return forward + backward + support

    def of_queries(self, queries: Tensor, support: Tensor) -> Tensor:  # [..., Q, d], [..., S, d] -> [..., Q, d]
        """f(x): the state after K reads. Each query reads alone."""
        h, cell = torch.zeros_like(queries), torch.zeros_like(queries).flatten(0, -2)
        for _ in range(self.n_reads):
            r = attention(h, support) @ support
            out, cell = self.reader(torch.cat([queries, r], -1).flatten(0, -2), (h.flatten(0, -2), cell))
            h = out.reshape(queries.shape) + queries
        return h
