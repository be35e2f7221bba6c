"""Features that are already there, in a `.npy` file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sala.data.files import unreadable
from sala.encoders.base import Features, Images, file_hash
from sala.errors import SalaError


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
    features = array.astype(np.float32)
    if not np.isfinite(features).all():
        raise SalaError(f"{path} holds values that are not finite; remove those rows")
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
                f"{beside} has {len(lines)} lines and {path} {len(self.features)} rows; they must be as many"
            )
        self._row = {(beside.parent / line).resolve(): i for i, line in enumerate(lines)}

    def row(self, path: Path) -> int | None:
        """The row of a file; None where the list does not name it."""
        return self._row.get(path.resolve())

    def embed(self, images: Images) -> Features:
        raise SalaError(f"{self.name} holds ready-made features and embeds no images; name the files in its list")
