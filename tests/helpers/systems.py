"""What Windows lacks: a test that needs it is skipped there, with the reason."""

from __future__ import annotations

import os
import signal

NO_PRIVILEGE = 1314  # Windows makes links for administrators and developers only


def lacking(error: BaseException) -> str:
    """What of a POSIX system was missed, or nothing if it is an error like any other."""
    if isinstance(error, AttributeError) and error.obj in (os, signal):
        return f"{error.obj.__name__}.{error.name}"
    if isinstance(error, OSError) and getattr(error, "winerror", None) == NO_PRIVILEGE:
        return "links"
    return ""
