"""Names of classes in a model file."""

from __future__ import annotations

import pytest

from sala.classifier.model_file import class_names


@pytest.mark.parametrize("names", [["\ud800", "owl"], ["owl", "owl"], ["owl", 1], ["", "owl"], "owl", None])
def test_names_that_no_table_could_hold_are_refused(names: object) -> None:
    with pytest.raises(ValueError, match="class names"):
        class_names(names)
