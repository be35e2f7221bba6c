"""Puts what results/ has into README.md and docs/, between the marks that name it:

    <!-- tables: omniglot -->                  all tables on a dataset that have records; a second word is the budget
    <!-- scales: tiny-tiered -->               the tables of distances as printed
    <!-- beyond: omniglot -->                 the table of options that no paper has
    <!-- learning: cpu -->                     what SALA's lead over Soft k-Means does during training, a sentence each
    <!-- metric: all -->                       how well classes are separated before and after SALA's metric, and the command
    <!-- treatments: miniimagenet 2500 -->    the trials that the scale of distances was chosen by
    <!-- summary: miniimagenet omniglot -->    accuracies of all systems, without and with distractors
    <!-- coverage: miniimagenet -->            what is recorded, what is missing and what a run costs
    <!-- findings: all -->                     what was learned; or only the findings named
    <!-- labeling: goals -->                   a table of labeling results
    <!-- sets: accuracy -->                    a table of the classifier and its rivals on image sets of many kinds
    <!-- compared: glyphs omniglot -->         what `sala compare --csv` wrote of runs, by name of the file in compared/
    <!-- end -->

`python docs/tools/fill.py` writes, `python docs/tools/fill.py --check` fails if a page does not show what results/ has.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from labeling_tables import NOTHING, labeling_table, markdown
from sets_tables import SETS_TABLES

from sala.evaluation import formats as as_text
from sala.reproduction import findings as learned
from sala.reproduction import formats
from sala.reproduction.coverage import coverage as covered
from sala.reproduction.learning import panels_of
from sala.reproduction.metric import explain, read_metric, rows_of
from sala.reproduction.published import DATASETS, TABLES, VARIANTS
from sala.reproduction.tables import columns_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
MARK = re.compile(r"(<!-- (\w+): ([\w -]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def shown(names: Iterable[str], dataset: str, budget: str) -> str:
    """The tables that have records, each below its title."""
    found = {name: columns_of(name, [dataset], budget, RESULTS) for name in names}
    parts = [
        f"**{TABLES[name].title}** (`{name}`)\n\n{as_text.markdown(*formats.rows_of(columns))}"
        for name, columns in found.items()
        if columns
    ]
    return "\n".join(parts) or NOTHING


def tables(dataset: str, budget: str = "cpu") -> str:
    return shown(("table1", "table2", "ablation", "tadam"), dataset, budget)


def scales(dataset: str, budget: str = "cpu") -> str:
    return shown(("scale", "scale-distractors"), dataset, budget)


def beyond(dataset: str, budget: str = "cpu") -> str:
    return shown(("beyond",), dataset, budget)


def learning(budget: str) -> str:
    panels = panels_of(RESULTS, DATASETS[budget], budget)
    return "".join(f"- {panel.sentence}\n" for panel in panels) or NOTHING


def separation(which: str) -> str:
    """The rows of one run, or of all."""
    found = {run: one for run, one in read_metric(RESULTS).items() if which in ("all", run)}
    if not found:
        return NOTHING
    header, rows = rows_of(found)
    return as_text.markdown(header, [(row, set[int]()) for row in rows]) + f"\n{explain(found)}\n"


def treatments(dataset: str, n_episodes: str) -> str:
    """Validation accuracy after the trials of benchmarks/distance_scale.py, a column for each method."""
    paths = sorted((RESULTS / "scale").glob(f"{dataset}-*-{n_episodes}-s*.json"))
    found = {(one["treatment"], one["method"]): one["curve"][-1] for one in (json.loads(p.read_text()) for p in paths)}
    methods = {"protonet": "ProtoNet", "soft-kmeans": "Soft k-Means"}
    rows = []
    for treatment in dict.fromkeys(treatment for treatment, _ in found):
        ends = [found.get((treatment, method)) for method in methods]
        rows.append(
            ([treatment, *("-" if e is None else f"{e['val']:.1f} ± {e['ci95']:.1f}" for e in ends)], set[int]())
        )
    return as_text.markdown(["distances times", *methods.values()], sorted(rows)) if rows else NOTHING


def summary(*datasets: str) -> str:
    """A column for each dataset that has records, without and with distractors; SALA's published numbers last."""
    columns = []
    for dataset in datasets:
        for name, words in (("table1", ""), ("table2", ", distractors")):
            found = [c for c in columns_of(name, [dataset], "cpu", RESULTS) if c.shots == 1]
            columns += [(learned.LABELS.get(dataset, dataset) + words, found[-1])] if found else []
    if not columns:
        return NOTHING
    header = ["method", *(title for title, _ in columns)]
    best = [column.best() for _, column in columns]
    rows = []
    for variant in columns[0][1].entries:
        entries = [column.entries.get(variant) for _, column in columns]
        texts = [as_text.accuracy_text(None if entry is None else entry.found) for entry in entries]
        rows.append(([VARIANTS[variant].label, *texts], {i + 1 for i, one in enumerate(best) if one == variant}))
    published = [column.entries["sala"].published for _, column in columns]
    rows.append((["SALA, as published", *("-" if n is None else f"{n:.2f}" for n in published)], set()))
    return as_text.markdown(header, rows)


def coverage(dataset: str, budget: str = "cpu") -> str:
    found = covered(dataset, budget, RESULTS)
    header, *rows = found.rows()
    return found.sentence() + "\n\n" + as_text.markdown(header, [(row, set()) for row in rows])


def findings(*names: str) -> str:
    sentences = learned.sentences(RESULTS, names=() if names == ("all",) else names)
    return "\n".join(f"- {sentence}" for sentence in sentences or ["Not yet run."]) + "\n"


def compared(*datasets: str) -> str:
    """A row for each method, named by its run folders DATASET-METHOD-sSEED; a column for each file."""
    columns: dict[str, dict[str, str]] = {}
    for dataset in datasets:
        with (RESULTS / "compared" / f"{dataset}.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                name = re.sub(r"-s[\d{},]+$", "", row["run"].partition("-")[2])
                seeds = f" ({row['seeds']} seeds: ± {float(row['seed_ci95']):.2f})" if row["seed_ci95"] else " †"
                text = f"{float(row['accuracy']):.2f} ± {float(row['ci95']):.2f}{seeds}"
                columns.setdefault(name, {})[dataset] = text
    rows = [[f"`{name}`", *(found.get(dataset, "-") for dataset in datasets)] for name, found in columns.items()]
    return as_text.markdown(["run", *datasets], [(row, set[int]()) for row in rows])


MAKERS = {
    "tables": tables,
    "scales": scales,
    "beyond": beyond,
    "learning": learning,
    "metric": separation,
    "treatments": treatments,
    "summary": summary,
    "coverage": coverage,
    "findings": findings,
    "labeling": labeling_table,
    "sets": lambda name: markdown(SETS_TABLES[name]()),
    "compared": compared,
    "heads": lambda name: (RESULTS / f"{name}.md").read_text(encoding="utf-8"),
}


def filled(text: str) -> str:
    return MARK.sub(lambda m: m[1] + MAKERS[m[2]](*m[3].split()) + m[4], text)


if __name__ == "__main__":
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if "--check" in sys.argv and before != after:
            sys.exit(f"{path} does not show what results/ has; run `python docs/tools/fill.py`")
        if before != after:
            path.write_text(after, encoding="utf-8")
