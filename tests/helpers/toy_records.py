"""Rows of a table from plain numbers: accuracies in percent, one a seed, the same on every test episode or with noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from sala.episodes.protocol import PROTOCOLS
from sala.evaluation.results import Result
from sala.reproduction.plan import Cell, Run
from sala.reproduction.records import Record
from sala.reproduction.tables import Column, Entry


def result(shares: list[float], name: str = "episodes", **more: Any) -> Result:
    return Result(tuple(shares), PROTOCOLS["omniglot"].test["ren"], "test", name, **more)


def entry(
    variant: str,
    *lists: list[float],
    published: float | None = None,
    setting: str = "ren",
    dataset: str = "omniglot",
    n_distractor: int = 0,
    distractors: float = 0.0,
) -> Entry:
    """A row whose seeds 0, 1, ... have these shares on the test episodes."""
    cell = Cell(dataset, 1, n_distractor, variant, published)
    pseudo = {"distractors": distractors}
    records = [
        Record(Run(cell, "cpu", seed), {setting: result(shares, pseudo_labels=pseudo)}, [], {"machine": "m"}, "c", 1, 1)
        for seed, shares in enumerate(lists)
    ]
    return Entry(cell, setting, tuple(records))


def seeds(*percents: float, n_episodes: int = 100, noise: float = 0.01) -> list[list[float]]:
    """For each seed the shares of some episodes, with exactly this mean."""
    wave = noise * np.cos(np.pi * np.arange(n_episodes))  # +, -, +, -: its mean is zero
    return [(percent / 100 + wave).tolist() for percent in percents]


def column(setting: str = "ren", **variants: list[list[float]]) -> Column:
    """A column with these rows; `_` stands for `-` in their names."""
    rows = {name.replace("_", "-"): lists for name, lists in variants.items()}
    entries = {name: entry(name, *lists, setting=setting) for name, lists in rows.items()}
    return Column("omniglot", 1, setting, entries)
