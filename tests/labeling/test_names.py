"""Names of images and classes that mean something to a shell, a spreadsheet, a browser or a file system."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from sala.labeling.export import FORMATS, path_cell, text_cell
from sala.templates.scripts import open_script
from tests.helpers.painted import RED, folders_painted, labels, paint, sala  # noqa: F401  (fixture)

ODD_NAMES = ["it's \"quoted\".png", "two  spaces .png", "line\nbreak.png", "return\r.png", "a,b;c.png", "=1+2.png", "@cmd.png",
             "..png", "..\\..\\up.png", "%2e%2e.png", "<script>alert(1)</script>.png".replace("/", "∕"), "émile 日本.png",
             "<img src=x onerror=alert(1)>.png", "--out.png", "[bold]x[/].png"]  # fmt: skip


@pytest.fixture
def odd(folders: tuple[Path, Path]) -> tuple[Path, Path]:
    """Classes and images whose names mean something to a shell, a spreadsheet, a browser or a file system."""
    labeled, pool = folders
    for name in ODD_NAMES:
        paint(pool / "odd" / name, RED, 5)
    for name in ("<script>alert('class')<", '=HYPERLINK("x")', "CON", "rejected", "a\nb", "...", "[red]"):
        paint(labeled / name / "1.png", tuple(np.random.default_rng(zlib.crc32(name.encode())).integers(20, 235, 3)), 9)
    return labeled, pool


@pytest.mark.parametrize("form", FORMATS)
def test_every_name_comes_back_from_every_format(odd: tuple[Path, Path], tmp_path: Path, form: str) -> None:
    sala("label", *odd, "--out", tmp_path / "out", "--encoder", "color", "--format", form)
    wanted = {str(odd[1] / "odd" / name) for name in ODD_NAMES}
    if form == "csv":
        found = {row["path"] for row in labels(tmp_path / "out" / "labels.csv")}
    else:
        content = json.loads((tmp_path / "out" / f"{form}.json").read_text(encoding="utf-8"))
        found = (
            {image["file_name"] for image in content["images"]}
            if form == "coco"
            else {task["data"]["path"] for task in content}
        )
    assert wanted <= found and len(found) == 30 + len(ODD_NAMES)


def test_no_cell_is_a_formula() -> None:
    assert path_cell(Path("=cmd.png")) == "./=cmd.png" and path_cell(Path("-x,y.png")) == "./-x,y.png"
    assert path_cell(Path("pool/=cmd.png")) == "pool/=cmd.png"
    assert text_cell('=HYPERLINK("x")') == '\'=HYPERLINK("x")' and text_cell("@x") == "'@x"
    assert text_cell("plain class") == "plain class"


def test_names_that_are_not_utf8_are_written_as_text(folders: tuple[Path, Path], tmp_path: Path) -> None:
    strange = os.fsdecode(os.fsencode(folders[1]) + b"/caf\xe9.png")
    try:
        Path(strange).write_bytes(paint(tmp_path / "x.png", RED).read_bytes())
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    for form in FORMATS:
        sala(
            "label",
            *folders,
            "--out",
            tmp_path / "out",
            "--encoder",
            "color",
            "--format",
            form,
            "--copy-to",
            tmp_path / "s",
        )
    assert any(row["path"].endswith("caf\\udce9.png") for row in labels(tmp_path / "out" / "labels.csv"))
    (tmp_path / "out" / "coco.json").read_text(encoding="utf-8")
    assert len(list((tmp_path / "s").glob("*/caf*.png"))) == 1


class Tags(HTMLParser):
    """The tags of a page, each with its attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_is_one_file_that_runs_its_own_script_alone(odd: tuple[Path, Path], tmp_path: Path) -> None:
    (odd[1] / "<b>broken<b>.png").touch()
    sala("label", *odd, "--out", tmp_path / "out", "--encoder", "color")
    parser = Tags()
    parser.feed((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    kinds = Counter(tag for tag, _ in parser.tags)
    assert not kinds.keys() & {"iframe", "link", "b", "object"}
    (policy,) = [attributes["content"] or "" for _, attributes in parser.tags if "http-equiv" in attributes]
    assert kinds["script"] == 1 and policy == open_script("photos").policy
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy
    assert not [name for _, attributes in parser.tags for name in attributes if name.startswith("on")]
    sources = [attributes["src"] or "" for tag, attributes in parser.tags if tag == "img"]
    assert len(sources) >= 30 and all(source.startswith("data:image/") for source in sources)
    targets = {attributes["href"] or "" for tag, attributes in parser.tags if tag == "a"}
    places = {f"#{attributes['id']}" for _, attributes in parser.tags if "id" in attributes}
    assert targets <= places
    assert "<script>alert('class')<" in parser.text and "Suggestions" in parser.text


def test_label_studio_tasks_fit_their_configuration(odd: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *odd, "--out", tmp_path / "out", "--encoder", "color", "--format", "label-studio")
    tasks = json.loads((tmp_path / "out" / "label-studio.json").read_text())
    view = ET.parse(tmp_path / "out" / "label-studio.xml").getroot()
    image, choices = view.find("Image"), view.find("Choices")
    assert image is not None and choices is not None
    known = [choice.get("value") for choice in choices]
    assert choices.get("toName") == image.get("name") and image.get("value") == "$image"
    for task in tasks:
        (prediction,) = task["predictions"]
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"]) == (choices.get("name"), image.get("name"))
        assert result["type"] == "choices" and len(result["value"]["choices"]) == 1
        assert result["value"]["choices"][0] in known and 0 <= prediction["score"] <= 1
        assert task["data"]["image"].startswith("/data/local-files/?d=") and " " not in task["data"]["image"]
    assert len({task["predictions"][0]["result"][0]["id"] for task in tasks}) == len(tasks)
