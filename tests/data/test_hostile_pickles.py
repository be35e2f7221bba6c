"""Pickles that would run code, and crooked ones: refused in one sentence."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.data.pickles import load_pickle
from sala.data.store import SPLITS
from sala.errors import SalaError
from tests.helpers.trees import Prepare


def pickled_call(module: str, name: str, *arguments: Any) -> bytes:
    """A call of any name by hand, whatever it is called here."""
    return f"c{module}\n{name}\n".encode() + pickle.dumps(arguments, 0)[:-1] + b"R."


HOSTILE = {
    "os.system": pickled_call("os", "system", "touch {mark}"),
    "posix.system": pickled_call("posix", "system", "touch {mark}"),
    "builtins.eval": pickled_call("builtins", "eval", "open('{mark}', 'w')"),
    "__builtin__.eval": pickled_call("__builtin__", "eval", "open('{mark}', 'w')"),
    "builtins.exec": pickled_call("builtins", "exec", "open('{mark}', 'w')"),
    "builtins.getattr": pickled_call("builtins", "getattr", "a", "upper"),
    "numpy.load": pickled_call("numpy", "load", "{mark}"),
    "numpy.fromfile": pickled_call("numpy", "fromfile", "/etc/passwd"),
    "numpy.f2py.compile": pickled_call("numpy.f2py", "compile", "x"),
    "numpy.testing._private.utils.runstring": pickled_call(
        "numpy.testing._private.utils", "runstring", "open('{mark}', 'w')", {}
    ),
    "numpy.core.multiarray.fromfile": pickled_call("numpy.core.multiarray", "fromfile", "/etc/passwd"),
    "functools.partial": pickled_call("functools", "partial"),
}


@pytest.mark.parametrize("asked", list(HOSTILE))
def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path, prepare: Prepare, asked: str) -> None:
    mark = tmp_path / "ran"
    for split in SPLITS:
        content = HOSTILE[asked].replace(b"{mark}", bytes(mark))
        (tmp_path / f"mini-imagenet-cache-{split}.pkl").write_bytes(content)
    told = prepare("miniimagenet", tmp_path)
    assert "mini-imagenet-cache-train.pkl is refused" in told and asked in told
    assert not mark.exists()


def dotted(module: str, name: str) -> bytes:
    """Protocol 4's way to ask for an attribute of something allowed."""
    parts = b"".join(b"\x8c" + bytes([len(part)]) + part.encode() for part in (module, name))
    return b"\x80\x04" + parts + b"\x93."


def object_array_over_bytes() -> bytes:
    """np.ndarray((1,), "O", b"AAAAAAAA"): one object, at an address that the file chooses."""
    return b"cnumpy\nndarray\n((I1\ntS'O'\nS'AAAAAAAA'\ntR."


def object_array_by_state() -> bytes:
    return pickle.dumps({"image_data": np.array([1, "two"], dtype=object), "class_dict": {}}, 2)


@pytest.mark.parametrize(
    "content",
    [
        object_array_over_bytes(),
        object_array_by_state(),
        dotted("numpy", "ndarray.tofile"),
        dotted("numpy", "dtype.__class__"),
        pickled_call("numpy", "dtype", "O"),
        pickled_call("numpy", "dtype", "V8"),
        pickled_call("numpy", "dtype", "u1,O"),
        pickled_call("builtins", "range", 10**30),
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I999999999\ntcnumpy\ndtype\n"
        b"(S'u1'\ntRI00\nS'abc'\ntb.",
        b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'i8'\ntRS'abc'\ntR.",
        b"\x80\x02" + b"(" * 1000,
        b"\x80\x05\x8e" + struct.pack("<Q", 1 << 40),
        b"<html>not found</html>",
        b"",
        pickle.dumps(list(range(1000)))[:700],
    ],
    ids=range(15),
)
def test_a_crooked_pickle_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(content)
    with pytest.raises(SalaError, match=r"x\.pkl is (refused|not a readable pickle)"):
        load_pickle(path)


def test_no_damage_to_a_pickle_raises_anything_but_the_sentence(tmp_path: Path) -> None:
    sound = pickle.dumps({"image_data": np.zeros((2, 3), np.uint8), "names": ["a", b"b", 3, 1.5, None]}, 2)
    path = tmp_path / "x.pkl"
    for at in range(len(sound)):
        for byte in (0, 0x52, 0xFF):
            path.write_bytes(sound[:at] + bytes([byte]) + sound[at + 1 :])
            with suppress(SalaError):
                load_pickle(path)


def test_a_pickle_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SalaError, match="not a file"):
        load_pickle(tmp_path)
