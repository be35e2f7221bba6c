"""Whether the page keeps its word: many corrections by parallel clients, with kills of the server in between.

    python benchmarks/soak.py --out soak.json

Each client corrects images of its own over HTTP on 127.0.0.1, and after some corrections waits for the new labels, as a page
does: such a request fits anew. The server is `sala serve`, killed (SIGKILL) while the clients are at work and started again
on the same state; its last life is long and tells of memory. At the end the state is compared with what was acknowledged.
The features are made up: 1280 numbers an image, a group for each class, one image in five of none.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

ROOT = Path(__file__).parent.parent
NONE = -2
GOALS = {"p95_ms": 50.0, "memory_growth": 0.10}
KILLED_IN = 0.4  # the share of the corrections in which the kills are; the last life has the others


@dataclass(frozen=True)
class Correction:
    """One that was acknowledged: by which life of the server, as which version of its session, and how fast."""

    client: int
    image: int
    to: int
    life: int
    version: int
    seconds: float


class Server:
    """`sala serve`, started again after each kill."""

    def __init__(self, folder: Path):
        self.folder, self.bases = folder, list[int]()  # how many events the state had when each life began
        self.start()

    @property
    def life(self) -> int:
        return len(self.bases) - 1

    def start(self) -> None:
        command = [sys.executable, "-m", "sala", "serve", "labelled", "pool", "--port", "0", "--no-browser"]
        command += ["--state", "state.jsonl", "--encoder", "features.npy"]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "SALA_CACHE": str(self.folder / "cache")}
        with (self.folder / "stderr.txt").open("a") as errors:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("http://127.0.0.1:"):
            raise SystemExit(f"the server did not start:\n{(self.folder / 'stderr.txt').read_text()}")
        self.port = int(line.split("/")[2].rpartition(":")[2])
        self.bases.append(len((self.folder / "state.jsonl").read_bytes().splitlines()) - 1)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()
        return self.process.returncode

    def resident_mb(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


class Client(threading.Thread):
    """Corrects images of its own, one after the other, over one connection as a browser has it."""

    def __init__(self, soak: Soak, number: int, images: list[int], n: int):
        super().__init__(daemon=True)
        self.soak, self.number, self.images, self.n = soak, number, images, n
        self.random = random.Random(f"{soak.options.seed} {number}")
        self.connection: http.client.HTTPConnection | None = None
        self.connected_to = -1
        self.done: list[Correction] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while len(self.done) < self.n and time.monotonic() < self.soak.deadline:
                self.soak.is_up.wait(timeout=60)
                self.correct()
        except Exception as error:  # told in the main thread
            self.error = error

    def correct(self) -> None:
        life = self.soak.server.life
        image, to = self.random.choice(self.images), self.random.choice([NONE, *range(self.soak.options.classes)])
        try:
            begun = time.perf_counter()
            answer = self.request(life, "/api/act", {"do": "label", "items": [image], "to": to})
            took = time.perf_counter() - begun
            self.done.append(Correction(self.number, image, to, life, answer["saved"], took))
            if self.random.random() < self.soak.options.refresh:
                self.request(life, "/api/state")
        except (OSError, http.client.HTTPException):
            if self.soak.is_up.is_set() and life == self.soak.server.life:
                raise  # nobody killed it
            self.connection = None

    def request(self, life: int, path: str, body: Any = None) -> Any:
        if self.connection is None or self.connected_to != life:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.soak.server.port, timeout=120)
            self.connected_to = life
        origin = f"http://127.0.0.1:{self.connection.port}"
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Origin": origin, "Content-Type": "application/json"}
        self.connection.request("GET" if body is None else "POST", path, content, headers)
        answer = self.connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{path} was answered by {answer.status}: {said[:300]!r}")
        return json.loads(said)


class Soak:
    """All clients, the kills, and what is measured meanwhile."""

    def __init__(self, server: Server, options: argparse.Namespace):
        self.server, self.options = server, options
        self.deadline = time.monotonic() + options.seconds
        self.is_up = threading.Event()
        self.memory: list[tuple[int, float]] = []  # corrections of the last life, resident MB
        n_own, first = options.images // options.clients, options.classes * 5
        share = -(-options.corrections // options.clients)
        self.clients = [  # an image gets about two corrections, so that their order matters
            Client(self, k, list(range(first + k * n_own, first + k * n_own + min(n_own, 1 + share // 2))), share)
            for k in range(options.clients)
        ]

    def n_done(self) -> int:
        return sum(len(client.done) for client in self.clients)

    def run(self) -> None:
        options = self.options
        kills = [int((k + 1) * options.corrections * KILLED_IN / options.kills) for k in range(options.kills)]
        for client in self.clients:
            client.start()
        self.is_up.set()
        while any(client.is_alive() for client in self.clients):
            time.sleep(0.05)
            if kills and self.n_done() >= kills[0]:
                kills.pop(0)
                self.kill_and_start()
            elif not kills:
                n_in_life = sum(c.life == self.server.life for client in self.clients for c in client.done[:])
                self.memory.append((n_in_life, self.server.resident_mb()))
        for client in self.clients:
            if client.error is not None:
                raise client.error

    def kill_and_start(self) -> None:
        self.is_up.clear()
        self.server.kill()
        self.server.start()
        self.is_up.set()


def make_pool(folder: Path, n_images: int, n_classes: int, seed: int) -> None:
    """Tiny images that all differ, and features in groups."""
    rng = np.random.default_rng(seed)
    names = [f"labelled/class-{c:02d}/{i}.png" for c in range(n_classes) for i in range(5)]
    names += [f"pool/{i:06d}.png" for i in range(n_images)]
    for i, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i % 256, i // 256 % 256, i // 65536)).save(folder / name)
    groups = np.concatenate([np.repeat(np.arange(n_classes), 5), rng.integers(0, n_classes * 5 // 4 + 1, n_images)])
    means = 0.35 * rng.normal(size=(n_classes * 5 // 4 + 1, 1280))
    np.save(folder / "features.npy", (means[groups] + rng.normal(size=(len(names), 1280))).astype(np.float32))
    (folder / "features.txt").write_text("\n".join(names) + "\n")


def problems(soak: Soak, state: Path) -> list[str]:
    """What was acknowledged and is not in the state, or is not where its version says."""
    events = [json.loads(line) for line in state.read_bytes().splitlines()][1:]
    first, found, taken = soak.options.classes * 5, [], set[int]()
    for client in soak.clients:
        last = -1
        for done in client.done:
            at = soak.server.bases[done.life] + done.version - 1
            key = f"pool/{done.image - first:06d}.png"
            to = "none" if done.to == NONE else f"folder/class-{done.to:02d}"
            if at >= len(events) or (events[at]["items"], events[at]["to"]) != ([key], to):
                found.append(f"{done} is not event {at} of the state")
            if at <= last or at in taken:
                found.append(f"{done} is out of order")
            taken.add(at)
            last = at
    n_more = len(events) - len(taken)  # on disk when the kill came, not yet acknowledged: one a client at most
    if n_more > soak.options.kills * soak.options.clients:
        found.append(f"the state has {n_more} events that nobody acknowledged")
    return found


def wrong_labels(soak: Soak, state: Path) -> list[str]:
    """Images whose label, as the server has it at the end, is not that of their last event."""
    given = soak.clients[0].request(soak.server.life, "/api/state")["given"]
    first = soak.options.classes * 5
    last = {}
    for event in [json.loads(line) for line in state.read_bytes().splitlines()][1:]:
        row = first + int(event["items"][0].removeprefix("pool/").removesuffix(".png"))
        last[row] = NONE if event["to"] == "none" else int(event["to"].rpartition("-")[2])
    return [f"image {row} is {given[row]}, its last label was {to}" for row, to in last.items() if given[row] != to]


def growth(memory: list[tuple[int, float]], n_warm: int) -> tuple[float, float]:
    """Resident MB after the warm-up and at the end: medians of a tenth of the samples each."""
    warm = [mb for n, mb in memory if n >= n_warm]
    tenth = max(1, len(warm) // 10)
    return float(np.median(warm[:tenth])), float(np.median(warm[-tenth:]))


def main() -> int:
    options = parse()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_pool(folder, options.images, options.classes, options.seed)
        server = Server(folder)
        try:
            soak = Soak(server, options)
            soak.run()
            wrong = problems(soak, folder / "state.jsonl") + wrong_labels(soak, folder / "state.jsonl")
            ended = server.end()
        finally:
            if server.process.poll() is None:
                server.kill()
    result = measured(soak, wrong, time.perf_counter() - begun) | {"server_ended_with": ended}
    tell(result)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["passed"] else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=9)
    parser.add_argument("--corrections", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=8, choices=range(1, 65), metavar="1..64")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument(
        "--refresh", type=float, default=0.25, help="share of corrections after which labels are waited for"
    )
    parser.add_argument(
        "--warm-up", type=int, default=300, help="corrections of the last life before memory is compared"
    )
    parser.add_argument("--seconds", type=float, default=3600, help="no correction begins after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    return parser.parse_args()


def measured(soak: Soak, wrong: list[str], seconds: float) -> dict[str, Any]:
    took = [1000 * done.seconds for client in soak.clients for done in client.done]
    before, after = growth(soak.memory, soak.options.warm_up)
    p50, p95, p99 = (round(float(np.percentile(took, q)), 1) for q in (50, 95, 99))
    is_whole = not wrong and len(took) >= soak.options.corrections
    return {
        "command": "python " + " ".join(sys.argv),
        "seed": soak.options.seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}",
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "acknowledged": len(took),
        "lives": soak.server.life + 1,
        "missing_or_out_of_order": wrong,
        "save_ms": {"p50": p50, "p95": p95, "p99": p99, "max": round(max(took), 1)},
        "memory_mb": {"after_warm_up": round(before, 1), "end": round(after, 1)},
        "memory_growth": round(after / before - 1, 4),
        "seconds": round(seconds, 1),
        "goals": GOALS,
        "passed": is_whole and p95 < GOALS["p95_ms"] and after / before - 1 <= GOALS["memory_growth"],
    }


def tell(result: dict[str, Any]) -> None:
    wrong = result["missing_or_out_of_order"]
    rows = [
        ("corrections acknowledged", f"{result['acknowledged']:,} in {result['lives']} lives of the server"),
        ("missing or out of order", f"{len(wrong):,}"),
        ("saving, ms", ", ".join(f"{name} {ms:g}" for name, ms in result["save_ms"].items())),
        ("memory, MB", f"{result['memory_mb']['after_warm_up']:g} -> {result['memory_mb']['end']:g}"),
        ("memory growth", f"{100 * result['memory_growth']:+.1f} %"),
        ("all goals met", "yes" if result["passed"] else "NO"),
    ]
    for name, value in rows:
        print(f"{name:26} {value}")
    for sentence in wrong[:5]:
        print(f"  {sentence}")


if __name__ == "__main__":
    sys.exit(main())
