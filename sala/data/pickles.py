"""Pickles of images and labels, which are not trusted: plain data and numpy arrays come out, and nothing is run.

numpy's own way to unpickle is no safer than any other (an array of objects may be laid over bytes of the file's choice),
so arrays, their types and scalars are put together here from parts that were looked at.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.data.files import open_regular, unreadable
from sala.errors import SalaError

PLAIN_KINDS = "biufSU"  # truth values, numbers and text


def load_pickle(path: Path) -> Any:
    """Plain data and numpy arrays from a pickle; whatever would run code is refused. Python 2's strings come as bytes."""
    try:
        with open_regular(path) as file:
            return _DataUnpickler(file, encoding="bytes").load()
    except SalaError as error:
        raise SalaError(f"{path} is refused: {error}; get the file from its official source") from None
    except OSError as error:
        raise unreadable(path, error) from None
    except Exception as error:  # a damaged pickle raises nearly anything
        reason = str(error) or type(error).__name__
        raise SalaError(f"{path} is not a readable pickle ({reason}); download it again") from None


def text(value: Any) -> str:
    """A str from a str or from the bytes that Python 2's pickles hold."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def text_keys(mapping: Any, where: Path, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A dict with str keys whose required ones are there."""
    found = {text(key): value for key, value in mapping.items()} if isinstance(mapping, dict) else {}
    missing = [key for key in required if key not in found]
    if missing:
        raise SalaError(
            f"{where} has no {' and no '.join(map(repr, missing))} in it: it is not the file its name says; download it "
            "again"
        )
    return found


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise SalaError(f"it asks for {module}.{name}, which has no place in a file of images") from None


class _Dtype:
    """Stands for numpy.dtype: a plain type by its code; the byte order comes with the state."""

    def __init__(self, code: str | bytes, align: Any = False, copy: Any = True):
        self.value: np.dtype[Any] = np.dtype(text(code))
        if self.value.kind not in PLAIN_KINDS:
            raise SalaError(f"it holds an array of type {text(code)!r}, which has no place in a file of images")

    def __setstate__(self, state: Any) -> None:
        if text(state[1]) in ("<", ">"):
            self.value = self.value.newbyteorder("<" if text(state[1]) == "<" else ">")


class _Array(np.ndarray[Any, Any]):
    """An array whose pickled state is bytes of a plain type that fill its shape."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, raw = state
        array = _frombuffer(raw, dtype, shape, "F" if is_fortran else "C")
        super().__setstate__((1, array.shape, array.dtype, bool(is_fortran), raw))  # type: ignore[arg-type]


def _reconstruct(subtype: Any, shape: Any, code: Any) -> _Array:
    return np.empty(0, np.uint8).view(_Array)  # numpy starts from an empty array too; the state follows


def _frombuffer(buffer: bytes, dtype: _Dtype, shape: tuple[int, ...], order: str) -> NDArray[Any]:
    return np.frombuffer(buffer, dtype.value).reshape(shape, order="F" if order == "F" else "C")


def _scalar(dtype: _Dtype, raw: bytes) -> Any:
    return np.frombuffer(raw, dtype.value)[0]


def _range(*limits: int) -> range:
    numbers = range(*limits)
    len(numbers)  # one too long for this machine ends here
    return numbers


def _encode(characters: str, encoding: str) -> bytes:
    return characters.encode("latin1")  # how Python 3 writes bytes in old pickle protocols


# What the pickles of the public few-shot datasets consist of, and nothing else.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): "numpy.ndarray",  # only ever handed to _reconstruct, never called
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    ("builtins", "range"): _range,
    ("__builtin__", "range"): _range,
    ("__builtin__", "xrange"): _range,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _frombuffer for core in ("core", "_core")},
}
