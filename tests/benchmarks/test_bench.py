"""The benchmark measures what it says."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks import measuring, performance, scaling
from benchmarks.measuring import Row
from sala.nn.backbones import Conv4

app = typer.Typer()
app.command()(command.bench)


def test_a_target_is_met_or_missed() -> None:
    assert Row("", 1.19, "<= 1.20").is_met
    assert not Row("", 1.21, "<= 1.20").is_met
    assert Row("", 2500.0, ">= 2000").is_met
    assert Row("", 1.0).is_met is None


def test_measurements_are_medians_in_turns() -> None:
    order: list[str] = []
    actions = {"quick": lambda: order.append("q"), "slow": lambda: (order.append("s"), time.sleep(0.01))}
    times = measuring.measure(actions, seconds=0.0, least=3)
    assert order == ["q", "s"] * 4  # one round to warm up
    assert times["slow"] > 0.009 > times["quick"]


def test_the_naive_network_is_the_same_function() -> None:
    torch.manual_seed(0)
    fast, naive = Conv4(1, 28), performance.Plain(1, 28)
    naive.load_state_dict(fast.state_dict())
    images = torch.rand(4, 1, 28, 28)
    torch.testing.assert_close(fast(images), naive(images), rtol=1e-4, atol=1e-5)


def test_the_bare_convolutions_are_the_networks_own() -> None:
    """Forward and backward of all four, and of nothing else."""
    with torch.profiler.profile() as profile:
        performance._bare_convolutions(Conv4(1, 28), torch.rand(3, 1, 28, 28), torch.channels_last)()
    counts = {event.key: event.count for event in profile.key_averages()}
    assert counts["aten::convolution_backward"] == 4
    assert "aten::batch_norm" not in counts


@pytest.mark.slow
def test_a_store_of_noise_can_be_sampled(tmp_path: Path) -> None:
    store = measuring.random_store(16, 3, n_classes=4, n_images=6, folder=tmp_path)
    assert (len(store), store.image_shape) == (24, (16, 16, 3))
    assert scaling.training_memory(measuring.random_store(84, 3, folder=tmp_path).folder) > 50 * 2**20


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["growth", "--seconds", "0.01", "--out", str(tmp_path / "b.json")])
    assert result.exit_code == 0, result.output
    assert "exponent in n_unlabeled" in result.stdout
    content = json.loads((tmp_path / "b.json").read_text())
    assert content["command"] == "python -m benchmarks growth --seconds 0.01"
    assert {"machine", "versions", "kernels", "sections"} <= set(content)
    assert CliRunner().invoke(app, ["speed"]).exit_code != 0


@pytest.mark.slow
@pytest.mark.parametrize("name", scaling.MEASUREMENTS)
def test_every_section_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "STORE_SIZES", (3_600, 4_500))
    monkeypatch.delenv("SALA_DATA", raising=False)  # evaluation takes the built-in letters
    monkeypatch.setattr(performance, "N_EPISODES", 10)
    monkeypatch.setattr(performance, "N_ANEW", 5)
    if name == "steps":
        monkeypatch.delitem(measuring.SIZES, 84)
    for title, rows in scaling.MEASUREMENTS[name](0.01):
        assert rows, title
        assert all(row.value >= 0 for row in rows)
