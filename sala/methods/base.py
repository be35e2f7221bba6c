"""What the loop, the evaluation and a new method's author agree on."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala.backbones import Backbone
from sala.episode import Task
from sala.errors import SalaError
from sala.stages import PseudoLabels


class Method(nn.Module):
    """A few-shot classifier. A subclass writes `logits(task)` on embedded points; everything else has a default.

    `classify(task)` takes images, `logits(task)` embeddings. `loss` sees the labels of the queries, the others never do.
    """

    paper: ClassVar[str] = ""  # authors, venue, year
    trains_on_unlabeled: ClassVar[bool] = True  # if not, training episodes come without unlabelled images
    players: ClassVar[tuple[str, ...]] = ("classifier",)  # who is stepped in turn by the loop, each on its own loss

    progress: float = 1.0  # of the training, in (0, 1]; set by the loop, read in training mode only
    selection_share: float = 1.0  # M0 / M, from the protocol; read by methods that select
    image_shape: tuple[int, int, int] | None = None  # [H, W, C] of the images it was built for

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone = backbone

    def logits(self, task: Task) -> Tensor:  # -> [..., Q, n_way]
        """Class scores of the queries of an embedded task."""
        raise NotImplementedError

    def classify(self, task: Task) -> Tensor:
        """Class scores of the queries of a task of images (uint8, or floats in [0, 1])."""
        return self.logits(self.embed(task))

    def loss(self, task: Task, query_labels: Tensor, player: str = "classifier") -> Tensor:
        """What `player` minimises on a task of images: the mean cross-entropy of the queries."""
        return cross_entropy(checked_logits(self.classify(task), task, self), query_labels)

    def parameters_of(self, player: str) -> list[nn.Parameter]:
        """The parameters that `player` moves."""
        return list(self.parameters())

    def embed(self, task: Task) -> Task:
        """The task with embeddings in place of images, all from one pass, so they share one batch-norm batch."""
        parts = [task.support, task.unlabeled, task.query]
        n_batch = task.labels.ndim - 1
        if self.training and n_batch:
            raise ValueError("in training each episode is a batch-norm batch of its own: embed one task at a time")
        points = torch.cat(parts, dim=n_batch)
        embedded = self.embed_images(points.flatten(0, n_batch)).reshape(*points.shape[: n_batch + 1], -1)
        support, unlabeled, query = torch.split(embedded, [part.shape[n_batch] for part in parts], dim=n_batch)
        return replace(task, support=support, unlabeled=unlabeled, query=query)

    def embed_images(self, images: Tensor) -> Tensor:  # [n, C, H, W] -> [n, d]
        """Embeddings of images; bytes are scaled to [0, 1]."""
        points: Tensor = self.backbone(images.float() / 255 if images.dtype == torch.uint8 else images)
        return points

    def pseudo_labels(self, task: Task) -> PseudoLabels | None:
        """What the method makes of an embedded task's unlabelled points; None if it does not look at them."""
        return None

    def diagnostics(self, task: Task) -> dict[str, float]:
        """Numbers worth a line in the log, from a batch of embedded tasks."""
        return {}


def checked_logits(logits: Tensor, task: Task, method: Method) -> Tensor:
    """The class scores, if there is one for each query and class: others might be broadcast to a wrong accuracy."""
    wanted = (*task.query.shape[: task.labels.ndim], task.n_way)
    if not isinstance(logits, Tensor) or logits.shape != wanted:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise SalaError(f"the logits of {type(method).__name__} are {got}; queries and classes make it {list(wanted)}")
    return logits


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:  # [..., Q, n_way], [..., Q] -> scalar
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())
