"""Does SALA's adaptive metric, trained on frozen features, help with classes it never saw?

    SALA_DATA=... python benchmarks/labeling/metric.py        # writes results/practice/metric.json

10-way tasks on Lite0 features of tiny-tiered: 10 unlabeled images of each class and of 10 others, half of them selected, one
refinement. Trained on the 61 training classes, judged on the 45 test classes; the same 300 tasks for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from draws import data_root
from pools import interval, shown, write
from tasks import tiny
from torch import Tensor, nn

from sala.classifier.normalize import mean_of, normalized, scale_of, to_tensor
from sala.functional import class_means, nearest, one_hot, squared_distances, weighted_means
from sala.methods.sala import MetricNetwork

N_WAY, N_QUERY, N_UNLABELED, N_TRAIN, N_TEST = 10, 10, 10, 700, 300


class Classes:
    """Normalized embeddings by class; `episode` draws a task and its query labels."""

    def __init__(self, features: np.ndarray, names: np.ndarray):
        x = to_tensor(features)
        center = mean_of([x])
        self.features = normalized(x, center, scale_of([x], center))
        self.rows = [np.flatnonzero(names == name) for name in np.unique(names)]

    def episode(self, rng: np.random.Generator, n_shot: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        classes = rng.permutation(len(self.rows))[: 2 * N_WAY]
        drawn = [self.features[rng.permutation(self.rows[c])] for c in classes]
        support = torch.cat([x[:n_shot] for x in drawn[:N_WAY]])
        end = n_shot + N_UNLABELED
        unlabeled = [x[n_shot:end] for x in drawn[:N_WAY]] + [x[:N_UNLABELED] for x in drawn[N_WAY:]]
        query = torch.cat([x[end : end + N_QUERY] for x in drawn[:N_WAY]])
        labels = torch.arange(N_WAY)
        return support, labels.repeat_interleave(n_shot), torch.cat(unlabeled), query, labels.repeat_interleave(N_QUERY)


class OnFeatures(nn.Module):
    """SALA's pipeline with a learned scale, and with the metric network, one learned vector, or no weights."""

    def __init__(self, kind: str):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(3.0))
        kinds = {"adaptive": "double", "shared": "shared"}
        self.metric = MetricNetwork(1280, 320, kinds[kind]) if kind in kinds else None  # type: ignore[arg-type]

    def forward(self, support: Tensor, labels: Tensor, unlabeled: Tensor, query: Tensor) -> Tensor:
        prototypes, scale = class_means(support, labels, N_WAY), self.log_scale.exp()
        a = None if self.metric is None else self.metric(10 * prototypes)
        d = scale * squared_distances(unlabeled, prototypes, a)
        weights = (-d).softmax(-1) * nearest(d, len(unlabeled) // 2)[:, None]
        assigned = one_hot(labels, N_WAY, like=support)
        refined = weighted_means(torch.cat([support, unlabeled]), torch.cat([assigned, weights]))
        return -scale * squared_distances(query, refined, a)


def trained(kind: str, n_shot: int, classes: Classes) -> OnFeatures:
    torch.manual_seed(0)
    rng, method = np.random.default_rng(0), OnFeatures(kind)
    optimizer = torch.optim.Adam(method.parameters(), 3e-2 if kind == "none" else 1e-3)
    for _ in range(N_TRAIN):
        *task, truth = classes.episode(rng, n_shot)
        loss = nn.functional.cross_entropy(method(*task), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return method


@torch.no_grad()
def accuracies(method: OnFeatures, classes: Classes, n_shot: int) -> np.ndarray:
    rng, found = np.random.default_rng(7), []
    for _ in range(N_TEST):
        *task, truth = classes.episode(rng, n_shot)
        found.append(100 * float((method(*task).argmax(-1) == truth).float().mean()))
    return np.array(found)


def main() -> None:
    torch.set_num_threads(1)
    seen, unseen = (Classes(*tiny(data_root(), 50, {split})) for split in ("train", "test"))
    results: dict[str, Any] = {}
    print("| | training classes | classes never seen | minus no weights |\n|---|---|---|---|")
    for n_shot in (1, 5):
        plain = np.empty(0)
        for kind in ("none", "shared", "adaptive"):
            method = trained(kind, n_shot, seen)
            on_seen, on_unseen = accuracies(method, seen, n_shot), accuracies(method, unseen, n_shot)
            plain = on_unseen if kind == "none" else plain
            row = [interval(list(x)) for x in (on_seen, on_unseen, on_unseen - plain)]
            results[f"{kind}, {n_shot} shot"] = dict(zip(("seen", "unseen", "unseen minus none"), row, strict=True))
            print(f"| {kind}, {n_shot} shot | {' | '.join(shown(x, 2) for x in row)} |")
            write("metric.json", {"seed": 0, "results": results})


if __name__ == "__main__":
    main()
