"""The pool that is labeled to measure it, small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.shards import class_of, write_pool
from sala.encoders import sharded
from sala.labeling import embedding, large_pools
from sala.labeling.label import label_folder


def test_a_pool_on_disk_is_labeled_on_a_sample_like_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pool(tmp_path, 400, 64, shard_size=90)
    places = (tmp_path / "labeled", tmp_path / "pool", str(tmp_path / "features"))
    whole = label_folder(*places)
    monkeypatch.setattr(sharded, "MAX_BYTES", 0)
    fit = large_pools.fit_rows.__kwdefaults__
    assert fit is not None
    monkeypatch.setitem(fit, "sample", 150)
    monkeypatch.setitem(fit, "block", 64)
    mapped = label_folder(*places)
    assert large_pools.is_mapped(mapped.images.features) and not large_pools.is_mapped(whole.images.features)
    for result in (whole, mapped):
        assert np.mean([row.label == class_of(row.path) for row in result.rows()]) > 0.98
    assert int(mapped.predictions.used[mapped.pool].sum()) <= 150


def test_near_duplicates_in_a_pool_on_disk_are_looked_for_in_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pool(tmp_path, 400, 64, shard_size=90)
    monkeypatch.setattr(sharded, "MAX_BYTES", 0)
    assert large_pools.some_rows.__defaults__ is not None
    monkeypatch.setattr(large_pools.some_rows, "__defaults__", (50,))
    asked: list[int] = []
    monkeypatch.setattr(embedding, "near_duplicates", lambda features: asked.append(len(features)) or [[0, 1]])
    images = label_folder(tmp_path / "labeled", tmp_path / "pool", str(tmp_path / "features")).images
    assert images.near_duplicates == [[0, 1]]  # labeled images come first
    assert asked == [100 + 50]
