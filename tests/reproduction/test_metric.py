"""What the task-adaptive metric does to the classes of a task, in numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import silhouette_score
from torch import Tensor

from sala.episodes.make import make_task
from sala.episodes.task import Episode
from sala.errors import SalaError
from sala.functional import squared_distances
from sala.methods.sala import SALA
from sala.nn.backbones import Identity
from sala.reproduction import metric
from tests.helpers import reference


def distances(points: Tensor) -> Tensor:
    return torch.cdist(points, points)


def test_two_far_pairs_have_a_silhouette_near_one() -> None:
    points = torch.tensor([[0.0], [1.0], [10.0], [11.0]], dtype=torch.float64)
    outer, inner = 1 - 1 / 10.5, 1 - 1 / 9.5  # at 0: 1 to its partner, 10 and 11 to the others
    found = metric.silhouette(distances(points), torch.tensor([0, 0, 1, 1]))
    assert float(found) == pytest.approx((outer + inner) / 2)
    assert float(metric.neighbor_share(distances(points), torch.tensor([0, 0, 1, 1]))) == 1
    assert float(metric.neighbor_share(distances(points), torch.tensor([0, 1, 0, 1]))) == 0


def test_measures_are_those_of_plain_loops_and_of_sklearn() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(2, 14, 3, generator=generator, dtype=torch.float64)
    alone = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 3])  # one point is alone in its class
    labels = torch.stack([alone, alone.flip(0)])
    fast = metric.silhouette(distances(points), labels)
    shares = metric.neighbor_share(distances(points), labels)
    for view, classes, s, share in zip(points, labels, fast, shares, strict=True):
        rows = view.tolist()
        assert float(s) == pytest.approx(reference.silhouette(rows, classes.tolist()))
        assert float(s) == pytest.approx(silhouette_score(view.numpy(), classes.numpy()))
        assert float(share) == pytest.approx(reference.neighbor_share(rows, classes.tolist()))


def test_the_root_of_the_weights_makes_a_plain_distance_of_equation_4() -> None:
    weights = torch.tensor([[0.25, 0.04], [0.09, 0.64]])
    x, prototypes = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0], [4.0, 4.0]])
    for c in (0, 1):
        view = dict(metric.views_of(torch.cat([x, prototypes]), torch.full((3,), c), torch.full((3,), 1 - c), weights))
        drawn = (view["true"][0] - view["true"][1 + c]).square().sum()
        assert float(drawn) == pytest.approx(float(squared_distances(x, prototypes, weights)[0, c]))
        torch.testing.assert_close(view["other"], view["predicted"])  # of two classes
        torch.testing.assert_close(view["true, a"], torch.cat([x, prototypes]) * weights[c])


def toy(unlabeled_labels: list[int]) -> Episode:
    """Two classes on a line, a batch of one task; the last unlabeled image lies far off."""
    task = make_task(
        support=[[0.0, 0.0], [10.0, 0.0]], labels=[0, 1], query=[[1.0, 0.0]], unlabeled=[[9.0, 0.0], [50.0, 50.0]]
    )
    batch = {name: getattr(task, name)[None] for name in ("support", "labels", "unlabeled", "query")}
    return Episode(type(task)(**batch, n_way=2), torch.tensor([[0]]), torch.tensor([unlabeled_labels]))


def test_constant_weights_change_nothing_and_distractors_do_not_count() -> None:
    method = SALA(Identity(2), weights="constant").eval()
    with torch.inference_mode():
        (found,) = metric.separations(method, toy([1, -1]))
    assert list(found) == list(metric.VIEWS)
    for view in metric.VIEWS:
        assert found[view] == pytest.approx(found[metric.BEFORE])
    assert found[metric.BEFORE][1] == 1
    assert found[metric.BEFORE][0] == pytest.approx((2 * (1 - 1 / 9.5) + 2 * (1 - 1 / 8.5)) / 4)


def test_a_method_without_a_metric_is_refused() -> None:
    with pytest.raises(SalaError, match="no metric"):
        list(metric.separations(SALA(Identity(2), metric=False).eval(), toy([1, -1])))


def test_gains_are_paired_over_tasks_and_kept_beside_other_runs(tmp_path: Path) -> None:
    found = [{metric.BEFORE: (0.1, 0.5), "true": (0.2, 0.7)}, {metric.BEFORE: (0.5, 0.9), "true": (0.7, 1.0)}]
    views = metric.summary(found)
    assert views["true"]["silhouette_gain"]["mean"] == pytest.approx(0.15)
    assert views["true"]["silhouette_gain"]["ci95"] == pytest.approx(1.96 * np.std([0.1, 0.2], ddof=1) / 2**0.5)
    assert views["true"]["neighbor_accuracy"]["mean"] == pytest.approx(85)
    for run in ("one", "two"):
        metric.keep_metric(tmp_path, {"run": run, "views": views})
    assert list(metric.read_metric(tmp_path)) == ["one", "two"]
    header, rows = metric.rows_of(metric.read_metric(tmp_path))
    assert len(rows) == 4 and {len(row) for row in rows} == {len(header)}


def test_the_shipped_run_is_measured_and_recorded() -> None:
    content = json.loads((Path(__file__).parents[2] / "results" / metric.NAME).read_text())["omniglot-sala"]
    assert (content["tasks"], content["setting"], content["split"]) == (1_000, "large", "test")
    assert set(content["views"]) == set(metric.VIEWS)
    assert "--map omniglot-sala" in content["command"]
