"""Datasets and image files. Files of a known layout come in, or a rule for drawing images; an `ImageStore` goes out.

`load_dataset(name)` is the door. One file reads one source (`omniglot.py`, `folder.py`, ...); `images.py` decodes any image
file in bounded memory, `files.py`, `pickles.py` and `tensors.py` open what is not trusted, `download.py` fetches official
files. Every other room may call; nothing here knows a network.
"""

from sala.data.datasets import DATASETS, Dataset, dataset_named, load_dataset, prepared_stores
from sala.data.features import FeatureStore
from sala.data.store import ClassEntry, ImageStore

__all__ = [
    "DATASETS",
    "ClassEntry",
    "Dataset",
    "FeatureStore",
    "ImageStore",
    "dataset_named",
    "load_dataset",
    "prepared_stores",
]
