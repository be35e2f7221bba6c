"""Tensors and a JSON note in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from sala.atomic import write_atomically
from sala.data.files import read_bounded

MAX_BYTES = 4 << 30  # of one file of tensors


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any], *, previous: Path | None = None
) -> None:
    """Write next to the target, wait until it is on disk, then rename: a reader sees the old file or the new one. What was
    there before is kept as `previous`."""
    write_atomically(path, tensor_bytes(tensors, note), previous)


def tensor_bytes(tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> bytes:
    """The content of such a file."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return bytes(to_bytes(content, metadata={"note": json.dumps(note)}))


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
