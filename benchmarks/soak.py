"""Whether the page keeps its word: many corrections by parallel clients, with kills of the server in between.

    python benchmarks/soak.py --out soak.json

Each client corrects images of its own over HTTP on 127.0.0.1, and after some corrections waits for the new labels, as a page
does: such a request fits anew. The server is `sala serve`, killed (SIGKILL) while the clients are at work and started again
on the same state; its last life is long and tells of memory. At the end the state is compared with what was acknowledged.
The features are synthetic: 1280 numbers an image, one group per class, one image in five an outlier.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from soak_server import Server, make_pool

OUTLIER = -2
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
        life, port = self.soak.server.now
        image, to = self.random.choice(self.images), self.random.choice([OUTLIER, *range(self.soak.options.classes)])
        try:
            begun = time.perf_counter()
            answer = self.request(life, port, "/api/act", {"do": "label", "items": [image], "to": to})
            took = time.perf_counter() - begun
            self.done.append(Correction(self.number, image, to, life, answer["saved"], took))
            if self.random.random() < self.soak.options.refresh:
                self.request(life, port, "/api/state")
        except (OSError, http.client.HTTPException):
            if self.soak.is_up.is_set() and life == self.soak.server.life:
                raise  # nobody killed it
            self.connection = None

    def request(self, life: int, port: int, path: str, body: Any = None) -> Any:
        if self.connection is None or self.connected_to != life:
            self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            self.connected_to = life
        origin = f"http://127.0.0.1:{port}"
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

    def key(self, image: int) -> str:
        """What the state calls it."""
        return f"pool/{image - self.options.classes * 5:06d}.png"

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


def problems(soak: Soak, events: list[dict[str, Any]]) -> list[str]:
    """What was acknowledged and is not in the state, or is not where its version says."""
    found, taken = [], set[int]()
    for client in soak.clients:
        last = -1
        for done in client.done:
            at = soak.server.bases[done.life] + done.version - 1
            to = "outlier" if done.to == OUTLIER else f"folder/class-{done.to:02d}"
            if at >= len(events) or (events[at]["items"], events[at]["to"]) != ([soak.key(done.image)], to):
                found.append(f"{done} is not event {at} of the state")
            if at <= last or at in taken:
                found.append(f"{done} is out of order")
            taken.add(at)
            last = at
    n_more = len(events) - len(taken)  # on disk when the kill came, not yet acknowledged: one a client at most
    if n_more > soak.options.kills * soak.options.clients:
        found.append(f"the state has {n_more} events that nobody acknowledged")
    return found


def wrong_labels(soak: Soak, events: list[dict[str, Any]]) -> list[str]:
    """Images whose label, as the server has it at the end, is not that of their last event."""
    soak.clients[0].connection = None  # the server has closed one that was idle for long
    given = soak.clients[0].request(*soak.server.now, "/api/state")["given"]
    last = {event["items"][0]: event["to"] for event in events}
    labels = {soak.key(i): "outlier" if c == OUTLIER else f"folder/class-{c:02d}" for i, c in enumerate(given)}
    return [f"{key} is {labels[key]}, its last label was {to}" for key, to in last.items() if labels[key] != to]


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
            events = [json.loads(line) for line in (folder / "state.jsonl").read_bytes().splitlines()[1:]]
            wrong = problems(soak, events) + wrong_labels(soak, events)
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
    wrong, memory = result["missing_or_out_of_order"], result["memory_mb"]
    print(f"corrections acknowledged   {result['acknowledged']:,} in {result['lives']} lives of the server")
    print(f"missing or out of order    {len(wrong):,}")
    print(f"saving, ms                 {', '.join(f'{name} {ms:g}' for name, ms in result['save_ms'].items())}")
    print(
        f"memory, MB                 {memory['after_warm_up']:g} -> {memory['end']:g} ({result['memory_growth']:+.1%})"
    )
    print(f"all goals met              {'yes' if result['passed'] else 'NO'}")
    for sentence in wrong[:5]:
        print(f"  {sentence}")


if __name__ == "__main__":
    sys.exit(main())
