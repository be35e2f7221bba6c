"""Images of a project by the paths of a file that was written elsewhere."""

from __future__ import annotations

from pathlib import PurePath

from sala.labeling.folders import as_text
from sala.labeling.project import Project


class Matcher:
    """Finds an image by its path as exports have it; else by its path inside the pool, whatever folders stand in front; else
    by its file name, if no other image of the pool has that."""

    def __init__(self, project: Project):
        self._whole = {_text(project.path(i)): i for i in range(len(project.items))}
        self._inside: dict[str, int] = {}
        self._named: dict[str, list[int]] = {}
        for i, item in enumerate(project.items):
            if item.root == "pool":
                self._inside[_text(item.path)] = i
                self._named.setdefault(_text(PurePath(item.path).name), []).append(i)

    def find(self, path: str) -> int | None:
        """Return the number of an image; None where no image, or more than one, is meant."""
        parts = PurePath(path).parts
        tails = ("/".join(parts[k:]) for k in range(len(parts)))
        found = [self._whole.get(_text(path)), *(self._inside.get(tail) for tail in tails)]
        if len(parts) == 1 and len(self._named.get(path, ())) == 1:
            found += self._named[path]
        return next((i for i in found if i is not None), None)


def _text(path: str | PurePath) -> str:
    return as_text(PurePath(path).as_posix())
