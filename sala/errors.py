"""The one exception that users meet: a sentence that says what is wrong, where, and what to do."""

from operator import index


class SalaError(Exception):
    """Something outside the program needs a change: a file, an option, a request that cannot be met."""


def at_least(minimum: int, value: int, what: str) -> None:
    """Refuse a number that is too small, and (TypeError) what is no whole number."""
    if index(value) < minimum:
        raise SalaError(f"{what} must be at least {minimum}; got {value}")
