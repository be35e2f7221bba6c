"""Methods from outside the package, under the rule of `sala.nn.plugins`: by file or by entry point of the group
`sala.methods`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from sala.errors import SalaError
from sala.methods.base import Method
from sala.nn import plugins
from sala.nn.plugins import absolute, check_known, is_file, remember, trusted

__all__ = [
    "absolute",
    "blaming",
    "check_known",
    "from_entry_point",
    "from_file",
    "installed_plugins",
    "is_file",
    "remember",
    "trusted",
]
GROUP = "sala.methods"


def installed_plugins() -> list[str]:
    """Names of the entry points of the group `sala.methods`."""
    return plugins.entry_point_names(GROUP)


def from_entry_point(name: str) -> type[Method] | None:
    """The class that an installed package registers under this name, if there is one."""
    found = plugins.from_entry_point(name, GROUP)
    return None if found is None else _checked(found, name)


def from_file(name: str) -> type[Method]:
    """Import path/to/file.py and take its Class."""
    return _checked(plugins.from_file(name, "method"), name)


def blaming(method: Method, name: str) -> AbstractContextManager[None]:
    """Say in one sentence that a method from outside failed, and in which line; `name` is what the user calls it."""
    return plugins.blaming(f"the method {name}", plugins.file_of(type(method)))


def _checked(cls: Any, name: str) -> type[Method]:
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise SalaError(f"{name} is not a subclass of sala.Method")
    return cls
