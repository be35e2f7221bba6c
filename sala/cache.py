"""Where things that can be made again are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$SALA_CACHE, or `sala` in the user's cache folder."""
    if folder := os.environ.get("SALA_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sala"
