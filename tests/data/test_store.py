"""The image store: whole or not there, the same for every process, and honest about damage."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sala.data import load_dataset, prepared_stores
from sala.data.build import build_store
from sala.data.store import ClassEntry, ImageStore, Source
from sala.errors import SalaError

MakeStore = Callable[..., ImageStore]


def source(counts: list[int], order: list[int] | None = None) -> Source:
    """Train classes of the given sizes; image k of class c is 2 x 2 pixels of the value 10 c + k."""
    classes = [ClassEntry(f"c{c}", "train", n) for c, n in enumerate(counts)]

    def images() -> Iterator[tuple[int, np.ndarray]]:
        done = [0] * len(counts)
        for c in order if order is not None else [c for c, n in enumerate(counts) for _ in range(n)]:
            yield c, np.full((2, 2, 1), 10 * c + done[c], np.uint8)
            done[c] += 1

    return Source(classes, images(), (2, 2, 1))


def test_images_lie_class_by_class_in_whatever_order_they_arrive(tmp_path: Path) -> None:
    store = build_store(tmp_path / "s", "toy", source([2, 3], order=[1, 0, 1, 1, 0]))
    assert store.images[:, 0, 0, 0].tolist() == [0, 1, 10, 11, 12]
    assert [(entry.name, entry.start, entry.count) for entry in store.classes] == [("c0", 0, 2), ("c1", 2, 3)]


def test_a_store_is_mapped_and_cannot_be_written_to(make_store: MakeStore) -> None:
    store = make_store({"train": [3]})
    assert isinstance(store.images, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        store.images[0] = 1


def test_another_process_sees_the_same_images(make_store: MakeStore) -> None:
    store = make_store({"train": [3], "test": [2]})
    code = f"from sala.data import ImageStore; print(ImageStore({str(store.folder)!r}).images[:, 0, 0, 0].tolist())"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert seen.strip() == "[0, 1, 2, 3, 4]"


def test_a_split_is_its_classes_in_order(make_store: MakeStore) -> None:
    store = make_store({"train": [3, 2], "test": [2]})
    assert [entry.name for entry in store.split("train")] == ["train0", "train1"]
    assert store.split("val") == []


def test_a_split_that_is_none_is_refused(make_store: MakeStore) -> None:
    with pytest.raises(SalaError, match="'dev'"):
        make_store({"train": [3]}).split("dev")


def test_the_same_images_have_the_same_hash(tmp_path: Path) -> None:
    hashes = {build_store(tmp_path / name, "toy", source([2, 3])).content_hash for name in ("a", "b")}
    assert len(hashes) == 1


def test_other_images_have_another_hash(tmp_path: Path) -> None:
    one, two = (build_store(tmp_path / str(n), "toy", source([2, n])) for n in (2, 3))
    assert one.content_hash != two.content_hash


def test_another_split_has_another_hash(make_store: MakeStore, tmp_path: Path) -> None:
    train = make_store({"train": [2]})
    shutil.move(train.folder, tmp_path / "first")
    assert make_store({"test": [2]}).content_hash != train.content_hash


def test_verify_notices_one_changed_pixel(make_store: MakeStore) -> None:
    store = make_store({"train": [3]})
    assert store.verify()
    path = store.folder / "images.bin"
    path.write_bytes(b"\x07" + path.read_bytes()[1:])
    assert not store.verify()


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    build_store(tmp_path / "s", "toy", source([70, 30]), lambda done, total: seen.append((done, total)))
    assert seen == [(1, 100), (65, 100), (100, 100)]


# all or nothing

KILLED_BUILD = """
import sys
from pathlib import Path
import numpy as np
from sala.data.build import build_store
from sala.data.store import ClassEntry, Source

def images():
    for i in range(1000):
        if i == 500:
            print("half", flush=True)
            sys.stdin.read()  # until killed
        yield 0, np.zeros((2, 2, 1), np.uint8)

build_store(Path(sys.argv[1]), "toy", Source([ClassEntry("c", "train", 1000)], images(), (2, 2, 1)))
"""


@pytest.fixture
def killed_build(tmp_path: Path) -> Path:
    """The place of a store whose builder was killed half way."""
    folder = tmp_path / "stores" / "toy"
    command = [sys.executable, "-c", KILLED_BUILD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "half\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    return folder


def test_a_killed_build_leaves_no_store(killed_build: Path) -> None:
    assert not killed_build.exists()
    with pytest.raises(SalaError, match="not an image store"):
        ImageStore(killed_build)


def test_the_next_build_clears_what_a_killed_one_left(killed_build: Path) -> None:
    assert [p.name[:10] for p in killed_build.parent.iterdir()] == [".building-"]
    build_store(killed_build, "toy", source([2]))
    assert [p.name for p in killed_build.parent.iterdir()] == ["toy"]


def test_a_build_that_is_still_going_on_is_left_alone(tmp_path: Path) -> None:
    during_build: list[ImageStore] = []

    def build_another(done: int, total: int) -> None:
        if not during_build:
            during_build.append(build_store(tmp_path / "second", "toy", source([3])))

    assert build_store(tmp_path / "first", "toy", source([2]), build_another).verify()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first", "second"]


def test_of_two_builds_of_one_store_the_first_to_finish_stays(tmp_path: Path) -> None:
    folder, winner = tmp_path / "same", []

    def build_the_same(done: int, total: int) -> None:
        if not winner:
            winner.append(build_store(folder, "toy", source([2])))

    loser = build_store(folder, "toy", source([2]), build_the_same)
    assert loser.content_hash == winner[0].content_hash
    assert [p.name for p in tmp_path.iterdir()] == ["same"]


def test_an_interrupted_build_cleans_up_behind_itself(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_store(tmp_path / "s", "toy", source([2]), interrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 0, 0], "more images than its 2 labels"),
        ([0], "1 images"),
    ],
)
def test_a_source_that_breaks_its_promise_leaves_nothing(tmp_path: Path, order: list[int], message: str) -> None:
    with pytest.raises(SalaError, match=message):
        build_store(tmp_path / "s", "toy", source([2], order))
    assert list(tmp_path.iterdir()) == []


def test_images_of_two_shapes_are_refused(tmp_path: Path) -> None:
    images = iter([(0, np.zeros((2, 3, 1), np.uint8))])
    with pytest.raises(SalaError, match=r"'owl' .*\(2, 3, 1\)"):
        build_store(tmp_path / "s", "toy", Source([ClassEntry("owl", "train", 2)], images, (2, 2, 1)))


def test_a_class_of_one_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SalaError, match=r"'c1' .* 1 image"):
        build_store(tmp_path / "s", "toy", source([2, 1]))


def test_a_cache_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(SalaError, match="SALA_CACHE"):
        build_store(tmp_path / "file" / "s", "toy", source([2]))


def test_what_is_left_of_a_store_without_index_is_built_over(make_store: MakeStore) -> None:
    folder = make_store({"train": [2]}).folder
    (folder / "index.json").unlink()
    assert make_store({"train": [2]}).verify()


# damage


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"format": 1}',
        b'{"format": 1, "name": "x", "content_hash": "", "image_shape": 3}',
    ],
)
def test_a_damaged_index_gets_a_sentence(make_store: MakeStore, index: bytes) -> None:
    folder = make_store({"train": [2]}).folder
    (folder / "index.json").write_bytes(index)
    with pytest.raises(SalaError, match="damaged"):
        ImageStore(folder)


def test_images_cut_short_get_a_sentence(make_store: MakeStore) -> None:
    folder = make_store({"train": [2]}).folder
    (folder / "images.bin").write_bytes(b"\0")
    with pytest.raises(SalaError, match="damaged"):
        ImageStore(folder)


def test_a_store_of_another_version_gets_a_sentence(make_store: MakeStore) -> None:
    path = make_store({"train": [2]}).folder / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(SalaError, match="another version"):
        ImageStore(path.parent)


def test_one_damaged_store_does_not_hide_the_others(
    tmp_path: Path, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALA_CACHE", str(tmp_path))
    shutil.copytree(make_store({"train": [2]}).folder, tmp_path / "stores" / "folder-2px-good")
    (tmp_path / "stores" / "folder-2px-bad").mkdir()
    (tmp_path / "stores" / "folder-2px-bad" / "index.json").write_text("{")
    assert [store.folder.name for store in prepared_stores("folder")] == ["folder-2px-good"]


def test_a_dataset_is_built_once_and_then_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b", "c"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(2):
            (tmp_path / "data" / name / f"{i}.pgm").write_bytes(b"P5 1 1 255 " + bytes([i]))
    first = load_dataset("folder", tmp_path / "data", image_size=8)
    stamp = (first.folder / "images.bin").stat().st_mtime_ns
    second = load_dataset("folder", tmp_path / "data", image_size=8)
    assert second.folder == first.folder and (second.folder / "images.bin").stat().st_mtime_ns == stamp
