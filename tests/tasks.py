"""Small tasks for tests."""

from __future__ import annotations

import torch

from sala.backbones import Identity
from sala.episode import Task
from sala.methods import Method, build_method


def random_task(
    *, n_way: int = 3, shots: tuple[int, ...] | int = 2, n_unlabeled: int = 7, n_query: int = 4, d: int = 6,
    batch: tuple[int, ...] = (), seed: int = 0, dtype: torch.dtype = torch.float64,
) -> Task:  # fmt: skip
    """Points around class centres, as embeddings; `shots` may differ from class to class."""
    generator = torch.Generator().manual_seed(seed)
    per_class = (shots,) * n_way if isinstance(shots, int) else shots
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate(per_class)])
    centres = 0.8 * torch.randn(*batch, n_way, d, generator=generator, dtype=dtype)

    def around(index: torch.Tensor) -> torch.Tensor:
        noise = 0.5 * torch.randn(*batch, len(index), d, generator=generator, dtype=dtype)
        return centres[..., index, :] + noise

    support = around(labels)
    unlabeled = around(torch.arange(n_unlabeled) % n_way)
    query = around(torch.arange(n_query) % n_way)
    return Task(support, labels.expand(*batch, -1), unlabeled, query, n_way)


def on_features(
    name: str, d: int = 6, *, seed: int = 0, dtype: torch.dtype = torch.float64, **options: object
) -> Method:
    """A method on ready-made embeddings, with fixed random parameters."""
    torch.manual_seed(seed)
    return build_method(name, Identity(d), options).to(dtype).eval()
