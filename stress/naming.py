"""A downloaded run or model that names things of this machine: devices, pipes, folders without end, files of others."""

from __future__ import annotations

import json
import os
import struct
from functools import partial
from pathlib import Path
from typing import Any

from stress import reading, reading_labels
from stress.readers import problem_in_child
from stress.trials import Trial
from stress.world import World, copy

NAMES = ("/dev/zero", "{folder}/pipe", "{folder}/loop", "/", "/proc/self/mem", "/etc/passwd", "", "\0", "x" * 5000)
KEYS = (("root",), ("data_options", "split_file"), ("method",), ("backbone",), ("protocol", "dataset"), ("device",))
ENCODERS = (
    *NAMES,
    "/dev/zero.npy",
    "{folder}/pipe.npy",
    "{folder}/pipe.onnx",
    "{folder}/pipe.pt",
    "{folder}/device.npy",
)


def trials(world: World, folder: Path, *, quick: bool) -> list[Trial]:
    """Each is opened as by `sala evaluate` and `sala train --resume`, or `sala predict`."""
    made = []
    for key in KEYS:
        for name in NAMES[:4] if quick else NAMES:
            title = f"a run whose {'.'.join(key)} is {name[:30]!r}"
            made.append(Trial("files: names in runs and models", title, partial(_open_run, world, key, name)))
    for name in ENCODERS[::3] if quick else ENCODERS:
        title = f"a model whose encoder is {name[:30]!r}"
        made.append(Trial("files: names in runs and models", title, partial(_open_model, world, name)))
    return made


def _named(name: str, folder: Path) -> str:
    """With what it names in place."""
    (folder / "things").mkdir()
    for suffix in ("", ".npy", ".onnx", ".pt"):
        os.mkfifo(folder / "things" / f"pipe{suffix}")
    (folder / "things" / "loop").symlink_to("loop")
    (folder / "things" / "device.npy").symlink_to("/dev/zero")
    return name.format(folder=folder / "things") if "{" in name else name


def _open_run(world: World, key: tuple[str, ...], name: str, folder: Path) -> str | None:
    place = copy(world.run, folder / "files") / "config.json"
    content: dict[str, Any] = json.loads(place.read_text())
    inside = content
    for part in key[:-1]:
        inside = inside[part]
    inside[key[-1]] = _named(name, folder)
    place.write_text(json.dumps(content))
    for read in (reading.evaluate, reading.resume):
        (own := folder / read.__name__).mkdir()
        if problem := problem_in_child(read, folder / "files", own):
            return f"{read.__name__}: {problem}"
    return None


def _open_model(world: World, name: str, folder: Path) -> str | None:
    place = copy(world / "labels" / "model.safetensors", folder / "files" / "model.safetensors")
    content = place.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    note = json.loads(header["__metadata__"]["note"])
    note["note"]["encoder"]["which"] = _named(name, folder)
    header["__metadata__"]["note"] = json.dumps(note)
    new = json.dumps(header).encode()
    place.write_bytes(struct.pack("<Q", len(new)) + new + content[8 + length :])
    return problem_in_child(partial(reading_labels.predict, world), folder / "files", folder)
