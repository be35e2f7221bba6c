"""MAML: initial weights from which a few steps of gradient descent on the support make a classifier."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from sala.episodes.task import Task
from sala.errors import SalaError, at_least
from sala.functional import inner_loop
from sala.functional.inner_loop import Weights
from sala.methods.base import Method, cross_entropy, in_unit_range, map_task, one_at_a_time
from sala.nn import kernels
from sala.nn.backbones import Backbone
from sala.nn.statistics import own_statistics, statistics_of_first


class MAML(Method):
    """The whole network is trained on the support of each task, from initial weights that make this a short way.

    Finn et al., ICML 2017, arXiv:1703.03400.

    1. theta' = theta - alpha dL_S(theta)/dtheta, once or several times, L_S the
       cross-entropy of the support                                                (algorithm 2, line 7)
    2. theta <- theta - beta dL_Q(theta')/dtheta, L_Q that of the queries          (algorithm 2, line 10)

    Step 2 is that of the common training loop. It differentiates through step 1; with `first_order` the gradients of step 1
    are constants (sec. 5.2). Step 1 moves kernels, biases and the last layer; scale and shift of batch norm are moved by
    step 2 alone, as in the released code. Unlabeled images are not used: the paper has no form with them.

    Deviations: no batch of tasks and no other learning rate than for all methods; `sala train --episodes-per-step 32` is the
    paper's batch for Omniglot. The network is the common one: the paper's has strides in place of pools on Omniglot, and 32
    channels on miniImageNet, where the released code also clips gradients. Batch norm normalizes by the statistics of the
    episode, as in the released code, where queries are normalized by their own and so see each other (`transductive`); by
    default they are normalized by the support's, with gradients through these
    (test_a_query_is_normalized_by_the_support). Steps and their size are the paper's for 5 ways of Omniglot; for
    miniImageNet it has n_steps=5, n_test_steps=10 and step_size=0.01. The paper's last layer has a row for each class, and
    so a number of classes; `n_way=None` has one row for all of them (Ye and Chao, ICLR 2022), so that any number of classes
    in any order will do. In a run `n_way` is that of the training episodes.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; with `sala.Identity` only the last layer is trained.
    n_way : int, optional
        Rows of the last layer. None: one, of which each class has a copy to begin with.
    n_steps : int, default 1
        Inner steps in training.
    n_test_steps : int, default 3
        Inner steps at test.
    step_size : float, default 0.4
        alpha, of the inner steps.
    first_order : bool, default False
        Whether the gradients of the inner steps are constants.
    transductive : bool, default False
        Whether queries are normalized by their own statistics, all together.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[-1.0], [1.0]], labels=[0, 1], query=[[0.7]])
    >>> sala.build_method("maml", sala.Identity(1)).eval().classify(task).argmax(-1)
    tensor([1])
    """

    paper = "Finn et al., ICML 2017"
    batched = True
    trains_on_unlabeled = tests_on_unlabeled = False
    sums_distances = False  # there are none
    embeds_per_task = True

    def __init__(
        self,
        backbone: Backbone,
        *,
        n_way: int | None = None,
        n_steps: int = 1,  # sec. A.1, Omniglot with 5 ways
        n_test_steps: int = 3,  # sec. A.1
        step_size: float = 0.4,  # sec. A.1
        first_order: bool = False,
        transductive: bool = False,
    ):
        super().__init__(backbone)
        at_least(0, n_steps, "the number of inner steps n_steps")
        at_least(0, n_test_steps, "the number of inner steps at test n_test_steps")
        at_least(1, 1 if n_way is None else n_way, "the number of classes n_way")
        if not step_size > 0:
            raise SalaError(f"step_size must be above 0; got {step_size:g}")
        self.n_way, self.n_steps, self.n_test_steps, self.step_size = n_way, n_steps, n_test_steps, step_size
        self.first_order, self.transductive = first_order, transductive
        self.head = nn.Linear(backbone.out_dim, n_way or 1)
        nn.init.xavier_uniform_(self.head.weight)  # released code
        nn.init.zeros_(self.head.bias)

    def embed(self, task: Task) -> Task:
        """The images as flat floats: there is no embedding before the inner steps."""
        return map_task(task, lambda images: in_unit_range(images).flatten(1))

    def logits(self, task: Task) -> Tensor:
        return one_at_a_time(self.adapted_logits, task)

    def loss(self, task: Task, query_labels: Tensor, player: str = "classifier") -> Tensor:
        if self.training:
            with (
                torch.no_grad()
            ):  # running statistics are for those who want embeddings of single images, such as heads
                super().embed(task)
        return super().loss(task, query_labels, player)

    def adapted_logits(self, task: Task) -> Tensor:  # -> [Q, n_way]
        """Class scores by the weights after the inner steps on the support of one task."""
        is_trained = torch.is_grad_enabled()
        with torch.inference_mode(False), torch.enable_grad():  # a gradient is wanted at test too
            task = replace(task, support=task.support.clone(), labels=task.labels.clone(), query=task.query.clone())
            weights = self.adapted(task, is_second_order=is_trained and not self.first_order)
            if self.transductive:
                scores = self.scores(weights, task.query)
            else:
                n = len(task.support)
                scores = self.scores(weights, torch.cat([task.support, task.query]), n_first=n)[n:]
        return scores if is_trained else scores.detach()

    def adapted(self, task: Task, *, is_second_order: bool) -> Weights:
        """theta': the weights after the inner steps."""

        def loss(weights: Weights) -> Tensor:
            return cross_entropy(self.scores(weights, task.support), task.labels)

        n_steps = self.n_steps if self.training else self.n_test_steps
        with kernels.unfused() if is_second_order else nullcontext():
            initial = self.initial(task.n_way)
            return inner_loop(initial, loss, n_steps=n_steps, step_size=self.step_size, is_second_order=is_second_order)

    def initial(self, n_way: int) -> Weights:
        """theta, but for scale and shift of batch norm: the weights that inner steps move."""
        if self.n_way not in (None, n_way):
            raise SalaError(
                f"the last layer of this MAML has a row for each of {self.n_way} classes; got {n_way}; train with "
                f"--ways {n_way}, or with --set n_way=none for any number"
            )
        norms = {id(p) for m in self.backbone.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
        weights = {f"backbone.{name}": p for name, p in self.backbone.named_parameters() if id(p) not in norms}
        head = {"head.weight": self.head.weight.expand(n_way, -1), "head.bias": self.head.bias.expand(n_way)}
        return weights | head

    def scores(self, weights: Weights, images: Tensor, n_first: int | None = None) -> Tensor:  # [n, ...] -> [n, n_way]
        """Class scores by given weights. Batch norm has the statistics of all images, or of the first ones."""
        if self.backbone.image_shape is not None:
            height, width, channels = self.backbone.image_shape
            images = images.reshape(-1, channels, height, width)
        own = {name.removeprefix("backbone."): w for name, w in weights.items() if name.startswith("backbone.")}
        by = own_statistics(self.backbone) if n_first is None else statistics_of_first(self.backbone, n_first)
        with by, self.autocast():
            embeddings = functional_call(self.backbone, own, (images,))
        return F.linear(embeddings.to(images.dtype), weights["head.weight"], weights["head.bias"])
