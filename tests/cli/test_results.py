"""What `evaluate` and `compare` store, group and write."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from sala.cli import app as cli
from sala.cli.measuring import together
from sala.nn import plugins
from sala.training import measured
from tests.helpers.noise_runs import (  # noqa: F401  (fixtures)
    METHOD,
    TRAIN,
    Sala,
    noise_in_place_of_letters,
    noise_store,
    run_copied,
    sala_called,
    sala_refused,
    trained_once,
)

FEW = ("--episodes", "3")


@pytest.fixture(name="seeds", scope="module")
def runs_of_seeds(tmp_path_factory: pytest.TempPathFactory, noise: None) -> dict[str, Path]:
    """ProtoNet with two seeds, and MatchingNet with one."""
    folder, found = tmp_path_factory.mktemp("seeds"), {}
    for method, seed in (("protonet", 0), ("protonet", 1), ("matchingnet", 0)):
        name = f"a-run-with-a-long-name-of-the-method-{method}-s{seed}"
        words = [*TRAIN, method, "--seed", str(seed), "--out", str(folder / name)]
        assert CliRunner().invoke(cli.app, words).exit_code == 0
        found[f"{method}{seed}"] = folder / name
    return found


@pytest.fixture(name="embedded")
def embeddings_counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that are opened to be measured, in this order."""
    opened: list[str] = []
    before = measured.open_run

    def counted(folder: Path, **more: object) -> object:
        opened.append(Path(folder).name)
        return before(folder, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(measured, "open_run", counted)
    return opened


def test_a_stored_result_is_not_computed_again(run: Path, sala: Sala, embedded: list[str]) -> None:
    first, second = (sala("compare", run, *FEW, "--json") for _ in range(2))
    assert first[1] == second[1]
    assert embedded == ["run"]
    assert "2 of 2 results were stored" in second[2]
    sala("evaluate", run, *FEW)  # the same question
    assert embedded == ["run"]
    sala("compare", run, *FEW, "--again")
    assert embedded == ["run", "run"]


@pytest.mark.parametrize(
    "words", [("--seed", "5"), ("--queries", "2"), ("--weights", "last"), ("--split", "val"), ("--head", "simpleshot")]
)
def test_another_question_is_computed(run: Path, sala: Sala, embedded: list[str], words: tuple[str, ...]) -> None:
    sala("compare", run, *FEW)
    assert sala("compare", run, *FEW, *words)[0] == 0
    assert len(embedded) == 2
    sala("compare", run, *FEW, *words)
    assert len(embedded) == 2


def test_a_run_that_was_trained_anew_is_computed_again(
    run: Path, seeds: dict[str, Path], sala: Sala, embedded: list[str]
) -> None:
    before = sala("compare", run, *FEW, "--json")[1]
    for name in ("best.safetensors", "last.safetensors"):
        shutil.copyfile(seeds["protonet1"] / name, run / name)
    assert sala("compare", run, *FEW, "--json")[1] != before
    assert len(embedded) == 2


def test_a_method_that_changed_is_computed_again(
    tmp_path: Path, sala: Sala, embedded: list[str], refused: Callable[..., str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(METHOD + "return task.query[..., :5]\n")
    sala(*TRAIN, f"{file}:Mine", "--out", tmp_path / "run")
    assert sala("evaluate", tmp_path / "run", *FEW)[0] == sala("evaluate", tmp_path / "run", *FEW)[0] == 0
    assert len(embedded) == 1
    file.write_text(METHOD + "return -task.query[..., :5]\n")
    assert "name it: --method" in refused("evaluate", tmp_path / "run", *FEW)
    assert sala("evaluate", tmp_path / "run", *FEW, "--method", f"{file}:Mine")[0] == 0
    assert len(embedded) == 3


def test_a_package_that_changed_is_computed_again(
    tmp_path: Path, sala: Sala, embedded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its method and its backbone: each of the files is looked at."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "their_method.py").write_text(METHOD + "return task.query[..., :5]\n")
    (tmp_path / "their_net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Conv2d):\n    def __init__(self, n, side):\n        "
        "super().__init__(n, 2, 3)\n"
    )
    points = {
        "sala.methods": EntryPoint("their-method", "their_method:Mine", "sala.methods"),
        "sala.backbones": EntryPoint("their-net", "their_net:Net", "sala.backbones"),
    }
    monkeypatch.setattr(plugins, "entry_points", lambda group: [points[group]])
    sala(*TRAIN, "their-method", "--backbone", "their-net", "--out", tmp_path / "run")
    for n, file in ((1, None), (2, "their_method.py"), (3, "their_net.py")):
        if file:
            (tmp_path / file).write_text((tmp_path / file).read_text() + "# changed\n")
        assert sala("evaluate", tmp_path / "run", *FEW)[0] == sala("evaluate", tmp_path / "run", *FEW)[0] == 0
        assert len(embedded) == n


def test_a_backbone_that_moved_is_named_again(
    tmp_path: Path, sala: Sala, embedded: list[str], refused: Callable[..., str]
) -> None:
    net = "from torch import nn\n\n\nclass Net(nn.Conv2d):\n    def __init__(self, n, side):\n        "
    file, elsewhere = tmp_path / "net.py", tmp_path / "elsewhere.py"
    file.write_text(net + "super().__init__(n, 2, 3)\n")
    sala(*TRAIN, "protonet", "--backbone", f"{file}:Net", "--out", tmp_path / "run")
    file.rename(elsewhere)
    assert "--backbone" in refused("evaluate", tmp_path / "run", *FEW)
    again = ("evaluate", tmp_path / "run", *FEW, "--backbone", f"{elsewhere}:Net")
    assert sala(*again)[0] == sala(*again)[0] == 0
    assert "not of" in refused("evaluate", tmp_path / "run", *FEW, "--backbone", f"{elsewhere}:Other")
    assert len(embedded) == 2  # the first was refused; of the same code in another place the result is stored


def test_seeds_are_one_row_with_their_deviation(seeds: dict[str, Path], sala: Sala) -> None:
    rows = json.loads(sala("compare", *seeds.values(), *FEW, "--setting", "large", "--json")[1])
    assert [row["method"] for row in rows] == ["protonet", "matchingnet"]
    first, second = rows
    means = [run["accuracy"] for run in first["runs"]]
    assert first["mean"] == pytest.approx(sum(means) / 2)
    assert first["over_seeds"]["n"] == 2
    assert first["over_seeds"]["sd"] == pytest.approx(abs(means[0] - means[1]) / 2**0.5)
    assert second["over_seeds"] is None
    assert second["difference"]["mean"] == pytest.approx(second["mean"] - means[0])  # of the seed that both have


def test_rows_can_be_kept_apart(seeds: dict[str, Path], sala: Sala) -> None:
    rows = json.loads(sala("compare", *seeds.values(), *FEW, "--setting", "large", "--no-group", "--json")[1])
    assert [row["run"] for row in rows] == [str(run) for run in seeds.values()]


def test_all_settings_are_compared_by_default_and_names_stay_whole(seeds: dict[str, Path], sala: Sala) -> None:
    out = sala("compare", *seeds.values(), *FEW)[1]
    assert "ren: 3 test episodes" in out and "large: 3 test episodes" in out
    assert out.count(str(seeds["matchingnet0"])) == 2
    assert out.count(together([str(seeds["protonet0"]), str(seeds["protonet1"])])) == 2


def test_evaluate_tells_the_deviation_over_seeds(seeds: dict[str, Path], sala: Sala) -> None:
    out = sala("evaluate", seeds["protonet0"], seeds["protonet1"], *FEW, "--setting", "large")[1]
    assert "(2 seeds: sd" in out


def test_tables_are_written_to_files(seeds: dict[str, Path], sala: Sala, tmp_path: Path) -> None:
    files = ("--csv", tmp_path / "new" / "table.csv", "--latex", tmp_path / "table.tex")
    assert sala("compare", *seeds.values(), *FEW, *files)[0] == 0
    rows = list(csv.DictReader((tmp_path / "new" / "table.csv").open(encoding="utf-8")))
    assert [(row["setting"], row["method"]) for row in rows] == [
        (setting, method) for setting in ("ren", "large") for method in ("protonet", "matchingnet")
    ]
    assert r"\toprule" in (tmp_path / "table.tex").read_text(encoding="utf-8")


def test_numbers_that_leave_no_difference_between_settings_are_one_that_is_asked(
    seeds: dict[str, Path], sala: Sala
) -> None:
    words = ("evaluate", seeds["protonet0"], *FEW, "--queries", "2", "--json")
    assert list(json.loads(sala(*words)[1])["settings"]) == ["ren", "large"]
    assert list(json.loads(sala(*words, "--unlabeled", "3")[1])["settings"]) == ["asked"]


def test_episodes_fit_small_classes_unless_all_numbers_are_given(
    run: Path, sala: Sala, refused: Callable[..., str]
) -> None:
    """Classes have 20 images; `ren` has 14 queries and 5 unlabeled, `large` 4 and 15."""

    def shapes(*words: str) -> dict[str, tuple[int, int]]:
        settings = json.loads(sala("evaluate", run, *FEW, *words, "--json")[1])["settings"]
        return {name: (found["shape"]["n_query"], found["shape"]["n_unlabeled"]) for name, found in settings.items()}

    assert shapes("--shots", "1") == {"ren": (14, 5), "large": (4, 15)}
    assert shapes("--shots", "5") == {"ren": (11, 4), "large": (3, 12)}
    assert shapes("--shots", "5", "--queries", "3") == {"ren": (3, 5), "large": (3, 12)}
    assert shapes("--shots", "5", "--unlabeled", "13") == {"asked": (2, 13)}
    assert "class 'test0' has 20 images" in sala("evaluate", run, *FEW, "--shots", "5")[2]
    for words in (("--shots", "20"), ("--shots", "5", "--queries", "10", "--unlabeled", "6")):
        assert "must fit every test class" in refused("evaluate", run, *FEW, *words)


def test_a_dash_prints_the_table_and_nothing_else(seeds: dict[str, Path], sala: Sala) -> None:
    out = sala("evaluate", seeds["protonet0"], *FEW, "--csv", "-")[1]
    assert [line.split(",")[0] for line in out.splitlines()] == ["setting", "ren", "large"]


def test_another_seed_draws_other_episodes_for_all_runs_alike(seeds: dict[str, Path], sala: Sala) -> None:
    words = ("compare", seeds["protonet0"], seeds["matchingnet0"], *FEW, "--setting", "large", "--json")
    fixed, other = (json.loads(sala(*words, *more)[1]) for more in ((), ("--seed", "7")))
    identities = [{run["episodes"] for row in rows for run in row["runs"]} for rows in (fixed, other)]
    assert [len(some) for some in identities] == [1, 1]
    assert identities[0] != identities[1]


def test_threads_are_those_that_are_asked_for(run: Path, sala: Sala, refused: Callable[..., str]) -> None:
    before = torch.get_num_threads()
    try:
        sala("evaluate", run, *FEW, "--threads", "1")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert "from 0" in refused("evaluate", run, *FEW, "--threads", "-1")


def test_names_that_differ_in_a_part_are_one_name() -> None:
    assert together(["runs/a-s0", "runs/a-s1", "runs/a-s12"]) == "runs/a-s{0,1,12}"
    assert together(["s0/sala", "s1/sala"]) == "s{0,1}/sala"
    assert together(["alone"]) == "alone"
