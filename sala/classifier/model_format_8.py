"""Model files of format 8, read for one release: their names, and the names of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")
TENSORS = {
    "centre": "center",
    "spread": "scale",
    "first": "first_prototypes",
    "refined": "refined_prototypes",
    "hubs": "hubness",
    "directions": "whitening_directions",
    "removed": "whitening_shrinkage",
    "known_first": "detector_first_prototypes",
    "known_refined": "detector_refined_prototypes",
    "others": "outlier_prototypes",
    "marked": "known_outliers",
}
HEADER = {"belonging": "outlier_model"}
OUTLIER_MODEL = {
    "middle": "median",
    "left_out": "held_out",
    "none_share": "outlier_share",
    "trust": "refined_weight",
    "pull": "outlier_weight",
}
CONFIG = {"labelled_weight": "labeled_weight", "n_label_next": "n_suggestions", "prior": "temperature_prior"}
NOTE = {"labelled": "labeled"}  # the caller's part of the header, as `sala label` writes it
THRESHOLDS = {"none_of_these": "outlier", "sure": "confident"}


def upgrade(tensors: Mapping[str, T], header: Mapping[str, Any]) -> tuple[dict[str, T], dict[str, Any]]:
    """Tensors and header of a format 8 file, under the names of today."""
    today = rename(header, HEADER)
    for part, names in (("outlier_model", OUTLIER_MODEL), ("config", CONFIG), ("note", NOTE)):
        today[part] = rename(today.get(part), names)
    if isinstance(today["note"], dict) and "thresholds" in today["note"]:
        today["note"]["thresholds"] = rename(today["note"]["thresholds"], THRESHOLDS)
    return rename(tensors, TENSORS), today


def rename(content: Any, names: Mapping[str, str]) -> Any:
    """A copy of a mapping with other keys; what is no mapping stays as it is, for the reader to refuse."""
    return {names.get(key, key): value for key, value in content.items()} if isinstance(content, Mapping) else content
