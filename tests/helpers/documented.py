"""Code of the pages, for fewer episodes and less data than a reader takes; and commands as a shell runs them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LONGEST = 10  # lines of an example
FENCE = re.compile(r"^```(\w+)(?: title=\"([\w.]+)\")?\n(.*?)^```", re.DOTALL | re.MULTILINE)
LEFT_TO_READERS = ("pip ", "make ", "sala serve ", "tensorboard ")  # what installs, or waits for a user
LESS = {
    "range(30 if": "range(6 if",
    "n_episodes=2_000, validate_every=100": "n_episodes=4, validate_every=2",
    "m, val, 100": "m, val, 3",
    'budget("cpu", 500)': 'budget("cpu", 4)',
    "== 200)": "== 2)",
    "n_episodes=500": "n_episodes=6",
    "n_episodes=200": "n_episodes=6",
    "--episodes 1000": "--episodes 6",
    "--episodes 500": "--episodes 6",
    "--episodes 300": "--episodes 6 --threads 1",
    "--episodes 600": "--episodes 8",
}


class Block(NamedTuple):
    """Fenced code of a page."""

    language: str
    title: str
    body: str

    @property
    def n_lines(self) -> int:
        return len([line for line in self.body.splitlines() if line.strip()])


def blocks(page: str, language: str | None = None) -> list[Block]:
    """The code of a page, or that of one language."""
    found = [Block(*parts) for parts in FENCE.findall((ROOT / page).read_text(encoding="utf-8"))]
    return [_shorter(block) for block in found if language in (None, block.language)]


def _shorter(block: Block) -> Block:
    body = block.body
    for much, less in LESS.items():
        body = body.replace(much, less)
    return block._replace(body=body)


def run_page(page: str, folder: Path) -> str:
    """All blocks of a page in their order: files with a title are written, commands and Python run. Gives what was printed."""
    printed, session = "", ""
    for block in blocks(page):
        if block.title:
            (folder / block.title).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            session += block.body
        elif block.language == "console":
            printed += "".join(run(words, folder) for words in commands_of(block.body))
    return printed + (run_python(session, folder) if session else "")


def run_python(code: str, folder: Path) -> str:
    """What a script prints; warnings are errors."""
    (folder / "session.py").write_text(code, encoding="utf-8")
    return run([sys.executable, "-W", "error", "session.py"], folder)


def commands_of(block: str) -> list[list[str]]:
    lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    python = {"sala": [sys.executable, "-m", "sala"], "python": [sys.executable]}
    found = []
    for line in lines:
        if not line.startswith(LEFT_TO_READERS) and "--state" not in line:
            first, *words = shlex.split(line, comments=True)
            found.append([*python.get(first, [first]), *words])
    return found


def run(command: list[str], folder: Path) -> str:
    """What a command prints; after `>` it goes to a file, as in a shell."""
    if ">" in command:
        (folder / command[-1]).write_text(run(command[:-2], folder), encoding="utf-8")
        return ""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return done.stdout
