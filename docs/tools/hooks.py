"""What mkdocs does to a page beyond Markdown: generated references, files of the repository's root, equations as MathML.

A page asks for a part by a comment of its own line:

    <!-- api: labeling classifier -->     the public names of these rooms, for mkdocstrings
    <!-- commands -->                     every command with its options, from the typer app
    <!-- include: SECURITY.md -->         a file of the root, with its links made fit for the site

Figures stay in results/, where `sala reproduce` writes them. A page shows one by its path from the page; the site has a copy.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe
import typer
from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
API = re.compile(r"<!-- api: ([\w ]+) -->")
INCLUDE = re.compile(r"<!-- include: ([\w.]+) -->\n")
COMMANDS = "<!-- commands -->"
FIGURE = re.compile(r"\]\((?:\.\./)+results/(\w+\.svg)\)")
MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
SITE_OF = {"SECURITY.md": "explanation/security.md", "CHANGELOG.md": "reference/changelog.md"}
NOT_ON_SITE = re.compile(r"\[([^\]]+)\]\((?:CONTRIBUTING\.md|RELEASING\.md|CITATION\.cff|LICENSE|README\.md)[^)]*\)")


def on_files(files: Any, *, config: Any) -> Any:
    """The figures of results/ are files of the site."""
    for path in sorted((ROOT / "results").glob("*.svg")):
        files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    markdown = FIGURE.sub(rf"]({posixpath.relpath('assets', posixpath.dirname(page.file.src_uri))}/\1)", markdown)
    markdown = API.sub(lambda m: "\n\n".join(f"::: sala.{name}" for name in names_of(m[1].split())), markdown)
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, "\n".join(commands()))
    return INCLUDE.sub(lambda m: included(m[1], page.file.src_uri), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """LaTeX between dollars becomes MathML, which browsers show without a script."""

    def mathml(found: re.Match[str]) -> str:
        return convert(html.unescape(found[2]).strip(), display="block" if found[1] == "div" else "inline")

    return MATH.sub(mathml, content)


@cache
def public_names() -> dict[str, str]:
    """Each name of `sala.__all__`, and the room that it comes from."""
    package = griffe.load("sala", search_paths=[str(ROOT)])
    rooms = {}
    for name in package.exports or []:
        member = package.members[str(name)]
        path = member.target_path if member.is_alias else member.path
        rooms[str(name)] = path.split(".")[1]
    return rooms


def names_of(rooms: list[str]) -> list[str]:
    found = [name for name, room in public_names().items() if room in rooms]
    return sorted(found, key=lambda name: (rooms.index(public_names()[name]), name.lower()))


def commands() -> Iterator[str]:
    """Markdown of all commands: what each does, its arguments and options."""
    from sala.cli.app import COMMANDS as summaries
    from sala.cli.app import imported

    for name in summaries:
        yield from described(f"sala {name}", imported(name))


def described(title: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from described(f"{title} {name}", inner)
        return
    context = typer.Context(command, info_name=title)
    yield f"\n## {title}\n\n{command.help}\n\n```text\n{' '.join(command.get_usage(context).split())}\n```\n"
    rows = [record for param in command.get_params(context) if (record := param.get_help_record(context))]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{cell(option)}` | {cell(meaning)} |" for option, meaning in rows)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def included(name: str, page: str) -> str:
    """A file of the root without its title, its links pointing to pages of the site, or at nothing where there is none."""
    text = (ROOT / name).read_text(encoding="utf-8").split("\n", 1)[1]
    here = posixpath.dirname(page)
    text = re.sub(r"\]\(docs/([^)]+)\)", lambda m: f"]({posixpath.relpath(m[1], here)})", text)
    for root_file, site_page in SITE_OF.items():
        text = text.replace(f"]({root_file})", f"]({posixpath.relpath(site_page, here)})")
    return NOT_ON_SITE.sub(r"\1", text)
