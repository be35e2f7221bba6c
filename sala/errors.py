"""The one exception that users meet: a sentence that says what is wrong, where, and what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from pathlib import Path


class SalaError(Exception):
    """Something outside the program needs a change: a file, an option, a request that cannot be met.

    Examples
    --------
    >>> import sala
    >>> try:
    ...     sala.EpisodeShape(n_way=1)
    ... except sala.SalaError as error:
    ...     print(error)
    the number of ways n_way must be at least 2; got 1
    """


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Name the place where a disk is full: the system's own error names none."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise SalaError(
            f"{path} cannot be written: the disk is full or your share of it is used up; make room there, then run the "
            "command again"
        ) from error


def at_least(minimum: int, value: int, what: str) -> None:
    """Refuse a number that is too small, and (TypeError) what is no whole number."""
    if index(value) < minimum:
        raise SalaError(f"{what} must be at least {minimum}; got {value}")
