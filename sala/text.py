"""Numbers and names in sentences."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """`1 image`, `2,000 images`, `3 classes`."""
    ending = "" if n == 1 else "es" if noun.endswith("s") else "s"
    return f"{n:,} {noun}{ending}"


def printable(name: str) -> str:
    """A file's name fit for a message: what would steer the terminal or break the line is escaped."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)


def escaped_markdown(text: str) -> str:
    """Text inside Markdown that stays text: a class may be called anything."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>()#+-.!|~&" else c for c in printable(text))
