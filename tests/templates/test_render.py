"""Pages from templates: what is shown is escaped, a missing value is an error, a plot is markup."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest
from PIL import Image

import sala
from sala.templates import plots, render
from sala.templates.pictures import Picture, data_uri

HOSTILE = "<script>alert('\"')</script>"
FOLDER = Path(sala.__file__).parent / "templates"


def macro(call: str, **values: object) -> str:
    """What a macro gives for some values."""
    from sala.templates import _environment

    names = "table, figure, sheet, row, legend, links"
    return _environment().from_string(f"{{% from 'macros.html' import {names} %}}{{{{ {call} }}}}").render(values)


def test_a_title_is_escaped() -> None:
    page = render("base", title=HOSTILE)
    assert "<script" not in page and page.count("&lt;script&gt;") == 2  # title and heading


@pytest.mark.parametrize(
    "call",
    [
        "table([text], [[text]])",
        "sheet([picture])",
        "row([picture])",
        "legend([(text, text)])",
        "links([(text, text)])",
    ],
)
def test_whatever_a_macro_shows_is_escaped(call: str) -> None:
    picture = Picture(HOSTILE, HOSTILE, [HOSTILE], HOSTILE, HOSTILE)
    shown = macro(call, text=HOSTILE, picture=picture)
    assert "alert" in shown and "<script" not in shown
    assert "'" not in shown and 'alert("' not in shown  # nothing ends an attribute


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="title"):
        render("base")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.html")), ids=lambda path: path.name)
def test_no_template_marks_text_as_safe(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "safe" not in text and "autoescape" not in text


def test_a_plot_is_inserted_as_it_is() -> None:
    plot = plots.growth({"<ways>": {"TPN": (1.0, [(1.0, 1.0), (2.0, 2.0)])}})
    shown = macro("text", text=plot)
    assert shown == plot.svg and shown.startswith("<svg") and "<ways>" not in shown
    assert plot.png().startswith(b"\x89PNG")


def test_the_cells_that_are_named_are_bold() -> None:
    shown = macro("table(['a', 'b'], [['x', '1'], ['y', '2']], [[], [1]])")
    assert "<b>2</b>" in shown and shown.count("<b>") == 1
    assert shown.count('class="number"') == 3


def test_an_image_is_inside_the_page() -> None:
    assert data_uri(Image.new("L", (2, 2))).startswith("data:image/png;base64,")
    assert data_uri(Image.new("RGB", (2, 2)), "JPEG", quality=70).startswith("data:image/jpeg;base64,")
