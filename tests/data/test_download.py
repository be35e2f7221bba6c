"""Downloads, against a real server on this machine that can be told to misbehave."""

from __future__ import annotations

import hashlib
import http.server
import io
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sala.cli.app import main
from sala.data import download as fetch_module
from sala.data import omniglot
from sala.data.download import CHUNK, Download, fetch
from sala.errors import SalaError

CONTENT = bytes(range(256)) * 1024  # 256 KiB: several chunks
FILE = Download("a.zip", hashlib.md5(CONTENT).hexdigest())


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; may hide the length, cut the next answers after so many bytes, or send elsewhere."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {FILE.name: CONTENT}
        self.tells_length, self.elsewhere = True, ""
        self.cuts: list[int] = []
        self.n_asked = 0
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.n_asked += 1
        content = server.files.get(self.path.rpartition("/")[2])
        if content is None:
            return self.send_error(404)
        if server.elsewhere:
            self.send_response(302)
            self.send_header("Location", server.elsewhere)
            return self.end_headers()
        self.send_response(200)
        if server.tells_length:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: server.cuts.pop(0)] if server.cuts else content)
        return None

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(fetch_module, "N_RETRIES", 0)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_whole_and_alone(server: Server, tmp_path: Path) -> None:
    fetch((FILE,), server.url, tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / FILE.name).read_bytes() == CONTENT
    assert names(tmp_path / "new" / "folder") == [FILE.name]


def test_a_slash_at_the_end_of_the_address_does_not_matter(server: Server, tmp_path: Path) -> None:
    fetch((FILE,), server.url + "/some/folder/", tmp_path)
    assert names(tmp_path) == [FILE.name]


def test_progress_counts_the_bytes(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    fetch((FILE,), server.url, tmp_path, lambda *report: seen.append(report))
    assert seen[-1] == (FILE.name, len(CONTENT), len(CONTENT)) and len(seen) >= len(CONTENT) // CHUNK


def test_what_is_there_and_right_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    fetch((FILE,), server.url, tmp_path)
    fetch((FILE,), server.url, tmp_path)
    assert server.n_asked == 1


def test_what_is_there_and_wrong_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / FILE.name).write_bytes(b"<html>")
    fetch((FILE,), server.url, tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


def test_a_cut_connection_is_tried_once_more(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "N_RETRIES", 1)
    server.cuts = [100_000]
    fetch((FILE,), server.url, tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT and server.n_asked == 2


def test_a_server_that_gives_up_leaves_nothing_and_the_next_time_begins_anew(server: Server, tmp_path: Path) -> None:
    server.cuts = [100_000]
    with pytest.raises(SalaError, match="cannot be fetched"):
        fetch((FILE,), server.url, tmp_path)
    assert names(tmp_path) == []
    fetch((FILE,), server.url, tmp_path)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


def test_a_file_without_announced_length_arrives(server: Server, tmp_path: Path) -> None:
    server.tells_length = False
    fetch((FILE,), server.url, tmp_path)
    assert names(tmp_path) == [FILE.name]


def test_a_wrong_checksum_is_told_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.files[FILE.name] = b"something else" * 1000
    with pytest.raises(SalaError, match="is not the official file"):
        fetch((FILE,), server.url, tmp_path)
    assert names(tmp_path) == []


def test_a_file_that_is_not_on_the_server_is_told(server: Server, tmp_path: Path) -> None:
    with pytest.raises(SalaError, match="404"):
        fetch((Download("b.zip", FILE.md5),), server.url, tmp_path)
    assert names(tmp_path) == []


def test_a_server_that_is_not_there_is_told(server: Server, tmp_path: Path) -> None:
    server.server_close()
    with pytest.raises(SalaError, match="cannot be fetched"):
        fetch((FILE,), server.url, tmp_path)


@pytest.mark.parametrize("length_told", [True, False])
def test_more_bytes_than_any_official_file_are_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length_told: bool
) -> None:
    monkeypatch.setattr(fetch_module, "MAX_BYTES", 1 << 16)
    server.tells_length = length_told
    with pytest.raises(SalaError, match="larger than"):
        fetch((FILE,), server.url, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "url", ["file:///etc", "ftp://host", "http://example.org", "http://127.0.0.1.evil.org", "", "a"]
)
def test_an_address_that_is_not_https_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SalaError, match="https://"):
        fetch((FILE,), url, tmp_path)


def test_a_redirect_to_an_address_that_is_not_https_is_refused(server: Server, tmp_path: Path) -> None:
    server.elsewhere = "http://example.org/a.zip"
    with pytest.raises(SalaError, match="https://"):
        fetch((FILE,), server.url, tmp_path)
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written_is_told(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SalaError, match="cannot be written"):
        fetch((FILE,), server.url, tmp_path / "file")


# the command

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """`sala data fetch ...` with a cache of its own: exit code, stdout, stderr."""
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sala", "data", "fetch", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err.strip()

    return command


def small_part(part: str, character: str) -> bytes:
    image, file = io.BytesIO(), io.BytesIO()
    Image.new("1", (105, 105), 1).save(image, "PNG")
    with zipfile.ZipFile(file, "w") as archive:
        for k in (1, 2):
            archive.writestr(f"{part}/{character}/000{k}.png", image.getvalue())
    return file.getvalue()


@pytest.fixture
def small_omniglot(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with an Omniglot of two characters, whose checksums are taken for the official ones."""
    server.files = {
        "images_background.zip": small_part("images_background", "Latin/character01"),
        "images_evaluation.zip": small_part("images_evaluation", "Hebrew/character01"),
    }
    official = tuple(Download(name, hashlib.md5(content).hexdigest()) for name, content in server.files.items())
    monkeypatch.setattr(fetch_module, "OMNIGLOT", official)
    monkeypatch.setattr(omniglot, "N_CHARACTERS", 2)
    monkeypatch.setattr(omniglot, "N_DRAWINGS", 2)
    return server


def test_fetched_omniglot_is_prepared_and_described(small_omniglot: Server, tmp_path: Path, run: Run) -> None:
    code, printed, _ = run("omniglot", "--url", small_omniglot.url)
    assert code == 0
    assert names(tmp_path / "cache" / "downloads" / "omniglot") == ["images_background.zip", "images_evaluation.zip"]
    assert "omniglot: 28 x 28 pixels, gray" in printed and "content hash" in printed
    assert ["train", "4", "8", "2"] in [line.split() for line in printed.splitlines()]


def test_out_says_where_the_files_go(small_omniglot: Server, tmp_path: Path, run: Run) -> None:
    assert run("omniglot", "--url", small_omniglot.url, "--out", str(tmp_path / "here"))[0] == 0
    assert names(tmp_path / "here") == ["images_background.zip", "images_evaluation.zip"]


def test_files_that_are_not_omniglot_end_in_one_sentence(server: Server, tmp_path: Path, run: Run) -> None:
    server.files["images_background.zip"] = b"<html>"
    code, printed, told = run("omniglot", "--url", server.url)
    assert (code, printed) == (1, "")
    assert told.startswith("error: http://127.0.0.1") and "is not the official file" in told and "\n" not in told
    assert names(tmp_path / "cache" / "downloads" / "omniglot") == []


@pytest.mark.parametrize("dataset", ["miniimagenet", "tieredimagenet", "tiny-tiered", "folder"])
def test_a_dataset_that_cannot_be_fetched_says_how_to_get_it(dataset: str, run: Run) -> None:
    code, _, told = run(dataset)
    assert code == 1 and told.startswith(f"error: {dataset} cannot be fetched: ")
    assert told.endswith(f"then run `sala data prepare {dataset} --root PATH`")


def test_the_built_in_letters_need_no_fetching(run: Run) -> None:
    code, _, told = run("glyphs")
    assert code == 1 and "built in" in told


def test_a_dataset_that_is_none_is_told(run: Run) -> None:
    assert "imagenet" in run("imagenet")[2]
