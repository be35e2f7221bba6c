"""Pieces of a self-contained HTML page. Whatever is shown is escaped; images are inside the file."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; } p, li { max-width: 48rem; }
.note { color: #555; font-size: .92rem; }
table { border-collapse: collapse; margin: .8rem 0; } th, td { text-align: left; padding: .35rem 1.1rem .35rem 0; }
th { border-bottom: 2px solid #1a1a1a; } td { border-bottom: 1px solid #ddd; } td.number, th.number { text-align: right; }
svg { max-width: 100%; height: auto; }
pre { background: #f4f4f2; padding: .7rem 1rem; overflow-x: auto; } code { font-size: .92rem; }
.row { display: flex; flex-wrap: wrap; gap: .35rem; align-items: flex-start; margin: .3rem 0 .8rem; }
figure { margin: 0; width: 58px; text-align: center; font-size: .7rem; line-height: 1.15; }
figure img { width: 52px; height: 52px; image-rendering: pixelated; border: 3px solid #ccc; display: block; background: #000; }
figure.faded { opacity: .38; }
.sheet { display: flex; flex-wrap: wrap; gap: .6rem; margin: .5rem 0 1rem; }
.sheet figure { width: 124px; font-size: .74rem; text-align: left; overflow-wrap: anywhere; line-height: 1.3; }
.sheet img { width: 120px; height: 96px; object-fit: contain; image-rendering: auto; background: #f4f4f2;
  border: 2px solid #ccc; border-radius: 3px; margin-bottom: .15rem; }
.sheet .name { color: #555; display: block; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
nav { line-height: 1.9; } nav a { margin-right: .9rem; display: inline-block; } h2, td, nav a { overflow-wrap: anywhere; }
.legend span { display: inline-block; margin-right: 1.2rem; }
td:first-child { min-width: 6.5rem; }
@media (max-width: 34rem) { table { font-size: .82rem; } th, td { padding-right: .45rem; } }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; }
"""


def page(title: str, *body: str) -> str:
    content = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body>\n<h1>{escape(title)}</h1>\n{content}\n</body></html>\n"
    )


def section(heading: str, *body: str, place: str = "") -> str:
    """`place` is an id that `links` can name."""
    name = f' id="{escape(place, quote=True)}"' if place else ""
    return f"<h2{name}>{escape(heading)}</h2>\n" + "\n".join(body)


def paragraph(text: str, *, note: bool = False) -> str:
    return f'<p class="note">{escape(text)}</p>' if note else f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    return f"<pre><code>{escape(text)}</code></pre>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], bold: Sequence[set[int]] = ()) -> str:
    """The first column is text, the others numbers. `bold` says for each row which of its cells are."""
    head = "".join(_cell("th", i, text) for i, text in enumerate(header))
    body = ""
    for k, row in enumerate(rows):
        strong = bold[k] if bold else set()
        body += f"<tr>{''.join(_cell('td', i, text, i in strong) for i, text in enumerate(row))}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, i: int, text: str, strong: bool = False) -> str:
    content = f"<b>{escape(text)}</b>" if strong else escape(text)
    return f"<{tag}{' class=number' if i else ''}>{content}</{tag}>"


def picture(image: NDArray[np.uint8], caption: str, colour: str, *, faded: bool = False) -> str:
    """One image [H, W, C] with a coloured frame and a caption; `caption` may hold line breaks."""
    text = "<br>".join(escape(line) for line in caption.split("\n"))
    alt = escape(caption.replace("\n", ", "), quote=True)
    css = ' class="faded"' if faded else ""
    return f'<figure{css}><img src="{data_uri(image)}" alt="{alt}" style="border-color:{colour}">{text}</figure>'


def photo(uri: str, name: str, lines: Sequence[str], title: str, colour: str) -> str:
    """A thumbnail with its file's name, cut to one line, and lines below; the title is shown on hovering."""
    text = "<br>".join(escape(line) for line in lines)
    return (
        f'<figure title="{escape(title, quote=True)}"><img src="{escape(uri, quote=True)}" alt="{escape(name, quote=True)}" '
        f'loading="lazy" style="border-color:{colour}">{text}<span class="name">{escape(name)}</span></figure>'
    )


def sheet(photos: Iterable[str]) -> str:
    return f'<div class="sheet">{"".join(photos)}</div>'


def links(entries: Iterable[tuple[str, str]]) -> str:
    """To places in the page: (text, id)."""
    return (
        "<nav>" + " ".join(f'<a href="#{escape(i, quote=True)}">{escape(text)}</a>' for text, i in entries) + "</nav>"
    )


def row(pictures: Iterable[str]) -> str:
    return f'<div class="row">{"".join(pictures)}</div>'


def legend(entries: Iterable[tuple[str, str]]) -> str:
    return "".join(
        [
            '<p class="legend note">',
            *(f'<span><i style="background:{c}"></i>{escape(t)}</span>' for t, c in entries),
            "</p>",
        ]
    )


def data_uri(image: NDArray[np.uint8]) -> str:
    buffer = io.BytesIO()
    Image.fromarray(image[:, :, 0] if image.shape[-1] == 1 else image).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
