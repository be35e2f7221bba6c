"""Every public name has an example, and the example runs.

A class or function shows it in its docstring; a table, which has none, in the docstring of its module.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from types import ModuleType

import pytest

import sala
from sala import functional
from sala.heads import HEADS
from sala.methods import METHODS


def check(owner: object, name: str, *, module: ModuleType | None = None) -> None:
    """Fail if the docstring has no example, or one that prints something else."""
    tests = [test for test in doctest.DocTestFinder().find(owner, name, module=module) if test.examples]
    assert tests, f"{name} has no example"
    for test in tests:
        lines: list[str] = []
        failed, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=lines.append)
        assert not failed, "".join(lines)


def docstring_of_module(name: str) -> None:
    module = importlib.import_module(f"sala.{sala._MODULE_OF[name]}")
    assert name in (module.__doc__ or ""), f"the docstring of {module.__name__} does not show {name}"
    (test,) = (t for t in doctest.DocTestFinder(recurse=False).find(module) if t.examples)
    assert not doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed


@pytest.mark.parametrize("name", sala.__all__)
def test_every_public_name_has_an_example_that_runs(name: str) -> None:
    value = getattr(sala, name)
    if isinstance(value, dict):
        docstring_of_module(name)
    else:
        check(value, name)


@pytest.mark.parametrize("name", [name for name in sala.__all__ if callable(getattr(sala, name))])
def test_every_parameter_of_a_public_name_is_documented(name: str) -> None:
    value = getattr(sala, name)
    if value is sala.SalaError:  # takes a sentence, as every exception does
        return
    text, *_ = (inspect.getdoc(value) or "").split("Examples\n---")
    for parameter in inspect.signature(value).parameters:
        assert re.search(rf"^[*\w, ]*\b{parameter}\b[\w, ]* :|^\*\*{parameter}$", text, re.MULTILINE), parameter
    assert inspect.isclass(value) or "Returns\n---" in text


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_example_that_runs(name: str) -> None:
    check(METHODS[name], name)


@pytest.mark.parametrize("name", HEADS)
def test_every_head_has_an_example_that_runs(name: str) -> None:
    check(HEADS[name], name)


@pytest.mark.parametrize("name", ["class_means", "squared_distances"])
def test_the_parts_of_methods_have_examples_that_run(name: str) -> None:
    function = getattr(functional, name)
    check(function, name, module=importlib.import_module(function.__module__))
