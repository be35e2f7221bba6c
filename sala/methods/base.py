"""What the loop, the evaluation and a new method's author agree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala.episodes import checks
from sala.episodes.task import Task
from sala.errors import SalaError
from sala.functional import PseudoLabels, swapped
from sala.methods.entry import guard
from sala.nn.backbones import Backbone, Identity
from sala.nn.base import Recipe as BackboneRecipe


class Recipe(NamedTuple):
    """How `build_method` made a method, so that it can be made again."""

    cls: type[Method]
    options: dict[str, Any]
    backbone: BackboneRecipe | None


class Method(nn.Module):
    """A few-shot classifier. A subclass writes `logits(task)` on embeddings; everything else has a default.

    `classify(task)` takes images, `logits(task)` embeddings. `loss` sees the labels of the queries, the others never do.
    Tasks are checked where users hand them in (`sala.episodes.checks`); in evaluation mode the answers carry no gradient.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings.

    Examples
    --------
    >>> import torch, sala
    >>> class NearestImage(sala.Method):
    ...     def logits(self, task):  # 1-shot: the nearest support image wins
    ...         return -torch.cdist(task.query, task.support)
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]])
    >>> sala.build_method(NearestImage, sala.Identity(1)).eval().classify(task)
    tensor([[-4., -6.]])
    """

    paper: ClassVar[str] = ""  # authors, venue, year
    trains_on_unlabeled: ClassVar[bool] = True  # if not, training episodes come without unlabeled images
    tests_on_unlabeled: ClassVar[bool] = True  # if not, unlabeled images have no influence on the class scores
    players: tuple[str, ...] = ("classifier",)  # who is stepped in turn by the loop, each on its own loss
    n_extra: int = 0  # columns of the logits beyond the classes ("none of them"); a query that falls there is an error
    embeds_per_task: bool = False  # if so, an image's embedding depends on its task and cannot be kept for another
    sums_distances: ClassVar[bool] = (
        True  # over the width of the embeddings; if not, the protocol's distance scale is not for it
    )
    # whether `logits`, `pseudo_labels` and `answers` take batches of tasks; None: evaluation compares them with single tasks.
    # Not inherited: a subclass with functions of its own is compared unless it says so itself
    batched: ClassVar[bool | None] = None

    swap: bool = False  # whether the loss is the mean of two: the second with support and queries exchanged
    mixed_precision: bool = False  # set by the run: bfloat16 in the backbone
    progress: float = 1.0  # of the training, in (0, 1]; set by the loop, read in training mode only
    selection_share: float = 1.0  # M0 / M, from the protocol; read by methods that select
    recipe: Recipe | None = None  # how `build_method` made it

    def __init_subclass__(cls) -> None:
        """Who writes `logits` or `pseudo_labels` anew must be asked for them, not for a base class's `answers`."""
        super().__init_subclass__()
        writer = {
            name: next(c for c in cls.__mro__ if name in vars(c)) for name in ("logits", "pseudo_labels", "answers")
        }
        newest = min(map(cls.__mro__.index, writer.values()))
        if cls.__mro__.index(writer["answers"]) > newest:
            cls.answers = Method.answers  # type: ignore[method-assign]
        if "batched" not in vars(cls):
            cls.batched = None
        guard(cls)

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone = backbone
        self.notes: dict[str, float] = {}  # written by `loss`: numbers of which the log shows the mean

    def logits(self, task: Task) -> Tensor:  # -> [..., Q, n_way + n_extra]
        """Class scores of the queries of an embedded task."""
        raise SalaError(
            f"{type(self).__name__} has no logits; write `def logits(self, task)`, from embeddings to class scores "
            "[..., queries, n_way] (docs/how-to/write-a-method.md)"
        )

    def classify(self, task: Task) -> Tensor:
        """Class scores of the queries of a task of images (uint8, or floats in [0, 1])."""
        return self.logits(self.embed(task))

    def loss(self, task: Task, query_labels: Tensor, player: str = "classifier") -> Tensor:
        """What `player` minimizes on a task of images: the mean cross-entropy of the queries."""
        if self.swap:
            return self._loss_of_both(self.embed(task), query_labels)
        return cross_entropy(checked_logits(self.classify(task), task, self), query_labels)

    def _loss_of_both(self, embedded: Task, query_labels: Tensor) -> Tensor:
        """The mean of the losses of an embedded task and of the same with support and queries exchanged."""
        first, second = (
            cross_entropy(checked_logits(self.logits(task), task, self), labels)
            for task, labels in ((embedded, query_labels), swapped(embedded, query_labels))
        )
        return (first + second) / 2

    def _check_images(self, task: Task, *_: Any, **__: Any) -> None:
        """Refuse a task whose images do not fit the backbone."""
        checks.check_task(task)
        self._check_place(task, is_image=True)
        if isinstance(self.backbone, Identity) and self.backbone.image_shape is None:
            checks.check_features(task, self.backbone.out_dim, None, "Identity")
        elif (shape := image_shape_of(self)) is not None:
            checks.check_images(task, shape)

    def _check_embedded(self, task: Task, *_: Any, **__: Any) -> None:
        """Refuse a task whose items are not embeddings of this method's width."""
        checks.check_task(task)
        is_own = type(self).embed is not Method.embed or type(self).embed_images is not Method.embed_images
        width = None if is_own else self.backbone.out_dim
        checks.check_features(task, width, image_shape_of(self), "logits")
        self._check_place(task)

    def _check_loss(self, task: Task, query_labels: Tensor, *_: Any, **__: Any) -> None:
        self._check_images(task)
        checks.check_query_labels(task, query_labels)

    def _check_place(self, task: Task, *, is_image: bool = False) -> None:
        """Where there are weights, the task lies on their device, and floats are of their dtype."""
        weight = next(self.parameters(), None)
        support = task.support
        if weight is None or (is_image and not support.is_floating_point() and support.device == weight.device):
            return
        if (support.device, support.dtype) != (weight.device, weight.dtype):
            raise SalaError(
                f"a task is on the device and of the dtype of the weights, {weight.device} {weight.dtype}; got "
                f"{support.device} {support.dtype}; convert it, or move it with task.to(method.device)"
            )

    def prepare(self, task: Task) -> None:
        """Called once, before the first step, with the images of the first episode: a place for what depends on data."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are; the CPU for a method without any."""
        return next((p.device for p in self.parameters()), torch.device("cpu"))

    def parameters_of(self, player: str) -> list[nn.Parameter]:
        """The parameters that `player` moves."""
        return list(self.parameters())

    def adam_betas(self, player: str) -> tuple[float, float]:
        """Decay rates of the optimizer's two moments."""
        return 0.9, 0.999

    def embed(self, task: Task) -> Task:
        """The task with embeddings in place of images, all from one pass, so they share one batch-norm batch."""
        if self.training and task.labels.ndim > 1:
            raise ValueError("in training each episode is a batch-norm batch of its own: embed one task at a time")
        return map_task(task, self.embed_images)

    def embed_images(self, images: Tensor) -> Tensor:  # [n, C, H, W] -> [n, d]
        """Embeddings of images; bytes are scaled to [0, 1]."""
        with self.autocast():
            embeddings: Tensor = self.backbone(in_unit_range(images))
        return embeddings.float() if self.mixed_precision else embeddings

    def autocast(self) -> torch.autocast:
        """Convolutions in bfloat16, if the method was told so; what follows the embedding is never in less than float32."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed_precision)

    def pseudo_labels(self, task: Task) -> PseudoLabels | None:
        """What the method makes of an embedded task's unlabeled images; None if it does not look at them."""
        return None

    def answers(self, task: Task) -> tuple[Tensor, PseudoLabels | None]:
        """Class scores and pseudo-labels of an embedded task, in one go: a place for a method to share work."""
        return self.logits(task), self.pseudo_labels(task)

    def diagnostics(self, task: Task) -> dict[str, float]:
        """Numbers worth a line in the log, from a batch of embedded tasks."""
        return {}

    def samples(self, task: Task) -> Tensor | None:  # -> [n, C, H, W]
        """Images that the method makes up for one task of images; None if it makes none."""
        return None


guard(Method)


def image_shape_of(method: Method) -> tuple[int, int, int] | None:
    """[H, W, C] of the images that a method takes; None where its own `embed_images` decides."""
    return method.backbone.image_shape if type(method).embed_images is Method.embed_images else None


def map_task(task: Task, function: Callable[[Tensor], Tensor]) -> Task:
    """The task with `function` applied to all its images or embeddings at once: `[n, *x] -> [n, d]`."""
    parts = [task.support, task.unlabeled, task.query]
    n_batch = task.labels.ndim - 1
    together = torch.cat(parts, dim=n_batch)  # episodes one after another
    mapped = function(together.flatten(0, n_batch)).reshape(*together.shape[: n_batch + 1], -1)
    support, unlabeled, query = torch.split(mapped, [part.shape[n_batch] for part in parts], dim=n_batch)
    return replace(task, support=support, unlabeled=unlabeled, query=query)


def one_at_a_time(function: Callable[[Task], Tensor], task: Task) -> Tensor:
    """`function` of each task of a batch, stacked: for what is not computed on several tasks at once."""
    if task.labels.ndim == 1:
        return function(task)
    tensors = ("support", "labels", "unlabeled", "query")
    tasks = (replace(task, **{name: getattr(task, name)[i] for name in tensors}) for i in range(len(task.labels)))
    return torch.stack([one_at_a_time(function, single) for single in tasks])


def in_unit_range(images: Tensor) -> Tensor:
    """Bytes scaled to [0, 1]; floats as they are."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


def generator_of(task: Task, salt: int = 0) -> torch.Generator:
    """Random numbers that are the same for the same images in whatever order; `salt` is 0 or 1."""
    content = in_unit_range(task.support).double().sum() * 255 + in_unit_range(task.query).double().sum()
    return torch.Generator().manual_seed(2 * int(1e3 * content.item()) + salt)


def checked_logits(logits: Tensor, task: Task, method: Method) -> Tensor:
    """The class scores, if there is one for each query and class: others might be broadcast to a wrong accuracy."""
    wanted = (*task.query.shape[: task.labels.ndim], task.n_way + method.n_extra)
    if not isinstance(logits, Tensor) or logits.shape != wanted:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise SalaError(f"the logits of {type(method).__name__} are {got}; queries and classes make it {list(wanted)}")
    return logits


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:  # [..., Q, k], [..., Q] -> scalar
    """Mean cross-entropy of all queries."""
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())
