"""`sala serve` as a command: its options, its end, and kill -9."""

from __future__ import annotations

import http.client
import io
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sala.cli.serve import serve
from sala.errors import SalaError
from sala.labeling.project import OUTLIER
from stress.asking import ask
from tests.helpers.pages import end, start


@pytest.mark.parametrize("wrong", [{"encoder": "nosuch"}, {"host": "192.0.2.1"}])
def test_a_wrong_option_leaves_no_state_behind(folders: tuple[Path, Path], wrong: dict[str, Any]) -> None:
    with pytest.raises(SalaError):
        serve([*folders], **{"port": 0, "browser": False, "encoder": "lite0", **wrong})
    assert not list(folders[1].parent.glob("*.jsonl"))


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    """In a process of its own, since modules are loaded once."""
    said = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True).stdout
    for line, missing in zip(said.splitlines(), ("starlette", "uvicorn"), strict=True):
        assert missing in line and "pip install 'sala[photos]'" in line


WITHOUT = """
import sys
from sala.errors import SalaError
for missing in ("starlette", "uvicorn"):
    sys.modules[missing] = None
    try:
        import sala.web.server
    except SalaError as error:
        print(error)
    del sys.modules[missing]
"""


def test_kill_9_loses_nothing_that_was_shown_as_saved(folders: tuple[Path, Path]) -> None:
    """Labels as fast as they are answered, a kill at any moment, and all that was answered is there again."""
    process, address = start(folders, "--port", "0")
    port = int(address.rstrip("/").rpartition(":")[2])
    saved: list[int] = []

    def click() -> None:
        for i in range(4, 34):
            for to in (OUTLIER, 0, 1) * 4:
                try:
                    answer = ask(port, "/api/act", {"do": "label", "items": [i], "to": to})
                except (OSError, http.client.HTTPException):
                    return
                if answer.status == 200:
                    saved.append(answer.json["saved"])

    clicking = threading.Thread(target=click)
    clicking.start()
    while len(saved) < 40:
        time.sleep(0.005)
    end(process, signal.SIGKILL)
    clicking.join()
    process, address = start(folders, "--port", "0")
    try:
        port = int(address.rstrip("/").rpartition(":")[2])
        state = ask(port, "/api/state").json
        with pytest.raises(AssertionError, match="open in another"):
            start(folders, "--port", "0")
    finally:
        process.send_signal(signal.SIGTERM)
        said = end(process, signal.SIGINT)  # a second signal changes nothing
    assert state["undo"] in (saved[-1], saved[-1] + 1)  # the last one may have been written and not answered
    for k in range(saved[-1] // 12):
        assert state["given"][4 + k] == 1
    assert "going on with" in said and "ended" in said and "Traceback" not in said
    assert process.returncode == 0


def test_how_fast_images_are_embedded_is_shown(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr("sala.cli.console.err", terminal)
    monkeypatch.setattr("sala.cli.serve._serve_until_asked", lambda server: server.close())
    monkeypatch.setattr("torch.set_num_threads", lambda n: None)
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))
    serve([*folders], port=0, encoder="omniglot-sala", browser=False)
    assert re.search(r"34/34.* [1-9]\d* images/s", terminal.file.getvalue())  # type: ignore[attr-defined]
