"""Folders of any kind on the page, and its downloads."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sala.errors import SalaError
from sala.labeling.archive import member_name
from sala.labeling.export import export
from sala.labeling.folders import as_text
from sala.labeling.label import label_folder
from sala.labeling.places import Places
from sala.labeling.project import open_project
from sala.labeling.sort import sort_copies
from sala.web.api import describe
from sala.web.downloads import to_csv, to_zip
from sala.web.session import CLEAR, OUTLIER, UNLABELED, Session
from stress.asking import ask
from tests.helpers.pages import COLORS, HOSTILE, MeanColor, draw, open_session, row_of, running


def test_links_out_of_the_folders_are_never_served(folders: tuple[Path, Path], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    draw(secret / "s.png", (1, 2, 3), np.random.default_rng(0))
    (folders[1] / "link.png").symlink_to(secret / "s.png")
    (folders[1] / "dir").symlink_to(secret)
    session = open_session(folders)
    assert len(session.project.items) == 34 and len(session.project.skipped) == 2
    changed = folders[1] / "red-0.png"  # a link that is put there while the server runs
    changed.unlink()
    changed.symlink_to(secret / "s.png")
    with running(session) as server:
        assert ask(server.port, f"/thumb/{row_of(session, 'red-0.png')}").status == 404
        archive = zipfile.ZipFile(io.BytesIO(ask(server.port, "/download/sorted.zip").body))
        assert not [name for name in archive.namelist() if name.endswith("red-0.png")]


def test_a_pipe_in_the_place_of_an_image_is_not_waited_for(folders: tuple[Path, Path]) -> None:
    session = open_session(folders)
    changed = folders[1] / "red-0.png"
    changed.unlink()
    os.mkfifo(changed)
    with pytest.raises(SalaError, match="is not a file"):
        session.project.read(row_of(session, "red-0.png"))


def test_names_of_any_kind_arrive_as_they_are(folders: tuple[Path, Path]) -> None:
    rng = np.random.default_rng(0)
    names = [name.replace("/", "∕") + ".png" for name in HOSTILE]
    for name in names:
        draw(folders[1] / name, COLORS["red"], rng)
    draw(folders[0] / "<img src=x>\n" / "0.png", COLORS["green"], rng)
    session = open_session(folders)
    with running(session) as server:
        port = server.port
        assert set(names) <= set(ask(port, "/api/items").json["names"])
        assert (
            ask(port, "/api/act", {"do": "label", "items": [row_of(session, name) for name in names], "to": 0}).status
            == 200
        )
        table = ask(port, "/download/labels.csv").body.decode()
        rows = {row["path"]: row for row in csv.DictReader(io.StringIO(table, newline=""))}
        shown = [rows[as_text(folders[1] / name)] for name in names]
        assert all(row["label"] == "<img src=x>\n" and row["verdict"] == "given" for row in shown)
        members = zipfile.ZipFile(io.BytesIO(ask(port, "/download/sorted.zip").body)).namelist()
        assert len(members) == len(set(members)) == 30 + len(names)
        assert not any(set(m) & set('<>:"|?*\n\\') or ".." in m.split("/") or m.startswith("/") for m in members)
        assert len(ask(port, "/download/label-studio.json").json) == 30 + len(names)


def test_members_of_the_zip_stay_below_and_apart() -> None:
    taken: dict[str, bytes] = {}
    assert member_name("A", "../../x.png", b"1", taken) == "A/x.png"
    assert member_name("a", "more/X.PNG", b"2", taken) == "a/X-2.PNG"
    assert member_name("A", "again/x.png", b"1", taken) is None
    assert member_name("A", 'b/<"y\n">.png', b"3", taken) == "A/__y___.png"


def test_files_that_are_no_images_are_skipped(folders: tuple[Path, Path]) -> None:
    (folders[1] / "empty.png").write_bytes(b"")
    (folders[1] / "page.jpg").write_bytes(b"<script>alert(1)</script>")
    (folders[1] / "notes.txt").write_text("not an image")
    session = open_session(folders)
    assert len(session.project.items) == 34 and len(session.project.skipped) == 2


def test_the_page_and_the_command_say_the_same(folders: tuple[Path, Path]) -> None:
    """Also of hidden folders, odd formats and copies of labeled images."""
    labeled, pool = folders
    rng = np.random.default_rng(1)
    for place in (labeled / ".checkpoints" / "a.png", pool / ".thumbs" / "b.png"):
        draw(place, COLORS["red"], rng)
    (pool / "photo.heic").write_bytes(b"not read")
    shutil.copy(labeled / "red" / "0.png", pool / "copy.png")
    shutil.copy(labeled / "red" / "0.png", labeled / "red" / "twice.png")
    Image.open(pool / "green-0.png").save(pool / "green.jfif", "JPEG")
    for i in range(8):
        shutil.copy(pool / "red-1.png", pool / f"red-1-again-{i}.png")
    session = open_session(folders)
    shown = session.snapshot()
    by_command = label_folder(labeled, pool, MeanColor())
    assert session.project.classes == by_command.model.classes
    assert session.project.skipped == by_command.skipped
    verdicts = {
        Path(session.project.items[i].path).name: shown.verdicts()[i] for i in np.flatnonzero(session.project.is_pool)
    }
    found = {row.path.name: row for row in by_command.rows()}
    assert verdicts["copy.png"] == "given" and found["copy.png"].probability == 1.0
    assert verdicts == {name: row.verdict for name, row in found.items()} and "green.jfif" in verdicts
    for name, row in found.items():
        i = row_of(session, name)
        assert shown.probability[i] == pytest.approx(row.probability, abs=1e-5)
        assert shown.outlier_probability[i] == pytest.approx(row.outlier_probability, abs=1e-5)


def with_copies(folders: tuple[Path, Path]) -> None:
    """Copies of a labeled image and of one in the pool, also under a name that is taken."""
    labeled, pool = folders
    shutil.copy(labeled / "red" / "0.png", pool / "copy.png")
    (pool / "more").mkdir()
    shutil.copy(pool / "red-1.png", pool / "more" / "red-1.png")
    shutil.copy(pool / "red-2.png", pool / "more" / "red-3.png")


def test_the_table_is_that_of_the_command(folders: tuple[Path, Path]) -> None:
    with_copies(folders)
    table = b"".join(to_csv(open_session(folders))).decode()
    result = label_folder(*folders, MeanColor())
    assert table == "".join(export(result.rows(), "csv", result.model.classes))


def test_what_the_user_says_has_the_best_other_class_as_its_runner_up(session: Session) -> None:
    session.add_class("green")
    session.label([row_of(session, "green-0.png")], to=2)
    blue = row_of(session, "blue-0.png")
    session.label([blue], to=1)  # which is red
    table = b"".join(to_csv(session)).decode()
    rows = {Path(row["path"]).name: row for row in csv.DictReader(io.StringIO(table))}
    assert (rows["blue-0.png"]["label"], rows["blue-0.png"]["runner_up"]) == ("red", "blue")
    assert all(row["runner_up"] not in ("", row["label"]) for row in rows.values())


def test_a_single_class_has_no_runner_up(session: Session) -> None:
    session.label([0, 1], to=OUTLIER)  # all of blue
    shown = session.snapshot()
    assert (shown.runner_up == UNLABELED).all() and (shown.second == 0).all()


def test_the_zip_has_the_files_of_copy_to_with_given_and_predicted_apart(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    with_copies(folders)
    (folders[0] / "red").rename(folders[0] / "red: <1>")
    session = open_session(folders)
    first = session.snapshot()
    halfway = float(np.median(first.confidence[(first.given == UNLABELED) & ~first.is_rejected]))
    precision = 2 * halfway - 1  # half of them are uncertain: those below the middle between it and 1
    session.precision = precision
    session.add_class("not used")  # so that it fits anew
    archive = zipfile.ZipFile(io.BytesIO(b"".join(to_zip(session))))
    labeling = label_folder(*folders, MeanColor(), precision=precision)
    sort_copies(labeling.rows(), tmp_path / "sorted")
    copied = {
        path.relative_to(tmp_path / "sorted").as_posix(): path.read_bytes()
        for path in (tmp_path / "sorted").rglob("*.*")
        if path.is_file()
    }
    zipped = {name: archive.read(name) for name in archive.namelist()}
    assert {re.sub("^(given|predicted)/", "", name): content for name, content in zipped.items()} == copied
    assert {name.split("/")[0] for name in zipped} >= {"given", "predicted", "uncertain"}
    assert "given/red%3A %3C1%3E/copy.png" in zipped


def test_images_of_which_nothing_is_known_are_in_the_zip_too(tmp_path: Path) -> None:
    (tmp_path / "labeled").mkdir()
    draw(tmp_path / "pool" / "a.png", COLORS["red"], np.random.default_rng(0))
    session = open_session((tmp_path / "labeled", tmp_path / "pool"))
    archive = zipfile.ZipFile(io.BytesIO(b"".join(to_zip(session))))
    assert archive.namelist() == ["uncertain/a.png"]


def test_what_is_counted_as_uncertain_is_what_the_table_has(session: Session) -> None:
    """Also where a confidence is below the threshold by less than is shown of it."""
    i = row_of(session, "blue-3.png")
    session.precision = float(session.snapshot().confidence[i]) + 1e-7
    session.label([row_of(session, "green-1.png")], to=OUTLIER)
    session.undo()
    said = describe(session, session.snapshot(), "run")
    assert said["uncertain"][i] == 1
    table = b"".join(to_csv(session)).decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    assert sum(said["uncertain"]) == sum(row["verdict"] == "uncertain" for row in rows)


def test_what_is_said_of_an_image_adds_up_to_one_at_most(session: Session) -> None:
    said = describe(session, session.snapshot(), "run")
    for i in np.flatnonzero(session.project.is_pool):
        assert said["probability"][i] + said["runner_up_probability"][i] + said["outlier_probability"][i] in (
            9_999,
            10_000,
            10_001,
        )  # two classes: no others


def test_copies_have_one_label_whatever_is_said_of_one(folders: tuple[Path, Path]) -> None:
    labeled, pool = folders
    shutil.copy(labeled / "red" / "0.png", pool / "copy.png")
    shutil.copy(pool / "green-0.png", pool / "again.png")
    session = open_session(folders)
    original, copy = row_of(session, "red/0.png"), row_of(session, "copy.png")
    green, again = row_of(session, "green-0.png"), row_of(session, "again.png")
    session.add_class("green")
    session.label([again], 2)  # an example of the new class, given by its copy
    shown = session.snapshot()
    assert shown.given[[green, again]].tolist() == [2, 2]
    assert (shown.label[[row_of(session, f"green-{i}.png") for i in range(1, 10)]] == 2).mean() > 0.8
    session.label([original], OUTLIER)
    assert session.snapshot().given[[original, copy]].tolist() == [OUTLIER, OUTLIER]
    session.undo()
    assert session.snapshot().given[[original, copy]].tolist() == [1, 1]
    session.label([copy], 0)
    assert session.snapshot().given[[original, copy]].tolist() == [0, 0]
    session.label([original], CLEAR)
    assert session.snapshot().given[[original, copy]].tolist() == [1, 1]


def test_an_image_in_two_classes_is_refused_with_both_names(folders: tuple[Path, Path]) -> None:
    shutil.copy(folders[0] / "red" / "0.png", folders[0] / "blue" / "same.png")
    with pytest.raises(SalaError, match="are the same image in two classes"):
        open_session(folders)


def test_no_class_is_called_what_outliers_are_called(folders: tuple[Path, Path]) -> None:
    with pytest.raises(SalaError, match="a class cannot be called 'Outlier'"):
        open_session(folders).add_class("Outlier")
    draw(folders[0] / "outlier" / "a.png", COLORS["red"], np.random.default_rng(0))
    with pytest.raises(SalaError, match="reserved"):
        open_project(Places(folders[1], folders[0]))


def test_downloads_say_what_the_page_says(session: Session, port: int) -> None:
    blue = row_of(session, "blue-3.png")
    ask(port, "/api/act", {"do": "label", "items": [blue], "to": 1})
    shown = session.snapshot()
    rows = list(csv.DictReader(io.StringIO(ask(port, "/download/labels.csv").body.decode(), newline="")))
    assert len(rows) == 30
    for row in rows:
        i = row_of(session, Path(row["path"]).name)
        assert row["label"] == shown.names[shown.label[i]]
        assert (row["verdict"] == "rejected") == (shown.placed()[i] == OUTLIER)
    tasks = ask(port, "/download/label-studio.json").json
    (said,) = [task for task in tasks if "annotations" in task]
    assert said["data"]["image"].endswith("blue-3.png")
    assert said["annotations"][0]["result"][0]["value"] == {"choices": ["red"]}
    archive = zipfile.ZipFile(io.BytesIO(ask(port, "/download/sorted.zip").body))
    assert archive.testzip() is None
    assert archive.read("given/red/blue-3.png") == (session.project.path(blue)).read_bytes()
