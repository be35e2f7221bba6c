"""Features that are already there, in a `.npy` file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sala.data.files import unreadable
from sala.encoders.base import Features, Images, file_hash
from sala.errors import SalaError
from sala.wording import counted


def read_features(path: Path | str) -> Features:
    """A `.npy` file of numbers `[n, d]`, all of them finite."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, EOFError) as error:
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
        try:
            lines = beside.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise unreadable(beside, error) from None
        except UnicodeDecodeError:
            raise SalaError(f"{beside} is not text in UTF-8; write one path a line") from None
        if len(lines) != len(self.features):
            raise SalaError(
                f"{beside} has {counted(len(lines), 'line')} and {path} {counted(len(self.features), 'row')}; they must be as "
                "many"
            )
        self._row = {(beside.parent / line).resolve(): i for i, line in enumerate(lines)}

    def row(self, path: Path) -> int | None:
        """The row of a file; None where the list does not name it."""
        return self._row.get(path.resolve())

    def embed(self, images: Images) -> Features:
        raise SalaError(f"{self.name} holds ready-made features and embeds no images; name the files in its list")
