"""From records to what people read: a file of cells for each table, its Markdown and LaTeX, figures, and one page "
"with everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from sala import figures, page, tables
from sala.checkpoint import write_json
from sala.errors import SalaError, writing
from sala.methods.sala import SALA
from sala.paper import ARMS, TABLES
from sala.protocol import PROTOCOLS
from sala.reproduce import Run, cells_of, protocol_of
from sala.runconfig import read_config
from sala.sampler import fixed_sampler
from sala.stages import class_means
from sala.tables import Column
from sala.trained import load

N_TABLES = ("table1", "table2", "ablation", "tadam")

DIFFERENCES = (
    "The paper's rows of other systems were copied from their own papers and are of other protocols: other numbers of "
    "unlabelled images "
    "in training, other schedules, other ways to choose the weights that are tested. Here every system has the same "
    "classes, label "
    "split, initial weights, episodes, budget and choice by validation; only the method differs. So a row of ours may "
    "differ from the published one without either being wrong.",
    "Budget. The paper trains for up to 500,000 episodes; the cpu budget is a twenty-fifth of that or less, and the "
    "learning rate is halved at "
    "each fifth of it. `--budget paper` is the full one.",
    "tiny-tiered, with the cpu budget, has 5 unlabelled images a class in training for every system alike; the paper and "
    "the protocol have 15, which would double the cost of a step. Test episodes have 20.",
    "Omniglot. Ten percent of twenty images are two labelled ones a class: one for the support and one for the query, "
    "so a training "
    "episode has five queries. The paper gives neither the number of queries nor the size of the larger unlabelled set "
    "at test; `ren` is Ren et "
    "al.'s test (14 queries and 5 unlabelled images a class), `large` has 4 and 15.",
    "SALA's r = 800 is read as the width of the metric network's hidden layer, at most half of the embedding. As a "
    "reduction ratio it leaves "
    "two hidden units, which die, and weights that are the same for every task.",
    "Without distractors progressive selection is a curriculum for training alone: at test all unlabelled images are "
    "used, with or without "
    "it. With distractors half of them are.",
    "Soft k-Means does not let gradients through the assignments, as its authors released it. The row 'neither' of the "
    "ablation does, "
    "as SALA does; both are shown.",
)


@dataclass(frozen=True)
class Published:
    """Where things were written."""

    files: list[Path]
    sentences: list[str]  # the verdict on SALA against Soft k-Means, column by column


def publish(out: Path, datasets: Sequence[str], budget: str, n_episodes: int | None = None) -> Published:
    """Write every table and figure that has records, and the page."""
    files: list[Path] = []
    sections: list[str] = []
    sentences: list[str] = []
    for name in N_TABLES:
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
        shown = [_html_table(column, bases) for column in columns]
        note = f"{_circumstances(columns)} Command: sala reproduce {name} --budget {budget}"
        sections.append(page.section(TABLES[name].title, *shown, page.paragraph(note, note=True)))
    for name, drawing in (("curve", _curves(out, datasets, budget, n_episodes)), ("tsne", _maps(out))):
        if drawing is None:
            continue
        plot, caption, data = drawing
        files += [_json(out / f"{name}.json", data)] if data is not None else []
        files += [_text(out / f"{name}.svg", plot)]
        with writing(out / f"{name}.png"):
            (out / f"{name}.png").write_bytes(plot.png())
        files.append(out / f"{name}.png")
        sections.append(page.section(TABLES[name].title, plot, page.paragraph(caption, note=True)))
    files += [_text(out / "report.html", _report(sections, sentences, datasets, budget))]
    return Published(files, sentences)


def _json(path: Path, content: Any) -> Path:
    write_json(path, content)
    return path


def _text(path: Path, content: str) -> Path:
    with writing(path):
        path.write_text(content, encoding="utf-8")
    return path


def _circumstances(columns: Sequence[Column]) -> str:
    """How long the runs were trained, and where."""
    records = [record for column in columns for entry in column.entries.values() for record in entry.records]
    trained = sorted({f"{record.n_trained:,} on {record.run.cell.dataset}" for record in records})
    machines = sorted({record.manifest["machine"] for record in records})
    torch_versions = sorted({record.manifest["versions"]["torch"] for record in records})
    return (
        f"Training episodes: {', '.join(trained)}; seed 0 where no number of seeds is given. Machine: "
        f"{', '.join(machines)}, "
        f"one thread a run; torch {', '.join(torch_versions)}."
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


def _html_table(column: Column, bases: Mapping[tuple[str, int, str], Any]) -> str:
    header, rows = tables.rows_of([column], dict(bases))
    shape = next(iter(column.entries.values())).cell.protocol.test[column.setting]
    return page.table(header, [texts for texts, _ in rows], bold=[marks for _, marks in rows]) + page.paragraph(
        f"Test: {shape.describe()}.", note=True
    )


def _curves(
    out: Path, datasets: Sequence[str], budget: str, n_episodes: int | None
) -> tuple[figures.Plot, str, Any] | None:
    names = {"sala": "progressive selection", "sala-metric": "all unlabelled images"}
    panels: dict[str, dict[str, list[tuple[int, float, float]]]] = {}
    for column in tables.columns_of("curve", datasets, budget, out, n_episodes):
        lines = {
            names[arm]: [(m["episode"], m["val_accuracy"], m["val_ci95"]) for m in entry.records[0].metrics]
            for arm, entry in column.entries.items()
            if entry.records
        }
        if len(lines) == len(names):
            panels.setdefault(f"{column.dataset} {column.shots}-shot", lines)
    if not panels:
        return None
    n = PROTOCOLS[datasets[0]].budgets[budget].n_validation_episodes
    caption = (
        f"Accuracy on {n} fixed validation episodes during training, with its 95 % band; the same metric, initial "
        "weights and episodes, seed 0. "
        "Validation uses all unlabelled images for both."
    )
    return figures.validation_curves(panels), caption, panels


def map_task(run: Run, folder: Path, out: Path) -> None:
    """Keep the maps of the first test task before and after the metric in tsne.json."""
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
        points = torch.cat([task.support, task.unlabeled, task.query])
        labels = torch.cat([task.labels, episode.unlabeled_labels, episode.query_labels])
        weights = method.metric(class_means(task.support, task.labels, task.n_way))
        views = {"before": points, "after": points * weights[labels]}
    content: dict[str, Any] = {"labels": labels.tolist(), "run": run.name, "shape": asdict(shape)}
    for name, view in views.items():
        xy = TSNE(perplexity=20.0, init="pca", random_state=0).fit_transform(view.numpy())
        content[name] = [[round(float(v), 3) for v in row] for row in xy]
        content[f"silhouette_{name}"] = float(silhouette_score(view.numpy(), labels.numpy()))
    path = out / "tsne.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_json(path, {**known, run.cell.dataset: content})


def _maps(out: Path) -> tuple[figures.Plot, str, Any] | None:
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
        "t-SNE maps of all points of the first test task. After: each embedding times the weights of its own true "
        "class, as the paper "
        "draws it; the labels of unlabelled and query points, which the method does not have, are used for that, so "
        "some of the "
        "separation is put in by the drawing. The silhouette is measured in the space itself, not on the map."
    )
    return figures.before_and_after(panels), caption, None


def _report(sections: Sequence[str], sentences: Sequence[str], datasets: Sequence[str], budget: str) -> str:
    undecided = [s for s in sentences if "is significantly better" not in s]
    first = (
        " ".join([*undecided, *(s for s in sentences if s not in undecided)])
        or "No pair of SALA and Soft k-Means is finished."
    )
    protocols = {
        name: {**protocol_of(name, budget).to_json(), "budgets": {budget: asdict(PROTOCOLS[name].budget(budget))}}
        for name in datasets
    }
    return page.page(
        "SALA and the systems it is compared with, under one protocol",
        page.paragraph(first),
        page.paragraph(
            "Accuracies are percent over 1,000 fixed test episodes, ± the half-width of the 95 % interval over "
            "episodes, which says nothing "
            "about another training; where there are several seeds (initial weights, label split and training "
            "episodes), the standard deviation "
            "over them is given too. Differences are paired: the same episodes, and the seeds that both rows have. The "
            "best of a column is bold only "
            "where the paired interval "
            "against every other row excludes zero.",
            note=True,
        ),
        *sections,
        page.section("Where we differ from the paper", *(page.paragraph(text) for text in DIFFERENCES)),
        page.section(
            "The protocol in full",
            page.code(json.dumps(protocols, indent=1)),
            page.paragraph(
                "Arms: " + "; ".join(f"{a.label}: {a.method} {a.options or ''}".strip() for a in ARMS.values()) + ".",
                note=True,
            ),
        ),
    )


def runs_for_maps(datasets: Sequence[str], budget: str, n_episodes: int | None = None) -> list[Run]:
    return [Run(cell, budget, 0, n_episodes) for cell in cells_of("tsne", datasets, shots=(1,))]
