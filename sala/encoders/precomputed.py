"""Features that are already there, in a `.npy` file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sala.data.files import open_regular, read_text, unreadable
from sala.encoders.base import Features, Images, file_hash
from sala.errors import SalaError
from sala.text import counted

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

    def row(self, path: Path) -> int | None:
        """The row of a file; None where the list does not name it."""
        return self._row.get(path.resolve())

    def embed(self, images: Images) -> Features:
        raise SalaError(f"{self.name} holds ready-made features and embeds no images; name the files in its list")
