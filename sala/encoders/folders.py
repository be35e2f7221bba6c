"""Class folders to features: what `sala evaluate --encoder` draws its episodes from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sala.data import FeatureStore
from sala.data.files import Tree
from sala.data.folder import class_folders
from sala.encoders.base import Encoder
from sala.encoders.embed import EmbedProgress, embed_files
from sala.errors import SalaError
from sala.text import counted


def embed_class_folders(
    root: Path | str, encoder: Encoder, *, progress: Callable[[EmbedProgress], None] | None = None
) -> FeatureStore:
    """Features of the images in class folders, `root/class_name/*.jpg`; all classes are for tests.

    Images that cannot be read are left out, with a warning. Features are kept in the cache.

    Parameters
    ----------
    root : Path or str
        A folder with a folder for each class.
    encoder : Encoder
        From `sala.open_encoder`.
    progress : callable, optional
        Called with an `EmbedProgress` after each batch.

    Returns
    -------
    FeatureStore
        For an `EpisodeSampler` with split "test".

    Examples
    --------
    >>> import sala, tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("black", "white"):
    ...     (root / name).mkdir()
    ...     for i in range(3):
    ...         Image.new("L", (28, 28), 255 * (name == "white")).save(root / name / f"{i}.png")
    >>> store = sala.embed_class_folders(root, sala.open_encoder("omniglot-sala"))
    >>> [(entry.name, entry.count) for entry in store.classes], store.width
    ([('black', 3), ('white', 3)], 64)
    """
    if not Path(root).is_dir():
        raise SalaError(f"{root} is not a folder; give the folder that holds the class folders, unpacked")
    members = class_folders(Tree(root))
    names = sorted(members)
    files = [(c, Path(root) / file) for c in names for file in members[c]]
    embedded = embed_files([path for _, path in files], encoder, progress=progress)
    if not len(embedded.kept):
        raise SalaError(f"no image in {root} can be read: {next(iter(embedded.skipped.values()))}")
    if embedded.skipped:
        first = next(iter(embedded.skipped.values()))
        warnings.warn(f"{counted(len(embedded.skipped), 'image')} left out: {first}", stacklevel=2)
    class_of = np.array([files[i][0] for i in embedded.kept])
    return FeatureStore(str(root), {c: embedded.features[class_of == c] for c in names if (class_of == c).any()})
