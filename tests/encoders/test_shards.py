"""Features in shards: shared out between processes, complete or absent, found by path or content."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from sala.encoders import embed_files, open_encoder, sharded
from sala.encoders.sharded import MappedRows, ShardedFeatures
from sala.encoders.shards import Share, write_shards
from sala.errors import SalaError
from tests.helpers.flat import MeanColor, saved, some_images


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def write(paths: list[Path], out: Path, share: Share | None = None, size: int = 3) -> ShardedFeatures | None:
    root = paths[0].parent
    write_shards([(0, path) for path in sorted(paths)], [root], MeanColor(), out, share=share, shard_size=size)
    return None if share else opened(out)


def opened(folder: Path) -> ShardedFeatures:
    encoder = open_encoder(folder)
    assert isinstance(encoder, ShardedFeatures)
    return encoder


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    (tmp_path / "pool").mkdir()
    return some_images(tmp_path / "pool", 10)


def test_shards_give_the_features_of_the_encoder_in_the_order_asked(images: list[Path], tmp_path: Path) -> None:
    encoder = write(images, tmp_path / "features")
    assert encoder is not None and encoder.identity == MeanColor.identity and len(shards(tmp_path / "features")) == 4
    asked = images[::-1]
    embedded = embed_files(asked, encoder)
    np.testing.assert_array_equal(embedded.features, embed_files(asked, MeanColor(), cache=False).features)
    assert embedded.kept.tolist() == list(range(10)) and not embedded.skipped


def test_each_process_makes_its_share_and_together_they_make_all(images: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "features"
    write(images, out, Share(1, 3))
    assert [path.stem for path in shards(out)] == ["shard-000001"]
    with pytest.raises(SalaError, match="1 of 4 shards"):
        open_encoder(out)
    for rank in (0, 2):
        write(images, out, Share(rank, 3))
    alone = write(images, tmp_path / "alone")
    assert alone is not None
    for one, other in zip(shards(out), shards(tmp_path / "alone"), strict=True):
        for name, values in load_file(one).items():
            np.testing.assert_array_equal(values, load_file(other)[name])


def test_shards_that_are_there_are_not_made_again(images: list[Path], tmp_path: Path) -> None:
    out, encoder = tmp_path / "features", MeanColor()
    write(images, out)
    shards(out)[1].unlink()
    files = [(0, path) for path in sorted(images)]
    done = write_shards(files, [images[0].parent], encoder, out, shard_size=3)
    assert encoder.n_images == 3 and (done.n_written, done.n_there, done.n_shards) == (1, 3, 4)


def test_shards_may_be_read_by_whoever_may_read_other_files(images: list[Path], tmp_path: Path) -> None:
    write(images, tmp_path / "out")
    (tmp_path / "plain").touch()
    assert {path.stat().st_mode for path in shards(tmp_path / "out")} == {(tmp_path / "plain").stat().st_mode}


def test_a_moved_and_renamed_image_is_found_by_its_content(images: list[Path], tmp_path: Path) -> None:
    encoder = write(images, tmp_path / "features")
    assert encoder is not None
    elsewhere = tmp_path / "another name.png"
    elsewhere.write_bytes(images[4].read_bytes())
    np.testing.assert_array_equal(embed_files([elsewhere], encoder).features[0], [4, 8, 12])


def test_a_changed_or_new_image_has_no_features(images: list[Path], tmp_path: Path) -> None:
    encoder = write(images, tmp_path / "features")
    assert encoder is not None
    images[0].write_bytes(images[0].read_bytes() + b"more")
    size = images[1].stat().st_size
    images[1].write_bytes(images[1].read_bytes()[:-1] + b"!")
    new = saved(tmp_path / "pool" / "new.png", Image.new("RGB", (9, 9), "white"))
    os.utime(images[1], ns=(0, 0))
    assert images[1].stat().st_size == size
    assert list(embed_files([*images[:3], new], encoder).skipped) == [0, 1, 3]


def test_an_image_that_was_only_touched_keeps_its_features(images: list[Path], tmp_path: Path) -> None:
    encoder = write(images, tmp_path / "features")
    assert encoder is not None
    os.utime(images[2], ns=(0, 0))
    np.testing.assert_array_equal(embed_files([images[2]], encoder).features, [[2, 4, 6]])


def test_unreadable_images_are_left_out_and_the_rows_stay_right(images: list[Path], tmp_path: Path) -> None:
    images[3].write_bytes(b"no image")
    encoder = write(images, tmp_path / "features")
    assert encoder is not None
    embedded = embed_files(images, encoder)
    assert list(embedded.skipped) == [3]
    assert (
        embed_files(images[3:4], MeanColor(), cache=False).skipped[0] in embedded.skipped[3]
    )  # the reason of that time
    np.testing.assert_array_equal(embedded.features[:, 0], [0, 1, 2, 4, 5, 6, 7, 8, 9])


def test_folder_and_shards_may_be_moved_together(images: list[Path], tmp_path: Path) -> None:
    write(images, tmp_path / "features")
    (tmp_path / "moved").mkdir()
    for name in ("pool", "features"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    encoder = opened(tmp_path / "moved" / "features")
    embedded = embed_files([tmp_path / "moved" / "pool" / "7.png"], encoder)
    np.testing.assert_array_equal(embedded.features, [[7, 14, 21]])


class Other(MeanColor):
    identity = "another"


def test_other_images_encoders_and_sizes_are_refused(images: list[Path], tmp_path: Path) -> None:
    out, files = tmp_path / "features", [(0, path) for path in sorted(images)]
    write(images, out)
    with pytest.raises(SalaError, match="encoder"):
        write_shards(files, [images[0].parent], Other(), out, shard_size=3)
    with pytest.raises(SalaError, match="other images"):
        write_shards(files[1:], [images[0].parent], MeanColor(), out, shard_size=3)
    with pytest.raises(SalaError, match="--shard-size 3"):
        write_shards(files, [images[0].parent], MeanColor(), out, shard_size=4)


@pytest.mark.parametrize("damage", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"x" * 200])
def test_a_damaged_shard_is_one_sentence(images: list[Path], tmp_path: Path, damage: bytes) -> None:
    write(images, tmp_path / "features")
    shards(tmp_path / "features")[2].write_bytes(damage)
    with pytest.raises(SalaError, match="damaged"):
        open_encoder(tmp_path / "features")


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"format": 99}', '{"roots": 3}'])
def test_a_damaged_manifest_is_one_sentence(images: list[Path], tmp_path: Path, damage: str) -> None:
    write(images, tmp_path / "features")
    (tmp_path / "features" / "shards.json").write_text(damage)
    with pytest.raises(SalaError):
        open_encoder(tmp_path / "features")


@pytest.mark.parametrize("sparse", [0, 8], ids=["one by one", "in one go"])
def test_mapped_rows_are_those_of_the_array(
    images: list[Path], tmp_path: Path, sparse: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharded, "SPARSE", sparse)
    encoder = write(images, tmp_path / "features")
    assert encoder is not None
    rows = encoder.rows(images)
    mapped = MappedRows(encoder.shards, rows, np.array([0, 3, 6, 9]), 3)
    array = encoder.features_of(rows)
    assert mapped.shape == array.shape and len(mapped) == 10
    for which in (slice(2, 8), slice(None, None, 3), [9, 0, 4], np.array([5, 5])):
        np.testing.assert_array_equal(mapped[which], array[which])
    np.testing.assert_array_equal(mapped.at(np.array([8, 2]))[:], array[[8, 2]])
    np.testing.assert_array_equal(np.asarray(mapped), array)


def command(pool: Path, out: Path) -> list[str]:
    return ["sala", "embed", str(pool), "--out", str(out), "--encoder", "omniglot-sala", "--shard-size", "2"]


@pytest.mark.slow
def test_a_killed_process_leaves_whole_shards_and_is_resumed(tmp_path: Path) -> None:
    pool, out = tmp_path / "pool", tmp_path / "features"
    for part in ("a", "b"):
        (pool / part).mkdir(parents=True)
    paths = some_images(pool / "a", 80) + some_images(pool / "b", 80)
    words = [sys.executable, "-m", *command(pool, out)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(shards(out)) < 3 and process.poll() is None:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    there = {path: path.stat().st_mtime_ns for path in shards(out)}
    assert 3 <= len(there) < 80
    assert all(len(load_file(path)["features"]) == 2 for path in there)
    with pytest.raises(SalaError, match="of 80 shards"):
        open_encoder(out)
    subprocess.run(words, check=True, capture_output=True)
    assert {path: path.stat().st_mtime_ns for path in shards(out) if path in there} == there
    found = embed_files(paths, opened(out)).features
    np.testing.assert_allclose(
        found, embed_files(paths, open_encoder("omniglot-sala"), cache=False).features, atol=1e-5
    )


@pytest.mark.slow
def test_two_processes_of_torchrun_make_all_shards(tmp_path: Path) -> None:
    pool, out = tmp_path / "pool", tmp_path / "features"
    pool.mkdir()
    paths = some_images(pool, 9)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    done = subprocess.run([*run, *command(pool, out)], check=True, capture_output=True, text=True)
    assert "process 0 of 2" in done.stdout and "process 1 of 2" in done.stdout
    assert len(shards(out)) == 5 and len(embed_files(paths, opened(out)).kept) == 9
