"""The files that are written from records: a set of tables for each budget, and one page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sala.cli import app as cli
from sala.evaluation import formats as as_text
from sala.reproduction import formats
from sala.reproduction.plan import Cell, Run, cells_of
from sala.reproduction.published import DATASETS
from sala.reproduction.records import read_record, record_path
from sala.reproduction.report import TABLE_NAMES, Wish, publish
from sala.reproduction.tables import columns_of
from tests.helpers.painted import refusal

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
    written = publish(tmp_path, Wish(["all"], ["omniglot"], "cpu"))
    names = {path.name for path in written.files}
    assert {"table1.json", "table1-long.json", "report.html"} <= names and "table1-paper.json" not in names
    for name, variants in (("table1", {"soft-kmeans"}), ("table1-long", {"soft-kmeans", "sala"})):
        assert {cell["variant"] for cell in json.loads((tmp_path / f"{name}.json").read_text())} == variants
    page = (tmp_path / "report.html").read_text()
    assert 'id="table1"' in page and 'id="table1-long"' in page and "--budget long" in page
    assert all("too few seeds" in sentence for sentence in written.sentences)


@pytest.mark.parametrize("budget", ["cpu", "long"])
def test_what_was_learned_is_of_the_budget_that_was_asked_for(tmp_path: Path, budget: str) -> None:
    put(tmp_path, "soft-kmeans", "cpu")
    for variant in ("soft-kmeans", "sala"):
        put(tmp_path, variant, "long")
    publish(tmp_path, Wish(["all"], ["omniglot"], budget))
    compared = "compare SALA with Soft k-Means" in (tmp_path / "report.html").read_text()
    assert compared == (budget == "long")


def test_tables_hold_all_recorded_datasets_whichever_was_asked_for(tmp_path: Path) -> None:
    put(tmp_path, "sala", "cpu")
    publish(tmp_path, Wish(["table1"], ["tiny-tiered"], "cpu"))
    assert {cell["dataset"] for cell in json.loads((tmp_path / "table1.json").read_text())} == {"omniglot"}


def test_scales_are_compared_where_something_was_run_as_printed(tmp_path: Path) -> None:
    scaled, printed = (Run(Cell("tiny-tiered", 1, 0, key), "cpu", 0) for key in ("sala", "sala-printed"))
    record_path(tmp_path, scaled).parent.mkdir()
    content = json.loads(record_path(RESULTS, printed).read_text())
    for run, n_columns in ((scaled, 0), (printed, 1)):
        record_path(tmp_path, run).write_text(json.dumps({**content, "config": run.config.to_json()}))
        assert len(columns_of("scale", ["tiny-tiered"], "cpu", tmp_path)) == n_columns


def test_nothing_is_written_without_records(tmp_path: Path) -> None:
    for names in (["all"], ["table1", "tsne"]):
        assert not publish(tmp_path, Wish(names, ["omniglot"], "cpu")).files
    assert not list(tmp_path.iterdir())
    for words in (["all"], ["table2", "--dataset", "omniglot"]):
        assert "has no records of" in refusal("reproduce", *words, "--no-run", "--out", tmp_path)


def test_only_what_is_asked_for_is_written(tmp_path: Path) -> None:
    for budget in ("cpu", "long"):
        put(tmp_path, "soft-kmeans", budget)
    put(tmp_path, "sala", "cpu")
    written = publish(tmp_path, Wish(["table1", "table2"], ["omniglot"], "cpu"))
    assert written.lacking == ["table2"]
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "table1.json", "table1.md", "table1.tex"}
    publish(tmp_path, Wish(["learning-distractors"], ["omniglot"], "cpu"))
    assert (tmp_path / "learning.svg").is_file()
    assert not (tmp_path / "report.html").exists()


def test_what_was_asked_for_by_name_and_has_no_record_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(METHOD)
    put(tmp_path, "sala", "cpu")
    variants = ("--variant", "sala", "--variant", f"{tmp_path}/mine.py:Mine")
    words = ("table1", "--dataset", "omniglot", "--dataset", "glyphs", *variants, "--no-run", "--out", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["sala", "reproduce", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    told = " ".join(capsys.readouterr().err.split())
    assert told.count("has no records of") == 3
    for name in ("mine.py:Mine on omniglot", "sala on glyphs", "mine.py:Mine on glyphs"):
        assert f"has no records of {name} " in told


METHOD = "import sala\n\n\nclass Mine(sala.Method):\n    def logits(self, task):\n        return task.query[..., :5]\n"


def test_a_method_of_a_user_is_a_row_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(METHOD)
    name = f"{tmp_path}/mine.py:Mine"
    (cell,) = cells_of("table1", ["omniglot"], variants=[name])
    assert not cells_of("ablation", ["omniglot"], variants=[name])
    run = Run(cell, "cpu", 0)
    assert run.config.method == name and name in run.command
    put(tmp_path, "soft-kmeans", "cpu")
    source = json.loads(record_path(RESULTS, Run(Cell("omniglot", 1, 0, "sala"), "cpu", 0)).read_text())
    record_path(tmp_path, run).write_text(json.dumps({**source, "config": run.config.to_json()}))
    publish(tmp_path, Wish(["table1"], ["omniglot"], "cpu", own=[name]))
    assert "| Mine |" in (tmp_path / "table1.md").read_text()
    assert read_record(tmp_path, run) is not None
    (tmp_path / "mine.py").write_text(METHOD + "# changed\n")
    assert read_record(tmp_path, run) is None  # other code is another run


def test_a_method_of_a_user_has_a_place_only_beside_all_systems(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(METHOD)
    sentence = refusal("reproduce", "ablation", "--variant", f"{tmp_path}/mine.py:Mine", "--dry-run")
    assert "table1" in sentence and "table2" in sentence
    assert "no such file" in refusal("reproduce", "table1", "--variant", f"{tmp_path}/none.py:Mine", "--dry-run")


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_the_committed_tables_show_what_the_records_have(name: str) -> None:
    columns = columns_of(name, DATASETS["cpu"], "cpu", RESULTS)
    assert as_text.markdown(*formats.rows_of(columns)) in (RESULTS / f"{name}.md").read_text(), "run `make results`"
