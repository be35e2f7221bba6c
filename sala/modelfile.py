"""The file of a labelling model, and what is wrong with a file that is none: in a sentence, with its repair."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from sala.checkpoint import read_tensors
from sala.data.files import unreadable
from sala.errors import SalaError
from sala.wording import printable

T = TypeVar("T")
KIND = "label-model"
NAME = "model.safetensors"  # what `sala label` calls it
AGAIN = "make it again with `sala label`"


def read_model(path: Path, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and note of a file that was written as a labelling model of this version."""
    shown = printable(str(path))
    if path.is_dir():
        inside = f"give {shown}/{NAME}" if (path / NAME).is_file() else f"give the {NAME} that `sala label` wrote"
        raise SalaError(f"{shown} is a folder, not a model; {inside}")
    try:
        tensors, note = read_tensors(path)
    except FileNotFoundError:
        raise SalaError(f"there is no model {shown}; `sala label` makes one, {NAME} in its --out") from None
    except OSError as error:
        raise unreadable(shown, error) from None
    except ValueError as error:
        what = f"is damaged, or no model at all ({error})" if path.stat().st_size else "is empty"
        raise SalaError(f"{shown} {what}; copy it anew, or {AGAIN}") from None
    _check_note(shown, note, version)
    return tensors, note


def _check_note(shown: str, note: dict[str, Any], version: int) -> None:
    if note.get("kind") != KIND:
        raise SalaError(
            f"{shown} holds tensors, but not those of a labelling model; give the {NAME} that `sala label` wrote"
        )
    theirs = note.get("format")
    if theirs != version:
        is_newer = isinstance(theirs, int) and theirs > version
        repair = "install that version of sala, or " if is_newer else ""
        age = "a newer" if is_newer else "an older"
        raise SalaError(
            f"{shown} is a model of {age} version of sala (format {theirs}; this one reads {version}); {repair}{AGAIN}"
        )


def number(value: Any, kind: str = "float") -> Any:
    """A finite number of a kind as a dataclass writes it down; nothing that merely turns into one."""
    if value is None and kind.endswith("| None"):
        return None
    wanted = int if kind == "int" else int | float
    if not isinstance(value, wanted) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{str(value)[:40]!r} where a number should be")
    return value if kind == "int" else float(value)


def numbers_of(cls: type[T], content: Any) -> T:
    """A dataclass of numbers, all of which are there and are of their kinds."""
    kinds = {field.name: str(field.type) for field in fields(cls)}  # type: ignore[arg-type]
    if not isinstance(content, dict) or set(content) != set(kinds):
        raise ValueError(f"the fields of its {cls.__name__} are not those that a fit writes")
    values = {name: _tuple(content[name], kind) if kind.startswith("tuple") else number(content[name], kind)
              for name, kind in kinds.items()}  # fmt: skip
    return cls(**values)


def _tuple(values: Any, kind: str) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) != kind.count("float"):
        raise ValueError(f"{str(values)[:40]!r} where {kind} should be")
    return tuple(number(value) for value in values)


def class_names(values: Any) -> tuple[str, ...]:
    if (
        not isinstance(values, list)
        or not all(isinstance(v, str) and v for v in values)
        or len(set(values)) < len(values)
    ):
        raise ValueError("its classes are no names, or some have the same")
    return tuple(values)


def spoiled(path: Path, error: Exception) -> SalaError:
    """For a model whose parts are not what a fit makes."""
    reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return SalaError(f"{printable(str(path))} is a model that was changed or damaged ({reason}); {AGAIN}")
