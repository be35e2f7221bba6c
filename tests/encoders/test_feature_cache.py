"""The cache of features: what is embedded once is not embedded again, and no trouble with it stops the work."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sala.encoders import embed_files
from sala.encoders.cache import FeatureCache
from tests.helpers.flat import MeanColor, some_images


def test_a_second_run_embeds_nothing_and_agrees(tmp_path: Path) -> None:
    paths, encoder, store = some_images(tmp_path, 40), MeanColor(), FeatureCache("x", tmp_path / "cache")
    first = embed_files(paths, encoder, cache=store)
    second = embed_files(paths, encoder, cache=store)
    assert encoder.n_images == 40 and (first.n_cached, second.n_cached) == (0, 40)
    assert (first.features == second.features).all()


def test_the_cache_goes_by_content(tmp_path: Path) -> None:
    paths, encoder, store = some_images(tmp_path, 3), MeanColor(), FeatureCache("x", tmp_path / "cache")
    embed_files(paths, encoder, cache=store)
    paths[0].rename(tmp_path / "renamed.png")  # known by its content
    Image.new("RGB", (8, 8), "white").save(paths[1])  # another content under a known name
    embedded = embed_files([tmp_path / "renamed.png", paths[1]], encoder, cache=store)
    assert encoder.n_images == 4 and embedded.features.tolist() == [[0, 0, 0], [255, 255, 255]]


class Breaking(MeanColor):
    """Ctrl-C comes with the second batch."""

    def embed(self, images: np.ndarray) -> np.ndarray:
        if self.n_images:
            raise KeyboardInterrupt
        return super().embed(images)


def test_a_run_that_is_broken_off_keeps_what_it_had(tmp_path: Path) -> None:
    paths, store = some_images(tmp_path, 64), FeatureCache("x", tmp_path / "cache")
    with pytest.raises(KeyboardInterrupt, match="32 images are kept"):
        embed_files(paths, Breaking(), cache=store)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):  # nothing is promised where nothing is kept
        embed_files(paths, Breaking(), cache=False)
    again = MeanColor()
    assert embed_files(paths, again, cache=FeatureCache("x", tmp_path / "cache")).n_cached == 32
    assert again.n_images == 32


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "x.sqlite").write_bytes(b"garbage" * 1000)
    paths = some_images(tmp_path, 2)
    embed_files(paths, MeanColor(), cache=FeatureCache("x", tmp_path / "cache"))
    assert embed_files(paths, MeanColor(), cache=FeatureCache("x", tmp_path / "cache")).n_cached == 2
    sqlite3.connect(tmp_path / "cache" / "x.sqlite").close()


@pytest.mark.parametrize("value", ["'text'", "NULL", "''", "7", "zeroblob(7)", "x'0000c07f0000c07f0000c07f'"])
def test_features_that_were_tampered_with_are_computed_anew(tmp_path: Path, value: str) -> None:
    paths = some_images(tmp_path, 2)
    before = embed_files(paths, MeanColor(), cache=FeatureCache("x", tmp_path / "cache")).features
    with closing(sqlite3.connect(tmp_path / "cache" / "x.sqlite")) as database:
        database.execute(f"UPDATE features SET value = {value}")
        database.execute(f"UPDATE files SET hash = {value}")
        database.commit()
    again = embed_files(paths, MeanColor(), cache=FeatureCache("x", tmp_path / "cache"))
    np.testing.assert_array_equal(again.features, before)
    assert again.n_cached == 0


def test_without_a_place_for_the_cache_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="features cannot be kept in"):
        store = FeatureCache("x", tmp_path / "file" / "below")
    assert len(embed_files(some_images(tmp_path, 2), MeanColor(), cache=store).features) == 2


def test_a_cache_that_fails_on_the_way_is_told_in_the_end(tmp_path: Path) -> None:
    store = FeatureCache("x", tmp_path)
    with sqlite3.connect(store.path) as database:
        database.execute("DROP TABLE features")
    database.close()
    with pytest.warns(UserWarning, match="features cannot be kept in"):
        embedded = embed_files(some_images(tmp_path, 40), MeanColor(), cache=store)
    assert len(embedded.features) == 40


TROUBLE = {
    "a full disk": ("PRAGMA max_page_count = {n_pages}", "database or disk is full"),
    "a folder that may no longer be written": ("PRAGMA query_only = ON", "attempt to write a readonly database"),
}


@pytest.mark.parametrize("what", TROUBLE)
def test_features_that_cannot_be_kept_are_not_lost_and_the_user_is_told_once(tmp_path: Path, what: str) -> None:
    """The first batch is kept, later ones are not: SQLite itself meets the trouble, and its words are passed on."""
    paths, encoder, store = some_images(tmp_path, 160), MeanColor(), FeatureCache("x", tmp_path / "cache")
    embed_files(paths[:32], encoder, cache=store)
    pragma, words = TROUBLE[what]
    n_pages = store._database.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[union-attr]
    store._database.execute(pragma.format(n_pages=n_pages))  # type: ignore[union-attr]
    with pytest.warns(UserWarning, match="features cannot be kept") as told:
        embedded = embed_files(paths[:128], encoder, cache=store)
    (sentence,) = (str(warning.message) for warning in told)
    assert f"features cannot be kept in {store.path} ({words})" in sentence and "SALA_CACHE" in sentence
    assert embedded.features.tolist() == [[i, min(2 * i, 255), min(3 * i, 255)] for i in range(128)]
    assert (embedded.n_cached, embedded.skipped) == (32, {})
    more = embed_files(paths[128:], encoder, cache=store)  # and not a warning more, which would be an error here
    assert len(more.features) == 32
    again = embed_files(paths, MeanColor(), cache=FeatureCache("x", tmp_path / "cache"))
    assert 32 <= again.n_cached == store.n_kept < 128


def test_nothing_is_said_to_be_kept_that_is_not(tmp_path: Path) -> None:
    store = FeatureCache("x", tmp_path / "cache")
    store._database.execute("PRAGMA query_only = ON")  # type: ignore[union-attr]
    with pytest.warns(UserWarning, match="features cannot be kept"), pytest.raises(KeyboardInterrupt, match=r"^$"):
        embed_files(some_images(tmp_path, 64), Breaking(), cache=store)


@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("unable to open database file"), PermissionError(13, "Permission denied")]
)
def test_a_cache_that_may_not_be_opened_is_told_once_and_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*words: object, **options: object) -> None:
        raise error

    if isinstance(error, OSError):
        monkeypatch.setattr("sala.encoders.cache.Path.mkdir", refuse)
    else:
        monkeypatch.setattr("sala.encoders.cache.sqlite3.connect", refuse)
    paths, encoder = some_images(tmp_path, 3), MeanColor()
    with pytest.warns(UserWarning, match="features cannot be kept") as told:
        first = embed_files(paths, encoder)
    assert [str(error) in str(warning.message) for warning in told] == [True]
    assert first.features.tolist() == [[0, 0, 0], [1, 2, 3], [2, 4, 6]] and first.n_cached == 0
