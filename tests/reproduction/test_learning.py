"""Accuracy over training by seed, the paired difference, and what is said of it."""

from __future__ import annotations

from pathlib import Path

from sala.reproduction.figures import figures_of
from sala.reproduction.learning import Panel, panels_of

RESULTS = Path(__file__).parents[2] / "results"


def panel(gains: dict[int, list[float]], more: dict[int, list[float]] | None = None) -> Panel:
    """Soft k-Means has 50 % throughout; SALA has that and the gain."""
    theirs = {seed: [50.0] * len(line) for seed, line in gains.items()} | (more or {})
    ours = {seed: [50 + x for x in line] for seed, line in gains.items()}
    return Panel("toy", "toy 1-shot", "without distractors", [1, 2, 3, 4], {"SALA": ours, "Soft k-Means": theirs})


def test_differences_are_of_seeds_that_both_have() -> None:
    one = panel({0: [4, 3, 2, 1], 2: [2, 1, 0, -1]}, more={1: [99.0] * 4})
    assert one.seeds == [0, 2]
    assert [spread.mean for spread in one.gain] == [3, 2, 1, 0]
    assert one.parts["shrinks"].mean == 3


def test_speed_of_learning_is_said_only_where_three_seeds_agree() -> None:
    shrinking = {seed: [3 + seed / 10, 1, 0.1, (-1) ** seed / 10] for seed in range(3)}
    assert "learns faster; no gain is left" in panel(shrinking).sentence
    remaining = {seed: [3 + seed / 10, 2, 2, 1 + seed / 10] for seed in range(3)}
    assert "learns faster; a gain remains" in panel(remaining).sentence
    steady = {seed: [1.0 + seed / 10, 1, 1, 1.1] for seed in range(3)}
    assert "no change" in panel(steady).sentence
    assert "too few seeds" in panel({0: shrinking[0]}).sentence
    behind = {seed: [-3.0 - seed / 10, -1, 0, 0] for seed in range(3)}
    assert "learns faster" not in panel(behind).sentence


def test_panels_come_from_records_and_say_where_distances_are_as_printed() -> None:
    panels = panels_of(RESULTS, ["omniglot", "tiny-tiered"], "cpu")
    first = panels[0]
    assert (first.dataset, first.where, first.seeds[:3]) == ("omniglot", "without distractors", [0, 1, 2])
    assert (first.episodes[0], first.episodes[-1], len(first.gain)) == (500, 20_000, 40)
    assert not panels_of(RESULTS, ["glyphs"], "cpu")
    assert all(("as printed" in p.title) <= (p.dataset != "omniglot") for p in panels)


def test_the_figure_has_its_data_beside_it(tmp_path: Path) -> None:
    figures = {figure.name: figure for figure in figures_of(RESULTS, ["omniglot"], "cpu")}
    assert {"curve", "learning"} <= set(figures)  # the paper's own curve stays
    data = figures["learning"].data
    assert [len(one["difference"]) for one in data] == [len(one["episodes"]) for one in data]
    assert len(figures["learning"].findings) == len(data)
    assert figures["learning"].plot.svg.startswith("<svg")
    assert not figures_of(tmp_path, ["omniglot"], "cpu")
