"""How long a click on the page takes: saved, fitted anew, told to the browser, and (with --browser) seen in Chromium.

    python benchmarks/page.py --images 10000 --classes 9 --browser

The features are synthetic: 1280 numbers an image, one group per class, one image in five an outlier. Only their number matters
for what is measured.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from sala.data.memory import keep_freed_memory
from sala.labeling.embedding import ProjectFeatures
from sala.labeling.places import Places
from sala.labeling.project import open_project
from sala.web.journal import Journal
from sala.web.layout import pool_map
from sala.web.server import PageServer
from sala.web.session import Session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=9)
    parser.add_argument("--clicks", type=int, default=20)
    parser.add_argument("--threads", type=int, default=0, help="0 leaves it to PyTorch")
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    keep_freed_memory()  # as the command does
    if options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        session = made_up(Path(folder), options.images, options.classes)
        server = PageServer(session, port=0)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        session.snapshot()
        result: dict[str, Any] = {
            "images": options.images,
            "classes": options.classes,
            "threads": torch.get_num_threads(),
        }
        result |= {"machine": f"{platform.machine()}, {platform.python_version()}, torch {torch.__version__}"}
        result |= clicks(server, options.clicks)
        begun = time.perf_counter()
        pool_map(session.images.features)
        result["map_seconds"] = round(time.perf_counter() - begun, 2)
        if options.browser:
            result |= in_chromium(server, options.clicks)
        print(json.dumps(result, indent=1))
        server.stop()
        thread.join()


def made_up(folder: Path, n_images: int, n_classes: int) -> Session:
    """Flat images on disk, and features in groups."""
    random = np.random.default_rng(0)
    for c in range(n_classes):
        (folder / "labeled" / f"class-{c:02d}").mkdir(parents=True)
        for i in range(5):
            Image.new("RGB", (64, 64), (c * 11 % 256, 90, 160)).save(folder / "labeled" / f"class-{c:02d}" / f"{i}.jpg")
    (folder / "pool").mkdir()
    for i in range(n_images):
        Image.new("RGB", (64, 64), (i % 256, i // 256 % 256, 120)).save(folder / "pool" / f"{i:06d}.jpg")
    project = open_project(Places(folder / "pool", folder / "labeled"))
    labels = project.given
    groups = np.where(labels >= 0, labels, random.integers(0, n_classes * 5 // 4 + 1, len(labels)))
    means = 0.35 * random.normal(size=(n_classes * 5 // 4 + 1, 1280))
    features = (means[groups] + random.normal(size=(len(labels), 1280))).astype(np.float32)
    encoder = {"which": "", "name": "random", "identity": "random"}
    return Session(ProjectFeatures(project, features, encoder), Journal(folder / "state.jsonl"))


def clicks(server: PageServer, n: int) -> dict[str, float]:
    """The median click, by its parts, over HTTP."""
    saved, total, fitted = [], [], []
    base = f"http://127.0.0.1:{server.port}"
    for i in range(n):
        body = json.dumps({"do": "label", "items": [len(server.session.images.features) - 1 - i], "to": i % 3}).encode()
        headers = {"Origin": base, "Content-Type": "application/json"}
        begun = time.perf_counter()
        urllib.request.urlopen(urllib.request.Request(f"{base}/api/act", body, headers)).read()
        saved.append(time.perf_counter() - begun)
        state = json.loads(urllib.request.urlopen(f"{base}/api/state").read())
        total.append(time.perf_counter() - begun)
        fitted.append(state["fit_seconds"])
    names = {"saved_seconds": saved, "fit_seconds": fitted, "answered_seconds": total}
    return {name: round(statistics.median(values), 4) for name, values in names.items()} | {
        "answered_seconds_worst": round(max(total), 3)
    }


def in_chromium(server: PageServer, n: int) -> dict[str, float]:
    """From a key to the new labels on the page."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.helpers.browser import chromium

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 860})
        begun = time.perf_counter()
        page.goto(f"{server.address}#suggestions")
        page.wait_for_selector("body[data-ready]")
        opened = time.perf_counter() - begun
        page.wait_for_load_state("networkidle")
        times = [page.evaluate(SEEN, str(i % 3 + 4)) / 1000 for i in range(n)]
    return {
        "opened_seconds": round(opened, 2),
        "seen_seconds": round(statistics.median(times), 3),
        "seen_seconds_worst": round(max(times), 3),
    }


# until a frame has been drawn after the page has taken the new labels
SEEN = """(key) => new Promise((done, fail) => {
  setTimeout(() => fail("nothing was seen within 30 s"), 30000);
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


if __name__ == "__main__":
    main()
