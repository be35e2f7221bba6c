"""The ten tasks of a researcher's first half hour, each from the pages, in at most ten lines; the examples beside them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sala.cli.app import app
from sala.data import ImageStore
from sala.methods import METHODS
from sala.training.config import read_config
from sala.training.loading import load
from sala.training.log import read_metrics
from tests.helpers.documented import LONGEST, ROOT, Block, blocks, commands_of, run, run_page, run_python

IN_MEMORY = "docs/how-to/data-in-memory.md"
IN_PYTHON = "docs/how-to/train-in-python.md"
CHANGED = "docs/how-to/change-the-training.md"
OWN_METHOD = "docs/how-to/write-a-method.md"
OWN_TASK = "docs/how-to/look-at-a-task.md"
RESULTS = "docs/how-to/results.md"
TABLES = "docs/how-to/reproduce.md"


@pytest.mark.parametrize("page", [IN_MEMORY, IN_PYTHON, CHANGED, OWN_TASK, RESULTS, TABLES, "docs/how-to/resume.md"])
def test_an_example_has_at_most_ten_lines(page: str) -> None:
    found = [block for kind in ("python", "console") for block in blocks(page, kind)]
    assert found
    assert all(block.n_lines <= LONGEST for block in found)


def executed(block: Block) -> dict[str, object]:
    """The names that an example leaves."""
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(block.body, "example", "exec"), names)
    return names


def test_1_the_readme_example(tmp_path: Path) -> None:
    (example,) = blocks("README.md", "python")
    assert example.n_lines <= LONGEST
    assert re.search(r"\d\d\.\d% right", run_python(example.body, tmp_path))


@pytest.mark.slow
def test_2_a_method_of_ones_own(tmp_path: Path, glyphs: ImageStore) -> None:
    first, *_ = blocks(OWN_METHOD, "python")
    assert first.n_lines <= LONGEST
    printed = run_page(OWN_METHOD, tmp_path)
    assert "confident.py:Confident" in printed  # a row beside soft-kmeans
    assert load(tmp_path / "runs/scaled", method=f"{tmp_path}/scaled.py:Scaled").log_scale != 0  # trained
    assert read_config(tmp_path / "runs/confident").options == {"threshold": "0.9"}


def test_3_distractors_stop_and_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], glyphs: ImageStore
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = (block for block in blocks(IN_PYTHON, "python") if "resume_run" in block.body)
    losses = executed(example)["losses"]
    assert isinstance(losses, list) and len(losses) == 2  # the watch saw the training until it stopped
    assert read_config("runs/watched").protocol.train.n_distractor == 5
    assert capsys.readouterr().out.startswith("4 ")  # all episodes are done


def test_4_a_task_of_ones_own_with_pseudo_labels_and_a_plot(tmp_path: Path, glyphs: ImageStore) -> None:
    (example,) = blocks(OWN_TASK, "python")
    run_python(example.body, tmp_path)
    assert (tmp_path / "pseudo-labels.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_5_and_9_other_episodes_with_their_numbers_and_latex_of_ones_own_runs(
    tmp_path: Path, glyphs: ImageStore
) -> None:
    printed = run_page(RESULTS, tmp_path)
    assert "runs/soft-s{0,1}" in printed and "1000 episodes" in printed
    measured = json.loads((tmp_path / "episodes.json").read_text())
    assert len(measured["accuracies"]) == 1000
    asked = {"n_way": 10, "n_shot": 2, "n_query": 3, "n_unlabeled": 5, "n_distractor": 2}
    assert measured["shape"] == asked
    table = (tmp_path / "table.tex").read_text(encoding="utf-8")
    assert r"\toprule" in table and "soft-kmeans" in table


def test_6_a_torch_dataset(glyphs: ImageStore) -> None:
    (example,) = (block for block in blocks(IN_MEMORY, "python") if "from_dataset" in block.body)
    names = executed(example)
    assert names["store"].image_shape == (28, 28, 3)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_7_another_backbone_learning_rate_beginning_and_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, glyphs: ImageStore
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(CHANGED, tmp_path)
    resnet, net, first, second = (read_config(f"runs/{name}") for name in ("resnet", "net", "first", "second"))
    assert (resnet.protocol.optimizer, resnet.protocol.learning_rate, resnet.backbone) == ("sgd", 0.05, "resnet12")
    assert read_metrics("runs/resnet")
    assert net.backbone == f"{tmp_path}/net.py:Net"
    assert (first.budget.n_episodes, first.extended) == (8, (6,))
    assert second.init == f"{tmp_path}/runs/first"


def test_8_a_table_again_from_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [words for block in blocks(TABLES, "console") for words in commands_of(block.body)]
    (again,) = (line for line in words if line[-2:] == ["table1", "--no-run"])
    shutil.copytree(ROOT / "results/runs", tmp_path / "results/runs")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, again[again.index("reproduce") :])
    assert done.exit_code == 0, done.exception
    written = {path.name for path in (tmp_path / "results").iterdir()} - {"runs"}
    assert written == {"table1.json", "table1.md", "table1.tex"}
    records = [json.loads(path.read_text()) for path in Path("results/runs").glob("omniglot-1shot-d0-sala-cpu-s*.json")]
    mean = sum(record["results"]["large"]["accuracy"] for record in records) / len(records)
    (row,) = re.findall(r"^\| SALA \|.*$", Path("results/table1.md").read_text(), flags=re.MULTILINE)
    assert f" {mean:.2f} ± " in row


@pytest.mark.filterwarnings("ignore:.*has no parameters", "ignore:.*distractor cluster")
def test_10_all_methods_on_ready_made_features(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = (block for block in blocks(IN_MEMORY, "python") if "from_features" in block.body)
    executed(example)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == list(METHODS)
    assert all("±" in line for line in printed)


@pytest.mark.parametrize("part", ["from_arrays", "class Blobs"])
def test_other_data_in_memory_is_measured(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = (block for block in blocks(IN_MEMORY, "python") if part in block.body)
    executed(example)
    assert "6 episodes" in capsys.readouterr().out


def test_a_training_in_python_is_followed_stopped_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], glyphs: ImageStore
) -> None:
    monkeypatch.chdir(tmp_path)
    keep, again, _ = blocks(IN_PYTHON, "python")
    late = executed(keep)["late"]
    assert isinstance(late, list) and len(late) == 3  # two validations
    executed(again)
    assert "6 episodes" in capsys.readouterr().out


@pytest.mark.slow
def test_a_changed_or_foreign_method_file_is_not_run_by_opening_a_run(tmp_path: Path, glyphs: ImageStore) -> None:
    (source,) = (block.body for block in blocks(OWN_METHOD, "python") if block.title == "confident.py")
    name, path = "confident.py:Confident", tmp_path / "confident.py"
    train, test = commands_of(
        f"$ sala train --method {name} --episodes 4 --threads 1 --out run\n$ sala evaluate run --episodes 4"
    )
    path.write_text(source)
    run(train, tmp_path)
    path.write_text(source + "\nopen('executed', 'w').close()\n")
    with pytest.raises(AssertionError, match="trust"):
        run(test, tmp_path)
    assert not (tmp_path / "executed").exists()
    run([*test, "--method", name], tmp_path)
    assert (tmp_path / "executed").exists()
