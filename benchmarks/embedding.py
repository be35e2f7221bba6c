"""Images per second of the embedding pass of `sala label`, and what a busy core costs it.

    python benchmarks/embedding.py photos.zip --before CHECKOUT --onnx lite0.onnx --out results/embedding.json

The first 1,000 JPEGs of a zip or folder, EfficientNet-Lite0, no cache. In turn, several rounds on one machine, each pass in a
process of its own that times itself:

- `now`: `embed_files` of this checkout, as many single-threaded workers as cores;
- `before`: `embed_files` of another checkout, such as a `git worktree` of an earlier commit;
- `onnx`: the same network in onnxruntime, in the same workers (a file made with torch.onnx.export from `load_lite("lite0")`);
- `... busy`: the same while another process keeps one core busy.

Times are compared within a round only: machines are shared, and rounds differ.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path

import numpy as np

from sala.data.files import Tree

HERE = Path(__file__).resolve().parent.parent
PASS = """
import sys, time
from pathlib import Path
from sala.encoders import embed_files, open_encoder
encoder, paths = open_encoder(sys.argv[1]), sorted(Path(sys.argv[2]).glob("*.jpg"))
embed_files(paths[:40], encoder, cache=False)
start = time.perf_counter()
embed_files(paths, encoder, cache=False)
print(len(paths) / (time.perf_counter() - start))
"""


def images_per_second(checkout: Path, encoder: str, folder: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    words = [sys.executable, "-W", "ignore", "-c", PASS, encoder, str(folder)]
    done = subprocess.run(words, env=environment, cwd=checkout, capture_output=True, text=True, check=True)
    return float(done.stdout)


@contextmanager
def busy_core() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def with_settings(onnx: Path, folder: Path) -> str:
    """The same network with the same input: (x - 127) / 128."""
    place = folder / "net.onnx"
    place.write_bytes(onnx.read_bytes())
    (folder / "net.json").write_text(json.dumps({"mean": [127 / 255] * 3, "std": [128 / 255] * 3}))
    return str(place)


def one_round(variants: dict[str, tuple[Path, str]], folder: Path) -> dict[str, float]:
    rates = {}
    for suffix in ("", " busy"):
        for name, (checkout, encoder) in variants.items():
            with busy_core() if suffix else nullcontext():
                rates[name + suffix] = images_per_second(checkout, encoder, folder)
    print({name: round(rate, 1) for name, rate in rates.items()}, file=sys.stderr)
    return rates


def ratios(rounds: list[dict[str, float]]) -> dict[str, list[float]]:
    pairs = [("now", "before"), ("now busy", "now"), ("before busy", "before"), ("onnx", "now")]
    return {f"{a} / {b}": [r[a] / r[b] for r in rounds] for a, b in pairs if a in rounds[0] and b in rounds[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--images", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--onnx", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    tree = Tree(args.photos)
    names = [name for name in tree.files() if name.lower().endswith((".jpg", ".jpeg"))][: args.images]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for i, name in enumerate(names):
            (folder / f"{i:06d}.jpg").write_bytes(tree.read(name))
        variants = {"before": (args.before.resolve(), "lite0")} if args.before else {}
        variants["now"] = HERE, "lite0"
        variants |= {"onnx": (HERE, with_settings(args.onnx, folder))} if args.onnx else {}
        rounds = [one_round(variants, folder) for _ in range(args.rounds)]
    for name, values in ratios(rounds).items():
        print(f"{name}: {np.median(values):.2f} (of {', '.join(f'{v:.2f}' for v in values)})")
    record = {
        "command": " ".join(["python", *sys.argv]), "data": args.photos.name, "images": len(names),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores", "torch": version("torch"),
        "date": time.strftime("%Y-%m-%d"), "images_per_second": rounds, "ratios": ratios(rounds),
    }  # fmt: skip
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
