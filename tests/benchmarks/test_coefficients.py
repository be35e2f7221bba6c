"""The numbers that the classifier ships are those of the recorded fit."""

from __future__ import annotations

import json
from pathlib import Path

from sala.classifier import coefficients

RECORD = Path(__file__).parents[2] / "results" / "practice" / "calibration.json"


def test_the_fitted_numbers_are_those_of_their_record() -> None:
    fitted = json.loads(RECORD.read_text(encoding="utf-8"))["numbers"]
    shipped = {name: getattr(coefficients, name) for name in fitted}
    assert {name: list(value) if isinstance(value, tuple) else value for name, value in shipped.items()} == fitted
