"""Names of classes that come from folders and labels files, and meet those that were given on the page."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sala.classifier.fit import LabelModel
from sala.labeling.embedding import embed_project
from sala.labeling.places import Places
from sala.labeling.project import open_project
from sala.web.downloads import to_model, to_report
from sala.web.journal import Journal
from sala.web.session import Session
from tests.helpers.pages import MeanColor, open_session


@pytest.mark.parametrize("name", ["a/b", "../x", "x" * 255, "=1+1", "<script>", "red\nblue", "\\"])
def test_a_label_of_any_name_is_saved_so_that_it_can_be_read_again(
    folders: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    first, second, third, *_ = sorted(folders[1].rglob("*.png"))
    (tmp_path / "labels.csv").write_text(f'path,label\n{first},other\n{second},"{name}"\n')
    project = open_project(Places(folders[1], labels=tmp_path / "labels.csv"))
    images = embed_project(project, MeanColor(), needs_examples=False)  # type: ignore[arg-type]
    row = next(i for i in range(len(images.project.items)) if images.project.path(i).name == third.name)
    with closing(Session(images, Journal(tmp_path / "state.jsonl"))) as session:
        session.label([row], to=session.snapshot().names.index(name))
    with closing(Session(images, Journal(tmp_path / "state.jsonl"))) as session:
        shown = session.snapshot()
        assert shown.names[shown.given[row]] == name


@pytest.mark.parametrize("renamed", [False, True])
def test_a_folder_that_is_made_later_with_a_name_of_the_page_is_a_class_of_its_own(
    folders: tuple[Path, Path], tmp_path: Path, renamed: bool
) -> None:
    """Else two classes share a name: tables mix them up, and the model cannot be opened."""
    with closing(open_session(folders)) as session:
        if renamed:
            session.rename_class(0, "owl")
        else:
            session.add_class("owl")
            session.label([int(session.project.is_pool.argmax())], to=2)
    (folders[0] / "owl").mkdir()
    next(folders[1].rglob("*.png")).rename(folders[0] / "owl" / "0.png")
    with closing(open_session(folders)) as session:
        names = session.snapshot().names
        assert len(set(names)) == len(names) and {"owl", "owl (2)"} < set(names)
        (tmp_path / "model.safetensors").write_bytes(b"".join(to_model(session)))
        assert set(LabelModel.load(tmp_path / "model.safetensors").classes) <= set(names)
        assert b"owl (2)" in b"".join(to_report(session))
        session.rename_class(names.index("owl (2)"), "barn owl")
        assert {"owl", "barn owl"} < set(session.snapshot().names)
