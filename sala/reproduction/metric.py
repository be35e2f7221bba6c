"""What the task-adaptive metric does to the embeddings of a task, counted over many tasks: silhouette and 1-nearest-neighbor
accuracy before and after it. The t-SNE map shows one of these tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from sala.atomic import write_json
from sala.data.files import read_text
from sala.episodes.sampler import fixed_sampler
from sala.episodes.task import Episode
from sala.errors import SalaError
from sala.evaluation.batching import answers_of
from sala.evaluation.embeddings import Embeddings, embedded_episodes
from sala.evaluation.results import Interval
from sala.functional import class_means
from sala.methods.sala import SALA
from sala.training.config import read_config, run_folder
from sala.training.loading import load, open_data

NAME = "metric.json"
BEFORE = "before"
N_TASKS = 1_000
VIEWS = {  # what an embedding is multiplied with
    BEFORE: "before: embeddings as they are",
    "true": "√a of the image's true class (eq. 4)",
    "true, a": "a of the image's true class (the paper's figure)",
    "other": "control: √a of another class than the true one",
    "predicted": "√a of the class that SALA predicts",
    "predicted, a": "a of the class that SALA predicts",
    "task": "√ of the mean of a over the task's classes",
}
MEASURES = ("silhouette", "neighbor_accuracy")
Array = NDArray[Any]
Separations = dict[str, tuple[float, float]]  # by view: silhouette, share of nearest neighbors of the same class


def measure_metric(
    run: Path | str,
    *,
    name: str,
    command: str,
    n_tasks: int = N_TASKS,
    root: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """What the metric of a run of SALA does on its fixed test tasks, those of `evaluate`, in its last test setting."""
    folder = run_folder(run)
    config, method = read_config(folder), load(folder)
    if not isinstance(method, SALA) or method.metric is None:
        raise SalaError(f"{run} is not a run of SALA with its metric; name one that is, such as omniglot-sala")
    store = open_data(folder, config, root, progress)
    setting, shape = list(config.protocol.test.items())[-1]
    sampler = fixed_sampler(store, shape, "test", config.protocol)
    method.selection_share = shape.selection_share
    with torch.inference_mode():
        batches = embedded_episodes(Embeddings(method, store), sampler, n_tasks, progress=progress)
        found = [one for batch in batches for one in separations(method, batch)]
    return {
        "run": name,
        "command": command,
        "dataset": config.protocol.dataset,
        "data_hash": store.content_hash,
        "split": "test",
        "setting": setting,
        "shape": asdict(shape),
        "episodes": sampler.identity,
        "tasks": n_tasks,
        "views": summary(found),
    }


def keep_metric(out: Path, content: dict[str, Any]) -> None:
    """Write a measurement into `out`/metric.json, beside those of other runs."""
    write_json(out / NAME, {**read_metric(out), content["run"]: content})


def read_metric(out: Path) -> dict[str, Any]:
    """All measurements so far, by run."""
    path = out / NAME
    known: dict[str, Any] = json.loads(read_text(path)) if path.is_file() else {}
    return known


def summary(found: Sequence[Separations]) -> dict[str, Any]:
    """For each view, mean and 95 % interval over tasks of both measures, and of their paired gain over `before`.

    The share of nearest neighbors is in percent.
    """
    tables = {view: np.array([one[view] for one in found]) for view in found[0]}  # [tasks, 2]
    return {view: _intervals(table) | _intervals(table - tables[BEFORE], "_gain") for view, table in tables.items()}


def _intervals(table: Array, ending: str = "") -> dict[str, dict[str, float]]:
    silhouette, neighbors = (Interval.of(column) for column in table.T)
    plain = Interval(silhouette.mean / 100, silhouette.ci95 / 100)  # a silhouette is no share
    values = zip(MEASURES, (plain, neighbors), strict=True)
    return {f"{measure}{ending}": asdict(interval) for measure, interval in values}


def rows_of(content: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The table of all measurements: a row for each run and view."""
    header = ["run: embeddings times", "silhouette", "gain", "1-NN accuracy, %", "gain"]
    rows = [
        [f"{run}: {VIEWS[view]}", *_texts(numbers, is_base=view == BEFORE)]
        for run, one in content.items()
        for view, numbers in one["views"].items()
    ]
    return header, rows


def explain(content: Mapping[str, Any]) -> str:
    """What the table shows, and the commands that made it."""
    n_tasks = sorted({f"{one['tasks']:,} {one['dataset']} ({one['setting']})" for one in content.values()})
    commands = "; ".join(dict.fromkeys(one["command"] for one in content.values()))
    return (
        f"All support, unlabeled and query embeddings of fixed test tasks, those of `sala evaluate`: {', '.join(n_tasks)}. "
        "1-NN accuracy: the share of images whose nearest other image of the task is of their class. ± is the half-width of "
        "the 95 % interval over tasks; a gain is paired over tasks, against the embeddings as they are. a has the weights of "
        "the metric, one vector a class. Rows by true class use labels that the method does not have; the control, too, and "
        "with wrong weights: what it gains is the drawing's, not the metric's. Rows by predicted class, and the last row, "
        f"which has one metric for all images of a task, use what the method knows. Command: {commands}"
    )


def _texts(numbers: Mapping[str, Mapping[str, float]], *, is_base: bool) -> list[str]:
    texts = []
    for measure, digits in zip(MEASURES, (4, 2), strict=True):
        value, gain = numbers[measure], numbers[f"{measure}_gain"]
        texts.append(f"{value['mean']:.{digits}f} ± {value['ci95']:.{digits}f}")
        texts.append("" if is_base else f"{gain['mean']:+.{digits}f} ± {gain['ci95']:.{digits}f}")
    return texts


def separations(method: SALA, episodes: Episode) -> Iterator[Separations]:
    """The separation of the classes in each view, for each task of a batch of embedded episodes. Distractors are left out."""
    if method.metric is None:
        raise SalaError("this run of SALA has no metric to measure; take one that was trained with it")
    task = episodes.task
    logits, labels = answers_of(method, task)
    guesses = [] if labels is None else [labels.probabilities.argmax(-1)]
    predicted = torch.cat([task.labels, *guesses, logits.argmax(-1)], -1)
    truth = torch.cat([task.labels, episodes.unlabeled_labels, episodes.query_labels], -1)
    points = torch.cat([task.support, task.unlabeled, task.query], -2).double()
    kept, size = truth >= 0, (len(truth), -1)  # as many in every task
    truth, predicted, points = (
        truth[kept].view(size),
        predicted[kept].view(size),
        points[kept].view(*size, points.shape[-1]),
    )
    weights = method.metric(class_means(task.support, task.labels, task.n_way)).double()
    found = {}
    for name, view in views_of(points, truth, predicted, weights):
        distances = torch.cdist(view, view)
        found[name] = list(zip(silhouette(distances, truth), neighbor_share(distances, truth), strict=True))
    for i in range(len(truth)):
        yield {name: (float(pairs[i][0]), float(pairs[i][1])) for name, pairs in found.items()}


def views_of(
    embeddings: Tensor, truth: Tensor, predicted: Tensor, weights: Tensor
) -> Iterator[tuple[str, Tensor]]:  # [..., n, d], [..., n], [..., n], [..., way, d] -> [..., n, d] each
    """The embeddings before and after the metric, by name of `VIEWS`.

    sqrt(a) turns eq. 4 into a plain squared distance: |sqrt(a) x - sqrt(a) c|^2 = sum_j a_j (x_j - c_j)^2. Views by true
    class use labels that the method does not have. The last view is one metric for all images of a task; it uses neither
    labels nor predictions.
    """
    root, n_way = weights.sqrt(), weights.shape[-2]
    yield BEFORE, embeddings
    for name, table, classes in (
        ("true", root, truth),
        ("true, a", weights, truth),
        ("other", root, (truth + 1) % n_way),
        ("predicted", root, predicted),
        ("predicted, a", weights, predicted),
    ):
        yield name, embeddings * torch.take_along_dim(table, classes[..., None], -2)
    yield "task", embeddings * weights.mean(-2, keepdim=True).sqrt()


def silhouette(distances: Tensor, labels: Tensor) -> Tensor:  # [..., n, n], [..., n] -> [...]
    """The mean silhouette of points whose classes are 0, 1, ..., each with some point (Rousseeuw, 1987)."""
    members = one_hot(labels).to(distances.dtype)  # [..., n, k]
    counts, sums = members.sum(-2, keepdim=True), distances @ members
    n_own = (counts * members).sum(-1)
    within = (sums * members).sum(-1) / (n_own - 1).clamp(min=1)
    between = (sums / counts).masked_fill(members.bool(), float("inf")).amin(-1)
    widths = (between - within) / torch.maximum(between, within)
    return torch.where(n_own > 1, widths, 0).mean(-1)  # a point alone in its class has 0


def neighbor_share(distances: Tensor, labels: Tensor) -> Tensor:  # [..., n, n], [..., n] -> [...]
    """The share of points whose nearest other point is of their class."""
    itself = torch.eye(labels.shape[-1], dtype=torch.bool, device=labels.device)
    nearest = distances.masked_fill(itself, float("inf")).argmin(-1)
    return (labels.gather(-1, nearest) == labels).double().mean(-1)
