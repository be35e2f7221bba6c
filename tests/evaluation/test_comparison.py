"""Rows of a comparison: seeds as one row, paired differences, CSV, LaTeX and JSON."""

from __future__ import annotations

import csv
import io
import json

import pytest

from sala.episodes.protocol import EpisodeShape
from sala.errors import SalaError
from sala.evaluation.comparison import SOME_SEEDS_NOTE, Row, by_setting, labels, to_csv, to_json, to_latex
from sala.evaluation.report import accuracy_note
from sala.evaluation.results import Result
from sala.evaluation.seeds import SeedResults

SHAPE = EpisodeShape(n_way=5, n_shot=1, n_query=5, n_unlabeled=5)


def row(name: str, method: str, *lists: list[float], setting: str = "large", episodes: str = "a", seed: int = 0) -> Row:
    """A row whose seeds, from `seed` on, have these accuracies."""
    found = {seed + i: Result(tuple(shares), SHAPE, "test", episodes) for i, shares in enumerate(lists)}
    return Row(name, method, setting, SeedResults(found), {s: f"{name}-s{s}" for s in found})


LOW, HIGH = row("low", "protonet", [0.4, 0.6], [0.5, 0.7]), row("high", "sala", [0.6, 0.8], [0.9, 0.7])


def test_a_row_is_the_mean_of_its_seeds_episode_by_episode() -> None:
    assert LOW.result.accuracies == pytest.approx((0.45, 0.65))
    assert LOW.found.over_seeds is not None and LOW.found.over_seeds.mean == pytest.approx(55)
    assert LOW.found.seed_sd == pytest.approx(50**0.5)  # of 50 and 60


def test_differences_are_of_equal_seeds() -> None:
    difference = HIGH.minus_over_seeds(LOW)
    assert difference is not None
    assert (difference.n, difference.mean) == (2, pytest.approx(20))  # 70 - 50 and 80 - 60
    assert difference.ci95 == pytest.approx(0)
    assert HIGH.minus(LOW).mean == pytest.approx(20)


def test_rows_without_a_common_seed_are_paired_over_episodes_alone() -> None:
    other = row("other", "sala", [0.5, 0.7], seed=9)
    assert other.minus(LOW).mean == pytest.approx(5)
    assert other.minus_over_seeds(LOW) is None


def test_a_difference_of_some_seeds_alone_is_said_to_be() -> None:
    """HIGH has the seeds 0 and 1; the means differ by 5 points, seed 0 by 0."""
    one = row("one", "tpn", [0.6, 0.8])
    assert one.minus(HIGH).mean == pytest.approx(0)
    assert one.is_of_some_seeds(HIGH) and HIGH.is_of_some_seeds(one)
    assert not HIGH.is_of_some_seeds(LOW)
    assert not row("other", "tpn", [0.5, 0.7], seed=9).is_of_some_seeds(LOW)  # no common seed: of the means
    assert [found["difference_seeds"] for found in to_json([HIGH, one])] == [[0, 1], [0]]
    assert SOME_SEEDS_NOTE in to_latex([HIGH, one]) and SOME_SEEDS_NOTE not in to_latex([LOW, HIGH])


def test_csv_names_a_method_without_the_folders_of_its_file() -> None:
    (line,) = csv.DictReader(io.StringIO(to_csv([row("own", "/home/me/mine.py:Mine", [0.5, 0.7])])))
    assert line["method"] == "mine.py:Mine"


def test_other_episodes_are_refused() -> None:
    with pytest.raises(SalaError, match="same episodes"):
        HIGH.minus(row("low", "protonet", [0.4, 0.6], episodes="b"))


def test_json_has_every_episode_of_every_run() -> None:
    first, second = json.loads(json.dumps(to_json([LOW, HIGH]), allow_nan=False))
    assert [run["accuracies"] for run in second["runs"]] == [[0.6, 0.8], [0.9, 0.7]]
    assert [run["seed"] for run in second["runs"]] == [0, 1]
    assert first["difference"] == {"mean": 0.0, "ci95": 0.0}
    assert second["over_seeds"]["sd"] == pytest.approx(50**0.5)


def test_one_episode_of_one_run_has_no_interval_in_json() -> None:
    (only,) = json.loads(json.dumps(to_json([row("one", "tpn", [0.5])]), allow_nan=False))
    assert only["ci95"] is None and only["over_seeds"] is None


def test_differences_are_to_the_first_row_of_the_same_setting() -> None:
    rows = [
        LOW,
        HIGH,
        row("low", "protonet", [0.1, 0.2], setting="ren"),
        row("high", "sala", [0.2, 0.3], setting="ren"),
    ]
    assert [one["difference"]["mean"] for one in to_json(rows)] == pytest.approx([0, 20, 0, 10])
    assert list(by_setting(rows)) == ["large", "ren"]


def test_csv_reads_back() -> None:
    first, second = csv.DictReader(io.StringIO(to_csv([LOW, HIGH])))
    assert (second["run"], second["method"], second["n_way"], second["episodes"]) == ("high", "sala", "5", "2")
    assert float(second["difference"]) == pytest.approx(20)
    assert (first["seeds"], float(first["seed_sd"])) == ("2", pytest.approx(50**0.5))
    (alone,) = csv.DictReader(io.StringIO(to_csv([row('a, "b"', "tpn", [0.5, 0.7])])))
    assert (alone["run"], alone["seed_sd"]) == ('a, "b"', "")


def test_latex_is_a_booktabs_table_with_a_line_for_each_method() -> None:
    rows = [
        LOW,
        HIGH,
        row("low", "protonet", [0.1, 0.2], setting="ren"),
        row("high", "sala", [0.2, 0.3], setting="ren"),
    ]
    body = [line for line in to_latex(rows).splitlines() if not line.startswith("%")]
    assert body[0] == r"\begin{tabular}{lrrrr}" and body[-1] == r"\end{tabular}"
    assert [line for line in body if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    lines = [line for line in body if line.endswith(r"\\")]
    assert [line.split(" & ")[0] for line in lines] == ["method", "protonet", "sala"]
    assert {line.count("&") for line in lines} == {4}
    assert "% Needs" in to_latex(rows) and r"$\dagger$" in lines[1]  # one seed in `ren`


def test_latex_sets_what_is_better_over_three_seeds_in_bold() -> None:
    low = row("low", "protonet", [0.4, 0.6], [0.5, 0.6], [0.5, 0.5])
    high = row("high", "sala", [0.6, 0.8], [0.7, 0.8], [0.7, 0.71])
    assert r"\textbf{72" not in to_latex([low, LOW])
    line = next(line for line in to_latex([low, high]).splitlines() if line.startswith("sala"))
    assert r"\textbf" in line


def test_names_are_escaped_for_latex() -> None:
    rows = [row("a_b", "sala", [0.5, 0.6]), row("c&d", "sala", [0.5, 0.7])]
    assert r"a\_b" in to_latex(rows) and r"c\&d" in to_latex(rows)


def test_a_loss_has_a_minus_in_latex_and_a_name_keeps_its_hyphen() -> None:
    table = to_latex([row("a", "soft-2", [0.5, 0.6]), row("b", "sala-1", [0.4, 0.5])])
    assert r"$-$10.00 $\pm$" in table and "soft-2" in table and "sala-1" in table


def test_a_label_is_the_method_unless_two_rows_share_it() -> None:
    assert labels([LOW, HIGH]) == {"low": "protonet", "high": "sala"}
    assert labels([LOW, row("x", "protonet", [0.1, 0.2])]) == {"low": "low", "x": "x"}
    assert labels([row("r", "/home/me/mine.py:Mine", [0.1, 0.2])]) == {"r": "Mine"}


def test_several_seeds_have_deviation_and_t_interval_in_words() -> None:
    assert accuracy_note(LOW.found) == "55.00 ± 19.60 % (2 seeds: sd 7.07, ± 63.53)"
    assert accuracy_note(row("one", "tpn", [0.4, 0.6]).found) == "50.00 ± 19.60 %"
