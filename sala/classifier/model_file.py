"""The file of a label model: what is read from it, and one sentence with a repair for each way in which it can be wrong."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from sala.data.files import unreadable
from sala.data.tensors import read_tensors
from sala.errors import SalaError
from sala.text import printable

T = TypeVar("T")
KIND = "label-model"
FORMAT = 11
NAME = "model.safetensors"  # what `sala label` calls it
AGAIN = "make it again with `sala label`"


def read_model(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and header of a model file, in the names of this format."""
    shown = printable(str(path))
    if path.is_dir():
        inside = f"give {shown}/{NAME}" if (path / NAME).is_file() else f"give the {NAME} that `sala label` wrote"
        raise SalaError(f"{shown} is a folder, not a model; {inside}")
    try:
        tensors, header = read_tensors(path)
    except FileNotFoundError:
        raise SalaError(f"there is no model {shown}; `sala label` makes one, {NAME} in its --out") from None
    except OSError as error:
        raise unreadable(shown, error) from None
    except ValueError as error:
        what = f"is damaged, or no model at all ({error})" if path.stat().st_size else "is empty"
        raise SalaError(f"{shown} {what}; copy it anew, or {AGAIN}") from None
    _check_format(shown, header)
    return tensors, header


def _check_format(shown: str, header: dict[str, Any]) -> None:
    if header.get("kind") != KIND:
        raise SalaError(
            f"{shown} holds tensors, but not those of a labeling model; give the {NAME} that `sala label` wrote"
        )
    theirs = header.get("format")
    if theirs != FORMAT:
        is_newer = isinstance(theirs, int) and theirs > FORMAT
        age, repair = ("a newer", "install that version of sala, or ") if is_newer else ("an older", "")
        raise SalaError(
            f"{shown} is a model of {age} version of sala (format {theirs}; this one reads {FORMAT}); {repair}{AGAIN}"
        )


def number(value: Any, kind: str = "float") -> Any:
    """`value` if it is a finite number of this kind; nothing that merely converts to one."""
    wanted = int if kind == "int" else int | float
    if not isinstance(value, wanted) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"expected a number, got {str(value)[:40]!r}")
    return value if kind == "int" else float(value)


def numbers_of(cls: type[T], content: Any) -> T:
    """A dataclass of numbers, if `content` has exactly its fields and each is of its type."""
    kinds = {field.name: str(field.type) for field in fields(cls)}  # type: ignore[arg-type]
    if not isinstance(content, dict) or set(content) != set(kinds):
        raise ValueError(f"unexpected fields of its {cls.__name__}")
    return cls(**{name: number(content[name], kind) for name, kind in kinds.items()})


def class_names(values: Any) -> tuple[str, ...]:
    """Names of classes, if they are non-empty texts that a file can hold, and no two are equal."""
    is_texts = isinstance(values, list) and all(isinstance(v, str) and v and _is_whole(v) for v in values)
    if not is_texts or len(set(values)) < len(values):
        raise ValueError("class names must be texts of whole characters, none empty, no two of them equal")
    return tuple(values)


def _is_whole(text: str) -> bool:
    """Whether UTF-8 can hold it; it has no halves of characters."""
    return text == text.encode("utf-8", "replace").decode()


def damaged(path: Path, error: Exception) -> SalaError:
    """The error for a model whose parts are not what a fit writes."""
    reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return SalaError(f"{printable(str(path))} is a model that was changed or damaged ({reason}); {AGAIN}")
