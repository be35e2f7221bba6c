"""Files of miniImageNet and tieredImageNet that are broken or do not fit together: one sentence each."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.data import miniimagenet, tieredimagenet
from sala.data.store import SPLITS
from sala.errors import SalaError
from tests.helpers.trees import Prepare, gray, write, zipped

# miniImageNet


IMAGES = np.zeros((4, 8, 8, 3), np.uint8)


def write_caches(root: Path, train: Any) -> Path:
    for split in SPLITS:
        content = train if split == "train" else {"image_data": IMAGES, "class_dict": {split: [0, 1]}}
        (root / f"mini-imagenet-cache-{split}.pkl").write_bytes(pickle.dumps(content))
    return root / "mini-imagenet-cache-train.pkl"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([1, 2], "'image_data'"),
        ({"image_data": IMAGES}, "'class_dict'"),
        ({"image_data": [[1]], "class_dict": {}}, "not list"),
        (
            {"image_data": IMAGES[0], "class_dict": {}},
            "not uint8 (8, 8, 3)",
        ),
        ({"image_data": IMAGES.astype(np.float32), "class_dict": {}}, "not float32 (4, 8, 8, 3)"),
        ({"image_data": IMAGES[:, :0], "class_dict": {}}, "not uint8 (4, 0, 8, 3)"),
        ({"image_data": IMAGES, "class_dict": [1]}, "class_dict"),
        ({"image_data": IMAGES, "class_dict": {"owl": 3}}, "'owl'"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0, 4]}}, "'owl'"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0, -1]}}, "'owl'"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0, "1"]}}, "'owl'"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0, 1.5]}}, "'owl'"),
        ({"image_data": IMAGES, "class_dict": {"owl": range(10**12)}}, "'owl'"),
        ({"image_data": IMAGES, "class_dict": {"owl": np.zeros((2, 2), int)}}, "'owl'"),
        ({"image_data": IMAGES, "class_dict": {"owl": [0], 3: [1, 2]}}, "1 image"),
        ({"image_data": IMAGES, "class_dict": {"owl": []}}, "0 images"),
        ({"image_data": IMAGES, "class_dict": {"val": [0, 1]}}, "in train and in val"),
    ],
    ids=range(17),
)
def test_a_cache_that_is_not_what_it_should_be_is_explained(
    tmp_path: Path, prepare: Prepare, content: Any, sentence: str
) -> None:
    write_caches(tmp_path, content)
    assert sentence in prepare("miniimagenet", tmp_path)


def test_a_cache_file_that_is_missing_is_named(tmp_path: Path, prepare: Prepare) -> None:
    write_caches(tmp_path, {"image_data": IMAGES, "class_dict": {"owl": [0, 1]}}).unlink()
    assert "mini-imagenet-cache-train.pkl is missing" in prepare("miniimagenet", tmp_path)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (b"", "filename,label"),
        (b"file,class\na.png,owl\n", "filename,label"),
        (b"filename,label\na.png\n", "'a.png'"),
        (b"filename,label\n,owl\n", "',owl'"),
        (
            b"filename,label\n../../secret.png,owl\n",
            "'../../secret.png'",
        ),
        (b"filename,label\n..\\secret.png,owl\n", "secret.png"),
        (b"filename,label\n/etc/secret.png,owl\n", "secret.png"),
        (b"filename,label\na\0.png,owl\n", "CSV"),
        (b"filename,label\n\xff.png,owl\n", "CSV"),
        (b"filename,label\n" + b"x" * 200_000 + b",owl\n", "CSV"),
        (b"filename,label\nval.png,val\nval.png,val\n", "in train and in val"),
        (
            b"filename,label\nno.png,owl\nno.png,owl\n",
            "no.png",
        ),
    ],
    ids=range(12),
)
def test_a_broken_csv_list_is_explained(tmp_path: Path, prepare: Prepare, lines: bytes, sentence: str) -> None:
    write(tmp_path, {"a.png": gray(), "val.png": gray(), "train.csv": lines})
    for split in ("val", "test"):
        (tmp_path / f"{split}.csv").write_text(f"filename,label\nval.png,{split}\nval.png,{split}\n")
    assert sentence in prepare("miniimagenet", tmp_path)


def test_a_csv_list_that_is_missing_is_named(tmp_path: Path, prepare: Prepare) -> None:
    (tmp_path / "val.csv").write_text("filename,label\n")
    assert "train.csv is missing" in prepare("miniimagenet", tmp_path)


# tieredImageNet


def write_tiered(root: Path, labels: Any = None, images: Any = None) -> None:
    for split in SPLITS:
        sound = {"label_specific": [0, 0], "label_specific_str": ["owl"]}
        for what, content in (("labels", labels or sound), ("images_png", images or [gray(), gray()])):
            (root / f"{split}_{what}.pkl").write_bytes(pickle.dumps(content))


@pytest.mark.parametrize(
    ("labels", "images", "sentence"),
    [
        ([0, 0], None, "'label_specific'"),
        ({"label_specific": [0, 0, 0]}, None, "2 train images and 3 labels"),
        ({"label_specific": [0, 0], "label_specific_str": 3}, None, "label_specific_str"),
        ({"label_specific": [0, "x"]}, None, "label_specific"),
        ({"label_specific": np.zeros((2, 2), int)}, None, "label_specific"),
        ({"label_specific": np.zeros(2)}, None, "label_specific"),
        ({"label_specific": [0, 10**30]}, None, "label_specific"),
        ({"label_specific": [0, 1]}, None, "1 image"),
        (None, [gray()] * 3, "more train images than the 2 labels"),
        (None, {"a": 1}, "not dict"),
        (None, [gray(), 3], "not an image"),
        (None, [gray(), None], "image 1 of"),
        (None, [gray(), np.zeros(9)], "image 1 of"),
        (None, [gray(), gray(7, (64, 64))[:60]], "not a readable image"),
    ],
    ids=range(14),
)
def test_a_tieredimagenet_that_does_not_fit_together_is_explained(
    tmp_path: Path, prepare: Prepare, labels: Any, images: Any, sentence: str
) -> None:
    write_tiered(tmp_path, labels, images)
    assert sentence in prepare("tieredimagenet", tmp_path)


@pytest.mark.parametrize("what", ["train_labels.pkl", "val_labels.pkl", "test_images_png.pkl"])
def test_a_file_of_tieredimagenet_that_is_missing_is_named(tmp_path: Path, prepare: Prepare, what: str) -> None:
    write_tiered(tmp_path)
    (tmp_path / what).unlink()
    assert what in prepare("tieredimagenet", tmp_path)


def npz(path: Path, **arrays: Any) -> bytes:
    np.savez_compressed(path, **arrays)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"pictures": IMAGES[:2]}, "'images'"),
        ({"images": IMAGES[:2].astype(np.float32)}, "not float32 (2, 8, 8, 3)"),
        ({"images": np.array([[1, "x"]], dtype=object)}, "not object (1, 2)"),
        ({"images": IMAGES[:2, :, :, :1]}, "not uint8 (2, 8, 8, 1)"),
        ({"images": IMAGES[:2, :0]}, "not uint8 (2, 0, 8, 3)"),
        ({"images": IMAGES[:1]}, "1 train images and 2 labels"),
        ({"images": IMAGES[:3]}, "more train images than the 2 labels"),
    ],
    ids=range(7),
)
def test_an_npz_that_is_not_what_it_should_be_is_explained(
    tmp_path: Path, prepare: Prepare, arrays: dict[str, Any], sentence: str
) -> None:
    write_tiered(tmp_path)
    (tmp_path / "train_images_png.pkl").unlink()
    npz(tmp_path / "train_images.npz", **arrays)
    assert sentence in prepare("tieredimagenet", tmp_path)


def test_no_damage_to_an_npz_raises_anything_but_the_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    sound = npz(path, images=np.random.default_rng(0).integers(0, 255, (2, 4, 4, 3), dtype=np.uint8))
    for at in range(0, len(sound), 2):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        with suppress(SalaError):
            list(tieredimagenet.stream_npz(path, "images"))


def test_an_npz_header_that_claims_a_huge_image_is_refused(tmp_path: Path) -> None:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 100000, 100000, 3), }"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    path = zipped(tmp_path / "x.npz", {"images.npy": npy})
    with pytest.raises(SalaError, match=r"not uint8 \(1, 100000, 100000, 3\)"):
        list(tieredimagenet.stream_npz(path, "images"))


def test_sound_files_pass_the_same_way(tmp_path: Path) -> None:
    """The messages above are of the damage, not of how these tests write files."""
    write_tiered(tmp_path)
    assert len(list(tieredimagenet.read_tieredimagenet(tmp_path, 8).images)) == 6
    write_caches(tmp_path, {"image_data": IMAGES, "class_dict": {"owl": np.array([0, 1]), "yak": range(2, 4)}})
    assert len(list(miniimagenet.read_miniimagenet(tmp_path, 8).images)) == 8
