"""The examples in the docstrings of this room run, and public names have the sections of numpydoc."""

from __future__ import annotations

import doctest
import importlib
import inspect
from types import ModuleType

import pytest

NAMES = {
    "classifier.config": ["ClassifierConfig"],
    "classifier.estimator": ["SALAClassifier"],
    "classifier.fit": ["fit_pool"],
    "classifier.model": ["LabelModel"],
    "classifier.predictions": ["PoolPredictions"],
    "classifier.rejection": ["rejection_threshold"],
    "encoders.estimator": ["ImageEncoder"],
    "functional.unit": ["unit_length"],
}


def opened(module: str) -> ModuleType:
    return importlib.import_module(f"sala.{module}")


@pytest.mark.parametrize("module", NAMES)
def test_the_examples_run(module: str) -> None:
    found = doctest.testmod(opened(module))
    assert found.attempted and not found.failed


@pytest.mark.parametrize("module", NAMES)
def test_every_parameter_is_documented(module: str) -> None:
    for name in NAMES[module]:
        public = getattr(opened(module), name)
        docstring = inspect.getdoc(public) or ""
        assert "Parameters\n---" in docstring and "Examples\n---" in docstring
        for parameter in inspect.signature(public).parameters:
            assert parameter in docstring, f"{name} does not document {parameter}"
