"""The class lists of the public benchmarks, kept in `splits.json`."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _lists() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((files("sala.data") / "splits.json").read_text(encoding="utf-8"))
    return content


@cache
def miniimagenet_splits() -> dict[str, str]:
    """synset -> split (Ravi and Larochelle's 64 / 16 / 20)."""
    return {synset: split for split, synsets in _lists()["miniimagenet"].items() for synset in synsets.split()}


@cache
def tieredimagenet_splits() -> dict[str, str]:
    """synset -> split (Ren et al.'s 351 / 97 / 160, by categories)."""
    return {
        synset: split
        for split, categories in _lists()["tieredimagenet"].items()
        for synsets in categories.values()
        for synset in synsets.split()
    }


def omniglot_split(alphabet: str, character: int) -> str:
    """The split of a character of an alphabet (Snell et al.'s, as used by Ren et al.): 1028 / 172 / 423 characters."""
    lists = _lists()["omniglot"]
    for split, (first, last) in lists["split_alphabet"].get(alphabet, {}).items():
        if first <= character <= last:
            return str(split)
    return "val" if alphabet in lists["val"] else "test" if alphabet in lists["test"] else "train"
