"""Where a model of the `transformers` library is: a folder, or a name on the Hugging Face hub, downloaded once.

Only what an encoder needs is fetched: configurations, safetensors weights, and a tokenizer's tables. No pickles, no code.
What was fetched before is used as it is, without asking the hub; `hf download NAME` gets a newer version.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from textwrap import shorten

from sala.data.files import read_text
from sala.errors import SalaError
from sala.text import printable

PREFIX = "hf:"
NAME = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")  # owner/name@revision
CONFIG, INDEX, WEIGHTS = "config.json", "model.safetensors.index.json", "model.safetensors"
PREPROCESSING = ("preprocessor_config.json", "processor_config.json")
VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model")
FILES = [
    CONFIG, *PREPROCESSING, WEIGHTS, "model-*.safetensors", INDEX,
    *VOCABULARIES, "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
]  # fmt: skip


def model_folder(which: str) -> Path:
    """The folder of `hf:FOLDER`, `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`; a name is downloaded if it is not there yet."""
    named = which.removeprefix(PREFIX)
    if named and Path(named).is_dir():
        return Path(named)
    found = NAME.fullmatch(named)
    if not found or Path(named).is_absolute() or named.startswith("."):
        raise SalaError(
            f"there is no folder {printable(named)!r} with a model; write {PREFIX}FOLDER for one on disk, or "
            f"{PREFIX}OWNER/NAME for one of the hub, such as {PREFIX}facebook/dinov2-small"
        )
    return _downloaded(found["name"], found["revision"])


def _downloaded(name: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ImportError:
        raise missing_library(f"{PREFIX}{name}") from None
    with suppress(LocalEntryNotFoundError):  # not there, or not all of it
        found = Path(snapshot_download(name, revision=revision, allow_patterns=FILES, local_files_only=True))
        if _is_whole(found):
            return found
    try:
        endpoint = os.environ.get("HF_ENDPOINT")
        return Path(snapshot_download(name, revision=revision, allow_patterns=FILES, endpoint=endpoint))
    except Exception as error:  # of the network, the hub, the disk: they share no base class
        raise _not_downloaded(name, error) from None


def _is_whole(folder: Path) -> bool:
    """Whether an encoder can be made of what is there: another program may have fetched a part of the model."""
    try:
        safetensors_files(folder)
    except SalaError:
        return False
    return (folder / CONFIG).is_file() and any((folder / name).is_file() for name in PREPROCESSING)


def _not_downloaded(name: str, error: Exception) -> SalaError:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    if isinstance(error, GatedRepoError):
        return SalaError(f"{name} asks its users to sign in; accept its terms on the hub, and run `hf auth login`")
    if isinstance(error, RepositoryNotFoundError | RevisionNotFoundError):
        return SalaError(f"the hub has no model {name} that this user may read; look at its name (OWNER/NAME@REVISION)")
    first = re.split(r"\. |\n", str(error).strip())[0] or type(error).__name__
    reason = printable(shorten(first, 160, placeholder=" ..."))
    return SalaError(
        f"{name} cannot be downloaded from the hub ({reason}); run this where there is a connection, or copy the model's "
        f"folder from a machine that has it and write {PREFIX}FOLDER"
    )


def missing_library(which: str) -> SalaError:
    return SalaError(f"the encoder {printable(which)} needs transformers; run pip install 'sala[transformers]'")


def safetensors_files(folder: Path) -> list[Path]:
    """The weights of a model: one file, or those that its index names. Weights in pickles are refused."""
    shown = printable(str(folder))
    names = [WEIGHTS]
    if (folder / INDEX).is_file():
        content = read_json(folder / INDEX)
        parts = content.get("weight_map")
        names = sorted({str(name) for name in parts.values()}) if isinstance(parts, dict) else []
    missing = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
    if names and not missing:
        return [folder / name for name in names]
    if missing == [WEIGHTS] and not (folder / INDEX).is_file():
        raise SalaError(
            f"{shown} has no {WEIGHTS}, and weights in pickles (*.bin) are not read, since they can run code; load the model "
            "once where you trust it and write it with model.save_pretrained(FOLDER), or name a revision of the hub that has "
            "that file (OWNER/NAME@refs/pr/1)"
        )
    raise SalaError(f"{shown} has no {(missing or [WEIGHTS])[0]}; get a fresh copy of the model")


def read_json(path: Path) -> dict[str, object]:
    """A configuration."""
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise SalaError(f"{printable(str(path))} is not JSON ({error}); get a fresh copy of the model") from None
    if not isinstance(content, dict):
        raise SalaError(f"{printable(str(path))} holds no settings; get a fresh copy of the model")
    return content
