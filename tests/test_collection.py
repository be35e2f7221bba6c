"""Folders of any kind on the page, and its downloads."""

from __future__ import annotations

import csv
import io
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from pages import COLOURS, HOSTILE, MeanColour, ask, draw, open_session, row_of, running
from PIL import Image

from sala.collection import list_images
from sala.downloads import _pool, member_name, to_csv, to_zip, words
from sala.errors import SalaError
from sala.labelling import label_folders, sort_copies, write_rows
from sala.labelling.folders import as_text
from sala.messages import describe
from sala.session import CLEAR, NONE, UNKNOWN, Session


def test_links_out_of_the_folders_are_never_served(folders: tuple[Path, Path], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    draw(secret / "s.png", (1, 2, 3), np.random.default_rng(0))
    (folders[1] / "link.png").symlink_to(secret / "s.png")
    (folders[1] / "dir").symlink_to(secret)
    session = open_session(folders)
    assert len(session.collection.items) == 34 and len(session.collection.set_aside) == 2
    changed = folders[1] / "red-0.png"  # a link that is put there while the server runs
    changed.unlink()
    changed.symlink_to(secret / "s.png")
    with running(session) as server:
        assert ask(server.server_port, f"/thumb/{row_of(session, 'red-0.png')}").status == 404
        archive = zipfile.ZipFile(io.BytesIO(ask(server.server_port, "/download/sorted.zip").body))
        assert not [name for name in archive.namelist() if name.endswith("red-0.png")]


def test_a_pipe_in_the_place_of_an_image_is_not_waited_for(folders: tuple[Path, Path]) -> None:
    session = open_session(folders)
    changed = folders[1] / "red-0.png"
    changed.unlink()
    os.mkfifo(changed)
    with pytest.raises(SalaError, match="is not a file"):
        session.collection.read(row_of(session, "red-0.png"))


def test_names_of_any_kind_arrive_as_they_are(folders: tuple[Path, Path]) -> None:
    rng = np.random.default_rng(0)
    names = [name.replace("/", "∕") + ".png" for name in HOSTILE]
    for name in names:
        draw(folders[1] / name, COLOURS["red"], rng)
    draw(folders[0] / "<img src=x>\n" / "0.png", COLOURS["green"], rng)
    session = open_session(folders)
    with running(session) as server:
        port = server.server_port
        assert set(names) <= set(ask(port, "/api/items").json["names"])
        assert (
            ask(port, "/api/act", {"do": "label", "items": [row_of(session, name) for name in names], "to": 0}).status
            == 200
        )
        table = ask(port, "/download/labels.csv").body.decode()
        rows = {row["path"]: row for row in csv.DictReader(io.StringIO(table, newline=""))}
        shown = [rows["./" + name if name.startswith("=") else as_text(name)] for name in names]
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


def test_files_that_are_no_images_are_set_aside(folders: tuple[Path, Path]) -> None:
    (folders[1] / "empty.png").write_bytes(b"")
    (folders[1] / "page.jpg").write_bytes(b"<script>alert(1)</script>")
    (folders[1] / "notes.txt").write_text("not an image")
    session = open_session(folders)
    assert len(session.collection.items) == 34 and len(session.collection.set_aside) == 2


def test_the_page_and_the_command_say_the_same(folders: tuple[Path, Path]) -> None:
    """Also of hidden folders, odd formats and copies of labelled images."""
    labelled, pool = folders
    rng = np.random.default_rng(1)
    for place in (labelled / ".checkpoints" / "a.png", pool / ".thumbs" / "b.png"):
        draw(place, COLOURS["red"], rng)
    (pool / "photo.heic").write_bytes(b"not read")
    shutil.copy(labelled / "red" / "0.png", pool / "copy.png")
    shutil.copy(labelled / "red" / "0.png", labelled / "red" / "twice.png")
    Image.open(pool / "green-0.png").save(pool / "green.jfif", "JPEG")
    for i in range(8):
        shutil.copy(pool / "red-1.png", pool / f"red-1-again-{i}.png")
    session = open_session(folders)
    shown = session.snapshot()
    by_command = label_folders(labelled, pool, MeanColour())
    assert session.collection.classes == by_command.model.classes
    assert set(session.collection.set_aside) == set(by_command.set_aside.values())
    verdicts = {Path(session.collection.items[i].path).name: words(shown)[i] for i in _pool(session.collection)}
    assert verdicts.pop("copy.png") == "given"
    found = {row.path.name: row for row in by_command.rows()}
    assert found.pop("copy.png").probability == 1.0
    assert verdicts == {name: row.verdict for name, row in found.items()} and "green.jfif" in verdicts
    for name, row in found.items():
        i = row_of(session, name)
        assert shown.probability[i] == pytest.approx(row.probability, abs=1e-5)
        assert shown.none_score[i] == pytest.approx(row.none_of_these, abs=1e-5)


def with_copies(folders: tuple[Path, Path]) -> None:
    """Copies of a labelled image and of one in the pool, also under a name that is taken."""
    labelled, pool = folders
    shutil.copy(labelled / "red" / "0.png", pool / "copy.png")
    (pool / "more").mkdir()
    shutil.copy(pool / "red-1.png", pool / "more" / "red-1.png")
    shutil.copy(pool / "red-2.png", pool / "more" / "red-3.png")


def test_the_table_is_that_of_the_command_but_for_what_is_given(folders: tuple[Path, Path]) -> None:
    with_copies(folders)
    session = open_session(folders)
    table = b"".join(to_csv(session.collection, session.snapshot())).decode()
    file = io.StringIO()
    write_rows(label_folders(*folders, MeanColour()).rows(), file, "csv", ())
    ours, theirs = (list(csv.DictReader(io.StringIO(text))) for text in (table, file.getvalue()))
    for row in theirs:
        row["path"] = Path(row["path"]).relative_to(folders[1]).as_posix()
        row["verdict"] = "given" if row["path"] == "copy.png" else row["verdict"]
    assert ours == theirs


def test_what_the_user_says_has_the_best_other_class_as_its_runner_up(session: Session) -> None:
    session.add_class("green")
    session.label([row_of(session, "green-0.png")], to=2)
    blue = row_of(session, "blue-0.png")
    session.label([blue], to=1)  # which is red
    table = b"".join(to_csv(session.collection, session.snapshot())).decode()
    rows = {row["path"]: row for row in csv.DictReader(io.StringIO(table))}
    assert (rows["blue-0.png"]["label"], rows["blue-0.png"]["runner_up"]) == ("red", "blue")
    assert all(row["runner_up"] not in ("", row["label"]) for row in rows.values())


def test_a_single_class_has_no_runner_up(session: Session) -> None:
    session.label([0, 1], to=NONE)  # all of blue
    shown = session.snapshot()
    assert (shown.runner_up == UNKNOWN).all() and (shown.second == 0).all()


def test_the_zip_has_the_folders_and_files_of_copy_to(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with_copies(folders)
    (folders[0] / "red").rename(folders[0] / "red: <1>")
    session = open_session(folders)
    first = session.snapshot()
    precision = float(
        np.median(first.confidence[(first.given == UNKNOWN) & ~first.is_junk])
    )  # half of them are doubtful
    session.precision = precision
    session.add_class("not used")  # so that it fits anew
    archive = zipfile.ZipFile(io.BytesIO(b"".join(to_zip(session.collection, session.snapshot()))))
    labelling = label_folders(*folders, MeanColour(), precision=precision)
    sort_copies(labelling.rows(), tmp_path / "sorted")
    copied = {
        path.relative_to(tmp_path / "sorted").as_posix(): path.read_bytes()
        for path in (tmp_path / "sorted").rglob("*.*")
        if path.is_file()
    }
    assert {name: archive.read(name) for name in archive.namelist()} == copied
    assert {name.split("/")[0] for name in copied} >= {"red%3A %3C1%3E", "doubtful"}


def test_images_of_which_nothing_is_known_are_in_the_zip_too(tmp_path: Path) -> None:
    (tmp_path / "labelled").mkdir()
    draw(tmp_path / "pool" / "a.png", COLOURS["red"], np.random.default_rng(0))
    session = open_session((tmp_path / "labelled", tmp_path / "pool"))
    archive = zipfile.ZipFile(io.BytesIO(b"".join(to_zip(session.collection, session.snapshot()))))
    assert archive.namelist() == ["doubtful/a.png"]


def test_what_is_counted_as_doubtful_is_what_the_table_has(session: Session) -> None:
    """Also where a confidence is below what is sure by less than is shown of it."""
    i = row_of(session, "blue-3.png")
    session.precision = float(session.snapshot().confidence[i]) + 1e-7
    session.label([row_of(session, "green-1.png")], to=NONE)
    session.undo()
    said = describe(session, session.snapshot(), "run")
    assert said["doubtful"][i] == 1
    table = b"".join(to_csv(session.collection, session.snapshot())).decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    assert sum(said["doubtful"]) == sum(row["verdict"] == "doubtful" for row in rows)


def test_what_is_said_of_an_image_adds_up_to_one_at_most(session: Session) -> None:
    said = describe(session, session.snapshot(), "run")
    for i in _pool(session.collection):
        assert said["sure"][i] + said["second"][i] + said["none"][i] in (
            9_999,
            10_000,
            10_001,
        )  # two classes: no others


def test_copies_have_one_label_whatever_is_said_of_one(folders: tuple[Path, Path]) -> None:
    labelled, pool = folders
    shutil.copy(labelled / "red" / "0.png", pool / "copy.png")
    shutil.copy(pool / "green-0.png", pool / "again.png")
    session = open_session(folders)
    original, copy = row_of(session, "red/0.png"), row_of(session, "copy.png")
    green, again = row_of(session, "green-0.png"), row_of(session, "again.png")
    session.add_class("green")
    session.label([again], 2)  # an example of the new class, given by its copy
    shown = session.snapshot()
    assert shown.given[[green, again]].tolist() == [2, 2]
    assert (shown.label[[row_of(session, f"green-{i}.png") for i in range(1, 10)]] == 2).mean() > 0.8
    session.label([original], NONE)
    assert session.snapshot().given[[original, copy]].tolist() == [NONE, NONE]
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


def test_no_class_is_called_what_junk_is_called(folders: tuple[Path, Path]) -> None:
    with pytest.raises(SalaError, match="a class cannot be called 'None of these'"):
        open_session(folders).add_class("None of these")
    draw(folders[0] / "none of these" / "a.png", COLOURS["red"], np.random.default_rng(0))
    with pytest.raises(SalaError, match="these need no examples: leave them in the pool"):
        list_images(*folders)


def test_downloads_say_what_the_page_says(session: Session, port: int) -> None:
    blue = row_of(session, "blue-3.png")
    ask(port, "/api/act", {"do": "label", "items": [blue], "to": 1})
    shown = session.snapshot()
    rows = list(csv.DictReader(io.StringIO(ask(port, "/download/labels.csv").body.decode(), newline="")))
    assert len(rows) == 30
    for row in rows:
        i = row_of(session, row["path"])
        assert row["label"] == shown.names[shown.label[i]]
        assert (row["verdict"] == "none-of-these") == (shown.verdict()[i] == NONE)
    tasks = ask(port, "/download/label-studio.json").json
    (said,) = [task for task in tasks if "annotations" in task]
    assert said["data"]["image"].endswith("blue-3.png")
    assert said["annotations"][0]["result"][0]["value"] == {"choices": ["red"]}
    archive = zipfile.ZipFile(io.BytesIO(ask(port, "/download/sorted.zip").body))
    assert archive.testzip() is None
    assert archive.read("red/blue-3.png") == (session.collection.path(blue)).read_bytes()
