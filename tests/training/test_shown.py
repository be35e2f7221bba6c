"""A training in Python shows how far it is: a bar in a terminal, lines elsewhere, nothing where it is asked to be silent."""

from __future__ import annotations

import pytest

from sala.data import ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.methods import build_method
from sala.nn.backbones import Identity
from sala.training import shown
from sala.training.loop import TrainConfig, train


def errors_of(capsys: pytest.CaptureFixture[str], **options: bool) -> str:
    store = ImageStore.from_features([[0.0, i] for i in range(12)], [0, 1] * 6, split="train")
    episodes = EpisodeSampler(store, EpisodeShape(n_way=2, n_unlabeled=0), split="train", seed=0)
    train(build_method("feat", Identity(2)), episodes, TrainConfig(n_episodes=4, validate_every=2), **options)
    printed = capsys.readouterr()
    assert not printed.out
    return printed.err


def test_lines_tell_of_each_record(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shown, "SHORT", 0.0)
    assert [line.split("  ")[0] for line in errors_of(capsys).splitlines()] == ["episode 2 of 4", "episode 4 of 4"]


def test_a_short_training_leaves_no_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shown, "SHORT", 1e9)
    assert errors_of(capsys) == ""


def test_a_terminal_has_a_bar_and_silence_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "4/4" in errors_of(capsys)
    assert errors_of(capsys, progress=False) == ""
