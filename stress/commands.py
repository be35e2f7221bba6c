"""Wrong command lines: one sentence on stderr, exit code 1 or 2, no traceback, and nothing left behind."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path

from stress.children import Ended, command, run
from stress.trials import Trial
from stress.world import World, copy

# {world} has run/, labeled/, pool/, classes/, features.npy, labels/model.safetensors; the command is given in an empty folder
WRONG = """
trian
train --nonsense
train --dataset nosuch
train --dataset
train --dataset glyphs --root {world}/classes
train --dataset folder --root {world}/nowhere
train --dataset folder --root /dev/null
train --dataset folder --root /dev/zero
train --dataset folder --root {world}/pool
train --dataset folder --root {world}/features.npy
train --dataset miniimagenet --root {world}/classes
train --dataset tieredimagenet --root {world}/classes
train --dataset omniglot --root {world}/classes
train --dataset tiny-tiered --root {world}/classes
train {data} --method nosuch
train {data} --method nowhere.py:Mine
train {data} --method {world}/features.npy:Mine
train {data} --method /dev/null.py:Mine
train {data} --episodes 0
train {data} --episodes -5
train {data} --episodes many
train {data} --episodes 1e3
train {data} --ways 1
train {data} --ways 99
train {data} --shots 0
train {data} --shots 500
train {data} --queries 0
train {data} --unlabeled -1
train {data} --unlabeled 10000
train {data} --distractors -2
train {data} --distractors 500
train {data} --labeled-share 0
train {data} --labeled-share nan
train {data} --labeled-share 7
train {data} --seed -1
train {data} --seed 99999999999999999999999
train {data} --threads -1
train {data} --threads 999999
train {data} --budget none
train {data} --backbone resnet9000
train {data} --device tpu
train {data} --device cuda
train {data} --precision float8
train {data} --set
train {data} --set eta
train {data} --set eta=nan
train {data} --set nosuch=1
train {data} --set hidden=99999999999999
train {data} --validate-every 0
train {data} --image-size 1
train {data} --image-size 99999
train {data} --split-file {world}/nowhere.csv
train {data} --split-file {world}/pool
train {data} --split-file {world}/features.npy
train {data} --split-seed -1
train {data} --episodes-per-step 0
train {data} --method sala --transductive
train {data} --out {world}/run
train {data} --out {world}/features.npy
train {data} --out {world}/features.npy/below
train {data} --out /proc/sala
train --resume {world}/nowhere
train --resume {world}/pool
train --resume {world}/features.npy
train --resume {world}/run --episodes 5
train --resume {world}/run --method protonet
evaluate
evaluate {world}/nowhere
evaluate {world}/pool
evaluate {world}/run --split trainn
evaluate {world}/run --setting nosuch
evaluate {world}/run --episodes 0
evaluate {world}/run --episodes -3
evaluate {world}/run --ways 77
evaluate {world}/run --weights worst
evaluate {world}/run --method protonet
evaluate {world}/run {world}/run
compare
compare {world}/run {world}/nowhere
compare {world}/run omniglot-sala
compare {world}/run --setting nosuch
compare {world}/run --episodes 0
label
label {world}/labeled
label {world}/nowhere {world}/pool
label {world}/labeled {world}/nowhere
label {world}/pool {world}/labeled
label {world}/labeled {world}/labeled
label {world}/labeled {world}/labeled/red
label {world}/features.npy {world}/pool
label {good} --encoder nosuch
label {good} --encoder {world}/nowhere.onnx
label {good} --encoder {world}/labels.txt
label {good} --encoder {world}/pool
label {good} --encoder {world}/labels/model.safetensors
label {good} --encoder /dev/zero
label {good} --precision 0
label {good} --precision 1.5
label {good} --precision nan
label {good} --format xml
label {good} --link
label {good} --outliers {world}/nowhere
label {good} --outliers {world}/labeled
label {good} --copy-to {world}/pool/sorted
label {good} --out {world}/labeled
label {good} --out {world}/features.npy
label {good} --out /proc/out
predict
predict {world}/nowhere.safetensors {world}/pool
predict {world}/labels {world}/pool
predict {world}/features.npy {world}/pool
predict {world}/run/last.safetensors {world}/pool
predict {world}/labels/model.safetensors
predict {world}/labels/model.safetensors {world}/nowhere.png
predict {world}/labels/model.safetensors {world}/labels
predict {world}/labels/model.safetensors ''
predict {world}/labels/model.safetensors /dev/zero
predict {world}/labels/model.safetensors {world}/pool --format xml
predict {world}/labels/model.safetensors {world}/pool --out {world}
predict {world}/labels/model.safetensors {world}/pool --out /proc/x/y.csv
predict {world}/labels/model.safetensors {world}/pool --encoder nosuch
predict {world}/labels/model.safetensors {world}/pool --encoder {world}/run
serve
serve {world}/nowhere {world}/pool
serve {world}/labeled {world}/labeled
serve {good} --port 99999
serve {good} --port -1
serve {good} --port x
serve {good} --host nosuch.invalid --no-browser
serve {good} --host 8.8.8.8 --no-browser
serve {good} --state {world}/pool --no-browser
serve {good} --state {world}/features.npy --no-browser
serve {good} --state /proc/state --no-browser
serve {good} --state /dev/zero --no-browser
serve {good} --encoder nosuch --no-browser --state state.jsonl
samples {world}/run
samples {world}/nowhere
samples {world}/run --out picture.jpg
samples {world}/run --scale 0
data
data nosuch
data prepare
data prepare nosuch
data prepare folder
data prepare folder --root {world}/nowhere
data prepare glyphs --root {world}/classes
data prepare omniglot --root {world}/classes
data info nosuch
data info folder --root {world}/features.npy
data fetch glyphs
data fetch folder
data fetch omniglot --url ftp://nowhere
data fetch omniglot --url http://127.0.0.1:9/x --out downloads
reproduce
reproduce table99
reproduce table1 --dataset nosuch
reproduce table1 --variant nosuch
reproduce table1 --seeds 0
reproduce table1 --jobs -1
reproduce table1 --budget none
reproduce table1 --root {world}/classes
demo --episodes 0
demo --seed -1
demo --out {world}/features.npy
bench --nosuch
methods --nosuch
--nosuch
""".strip().splitlines()
DATA = "--dataset folder --root {world}/classes --image-size 16 --ways 2 --unlabeled 1 --queries 1 --episodes 1 --threads 1"
LEFT = {
    "data fetch omniglot --url http://127.0.0.1:9/x --out downloads": {"downloads"}
}  # a download goes on from there


def trials(world: World, folder: Path, *, quick: bool) -> list[Trial]:
    lines = WRONG[::2] if quick else WRONG
    return [Trial("commands", f"sala {line}", partial(attempt, world, line)) for line in lines]


def attempt(world: World, line: str, folder: Path) -> str | None:
    """In an empty folder, on a copy of the world whose files must stay as they are."""
    copied = copy(world.folder, folder / "world") if "run" in line or "labels" in line else world.folder
    (folder / "here").mkdir()
    words = shlex.split(
        line.format(world=copied, good=f"{copied}/labeled {copied}/pool", data=DATA.format(world=copied))
    )
    before = _files(copied)
    ended = run(partial(_in_folder, folder / "here", words), folder, 60)
    left = {path.name for path in (folder / "here").iterdir()} - LEFT.get(line, set())
    problem = _problem(ended) or (f"left behind: {', '.join(sorted(left))}" if left else None)
    if problem is None and copied != world.folder and (changed := _files(copied) ^ before):
        return f"changed: {sorted(changed)[0]}"
    return problem


def _in_folder(folder: Path, words: list[str]) -> None:
    os.chdir(folder)
    command(list(words))()


def _problem(ended: Ended) -> str | None:
    if ended.trouble:
        return ended.trouble
    if ended.code not in (1, 2):
        return f"it ended with {ended.code}"
    lines = [line for line in ended.err.splitlines() if line.strip()]
    sentences = [line for line in lines if line.startswith("error: ")]
    if ended.code == 1 and (len(sentences) != 1 or lines[-1] != sentences[0] or len(sentences[0]) < 20):
        return f"not one sentence: {ended.err[-200:]!r}"
    return None if lines or ended.out.strip() else "it said nothing"


def _files(folder: Path) -> set[tuple[str, int, int]]:
    """Names, sizes and times; the cache may grow."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file() and "cache" not in path.parts and path.suffix not in (".out", ".err"):
            state = path.stat()
            found.add((str(path), state.st_size, state.st_mtime_ns))
    return found
