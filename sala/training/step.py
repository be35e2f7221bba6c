"""One step of a training: the gradient of a player's loss over a batch of episodes, and the optimizer's step along it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from sala.episodes.task import Episode
from sala.errors import SalaError
from sala.methods import Method
from sala.nn.distributed import ALONE, Ranks

if TYPE_CHECKING:
    from sala.training.schedule import TrainConfig

SGD_MOMENTUM = 0.9  # Nesterov's


def build_optimizer(method: Method, player: str, config: TrainConfig) -> Optimizer:
    """The optimizer of a player's parameters, with weight decay on the kernels of convolutions and on nothing else."""
    kernels: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in method.parameters_of(player):
        (kernels if parameter.ndim == 4 else others).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": kernels, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    used, rate = [group for group in groups if group["params"]], config.learning_rate
    if config.optimizer == "sgd":
        return SGD(used, lr=rate, momentum=SGD_MOMENTUM, nesterov=True, fused=True)
    kind = AdamW if config.optimizer == "adamw" else Adam
    return kind(used, lr=rate, betas=method.adam_betas(player), fused=True)


def gradients(
    method: Method,
    player: str,
    batch: list[tuple[int, Episode]],
    weight: float,
    config: TrainConfig,
    ranks: Ranks = ALONE,
) -> float:
    """The player's weighted loss, summed over the numbered episodes of `batch` and over all processes.

    Its gradient is left in the parameters. With several episodes each starts from the same running statistics; these
    end at their mean over the episodes, and so do the method's notes.
    """
    moved = method.parameters_of(player)
    only = moved if len(method.players) > 1 else None  # the others stand still: no gradient for them
    for parameter in method.parameters():
        parameter.grad = None
    is_alone = weight == 1 and ranks.world == 1
    statistics = [] if is_alone else list(method.buffers())
    before = [b.clone() for b in statistics]
    sums = [torch.zeros_like(b, dtype=torch.float32) for b in before]
    totals: dict[str, float] = {}
    for i, episode in batch:
        _set(statistics, before)
        method.progress = (i + 1) / config.n_episodes  # 1 in the last episode
        loss = method.loss(episode.task, episode.query_labels, player)
        numbers = {"": _finite(loss, player, i), **method.notes}
        (loss if is_alone else weight * loss).backward(inputs=only)  # type: ignore[no-untyped-call]
        for s, b in zip(sums, statistics, strict=True):
            s += weight * b
        totals = {name: totals.get(name, 0.0) + weight * number for name, number in numbers.items()}
    if not is_alone:
        values = torch.tensor(list(totals.values()), dtype=torch.float64)
        ranks.sum([p.grad for p in moved if p.grad is not None])
        ranks.sum(sums)
        ranks.sum([values])
        _set(statistics, sums)
        totals = dict(zip(totals, values.tolist(), strict=True))
    mean = totals.pop("")
    method.notes = totals
    _check_gradients(moved, player, batch[0][0])
    return mean


def _set(targets: list[Tensor], values: list[Tensor]) -> None:
    for target, value in zip(targets, values, strict=False):
        target.copy_(value if target.is_floating_point() else value.round())  # a count of batches is one more for all


def _check_gradients(moved: list[nn.Parameter], player: str, i: int) -> None:
    """Before the step: what is not finite never reaches the weights."""
    norms = [torch.linalg.vector_norm(p.grad) for p in moved if p.grad is not None]
    if norms and not math.isfinite(torch.stack(norms).sum()):
        raise SalaError(
            f"the gradient of the {player} is no longer finite in episode {i}; the last good weights are kept. Lower the "
            "learning rate, or look at the method's options"
        )


def step(optimizer: Optimizer, learning_rate: float) -> None:
    """One step of the optimizer along the gradients that are there."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()


def _finite(loss: Tensor, player: str, i: int) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise SalaError(
            f"the loss of the {player} became {value} in episode {i}; the last good weights are kept. Lower the learning "
            "rate, or look at the method's options"
        )
    return value
