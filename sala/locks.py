"""Locks of the system on open files, which end with the process, however it ends; and whether a process is running.

POSIX systems have `flock`, Windows has `msvcrt.locking`: there one byte far behind the end of a file is locked, since a locked
byte could not be read by anyone else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

LOCKED_BYTE = 0x7FFF_FFF0
CAN_LOCK = True
CAN_OPEN_FOLDERS = sys.platform != "win32"

if sys.platform == "win32":
    import ctypes
    import msvcrt

    SYNCHRONIZE, STILL_WAITING, ACCESS_DENIED = 0x0010_0000, 0x102, 5

    def try_lock(fd: int) -> bool:
        """Lock an open file; False where another process has it. OSError where it cannot be locked."""
        place = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(fd, place, os.SEEK_SET)
        return True

    def is_running(process: int) -> bool:
        """Whether there is a process of this number. `os.kill(number, 0)` would send it Ctrl-C here."""
        if not 0 < process < 1 << 32:
            return False
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = kernel.OpenProcess(SYNCHRONIZE, False, process)
        if not handle:
            return ctypes.get_last_error() == ACCESS_DENIED  # another user's
        try:
            return bool(kernel.WaitForSingleObject(ctypes.c_void_p(handle), 0) == STILL_WAITING)
        finally:
            kernel.CloseHandle(ctypes.c_void_p(handle))

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Lock an open file or folder; False where another process has it. OSError where it cannot be locked."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_running(process: int) -> bool:
        """Whether there is a process of this number."""
        try:
            os.kill(process, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:  # another user's
            return True
        return True


def is_same_file(path: Path, fd: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False
