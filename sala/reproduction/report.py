"""From records to files people read: each table as JSON, Markdown and LaTeX, the figures, and one page with everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sala.atomic import write_json
from sala.episodes.protocol import PROTOCOLS
from sala.errors import writing
from sala.evaluation.formats import ONE_SEED_NOTE, has_one_seed, latex, markdown
from sala.evaluation.seeds import MIN_SEEDS
from sala.reproduction import findings, formats, tables
from sala.reproduction.figures import FigureSection, figures_of, maps_of, write_figure
from sala.reproduction.plan import protocol_of
from sala.reproduction.published import DATASETS, TABLES, VARIANTS
from sala.reproduction.tables import Column
from sala.reproduction.verdicts import verdicts
from sala.templates import render

TABLE_NAMES = ("table1", "table2", "ablation", "tadam", "scale", "scale-distractors", "beyond")
OWN = ("table1", "table2")  # where methods of a user are rows
DEFAULT_BUDGET = "cpu"  # its files have the plain names


@dataclass(frozen=True)
class Published:
    """The files that were written, the verdict on SALA against Soft k-Means for each column, and what has no records."""

    files: list[Path]
    sentences: list[str]
    lacking: list[str]  # names of tables and figures that were asked for


@dataclass(frozen=True)
class TableSection:
    """A table of the page, in parts: one for each dataset, number of shots and test setting."""

    name: str  # of its files
    title: str
    parts: list[TablePart]
    sentences: list[str]
    circumstances: str
    command: str
    has_one_seed: bool  # whether its mark wants a note


@dataclass(frozen=True)
class TablePart:
    """One column of a table with its differences, a row for each variant."""

    header: list[str]
    rows: list[list[str]]
    bold: list[set[int]]  # the bold cells of each row
    test: str  # the shape of test episodes


@dataclass(frozen=True)
class Wish:
    """Which tables and figures are written: `names` of them, or everything that is recorded and the page."""

    names: Sequence[str]
    datasets: Sequence[str]
    budget: str
    n_episodes: int | None = None
    own: Sequence[str] = ()  # methods of a user, path/to/file.py:Class

    @property
    def is_all(self) -> bool:
        return "all" in self.names

    def wants(self, name: str) -> bool:
        """A table or figure; `learning` is one figure with `learning-distractors`."""
        return self.is_all or any(name in (asked, asked.removesuffix("-distractors")) for asked in self.names)


def publish(out: Path, wish: Wish) -> Published:
    """Write the tables and figures that are wished for and have records; the page is of everything."""
    sections: list[TableSection] = []
    figures: list[FigureSection] = []
    files: list[Path] = []
    found = _recorded(out, wish)
    for one, columns_by_table in found.items():
        for name, columns in columns_by_table.items():
            if wish.wants(name):
                sections.append(_section(name, columns, one, wish.n_episodes))
                files += _write_table(out, name, columns, sections[-1])
        drawn = [f for f in figures_of(out, _datasets(columns_by_table), one, wish.n_episodes) if wish.wants(f.name)]
        figures += [replace(f, name=_stem(f.name, one), title=_title(f.title, one)) for f in drawn]
    figures += [maps] if wish.wants("tsne") and (maps := maps_of(out)) is not None else []
    for figure in figures:
        files += write_figure(out, figure)
    if wish.is_all and files:
        about = wish.budget if wish.budget in found else next(iter(found), wish.budget)
        learned = findings.sentences(out, about, wish.n_episodes)
        protocols = {one: _datasets(columns_by_table) for one, columns_by_table in found.items()}
        files += [_text(out / "report.html", _page(sections, figures, learned, protocols))]
    written = {path.stem.removesuffix(f"-{wish.budget}") for path in files}
    lacking = [
        name for name in wish.names if name != "all" and name.replace("learning-distractors", "learning") not in written
    ]
    return Published(files, [sentence for section in sections for sentence in section.sentences], lacking)


def _recorded(out: Path, wish: Wish) -> dict[str, dict[str, list[Column]]]:
    """Budgets that have records, and the tables of each; of one budget, unless everything is wished for."""
    is_short = wish.n_episodes is not None
    asked = {wish.budget: tuple(wish.datasets) if is_short else (*DATASETS[wish.budget], *wish.datasets)}
    found = {}
    for one, names in ({**DATASETS, **asked} if wish.is_all and not is_short else asked).items():
        unique = list(dict.fromkeys(names))
        columns = {
            table: tables.columns_of(table, unique, one, out, wish.n_episodes, wish.own if table in OWN else ())
            for table in TABLE_NAMES
        }
        found[one] = {table: some for table, some in columns.items() if some}
    return {one: some for one, some in found.items() if some}


def _datasets(columns_by_table: Mapping[str, Sequence[Column]]) -> list[str]:
    return list(dict.fromkeys(column.dataset for columns in columns_by_table.values() for column in columns))


def _stem(name: str, budget: str) -> str:
    """The name of the files of a table or figure: the cpu budget has the plain one."""
    return name if budget == DEFAULT_BUDGET else f"{name}-{budget}"


def _title(title: str, budget: str) -> str:
    return title if budget == DEFAULT_BUDGET else f"{title} (budget {budget})"


def _section(name: str, columns: Sequence[Column], budget: str, n_episodes: int | None) -> TableSection:
    sentences = verdicts(name, columns) if name in ("table1", "table2") else []
    return TableSection(
        name=_stem(name, budget),
        title=_title(TABLES[name].title, budget),
        parts=[_part(column) for column in columns],
        sentences=sentences,
        circumstances=_circumstances(columns),
        command=f"sala reproduce {name} --budget {budget}" + (f" --episodes {n_episodes}" if n_episodes else ""),
        has_one_seed=has_one_seed(formats.rows_of(columns)[1]),
    )


def _write_table(out: Path, name: str, columns: Sequence[Column], section: TableSection) -> list[Path]:
    header, rows = formats.rows_of(columns)
    return [
        _json(out / f"{section.name}.json", formats.to_json(name, columns)),
        _text(out / f"{section.name}.md", _markdown(section, markdown(header, rows))),
        _text(out / f"{section.name}.tex", latex(header, rows)),
    ]


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
    trained = list(dict.fromkeys(f"{record.n_trained:,} on {record.run.cell.dataset}" for record in records))
    machines = sorted({record.manifest["machine"] for record in records})
    torch_versions = sorted({record.manifest["versions"]["torch"] for record in records})
    return (
        f"Training episodes: {', '.join(trained)}. Machine: {', '.join(machines)}, one thread a run; "
        f"torch {', '.join(torch_versions)}."
    )


def _markdown(section: TableSection, table: str) -> str:
    return (
        f"# {section.title}\n\n"
        "5-way accuracy in percent on 1,000 fixed test episodes, ± the half-width of the 95 % interval over episodes; in "
        f"brackets the number of trainings and the t interval over them. {section.circumstances} 'Against Soft k-Means' is "
        "the paired difference on the same episodes and seeds. Bold: better than every other row over at least "
        f"{MIN_SEEDS} common seeds, each interval over seeds excluding zero. 'Published': the SALA paper's number (with "
        "distractors TPN's own), in the test setting that it belongs to, and by how much ours differs.\n\n"
        f"Command: `{section.command}`; the command and circumstances of each run are in {section.name}.json.\n\n"
        f"{table}" + (f"\n{ONE_SEED_NOTE}\n" if section.has_one_seed else "")
    )


def _part(column: Column) -> TablePart:
    header, rows = formats.rows_of([column])
    shape = next(iter(column.entries.values())).cell.protocol.test[column.setting]
    return TablePart(header, [texts for texts, _ in rows], [marks for _, marks in rows], shape.describe())


def _page(
    sections: Sequence[TableSection],
    figures: Sequence[FigureSection],
    learned: Sequence[str],
    recorded: Mapping[str, Sequence[str]],
) -> str:
    protocols = {
        f"{name}, budget {budget}": {
            **protocol_of(name, budget).to_json(),
            "budgets": {budget: asdict(PROTOCOLS[name].budget(budget))},
        }
        for budget, datasets in recorded.items()
        for name in datasets
    }
    return render(
        "reproduction",
        title="SALA and the systems it is compared with, under one protocol",
        findings=learned,
        sections=sections,
        figures=figures,
        one_seed_note=ONE_SEED_NOTE,
        min_seeds=MIN_SEEDS,
        protocols=json.dumps(protocols, indent=1),
        variants=list(VARIANTS.values()),
    )
