"""Pages (Jinja2 templates) and plots (matplotlib). Plain values come in, self-contained HTML and SVG go out.

The reports of labeling, of the reproduction and of the demo are made here. Whatever is shown is escaped; a plot is the one
value that is inserted as markup (`plots.Plot`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from sala.text import counted


def render(name: str, /, **values: Any) -> str:
    """Return the page of the template `name` filled with the values.

    Parameters
    ----------
    name : str
        A template of this folder, without its ending: "labeling", "reproduction" or "demo".
    **values
        What the template shows. Text is escaped.

    Returns
    -------
    str
        HTML with styles, pictures and plots inside: one file that loads nothing.

    Raises
    ------
    jinja2.UndefinedError
        The template names a value that was not given.

    Examples
    --------
    >>> from sala.templates import render
    >>> "<h1>a &lt;b&gt;</h1>" in render("base", title="a <b>")
    True
    """
    return _environment().get_template(f"{name}.html").render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("sala"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.filters["thousands"] = "{:,}".format
    return environment
