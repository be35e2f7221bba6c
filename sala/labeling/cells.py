"""Cells of a CSV file that a spreadsheet opens: no text of a file name or class becomes a formula."""

from __future__ import annotations

from pathlib import Path

from sala.labeling.folders import as_text


def path_cell(path: Path) -> str:
    """A path that a spreadsheet would take for a formula gets a `./` in front, which changes nothing."""
    text = as_text(path)
    return f"./{text}" if is_formula(text) else text


def text_cell(text: str) -> str:
    """A text that a spreadsheet would take for a formula gets an apostrophe in front, by which it is shown as text."""
    return f"'{text}" if is_formula(text) else text


def from_cell(cell: str) -> str:
    """The text that `text_cell` wrote."""
    return cell[1:] if cell.startswith("'") and is_formula(cell[1:]) else cell


def is_formula(text: str) -> bool:
    return text.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
