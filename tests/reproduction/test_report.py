"""The files that are written from records: a set of tables for each budget, and one page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sala.reproduction import formats
from sala.reproduction.plan import Cell, Run
from sala.reproduction.published import DATASETS
from sala.reproduction.records import record_path
from sala.reproduction.report import TABLE_NAMES, publish
from sala.reproduction.tables import columns_of

RESULTS = Path(__file__).parents[2] / "results"


def put(out: Path, variant: str, budget: str) -> None:
    """A record of Omniglot, as if it were of this budget."""
    cell = Cell("omniglot", 1, 0, variant)
    run, real = Run(cell, budget, 0), record_path(RESULTS, Run(cell, "cpu", 0))
    path = record_path(out, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**json.loads(real.read_text()), "config": run.config.to_json()}))


def test_each_budget_has_its_own_tables(tmp_path: Path) -> None:
    for budget in ("cpu", "long"):
        put(tmp_path, "soft-kmeans", budget)
    put(tmp_path, "sala", "long")
    written = publish(tmp_path, ["omniglot"], "cpu")
    names = {path.name for path in written.files}
    assert {"table1.json", "table1-long.json", "report.html"} <= names and "table1-paper.json" not in names
    for name, variants in (("table1", {"soft-kmeans"}), ("table1-long", {"soft-kmeans", "sala"})):
        assert {cell["variant"] for cell in json.loads((tmp_path / f"{name}.json").read_text())} == variants
    page = (tmp_path / "report.html").read_text()
    assert 'id="table1"' in page and 'id="table1-long"' in page and "--budget long" in page
    assert all("too few seeds" in sentence for sentence in written.sentences)


def test_tables_hold_all_recorded_datasets_whichever_was_asked_for(tmp_path: Path) -> None:
    put(tmp_path, "sala", "cpu")
    publish(tmp_path, ["tiny-tiered"], "cpu")
    assert {cell["dataset"] for cell in json.loads((tmp_path / "table1.json").read_text())} == {"omniglot"}


def test_scales_are_compared_where_something_was_run_as_printed(tmp_path: Path) -> None:
    scaled, printed = (Run(Cell("tiny-tiered", 1, 0, key), "cpu", 0) for key in ("sala", "sala-printed"))
    record_path(tmp_path, scaled).parent.mkdir()
    content = json.loads(record_path(RESULTS, printed).read_text())
    for run, n_columns in ((scaled, 0), (printed, 1)):
        record_path(tmp_path, run).write_text(json.dumps({**content, "config": run.config.to_json()}))
        assert len(columns_of("scale", ["tiny-tiered"], "cpu", tmp_path)) == n_columns


def test_a_page_without_records_says_so(tmp_path: Path) -> None:
    assert [path.name for path in publish(tmp_path, ["omniglot"], "cpu").files] == ["report.html"]
    assert "No run is recorded yet" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_the_committed_tables_show_what_the_records_have(name: str) -> None:
    columns = columns_of(name, DATASETS["cpu"], "cpu", RESULTS)
    assert formats.markdown(*formats.rows_of(columns)) in (RESULTS / f"{name}.md").read_text(), "run `make results`"
