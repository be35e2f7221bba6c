"""What the page costs: opening, labeling, scrolling and memory, of `sala serve` in a process of its own and Chromium.

    python benchmarks/page.py prepare --images 10000 --folder made-up             # once; draws images, writes features
    python benchmarks/page.py measure --folder made-up --out results/page.json    # adds a row to the file

Images and features are made up: 1280 numbers an image, one group per class and a quarter as many groups of outliers; a
thousand pictures of random colors, each in many files. The features are read from a file, as those in the cache are.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from sala.atomic import write_json

ROOT = Path(__file__).parent.parent
N_FEATURES, N_EXAMPLES = 1280, 5
SIZE = {"width": 1400, "height": 860}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["prepare", "measure"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=9)
    parser.add_argument("--clicks", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.do == "prepare":
        prepare(options.folder, options.images, options.classes)
        return
    row = measure(options.folder, options.clicks)
    print(json.dumps(row, indent=1))
    if options.out:
        kept = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
        rows = [other for other in kept if other["images"] != row["images"]] + [row]
        write_json(options.out, {"rows": sorted(rows, key=lambda each: int(each["images"]))})


def prepare(folder: Path, n_images: int, n_classes: int) -> None:
    """Images on disk, and their features in a file that --encoder takes."""
    random = np.random.default_rng(0)
    examples = [folder / "labeled" / f"class-{c:02d}" / f"{i}.jpg" for c in range(n_classes) for i in range(N_EXAMPLES)]
    paths = [*examples, *(folder / "pool" / f"{i:06d}.jpg" for i in range(n_images))]
    pictures = [picture(random) for _ in range(1000)]
    for i, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pictures[i % len(pictures)] + i.to_bytes(8))  # behind a JPEG's end: no two files are copies
    n_groups = n_classes + max(1, n_classes // 4)
    groups = np.concatenate([np.repeat(np.arange(n_classes), N_EXAMPLES), random.integers(0, n_groups, n_images)])
    means = 0.35 * random.standard_normal((n_groups, N_FEATURES), np.float32)
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, (len(paths), N_FEATURES))
    for rows in np.array_split(np.arange(len(paths)), max(1, len(paths) // 5000)):
        features[rows] = means[groups[rows]] + random.standard_normal((len(rows), N_FEATURES), np.float32)
    features.flush()
    (folder / "features.txt").write_text("".join(f"{path.resolve()}\n" for path in paths))


def picture(random: np.random.Generator) -> bytes:
    colors, buffer = random.integers(0, 256, (3, 4, 3), dtype=np.uint8), io.BytesIO()
    Image.fromarray(colors).resize((240, 180), Image.Resampling.BILINEAR).save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def measure(folder: Path, n_clicks: int) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT))
    from tests.helpers.browser import chromium

    (folder / "state.jsonl").unlink(missing_ok=True)
    before = os.getloadavg()[0]
    with served(folder) as (server, address, started), chromium() as browser:
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(120_000)
        opened = opening(page, address)
        clicks = [page.evaluate(SEEN, str(i % 3 + 4)) / 1000 for i in range(n_clicks)]
        page.click('[data-view="all"]')
        page.wait_for_selector(".tile")
        scrolled = page.evaluate(SCROLL)
        page.click('[data-view="map"]')
        begun = time.perf_counter()
        page.wait_for_selector("#map-wait", state="hidden")
        mapped = time.perf_counter() - begun
        return {
            "images": len((folder / "features.txt").read_text().splitlines()) - len(list(folder.glob("labeled/*/*"))),
            "classes": len(list(folder.glob("labeled/*"))),
            "command_to_address_seconds": round(started, 2),
            **opened,
            "click_seconds": round(statistics.median(clicks), 3),
            "click_seconds_worst": round(max(clicks), 3),
            **{name: round(value, 1) for name, value in scrolled.items()},
            "map_seconds": round(mapped, 2),
            "server_mib": megabytes(server.pid, "VmRSS"),
            "server_peak_mib": megabytes(server.pid, "VmHWM"),
            "browser_mib": sum(map(proportional, descendants(os.getpid(), but=server.pid))),
            "load_before": round(before, 1),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
            f"torch {torch.__version__}, Chromium {browser.version}",
        }


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """The process, the address, and the seconds from the command to the address."""
    command = [sys.executable, "-m", "sala", "serve", "labeled", "pool", "--encoder", "features.npy"]
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--state", "state.jsonl", "--port", "0", "--no-browser"],
        cwd=folder, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        found = (re.search(r"http://\S+", line) for line in process.stdout)
        address = next(match[0] for match in found if match)
        yield process, address, time.perf_counter() - begun
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def opening(page: Any, address: str) -> dict[str, float]:
    """Seconds from the address to the first paint, to labeled tiles, and to all pictures in sight."""
    begun = time.perf_counter()
    page.goto(f"{address}#suggestions")
    page.wait_for_selector("body[data-ready]")
    ready = time.perf_counter() - begun
    page.wait_for_function("() => [...document.querySelectorAll('.tile img')].every((each) => each.complete)")
    pictured = time.perf_counter() - begun
    painted = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
    named = {"first_paint_seconds": painted, "labels_seconds": ready, "pictures_seconds": pictured}
    return {name: round(value, 2) for name, value in named.items()}


def megabytes(pid: int, what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def proportional(pid: int) -> int:
    """MiB of a process, in which memory shared by n processes counts 1/n."""
    found = re.search(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())
    assert found is not None
    return int(found[1]) // 1024


def descendants(pid: int, but: int) -> list[int]:
    """Processes that this one started, that is Chromium's and its driver's."""
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [each for child in children if child != but for each in (child, *descendants(child, but))]


# milliseconds from a key until a frame has been drawn after the page has taken the new labels
SEEN = """(key) => new Promise((done, fail) => {
  setTimeout(() => fail("nothing was seen within 60 s"), 60000);
  const begun = performance.now(), light = document.querySelector("#saved");
  let fitting = false;
  new MutationObserver((_, observer) => {
    if (light.dataset.fitting) fitting = true;
    else if (fitting) {
      observer.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begun)));
    }
  }).observe(light, { attributes: true });
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
})"""

# five seconds at 40 pixels a frame, from wherever the view begins; the last second jumps through the whole list
SCROLL = """() => new Promise((done) => {
  const scroller = document.querySelector("#scroller"), begun = performance.now(), frames = [];
  let last = begun, tiles = 0;
  const step = (now) => {
    frames.push(now - last);
    last = now;
    tiles = Math.max(tiles, document.querySelectorAll(".tile").length);
    const isJumping = now - begun > 4000;
    if (isJumping) scroller.scrollTop = scroller.scrollHeight * ((now - begun - 4000) / 1000);
    else scroller.scrollTop += 40;
    if (now - begun < 5000) return requestAnimationFrame(step);
    frames.sort((a, b) => a - b);
    done({
      frame_ms: frames[Math.floor(frames.length / 2)], frame_ms_95: frames[Math.floor(0.95 * frames.length)],
      frame_ms_worst: frames.at(-1), tiles_at_most: tiles, js_heap_mib: performance.memory.usedJSHeapSize / 2 ** 20,
    });
  };
  requestAnimationFrame(step);
})"""


if __name__ == "__main__":
    main()
