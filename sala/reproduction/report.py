"""From records to files people read: each table as JSON, Markdown and LaTeX, the figures, and one page with everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sala.atomic import write_json
from sala.episodes.protocol import PROTOCOLS
from sala.errors import writing
from sala.reproduction import tables
from sala.reproduction.figures import FigureSection, figures_of, write_figure
from sala.reproduction.plan import protocol_of
from sala.reproduction.published import TABLES, VARIANTS
from sala.reproduction.tables import Column
from sala.templates import render

TABLE_NAMES = ("table1", "table2", "ablation", "tadam", "scale", "scale-distractors")


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
    figures = figures_of(out, datasets, budget, n_episodes)
    for figure in figures:
        files += write_figure(out, figure)
    files += [_text(out / "report.html", _page(sections, figures, sentences, datasets, budget))]
    return Published(files, sentences)


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
