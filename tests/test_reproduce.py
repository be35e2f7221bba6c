"""The paper's tables as data, records, the sweep of real processes, and what is written of it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sala import tables
from sala.data import ImageStore
from sala.errors import SalaError
from sala.evaluate import Result
from sala.paper import ARMS, MODULES, TABLES, WITH, WITHOUT
from sala.protocol import PROTOCOLS
from sala.records import Record, read_record, record_path
from sala.reproduce import Cell, Run, cells_of, check_names
from sala.runconfig import read_config
from sala.sweep import Job, check_jobs, plan
from sala.tables import Column, Entry

SALA = [sys.executable, "-m", "sala"]


def test_published_numbers_are_the_papers() -> None:
    assert [WITHOUT[key]["sala"] for key in WITHOUT] == [98.93, 54.14, 67.23, 58.41, 72.24]
    assert [WITH[key]["sala"] for key in WITH] == [98.16, 51.44, 64.12, 55.85, 69.45]
    assert [WITHOUT[key]["soft-kmeans"] for key in WITHOUT] == [97.25, 50.09, 64.59, 51.52, 70.25]
    assert list(MODULES["tieredimagenet", 1].values()) == [55.76, 57.08, 58.04, 58.41]
    for spec in TABLES.values():
        assert set(spec.arms) <= set(ARMS)
        for (dataset, shots), row in spec.published.items():
            assert dataset in PROTOCOLS
            assert shots in spec.shots
            assert set(row) <= set(spec.arms)


def test_cells_are_what_the_table_shows() -> None:
    cells = cells_of("table1", ["omniglot", "miniimagenet"])
    assert {cell.shots for cell in cells if cell.dataset == "omniglot"} == {1}  # two labelled images a class
    assert {cell.shots for cell in cells if cell.dataset == "miniimagenet"} == {1, 5}
    assert len(cells) == 9 * 3
    assert {cell.n_distractor for cell in cells_of("table2", ["omniglot"])} == {5}
    (one,) = cells_of("table2", ["omniglot"], arms=["sala"])
    assert one.published == 98.16
    with pytest.raises(SalaError, match="there is no arm 'salad'"):
        check_names(["table1"], [], ["salad"])
    with pytest.raises(SalaError, match="there is no table or figure 'table9'"):
        check_names(["table9"], [], [])


def test_fewer_unlabelled_photos_in_training_for_every_arm_alike_and_only_there() -> None:
    for arm in TABLES["table1"].arms:
        run = Run(Cell("tiny-tiered", 1, 0, arm), "cpu", 0)
        assert run.config.protocol.train == replace(PROTOCOLS["tiny-tiered"].train, n_unlabeled=5)
        assert run.config.protocol.test == PROTOCOLS["tiny-tiered"].test
        assert "--unlabeled 5" in " ".join(run.words("out"))
    for dataset, budget in (("omniglot", "cpu"), ("miniimagenet", "paper"), ("tiny-tiered", "paper")):
        run = Run(Cell(dataset, 1, 0, "sala"), budget, 0)
        assert run.config.protocol.train == PROTOCOLS[dataset].train
        assert "--unlabeled" not in run.words("out")


def test_a_method_that_ignores_unlabelled_images_is_trained_once() -> None:
    protonet, soft = Cell("omniglot", 1, 5, "protonet"), Cell("omniglot", 1, 5, "soft-kmeans")
    assert protonet.trained == replace(protonet, n_distractor=0)
    assert soft.trained == soft
    assert Cell("omniglot", 1, 5, "metagan").trained.n_distractor == 5  # its generator sees them


def result(shares: list[float], name: str = "episodes") -> Result:
    return Result(tuple(shares), PROTOCOLS["omniglot"].test["ren"], "test", name)


def entry(arm: str, *lists: list[float], published: float | None = None) -> Entry:
    cell = Cell("omniglot", 1, 0, arm, published)
    records = [
        Record(Run(cell, "cpu", seed), {"ren": result(shares)}, [], {"machine": "m"}, "c", 1, 1)
        for seed, shares in enumerate(lists)
    ]
    return Entry(cell, "ren", tuple(records))


def test_differences_are_paired_over_common_seeds() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 1, (2, 50)), rng.uniform(0.5, 1, (1, 50))
    ours, theirs = entry("sala", *a.tolist()), entry("soft-kmeans", *b.tolist())
    difference = ours.minus(theirs)
    assert difference is not None
    expected = 100 * (a[0] - b[0])
    assert difference.mean == pytest.approx(expected.mean())
    assert difference.ci95 == pytest.approx(1.96 * expected.std(ddof=1) / np.sqrt(50))
    interval, spread = ours.interval, ours.spread
    assert interval is not None and interval.mean == pytest.approx(100 * a.mean())
    assert spread == pytest.approx(np.std(100 * a.mean(1), ddof=1))
    assert entry("sala").minus(theirs) is None
    other = Record(ours.records[0].run, {"ren": result(a[0].tolist(), "others")}, [], {}, "", 1, 1)
    elsewhere = Entry(ours.cell, "ren", (other,))
    with pytest.raises(SalaError, match="the same episodes"):
        elsewhere.minus(theirs)


def column(**arms: list[float]) -> Column:
    return Column(
        "omniglot", 1, "ren", {name.replace("_", "-"): entry(name.replace("_", "-"), v) for name, v in arms.items()}
    )


def test_bold_is_what_is_better_than_all_others_beyond_doubt() -> None:
    noise = np.random.default_rng(1).uniform(-0.01, 0.01, 100)
    base = np.full(100, 0.8)
    clear = column(sala=(base + 0.1).tolist(), soft_kmeans=(base + noise).tolist(), tpn=base.tolist())
    assert clear.best() == "sala"
    close = column(sala=(base + 0.0001).tolist(), soft_kmeans=(base + noise).tolist(), tpn=(base - 0.1).tolist())
    assert close.best() is None
    assert column(sala=base.tolist()).best() is None
    header, rows = tables.rows_of([clear], {("omniglot", 1, "ren"): clear.entries["soft-kmeans"]})
    assert header[:2] == ["method", "omniglot 1-shot (ren)"]
    by_name = {texts[0]: (texts, bold) for texts, bold in rows}
    assert by_name["SALA"][1] == {1}
    assert by_name["SALA"][0][2].startswith("+")
    assert by_name["Soft k-Means"][0][2] == ""
    text = tables.markdown(header, rows)
    assert "**90.00 ± 0.00**" in text
    latex = tables.latex(header, rows)
    assert latex.count(r"\\") == len(rows) + 1
    assert r"\textbf{90.00 $\pm$ 0.00}" in latex


def test_the_verdict_is_said_either_way() -> None:
    noise = np.random.default_rng(1).uniform(-0.05, 0.05, 100)
    base = np.full(100, 0.9)
    for gain, words in (
        (0.05, "is significantly better"),
        (0.0, "is not significantly better"),
        (-0.05, "significantly worse"),
    ):
        ours = entry("sala", (base + gain + noise).tolist(), published=95.0)
        theirs = entry("soft-kmeans", (base + noise[::-1]).tolist())
        one = Column("omniglot", 1, "ren", {"sala": ours, "soft-kmeans": theirs})
        (sentence,) = tables.verdicts("table1", [one], {("omniglot", 1, "ren"): theirs})
        assert words in sentence
        assert "the published 95.00" in sentence


def test_jobs_are_a_number() -> None:
    assert check_jobs(3) == 3
    assert check_jobs(0) == os.cpu_count()
    with pytest.raises(SalaError, match="number of jobs"):
        check_jobs(-1)


def reproduce(out: Path, *words: str) -> list[str]:
    return [*SALA, "reproduce", *words, "--out", str(out / "results"), "--runs", str(out / "runs")]


GLYPHS = [
    "table1",
    "curve",
    "tsne",
    "--dataset",
    "glyphs",
    "--arm",
    "sala",
    "--arm",
    "soft-kmeans",
    "--arm",
    "sala-metric",
]


def test_a_sweep_is_run_recorded_published_and_not_repeated(tmp_path: Path, glyphs: ImageStore) -> None:
    words = [*GLYPHS, "--shots", "1", "--episodes", "3", "--jobs", "2"]
    dry = subprocess.run([*reproduce(tmp_path, *words), "--dry-run"], capture_output=True, text=True, check=True)
    assert "0 of 3 runs are recorded" in dry.stdout
    assert "2 at a time" in " ".join(dry.stdout.split())
    assert not (tmp_path / "runs").exists()
    done = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("finished: glyphs-1shot-d0-") == 3
    out = tmp_path / "results"
    cells = json.loads((out / "table1.json").read_text())
    assert {(c["arm"], c["setting"]) for c in cells} == {
        (a, s) for a in ("sala", "soft-kmeans") for s in ("ren", "large")
    }
    ours = next(c for c in cells if c["arm"] == "sala" and c["setting"] == "ren")
    theirs = next(c for c in cells if c["arm"] == "soft-kmeans" and c["setting"] == "ren")
    assert ours["difference_to_soft_kmeans"]["mean"] == pytest.approx(ours["accuracy"] - theirs["accuracy"])
    assert theirs["difference_to_soft_kmeans"] is None
    assert ours["episodes_trained"] == 3
    assert ours["test_episodes"] == 1_000
    assert ours["manifest"]["data"] == "glyphs"
    page = (out / "report.html").read_text()
    assert "SALA is " in page[: page.index("<h2>")]  # the first paragraph
    assert "labeled_share" in page
    for name in ("curve.svg", "curve.png", "tsne.svg", "tsne.png", "table1.md", "table1.tex"):
        assert (out / name).stat().st_size > 100, name
    run = Run(Cell("glyphs", 1, 0, "sala"), "cpu", 0, 3)
    assert read_config(tmp_path / "runs" / run.name) == run.config
    record = read_record(out, run)
    assert record is not None
    stored = json.loads(next((tmp_path / "runs" / run.name / "results").glob("*Q14*")).read_text())
    assert record.results["ren"].accuracies == pytest.approx(stored["accuracies"], abs=1e-6)
    assert plan([run], out, tmp_path / "runs") == []
    before = record_path(out, run).stat().st_mtime_ns
    again = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True, check=True)
    assert "finished" not in again.stderr
    assert record_path(out, run).stat().st_mtime_ns == before


def test_a_killed_sweep_takes_its_runs_along_and_goes_on(tmp_path: Path, glyphs: ImageStore) -> None:
    words = ["table1", "--dataset", "glyphs", "--shots", "1", "--arm", "protonet", "--episodes", "600", "--jobs", "1"]
    run = Run(Cell("glyphs", 1, 0, "protonet"), "cpu", 0, 600)
    job = Job(run, tmp_path / "runs" / run.name)
    process = subprocess.Popen(reproduce(tmp_path, *words), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while process.poll() is None and job.episode < 500:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if sys.platform == "linux":
        assert not running(str(job.folder))
    assert record_path(tmp_path / "results", run).is_file() is False
    done = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert record_path(tmp_path / "results", run).is_file()


def running(text: str) -> bool:
    """Whether, after a moment, a process still has the text in its command."""
    for _ in range(50):
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found.append(path.read_bytes())
            except OSError:
                continue
        if not any(text.encode() in command and b"train" in command for command in found):
            return False
        time.sleep(0.1)
    return True


def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path: Path, glyphs: ImageStore) -> None:
    words = [
        "table1",
        "--dataset",
        "glyphs",
        "--shots",
        "1",
        "--arm",
        "protonet",
        "--arm",
        "soft-kmeans",
        "--episodes",
        "2",
    ]
    broken = Run(Cell("glyphs", 1, 0, "protonet"), "cpu", 0, 2)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / broken.name).write_text("a file where a folder should be")
    done = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True)
    assert done.returncode != 0
    assert "1 of 2 runs failed" in " ".join(done.stderr.split())
    assert record_path(tmp_path / "results", Run(Cell("glyphs", 1, 0, "soft-kmeans"), "cpu", 0, 2)).is_file()


def test_a_record_of_another_protocol_is_not_taken(tmp_path: Path) -> None:
    run = Run(Cell("omniglot", 1, 0, "sala"), "cpu", 0)
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    config = replace(run.config, seed=5).to_json()
    path.write_text(json.dumps({"config": config}))
    with pytest.raises(SalaError, match="another seed"):
        read_record(tmp_path, run)


def test_a_record_without_one_of_the_settings_is_damaged(tmp_path: Path) -> None:
    run = Run(Cell("omniglot", 1, 0, "sala"), "cpu", 0)
    content = json.loads(record_path(Path(__file__).parent.parent / "results", run).read_text())
    del content["results"]["large"]
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    with pytest.raises(SalaError, match=r"is damaged \(KeyError: 'large'\)"):
        read_record(tmp_path, run)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"[" * 100_000, b"\xff" * 9_000, b'{"config": 1}'])
def test_a_damaged_record_is_told_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    run = Run(Cell("omniglot", 1, 0, "sala"), "cpu", 0)
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(SalaError, match=r"is damaged|is not text in UTF-8") as refusal:
        read_record(tmp_path, run)
    assert len(str(refusal.value)) < 400


def test_the_papers_table_runs_on_files_in_their_official_layout(tmp_path: Path, cache: Path) -> None:
    """miniImageNet's pickles, ten small classes a split, the paper's budget but for the number of episodes."""
    rng = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        colours = rng.integers(0, 256, (10, 1, 1, 1, 3))
        images = np.clip(colours + rng.integers(-60, 60, (10, 45, 84, 84, 3)), 0, 255).astype(np.uint8)
        classes = {f"n{split}{c}": list(range(45 * c, 45 * c + 45)) for c in range(10)}
        content = {"image_data": images.reshape(-1, 84, 84, 3), "class_dict": classes}
        (tmp_path / f"mini-imagenet-cache-{split}.pkl").write_bytes(pickle.dumps(content))
    words = [
        "table1",
        "table2",
        "--dataset",
        "miniimagenet",
        "--root",
        str(tmp_path),
        "--budget",
        "paper",
        "--shots",
        "1",
    ]
    words += ["--arm", "sala", "--episodes", "1"]
    done = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for table, published in (("table1", 54.14), ("table2", 51.44)):
        cells = {cell["arm"]: cell for cell in json.loads((tmp_path / "results" / f"{table}.json").read_text())}
        assert cells["sala"]["published"] == published
        assert cells["sala"]["shape"]["n_unlabeled"] == 20
        assert cells["sala"]["gap"] == pytest.approx(cells["sala"]["accuracy"] - published)


def test_nothing_is_bold_while_a_published_row_is_missing() -> None:
    better, worse = np.full(100, 0.9).tolist(), np.full(100, 0.8).tolist()
    arms = {"sala": entry("sala", better), "soft-kmeans": entry("soft-kmeans", worse)}
    assert Column("omniglot", 1, "ren", arms).best() == "sala"
    waiting = {**arms, "tpn": entry("tpn"), "masked-soft-kmeans": entry("masked-soft-kmeans", published=97.3)}
    assert Column("omniglot", 1, "ren", waiting).best() is None
    del waiting["masked-soft-kmeans"]
    assert Column("omniglot", 1, "ren", waiting).best() == "sala"
