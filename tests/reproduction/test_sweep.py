"""The sweep: real worker processes that are recorded, stopped, killed and continued."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sala.data import ImageStore
from sala.errors import SalaError
from sala.reproduction.estimate import expected_seconds
from sala.reproduction.plan import Cell, Run
from sala.reproduction.records import read_record, record_path
from sala.reproduction.runner import Job, check_jobs, plan
from sala.training.checkpoint import load_checkpoint
from sala.training.config import read_config


def reproduce(out: Path, *words: str) -> list[str]:
    places = ["--out", str(out / "results"), "--runs", str(out / "runs")]
    return [sys.executable, "-m", "sala", "reproduce", *words, *places]


def on_glyphs(*variants: str, episodes: int, tables: tuple[str, ...] = ("table1",)) -> list[str]:
    named = [word for variant in variants for word in ("--variant", variant)]
    return [*tables, "--dataset", "glyphs", "--shots", "1", *named, "--episodes", str(episodes), "--jobs", "2"]


def run_of(variant: str, episodes: int) -> Run:
    return Run(Cell("glyphs", 1, 0, variant), "cpu", 0, episodes)


def test_jobs_are_a_number() -> None:
    assert check_jobs(3) == 3
    assert check_jobs(0) == os.cpu_count()
    with pytest.raises(SalaError, match="number of jobs"):
        check_jobs(-1)


def test_the_expected_time_is_that_of_all_episodes(glyphs: ImageStore) -> None:
    short, long = (expected_seconds(run_of("protonet", n), glyphs, n_steps=2) for n in (10, 10_000))
    assert 0 < 10 * short < long


def test_a_sweep_is_run_recorded_published_and_not_repeated(tmp_path: Path, glyphs: ImageStore) -> None:
    words = on_glyphs("sala", "soft-kmeans", "sala-metric", episodes=3, tables=("table1", "curve", "tsne"))
    done = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("finished: glyphs-1shot-d0-") == 3
    assert "0 of 3 runs are recorded, 0 begun, 3 missing" in done.stderr and "core-hours" in done.stderr
    assert list(json.loads((tmp_path / "results" / "metric.json").read_text())) == [run_of("sala", 3).name]
    out, run = tmp_path / "results", run_of("sala", 3)
    cells = {(c["variant"], c["setting"]): c for c in json.loads((out / "table1.json").read_text())}
    assert set(cells) == {(a, s) for a in ("sala", "soft-kmeans") for s in ("ren", "large")}
    ours, theirs = cells["sala", "ren"], cells["soft-kmeans", "ren"]
    assert ours["difference_to_soft_kmeans"]["mean"] == pytest.approx(ours["accuracy"] - theirs["accuracy"])
    assert ours["difference_to_soft_kmeans_over_seeds"]["n"] == 1
    assert theirs["difference_to_soft_kmeans"] is None
    assert (ours["episodes_trained"], ours["test_episodes"], ours["command"]) == (3, 1_000, run.command)
    for name in ("curve.svg", "curve.png", "tsne.svg", "tsne.png", "table1.md", "table1.tex"):
        assert (out / name).stat().st_size > 100, name
    assert read_config(tmp_path / "runs" / run.name) == run.config
    record = read_record(out, run)
    assert record is not None
    stored = json.loads(next((tmp_path / "runs" / run.name / "results").glob("*Q14*")).read_text())
    assert record.results["ren"].accuracies == pytest.approx(stored["accuracies"], abs=1e-6)
    assert plan([run], out, tmp_path / "runs") == []
    dry = subprocess.run([*reproduce(tmp_path, *words), "--dry-run"], capture_output=True, text=True, check=True)
    assert "3 of 3 runs are recorded" in dry.stdout


def wait_for(process: subprocess.Popen[bytes], job: Job, episode: int) -> list[int]:
    """Until a run of the sweep has come so far; the processes of the sweep."""
    while process.poll() is None and job.episode < episode:
        time.sleep(0.05)
    assert process.poll() is None
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, "a worker is still there"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_killed_sweep_takes_its_runs_along_and_goes_on(tmp_path: Path, glyphs: ImageStore) -> None:
    words, run = on_glyphs("protonet", episodes=600), run_of("protonet", 600)
    job = Job(run, tmp_path / "runs" / run.name)
    sweep = subprocess.Popen(reproduce(tmp_path, *words), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    workers = wait_for(sweep, job, 500)
    sweep.kill()
    sweep.wait()
    wait_until_gone(workers)
    assert not record_path(tmp_path / "results", run).is_file()
    assert 500 <= load_checkpoint(job.folder / "last.safetensors")[1]["episode"] < 600
    done = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert record_path(tmp_path / "results", run).is_file()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_ctrl_c_stops_all_runs_with_their_checkpoints_saved(tmp_path: Path, glyphs: ImageStore) -> None:
    words, runs = on_glyphs("protonet", "soft-kmeans", episodes=100_000), ("protonet", "soft-kmeans")
    jobs = [Job(run, tmp_path / "runs" / run.name) for run in (run_of(variant, 100_000) for variant in runs)]
    sweep = subprocess.Popen(reproduce(tmp_path, *words), stderr=subprocess.PIPE, start_new_session=True)
    workers = [pid for job in jobs for pid in wait_for(sweep, job, 500)]
    os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: every process of its group
    _, said = sweep.communicate(timeout=120)
    assert sweep.returncode == 130
    assert b"Traceback" not in said, said
    wait_until_gone(workers)
    ahead = [load_checkpoint(job.folder / "last.safetensors")[1]["episode"] - job.episode for job in jobs]
    assert min(ahead) >= 0 and max(ahead) > 0  # saved when stopped, not only when recorded


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path: Path, glyphs: ImageStore) -> None:
    broken, other = run_of("protonet", 2), run_of("soft-kmeans", 2)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / broken.name).write_text("a file where a folder should be")
    words = on_glyphs("protonet", "soft-kmeans", episodes=2)
    done = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "1 of 2 runs failed" in said and f"{broken.name}, said: " in said and "is a file" in said
    assert record_path(tmp_path / "results", other).is_file()


@pytest.mark.slow
def test_the_papers_table_runs_on_files_in_their_official_layout(tmp_path: Path, cache: Path) -> None:
    """miniImageNet's pickles, ten small classes a split, the paper's budget but for the number of episodes."""
    rng = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        colors = rng.integers(0, 256, (10, 1, 1, 1, 3))
        images = np.clip(colors + rng.integers(-60, 60, (10, 45, 84, 84, 3)), 0, 255).astype(np.uint8)
        classes = {f"n{split}{c}": list(range(45 * c, 45 * c + 45)) for c in range(10)}
        content = {"image_data": images.reshape(-1, 84, 84, 3), "class_dict": classes}
        (tmp_path / f"mini-imagenet-cache-{split}.pkl").write_bytes(pickle.dumps(content))
    words = ["table1", "table2", "--dataset", "miniimagenet", "--root", str(tmp_path), "--budget", "paper"]
    words += ["--shots", "1", "--variant", "sala", "--episodes", "1"]
    done = subprocess.run(reproduce(tmp_path, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for table, published in (("table1", 54.14), ("table2", 51.44)):
        cells = {
            cell["variant"]: cell for cell in json.loads((tmp_path / "results" / f"{table}-paper.json").read_text())
        }
        assert cells["sala"]["published"] == published
        assert cells["sala"]["shape"]["n_unlabeled"] == 20
        assert cells["sala"]["gap"] == pytest.approx(cells["sala"]["accuracy"] - published)
