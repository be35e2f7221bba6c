"""The one exception that users meet: a sentence that says what is wrong, where, and what to do."""


class SalaError(Exception):
    """Something outside the program needs a change: a file, an option, a request that cannot be met."""
