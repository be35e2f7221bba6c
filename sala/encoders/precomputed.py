"""Features that are already there, in a `.npy` file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.data.files import open_regular, read_text, unreadable
from sala.encoders.base import Features, Images, file_hash
from sala.errors import SalaError
from sala.text import counted, printable

MAX_LIST_BYTES = 1 << 30  # of the paths of ten million images


def read_features(path: Path | str) -> Features:
    """A `.npy` file of numbers `[n, d]`, all of them finite."""
    open_regular(Path(path)).close()  # no device, no pipe
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped: a header may promise more than there is
    except OSError as error:
        raise unreadable(path, error) from None
    except Exception as error:  # a header is parsed as Python, and may be anything
        raise SalaError(f"{path} is not a .npy file of numbers ({error}); write it with numpy.save") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiu" or 0 in array.shape:
        got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise SalaError(f"{path} holds {got}; features are numbers [images, dimensions]")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        features = array.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(features).all(1))
    if len(bad):
        raise SalaError(
            f"{path} holds values that are nan, infinite or too large in {counted(len(bad), 'row')}, the first of them row "
            f"{bad[0] + 1} of {len(features):,}; remove it with its line in the list, or mend it"
        )
    return features


class ReadyFeatures:
    """The features of named files: row i of `features.npy` is the file in line i of `features.txt` beside it.

    Paths in the list are relative to its folder, or absolute. `rows` looks them up; there is no network that could embed
    another image.
    """

    image_size, mode = 0, "RGB"

    def __init__(self, path: Path):
        self.features = read_features(path)
        self.name, self.identity = path.name, f"npy-{file_hash(path)[:16]}"
        beside = path.with_suffix(".txt")
        lines = read_text(beside, MAX_LIST_BYTES).splitlines()
        if len(lines) != len(self.features):
            raise SalaError(
                f"{beside} has {counted(len(lines), 'line')} and {path} {counted(len(self.features), 'row')}; they must be as "
                "many"
            )
        try:
            self._row = {(beside.parent / line).resolve(): i for i, line in enumerate(lines)}
        except (OSError, ValueError, RuntimeError) as error:  # a NUL, a link to itself
            raise SalaError(f"{beside} holds a line that is no path ({error}); write one path a line") from None

    def rows(self, paths: Sequence[Path | str]) -> NDArray[np.int64]:
        """The row of each file; -1 where the list does not name it."""
        return np.fromiter((self._row.get(Path(path).resolve(), -1) for path in paths), np.int64, len(paths))

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    def digests(self, rows: NDArray[np.int64]) -> None:
        """Of the files' contents nothing is known."""

    def features_of(self, rows: NDArray[np.int64]) -> Features:
        return self.features[rows]

    def missing(self, path: Path) -> str:
        """What is told of a file without features."""
        return f"{printable(str(path))} is not in the list of {self.name}; add it there with its features"

    def embed(self, images: Images) -> Features:
        raise SalaError(f"{self.name} holds ready-made features and embeds no images; name the files in its list")
