"""The server and the pool of benchmarks/soak.py: `sala serve` on tiny images with ready features."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parent.parent


class Server:
    """`sala serve`, started again after each kill."""

    def __init__(self, folder: Path):
        self.folder, self.bases = folder, list[int]()  # how many events the state had when each life began
        self.now = -1, 0  # the life, and its port
        self.start()

    @property
    def life(self) -> int:
        return self.now[0]

    def start(self) -> None:
        command = [sys.executable, "-m", "sala", "serve", "labeled", "pool", "--port", "0", "--no-browser"]
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
        self.bases.append(len((self.folder / "state.jsonl").read_bytes().splitlines()) - 1)
        self.now = len(self.bases) - 1, int(line.split("/")[2].rpartition(":")[2])

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


def make_pool(folder: Path, n_images: int, n_classes: int, seed: int) -> None:
    """Tiny images that all differ, and features in groups."""
    rng = np.random.default_rng(seed)
    names = [f"labeled/class-{c:02d}/{i}.png" for c in range(n_classes) for i in range(5)]
    names += [f"pool/{i:06d}.png" for i in range(n_images)]
    for i, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i % 256, i // 256 % 256, i // 65536)).save(folder / name)
    groups = np.concatenate([np.repeat(np.arange(n_classes), 5), rng.integers(0, n_classes * 5 // 4 + 1, n_images)])
    means = 0.35 * rng.normal(size=(n_classes * 5 // 4 + 1, 1280))
    np.save(folder / "features.npy", (means[groups] + rng.normal(size=(len(names), 1280))).astype(np.float32))
    (folder / "features.txt").write_text("\n".join(names) + "\n")
