"""The card of a model: what it was made of, what was measured, and nothing that is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sala.classifier.fit import HeldOut, LabelModel
from sala.labeling.card import card_of, card_text, measured, save_model
from sala.labeling.label import label_folder
from tests.helpers.painted import MeanColor, folders_painted, paint_outliers, sala  # noqa: F401  (fixture)

FOUR = HeldOut(
    probabilities=np.array([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8], [0.6, 0.4]], np.float32),
    labels=np.array([0, 1, 1, 1]),
    outlier_probability=np.zeros(4, np.float32),
    rows=np.arange(4),
)


@pytest.fixture
def model(painted: tuple[Path, Path]) -> LabelModel:
    return label_folder(*painted, MeanColor()).model


def test_what_is_measured_is_right_by_hand() -> None:
    """Three of four are right; Wilson's interval of 3 / 4 is 0.30 to 0.95."""
    found = measured(FOUR)
    assert (found["n"], found["n_right"], found["accuracy"]) == (4, 3, 0.75)
    assert found["interval"] == pytest.approx([0.3006, 0.9544], abs=1e-4)
    assert found["mean_probability"] == pytest.approx(0.75)


def test_the_cards_lie_beside_the_model_and_say_what_it_was_made_of(folders: tuple[Path, Path], tmp_path: Path) -> None:
    labeled, pool = folders
    paint_outliers(pool, tmp_path / "known")
    sala("label", labeled, pool, "--outliers", tmp_path / "known", "--encoder", "color", "--out", tmp_path / "out")
    card = json.loads((tmp_path / "out" / "model-card.json").read_text(encoding="utf-8"))
    assert [(c["name"], c["labeled_images"]) for c in card["classes"]] == [("blue", 3), ("green", 1), ("red", 2)]
    assert (card["known_outliers"], card["pool_images"], card["features"]) == (4, 40, 3)
    assert card["encoder"] == {"name": "mean-color", "identity": "mean-color-label"}
    assert card["held_out"]["n"] == 5  # green has one image, which cannot be held out
    assert card == json.loads(json.dumps(card_of(LabelModel.load(tmp_path / "out" / "model.safetensors"))))
    text = (tmp_path / "out" / "model-card.md").read_text(encoding="utf-8")
    assert "| red | 2 |" in text and f"{card['held_out']['accuracy']:.1%} of 5" in text


def test_a_model_of_anyone_has_a_card_that_says_what_is_unknown(model: LabelModel) -> None:
    for note in ({}, {"labeled": 3, "held_out": "all", "encoder": None}, {"held_out": {"n": 2, "interval": [None, 1]}}):
        card = card_of(replace(model, note=note))
        assert card["held_out"]["interval"] is None and card["encoder"] == {"name": None, "identity": None}
        assert "not measured" in card_text(card) and "unknown" in card_text(card)


def test_a_class_may_be_called_anything(model: LabelModel) -> None:
    names = ("a|b", "<script>", "*x*\n# y")
    text = card_text(card_of(replace(model, classes=names)))
    assert "<script>" not in text and "\n# y" not in text
    (row,) = [line for line in text.splitlines() if line.startswith("| a")]
    assert row.replace("\\|", "").count("|") == 3


def test_the_library_saves_a_model_with_its_cards(painted: tuple[Path, Path], tmp_path: Path) -> None:
    result = label_folder(*painted, MeanColor())
    save_model(result.model, tmp_path / "mine.safetensors", held_out=result.held_out)
    card = json.loads((tmp_path / "mine-card.json").read_text(encoding="utf-8"))
    assert card["held_out"]["n"] == len(result.held_out.labels)
    assert card_text(card) == (tmp_path / "mine-card.md").read_text(encoding="utf-8")
    assert LabelModel.load(tmp_path / "mine.safetensors").classes == result.model.classes


def test_the_card_tells_the_descriptions_of_the_classes(model: LabelModel) -> None:
    note = {**model.note, "descriptions": {"red": ["a red photo", "rouge"]}, "n_prior_examples": 2}
    text = card_text(card_of(replace(model, note=note)))
    assert "a red photo" in text and "rouge" in text and " 2 prior examples" in text
    assert "prior examples" not in card_text(card_of(model))
