"""Imports, done once in the parent: a command spends seconds on them, and its work is done in tenths of one."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from contextlib import suppress
from pathlib import Path

from stress.children import Child, command

HAS_THREADS = ("onnxruntime",)  # starts a thread when it is imported, and this process is forked


def warm_up() -> None:
    """One thread, PyTorch's kernels (numba's would be loaded anew by each command), and every module of sala."""
    os.environ |= {"OMP_NUM_THREADS": "1", "SALA_KERNELS": "torch"}
    import PIL.Image
    import torch

    import sala

    torch.set_num_threads(1)
    PIL.Image.init()
    for module in pkgutil.walk_packages(sala.__path__, "sala."):
        if not module.name.endswith(("__main__", "jit", "jit_first")):
            importlib.import_module(module.name)


def learn_imports(words: list[object], folder: Path) -> None:
    """Run a command once, and import here what it imported there."""
    path = folder / "modules.txt"

    def call() -> None:
        try:
            command(words)()
        finally:
            path.write_text("\n".join(sys.modules))

    ended = Child(call, folder, "imports").wait(300)
    if ended.code != 0:
        raise RuntimeError(f"the undisturbed command fails: {ended.err}")
    for name in path.read_text().splitlines():
        if name not in sys.modules and not name.startswith(HAS_THREADS):
            with suppress(Exception):  # made on the fly by another module
                importlib.import_module(name)
