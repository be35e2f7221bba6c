"""From records to files people read: each table as JSON, Markdown and LaTeX, the figures, and one page with everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from sala.atomic import write_json
from sala.episodes.protocol import PROTOCOLS
from sala.episodes.sampler import fixed_sampler
from sala.errors import SalaError, writing
from sala.functional import class_means
from sala.methods.sala import SALA
from sala.reproduction import tables
from sala.reproduction.plan import Run, cells_of, protocol_of
from sala.reproduction.published import TABLES, VARIANTS
from sala.reproduction.tables import Column
from sala.templates import plots, render
from sala.training.config import read_config
from sala.training.loading import load

TABLE_NAMES = ("table1", "table2", "ablation", "tadam", "scale", "scale-distractors", "beyond")


@dataclass(frozen=True)
class Published:
    """The files that were written, and the verdict on SALA against Soft k-Means for each column."""

    files: list[Path]
    sentences: list[str]


@dataclass(frozen=True)
class TableSection:
    """A table of the page, in parts: one for each dataset, number of shots and test setting."""

    name: str
    title: str
    parts: list[TablePart]
    circumstances: str


@dataclass(frozen=True)
class TablePart:
    """One column of a table with its differences, a row for each variant."""

    header: list[str]
    rows: list[list[str]]
    bold: list[set[int]]  # the bold cells of each row
    test: str  # the shape of test episodes


@dataclass(frozen=True)
class FigureSection:
    """A figure of the page; `data` is written beside it, unless it was read from there."""

    name: str
    title: str
    plot: plots.Plot
    caption: str
    data: Any = None


def publish(out: Path, datasets: Sequence[str], budget: str, n_episodes: int | None = None) -> Published:
    """Write every table and figure that has records, and the page."""
    files: list[Path] = []
    sections: list[TableSection] = []
    sentences: list[str] = []
    for name in TABLE_NAMES:
        columns = tables.columns_of(name, datasets, budget, out, n_episodes)
        if not columns:
            continue
        bases = tables.bases_of(name, datasets, budget, out, n_episodes)
        header, rows = tables.rows_of(columns, bases)
        files += [_json(out / f"{name}.json", tables.to_json(name, columns, bases))]
        files += [_text(out / f"{name}.md", _markdown(name, columns, header, rows, budget))]
        files += [_text(out / f"{name}.tex", tables.latex(header, rows))]
        if name in ("table1", "table2"):
            sentences += tables.verdicts(name, columns, bases)
        parts = [_part(column, bases) for column in columns]
        sections.append(TableSection(name, TABLES[name].title, parts, _circumstances(columns)))
    figures = [figure for figure in (_curves(out, datasets, budget, n_episodes), _maps(out)) if figure is not None]
    for figure in figures:
        files += _write_figure(out, figure)
    files += [_text(out / "report.html", _page(sections, figures, sentences, datasets, budget))]
    return Published(files, sentences)


def _write_figure(out: Path, figure: FigureSection) -> list[Path]:
    png = out / f"{figure.name}.png"
    files = [_json(out / f"{figure.name}.json", figure.data)] if figure.data is not None else []
    files += [_text(out / f"{figure.name}.svg", figure.plot.svg), png]
    with writing(png):
        png.write_bytes(figure.plot.png())
    return files


def _json(path: Path, content: Any) -> Path:
    write_json(path, content)
    return path


def _text(path: Path, content: str) -> Path:
    with writing(path):
        path.write_text(content, encoding="utf-8")
    return path


def _circumstances(columns: Sequence[Column]) -> str:
    """Training episodes, machine and versions of the runs of a table, in one sentence each."""
    records = [record for column in columns for entry in column.entries.values() for record in entry.records]
    trained = sorted({f"{record.n_trained:,} on {record.run.cell.dataset}" for record in records})
    machines = sorted({record.manifest["machine"] for record in records})
    torch_versions = sorted({record.manifest["versions"]["torch"] for record in records})
    return (
        f"Training episodes: {', '.join(trained)}; seed 0 where no number of seeds is given. Machine: "
        f"{', '.join(machines)}, one thread a run; torch {', '.join(torch_versions)}."
    )


def _markdown(name: str, columns: Sequence[Column], header: list[str], rows: list[Any], budget: str) -> str:
    return (
        f"# {TABLES[name].title}\n\n"
        "5-way accuracy in percent on 1,000 fixed test episodes, ± the half-width of the 95 % interval over episodes. "
        f"{_circumstances(columns)} 'Against Soft k-Means' is the paired difference on the same episodes. Bold: better "
        "than every "
        "other row, each paired interval excluding zero. 'Published': the SALA paper's number (with distractors TPN's "
        "own), of "
        "another protocol, and by how much ours differs.\n\n"
        f"Command: `sala reproduce {name} --budget {budget}`; the command and circumstances of each run are in "
        f"{name}.json.\n\n"
        f"{tables.markdown(header, rows)}"
    )


def _part(column: Column, bases: Mapping[tuple[str, int, str], Any]) -> TablePart:
    header, rows = tables.rows_of([column], dict(bases))
    shape = next(iter(column.entries.values())).cell.protocol.test[column.setting]
    return TablePart(header, [texts for texts, _ in rows], [marks for _, marks in rows], shape.describe())


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


def map_task(run: Run, folder: Path, out: Path) -> None:
    """Write the maps of the first test task, before and after the metric, to tsne.json."""
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    method = load(folder)
    if not isinstance(method, SALA) or method.metric is None:
        raise SalaError(f"{folder} is not a run of SALA with its metric")
    config = read_config(folder)
    shape = list(config.protocol.test.values())[-1]
    episode = fixed_sampler(config.open_store(), shape, "test", config.protocol).episode(0)
    with torch.inference_mode():
        task = method.embed(episode.task)
        embeddings = torch.cat([task.support, task.unlabeled, task.query])
        labels = torch.cat([task.labels, episode.unlabeled_labels, episode.query_labels])
        weights = method.metric(class_means(task.support, task.labels, task.n_way))
        views = {"before": embeddings, "after": embeddings * weights[labels]}
    content: dict[str, Any] = {"labels": labels.tolist(), "run": run.name, "shape": asdict(shape)}
    for name, view in views.items():
        xy = TSNE(perplexity=20.0, init="pca", random_state=0).fit_transform(view.numpy())
        content[name] = [[round(float(v), 3) for v in row] for row in xy]
        content[f"silhouette_{name}"] = float(silhouette_score(view.numpy(), labels.numpy()))
    path = out / "tsne.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_json(path, {**known, run.cell.dataset: content})


def _maps(out: Path) -> FigureSection | None:
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
        "drawing itself adds some of the separation. The silhouette is measured in the embedding space, not on the map."
    )
    return FigureSection("tsne", TABLES["tsne"].title, plots.before_and_after(panels), caption)


def _page(
    sections: Sequence[TableSection],
    figures: Sequence[FigureSection],
    sentences: Sequence[str],
    datasets: Sequence[str],
    budget: str,
) -> str:
    """The page; the verdicts that are not in favor of SALA stand first."""
    protocols = {
        name: {**protocol_of(name, budget).to_json(), "budgets": {budget: asdict(PROTOCOLS[name].budget(budget))}}
        for name in datasets
    }
    return render(
        "reproduction",
        title="SALA and the systems it is compared with, under one protocol",
        verdicts=sorted(sentences, key=lambda sentence: "is significantly better" in sentence),
        sections=sections,
        figures=figures,
        budget=budget,
        protocols=json.dumps(protocols, indent=1),
        variants=list(VARIANTS.values()),
    )


def runs_for_maps(datasets: Sequence[str], budget: str, n_episodes: int | None = None) -> list[Run]:
    """The runs of SALA that the t-SNE maps are drawn of: 1-shot, seed 0."""
    return [Run(cell, budget, 0, n_episodes) for cell in cells_of("tsne", datasets, shots=(1,))]
