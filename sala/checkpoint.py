"""Tensors and a JSON note in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from sala.data.files import read_bounded
from sala.errors import SalaError, writing
from sala.partial import partial_file, remove_stale

MAX_BYTES = 4 << 30  # of one file of tensors


def save_checkpoint(
    path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any], *, previous: Path | None = None
) -> None:
    """Write next to the target, make sure it is on disk, then rename: a reader sees the old file or the new one. What was
    there before is kept as `previous`."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, to_bytes(content, metadata={"note": json.dumps(note)}), previous)


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and note of a run's checkpoint."""
    try:
        return read_tensors(path)
    except FileNotFoundError:
        raise SalaError(
            f"there is no checkpoint {path}; `sala train --resume {path.parent}` goes on with that run"
        ) from None
    except (ValueError, OSError) as error:
        raise SalaError(
            f"the checkpoint {path} is damaged ({error}); restore it from a copy, or make it again"
        ) from None


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and note; OSError, or ValueError if it is no such file. It is read in one go: a training may replace it at any
    moment."""
    if not path.exists():
        raise FileNotFoundError(path)
    content = read_bounded(path, MAX_BYTES)
    try:
        tensors = from_bytes(content)  # which checks lengths and offsets
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        return tensors, dict(json.loads(header.get("__metadata__", {}).get("note", "{}")))
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def write_atomically(path: Path, content: bytes, previous: Path | None = None) -> None:
    remove_stale(path.parent)
    with partial_file(path) as partial:
        with writing(path), partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            _keep(path, previous)
        os.replace(partial, path)


def _keep(path: Path, previous: Path) -> None:
    """A second name for the file, so that there is no moment without the first; where there are no links, a new name."""
    with partial_file(previous) as link:
        try:
            os.link(path, link)
        except OSError:
            os.replace(path, previous)
        else:
            os.replace(link, previous)


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
