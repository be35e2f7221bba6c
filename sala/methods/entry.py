"""Where tasks enter a method: what users call is checked once, and answers outside training carry no gradient.

A subclass writes `logits(task)` as a plain function; `guard` wraps it. Calls of a method to itself pass unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

import torch

# function -> the method's own check of its arguments
ENTRIES = {
    "classify": "_check_images",
    "embed": "_check_images",
    "loss": "_check_loss",
    "logits": "_check_embedded",
    "pseudo_labels": "_check_embedded",
    "answers": "_check_embedded",
}
ANSWERS = ("classify", "logits", "pseudo_labels", "answers")
_INSIDE: ContextVar[object] = ContextVar("the method that is at work", default=None)


def guard(cls: type) -> None:
    """Wrap those functions of a class that are not wrapped yet."""
    for name in ENTRIES:
        if not hasattr(getattr(cls, name), "is_guarded"):
            setattr(cls, name, _guarded(getattr(cls, name), name))


def check_arguments(method: Any, name: str, *args: Any) -> None:
    """What a call of that function by a user would check."""
    getattr(method, ENTRIES[name])(*args)


@contextmanager
def trusted(method: object) -> Iterator[None]:
    """Tasks that are right by construction: calls of `method` are not checked."""
    token = _INSIDE.set(method)
    try:
        yield
    finally:
        _INSIDE.reset(token)


def _guarded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    check, is_answer = ENTRIES[name], name in ANSWERS

    @wraps(function)
    def entered(method: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
        if _INSIDE.get() is method:
            return function(method, task, *args, **kwargs)
        getattr(method, check)(task, *args, **kwargs)
        has_gradient = torch.is_grad_enabled() and (method.training or not is_answer)
        with trusted(method), torch.set_grad_enabled(has_gradient):
            return function(method, task, *args, **kwargs)

    entered.is_guarded = True  # type: ignore[attr-defined]
    return entered
