"""The simulated user: what a click on an image and on a group costs and gives."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "labeling"
N_OF_EACH = 6  # images of two classes that no classifier tells apart: only answers raise the accuracy


@pytest.fixture
def clicks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("clicks")


@pytest.fixture
def draw(clicks: ModuleType) -> Any:
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(2 * N_OF_EACH, 16)).astype(np.float32)
    support = rng.normal(size=(2, 16)).astype(np.float32)
    return clicks.Draw(support, np.arange(2), pool, np.repeat([0, 1], N_OF_EACH))


def asked(clicks: ModuleType, draw: Any, rows: list[int], to: int, most_clicks: int) -> tuple[list[float], list[int]]:
    """The accuracies of a user who is shown a group at first and then single images, and how many are left each time."""
    n_left: list[int] = []

    def strategy(view: Any, n: int) -> Any:
        n_left.append(len(view.pool))
        return clicks.Together(np.array(rows), to) if len(n_left) == 1 else np.arange(n)

    return clicks.accuracies(draw, strategy, most_clicks, 1), n_left


def test_a_group_of_one_class_is_confirmed_by_one_click(clicks: ModuleType, draw: Any) -> None:
    curve, n_left = asked(clicks, draw, list(range(N_OF_EACH)), to=0, most_clicks=3)
    assert n_left == [12, 6, 5]
    assert len(curve) == 4  # before the first click and after each of three


def test_a_group_of_two_classes_costs_a_click_in_vain_and_one_for_its_first_image(
    clicks: ModuleType, draw: Any
) -> None:
    curve, n_left = asked(clicks, draw, [0, N_OF_EACH], to=0, most_clicks=3)
    assert n_left == [12, 11]
    assert len(curve) == 4 and curve[1] == curve[0]


def test_ten_images_at_a_time_leave_groups_out(clicks: ModuleType) -> None:
    assert set(clicks.STRATEGIES) - set(clicks.strategies(batch=10)) == {clicks.GROUPS}
    assert clicks.strategies(batch=1) == clicks.STRATEGIES
