"""The figures of the reproduction, from records and from runs whose weights are at hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sala.atomic import write_json
from sala.episodes.protocol import PROTOCOLS
from sala.episodes.sampler import fixed_sampler
from sala.errors import SalaError, writing
from sala.evaluation.seeds import MIN_SEEDS
from sala.functional import class_means
from sala.methods.sala import SALA
from sala.reproduction import metric, tables
from sala.reproduction.learning import Panel, panels_of
from sala.reproduction.plan import Run, cells_of
from sala.reproduction.published import TABLES
from sala.templates import plots
from sala.training.config import read_config
from sala.training.loading import load, open_data


@dataclass(frozen=True)
class FigureSection:
    """A figure of the page; `data` is written beside it, unless it was read from there."""

    name: str
    title: str
    plot: plots.Plot
    caption: str
    data: Any = None
    table: tuple[list[str], list[list[str]]] | None = None  # header and rows, below the figure
    note: str = ""  # below the table
    findings: Sequence[str] = ()  # a sentence each


def figures_of(out: Path, datasets: Sequence[str], budget: str, n_episodes: int | None = None) -> list[FigureSection]:
    """The figures of a budget's records that there is something to draw of."""
    which = (out, datasets, budget, n_episodes)
    return [figure for figure in (_curves(*which), _learning(*which)) if figure is not None]


def write_figure(out: Path, figure: FigureSection) -> list[Path]:
    """Write a figure as SVG and PNG, and its data beside it; returns the files."""
    data, svg, png = (out / f"{figure.name}.{ending}" for ending in ("json", "svg", "png"))
    if figure.data is not None:
        write_json(data, figure.data)
    with writing(svg):
        svg.write_text(figure.plot.svg, encoding="utf-8")
    with writing(png):
        png.write_bytes(figure.plot.png())
    return [svg, png] if figure.data is None else [data, svg, png]


def _curves(out: Path, datasets: Sequence[str], budget: str, n_episodes: int | None) -> FigureSection | None:
    names = {"sala": "progressive selection", "sala-metric": "all unlabeled images"}
    panels: dict[str, dict[str, list[tuple[int, float, float]]]] = {}
    for column in tables.columns_of("curve", datasets, budget, out, n_episodes):
        lines = {
            names[variant]: [(m["episode"], m["val_accuracy"], m["val_ci95"]) for m in entry.records[0].metrics]
            for variant, entry in column.entries.items()
            if entry.records
        }
        if len(lines) == len(names):
            panels.setdefault(f"{column.dataset} {column.shots}-shot", lines)
    if not panels:
        return None
    n = PROTOCOLS[datasets[0]].budgets[budget].n_validation_episodes
    caption = (
        f"Accuracy on {n} fixed validation episodes during training, with its 95 % band. Both lines have the same metric, "
        "initial weights and episodes (seed 0). Validation uses all unlabeled images for both."
    )
    return FigureSection("curve", TABLES["curve"].title, plots.validation_curves(panels), caption, panels)


def _learning(out: Path, datasets: Sequence[str], budget: str, n_episodes: int | None) -> FigureSection | None:
    panels = panels_of(out, datasets, budget, n_episodes)
    if not panels:
        return None
    caption = (
        "Upper panels: accuracy on fixed validation episodes during training; thin lines are seeds, thick lines their means. "
        "Lower panels: SALA minus Soft k-Means at equal seed (initial weights, label split and episodes), with the 95 % "
        f"interval over seeds (t) where there are {MIN_SEEDS} or more."
    )
    data, findings = [panel.to_json() for panel in panels], [panel.sentence for panel in panels]
    plot = _learning_plot(panels)
    return FigureSection("learning", TABLES["learning"].title, plot, caption, data, findings=findings)


def _learning_plot(panels: Sequence[Panel]) -> plots.Plot:
    """A row for each dataset, a column for each of without and with distractors."""
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*((p.dataset, p.where) for p in panels), strict=True))
    drawn = []
    for p in panels:
        lines = {method: np.array(list(by_seed.values())) for method, by_seed in p.curves.items()}
        band = np.array([one.ci95 for one in p.gain]) if len(p.seeds) >= MIN_SEEDS else None
        place = (rows.index(p.dataset), columns.index(p.where))
        drawn.append(plots.Learning(place, f"{p.title},\n{p.where}", p.episodes, lines, p.differences, band))
    return plots.learning(drawn)


def map_task(name: str, folder: Path, out: Path, root: Path | None = None) -> None:
    """Write the maps of the first test task of a run, before and after the metric, to tsne.json."""
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    method, config = load(folder), read_config(folder)
    if not isinstance(method, SALA) or method.metric is None:
        raise SalaError(f"{folder} is not a run of SALA with its metric; name one that is, such as omniglot-sala")
    shape = list(config.protocol.test.values())[-1]
    episode = fixed_sampler(open_data(folder, config, root), shape, "test", config.protocol).episode(0)
    with torch.inference_mode():
        task = method.embed(episode.task)
        embeddings = torch.cat([task.support, task.unlabeled, task.query])
        labels = torch.cat([task.labels, episode.unlabeled_labels, episode.query_labels])
        weights = method.metric(class_means(task.support, task.labels, task.n_way))
        views = {"before": embeddings, "after": embeddings * weights[labels]}
    content: dict[str, Any] = {"labels": labels.tolist(), "run": name, "shape": asdict(shape)}
    for view, points in views.items():
        xy = TSNE(perplexity=20.0, init="pca", random_state=0).fit_transform(points.numpy())
        content[view] = [[round(float(v), 3) for v in row] for row in xy]
        content[f"silhouette_{view}"] = float(silhouette_score(points.numpy(), labels.numpy()))
    path = out / "tsne.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_json(path, {**known, config.protocol.dataset: content})


def maps_of(out: Path) -> FigureSection | None:
    """The t-SNE maps that tsne.json has, with what is counted over many tasks."""
    path = out / "tsne.json"
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    panels = {}
    for dataset, one in content.items():
        for view in ("before", "after"):
            title = f"{dataset}, {view} (silhouette {one[f'silhouette_{view}']:.2f})"
            panels[title] = (one[view], one["labels"])
    caption = (
        "t-SNE maps of all embeddings of the first test task. After: each embedding times the weights of its own true class, "
        "as the paper draws it. That uses labels of unlabeled and query images, which the method does not have, so the "
        "drawing itself adds some of the separation. The silhouette is measured in the embedding space, not on the map. "
        f"Runs: {', '.join(one['run'] for one in content.values())}."
    )
    plot, measured = plots.before_and_after(panels), metric.read_metric(out)
    more: dict[str, Any] = {"table": metric.rows_of(measured), "note": metric.explain(measured)} if measured else {}
    return FigureSection("tsne", TABLES["tsne"].title, plot, caption, **more)


def runs_for_maps(datasets: Sequence[str], budget: str, n_episodes: int | None = None) -> list[Run]:
    """The runs of SALA that the t-SNE maps are drawn of: 1-shot, seed 0."""
    return [Run(cell, budget, 0, n_episodes) for cell in cells_of("tsne", datasets, shots=(1,))]
