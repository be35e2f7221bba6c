"""The processes of one training: alone, or one of several under `torchrun`. They share no state but what is summed here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sala.errors import SalaError

T = TypeVar("T")


class LostOthers(SalaError):
    """Another process of the job is gone, and with it the job."""


@dataclass(frozen=True)
class Ranks:
    """This process is number `rank` of `world`. Alone, every operation below does nothing."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes, draws and prints."""
        return self.rank == 0

    def share(self, items: Sequence[T], first: int = 0) -> list[tuple[int, T]]:
        """Number and item of those that are this process's to do: number = rank mod world, counted from `first`."""
        return [(i, item) for i, item in enumerate(items, first) if i % self.world == self.rank]

    def sum(self, tensors: Iterable[Tensor]) -> None:
        """Each tensor becomes its sum over all processes, in place and in one message."""
        tensors = list(tensors)
        if self.world == 1 or not tensors:
            return
        flat = torch.cat([t.detach().reshape(-1) for t in tensors])
        self._reduce(flat)
        with torch.no_grad():
            for tensor, part in zip(tensors, torch.split(flat, [t.numel() for t in tensors]), strict=True):
                tensor.copy_(part.reshape(tensor.shape))

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        if self.world == 1:
            return flag
        count = torch.tensor(float(flag))
        self._reduce(count)
        return bool(count > 0)

    def _reduce(self, tensor: Tensor) -> None:
        try:
            if dist.get_backend() == "nccl" and tensor.device.type != "cuda":  # which takes none from elsewhere
                there = tensor.cuda()
                dist.all_reduce(there)
                tensor.copy_(there)
            else:
                dist.all_reduce(tensor)
        except RuntimeError as error:
            reason = str(error).splitlines()[0].rpartition("] ")[2]
            raise LostOthers(
                f"process {self.rank} of {self.world} has lost the others: one was stopped or has failed ({reason[:80]})"
            ) from None


ALONE = Ranks()


def is_launched() -> bool:
    """Whether this process was started by torchrun (or something that sets the same variables)."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


@contextmanager
def joined() -> Iterator[Ranks]:
    """The group of processes that torchrun started, for the time of a command; alone without torchrun."""
    if not is_launched():
        yield ALONE
        return
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        dist.init_process_group(backend)
    except (RuntimeError, ValueError) as error:
        raise SalaError(f"the processes of this job did not find each other ({str(error).splitlines()[0]})") from None
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
