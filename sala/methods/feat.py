"""FEAT: prototypes that look at each other before a query is compared with them."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from sala.episodes.task import Task
from sala.errors import SalaError
from sala.functional import attention, class_means, squared_distances
from sala.methods.base import Method, checked_logits, cross_entropy, generator_of
from sala.nn.backbones import Backbone

ATTENTION_DROPOUT = 0.1  # released code


class FEAT(Method):
    """Prototypes are adapted to the task by self-attention: a function from a set to a set, in whatever order.

    Ye et al., CVPR 2020, arXiv:1812.03664.

    1. Q_c = W_Q p_c, K_c = W_K p_c, V_c = W_V p_c of each prototype p_c
    2. p'_c = LayerNorm(p_c + W sum_k softmax_k(Q_c.K_k / sqrt(d)) V_k)
    3. softmax_c(-||g(x) - p'_c||^2 / T)
    4. a further loss, `balance` times: support and queries of each class are adapted among themselves, and each of them
       is classified by its distance to the means of the adapted sets, / T_2                   (contrastive objective)

    In training dropout acts on the attention and on W's output. Unlabeled images are not used; `SemiFEAT` uses them.

    Deviations: the backbone is trained from the beginning with everything else, by the common optimizer; the paper's
    comes from a classification of all training classes and has a tenth of the learning rate. T and T_2 are those of the
    released command for a small convolutional network; its embeddings have 64 numbers. Dropout is a
    function of the task's images, so that a training can be repeated bit for bit.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    temperature : float, default 64.0
        T, of the distances to adapted prototypes.
    balance : float, default 1.0
        Weight of the further loss; 0 removes it.
    balance_temperature : float, default 16.0
        T_2, of the distances in the further loss.
    dropout : float, default 0.5
        Share of W's output that is dropped in training; 0 also removes dropout of the attention.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0, 1.0], [1.0, 0.0]], labels=[0, 1], query=[[0.2, 0.9]])
    >>> sala.build_method("feat", sala.Identity(2)).eval().classify(task).shape
    torch.Size([1, 2])
    """

    paper = "Ye et al., CVPR 2020"
    batched = True
    trains_on_unlabeled = tests_on_unlabeled = False
    sums_distances = False  # its temperature scales them

    def __init__(
        self,
        backbone: Backbone,
        *,
        temperature: float = 64.0,  # released command
        balance: float = 1.0,  # released command
        balance_temperature: float = 16.0,  # released command
        dropout: float = 0.5,  # released code
    ):
        super().__init__(backbone)
        if not (temperature > 0 and balance_temperature > 0 and balance >= 0 and 0 <= dropout < 1):
            raise SalaError(
                "temperature and balance_temperature must be above 0, balance at least 0, dropout from 0 to below 1; got "
                f"{temperature:g}, {balance_temperature:g}, {balance:g} and {dropout:g}"
            )
        self.temperature, self.balance, self.balance_temperature = temperature, balance, balance_temperature
        self.set_to_set = SetToSet(backbone.out_dim, dropout)

    def logits(self, task: Task) -> Tensor:
        return self.adapted_logits(task)

    def adapted_logits(self, task: Task, noise: Generator | None = None) -> Tensor:
        """Class scores by adapted prototypes; with dropout where there is noise."""
        prototypes = class_means(task.support, task.labels, task.n_way)
        adapted = self.set_to_set(prototypes, self.attended(task, prototypes), noise=noise)
        return -squared_distances(task.query, adapted) / self.temperature

    def attended(self, task: Task, prototypes: Tensor) -> Tensor:  # -> [..., n, d]
        """What the prototypes attend to: each other."""
        return prototypes

    def loss(self, task: Task, query_labels: Tensor, player: str = "classifier") -> Tensor:
        embedded, noise = self.embed(task), generator_of(task) if self.training else None
        loss = cross_entropy(checked_logits(self.adapted_logits(embedded, noise), task, self), query_labels)
        if not self.balance:
            return loss
        return loss + self.balance * self.contrastive_loss(embedded, query_labels, noise)

    def contrastive_loss(self, task: Task, query_labels: Tensor, noise: Generator | None = None) -> Tensor:
        """Support and queries against the means of what each class becomes among itself."""
        labels = torch.cat([task.labels, query_labels], -1)
        instances = torch.cat([task.support, task.query], -2)
        among = labels[..., :, None] == labels[..., None, :]
        adapted = self.set_to_set(instances, instances, among=among, noise=noise)
        centers = class_means(adapted, labels, task.n_way)
        return cross_entropy(-squared_distances(instances, centers) / self.balance_temperature, labels)


class SemiFEAT(FEAT):
    """FEAT whose prototypes attend to the unlabeled images of the task as well.

    Ye et al., CVPR 2020, arXiv:1812.03664, the transductive form: p'_c has further keys K_j = W_K g(x_j) and values
    V_j = W_V g(x_j), of each unlabeled x_j. Without unlabeled images it is FEAT.

    Deviations: there the unlabeled images are the queries; here they are the unlabeled set of the episode, and queries do
    not see each other. The others are those of `FEAT`, whose parameters it has.

    Examples
    --------
    >>> import sala
    >>> parts = {"support": [[0.0, 1.0], [1.0, 0.0]], "labels": [0, 1], "query": [[0.2, 0.9]]}
    >>> task = sala.make_task(**parts, unlabeled=[[0.1, 0.8], [0.9, 0.2]])
    >>> sala.build_method("semi-feat", sala.Identity(2)).eval().classify(task).shape
    torch.Size([1, 2])
    """

    batched = True
    trains_on_unlabeled = tests_on_unlabeled = True

    def attended(self, task: Task, prototypes: Tensor) -> Tensor:
        """Each other and the unlabeled images."""
        return torch.cat([prototypes, task.unlabeled], -2)


class SetToSet(nn.Module):
    """Attention with one head, a linear layer, a skip connection and layer norm."""

    def __init__(self, dim: int, dropout: float):
        super().__init__()
        self.dropout = dropout
        self.queries, self.keys, self.values = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.out, self.norm = nn.Linear(dim, dim), nn.LayerNorm(dim)
        for layer in (self.queries, self.keys, self.values, self.out):
            nn.init.xavier_normal_(layer.weight)  # released code

    def forward(
        self, x: Tensor, attended: Tensor, *, among: Tensor | None = None, noise: Generator | None = None
    ) -> Tensor:  # [..., n, d], [..., m, d] -> [..., n, d]
        """x after it has read what it attends to: all of `attended`, or what `among` [..., n, m] says."""
        a = attention(self.queries(x), self.keys(attended), scale=x.shape[-1] ** -0.5, among=among)
        read = dropped(a, ATTENTION_DROPOUT if self.dropout else 0.0, noise) @ self.values(attended)
        adapted: Tensor = self.norm(x + dropped(self.out(read), self.dropout, noise))
        return adapted


def dropped(x: Tensor, share: float, noise: Generator | None) -> Tensor:
    """x with a share of its elements at 0 and the others larger, so that the mean stays; x itself without noise."""
    if noise is None or not share:
        return x
    kept = torch.rand(x.shape, generator=noise).to(x.device) >= share
    return x * kept / (1 - share)
