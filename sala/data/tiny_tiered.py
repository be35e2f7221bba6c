"""tiny-tiered: the 123 tieredImageNet classes that are in Tiny ImageNet (500 images each), under tieredImageNet's split."""

from __future__ import annotations

from pathlib import Path

from sala.data.files import Tree
from sala.data.folder import read_class_files, synset_files
from sala.data.splits import tieredimagenet_splits
from sala.data.store import Source
from sala.errors import SalaError

N_CLASSES = 123
ARCHIVE = "tiny-imagenet-200.zip"


def read_tiny_tiered(root: Path, image_size: int) -> Source:
    """From the official zip or the folder unpacked from it; only `train/` has labels by folder, and only it is used."""
    tree = Tree(root / ARCHIVE if (root / ARCHIVE).is_file() else root)
    files = synset_files(tree, tieredimagenet_splits(), below="train", complete=False)
    if len(files) != N_CLASSES:
        raise SalaError(
            f"{tree.path} holds {len(files)} of the {N_CLASSES} classes that Tiny ImageNet shares with tieredImageNet; "
            f"give the official {ARCHIVE} or the folder unpacked from it"
        )
    return read_class_files(tree, files, tieredimagenet_splits(), image_size)
