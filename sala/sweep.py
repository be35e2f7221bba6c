"""Many runs on one machine: independent processes of one thread each, a few at a time. A run that is recorded is skipped, one
that was begun is continued; so a sweep can be stopped at any moment and started again.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sala.backbones import build_backbone
from sala.data import ImageStore
from sala.errors import SalaError
from sala.methods import build_method
from sala.records import record_path, record_run
from sala.reproduce import Run
from sala.runfolder import has_checkpoint
from sala.runlog import read_metrics
from sala.sampler import EpisodeSampler
from sala.train import TrainState, gradients, step

POLL = 0.5  # seconds


@dataclass
class Job:
    """A run and what has become of it."""

    run: Run
    folder: Path
    state: str = "waiting"  # training, testing, finished, failed
    seconds: float = 0.0  # of this sweep
    message: str = ""  # of a failed one
    accuracy: dict[str, str] = field(default_factory=dict)  # of a finished one, by setting

    @property
    def episode(self) -> int:
        return max((int(line["episode"]) for line in self._lines()), default=0)

    @property
    def validation(self) -> float | None:
        """The best so far."""
        return max((float(line["val_accuracy"]) for line in self._lines()), default=None)

    def _lines(self) -> list[dict[str, Any]]:
        try:
            return read_metrics(self.folder)
        except ValueError:  # a line is just being written: the next look will have it
            return []

    @property
    def is_trained(self) -> bool:
        return self.episode >= self.run.config.budget.n_episodes


def plan(runs: Sequence[Run], out: Path, folder: Path) -> list[Job]:
    """The runs that have no record yet, each once, in the given order."""
    jobs = {run.name: Job(run, folder / run.trained.name) for run in runs if not record_path(out, run).is_file()}
    return list(jobs.values())


def sweep(
    jobs: list[Job],
    out: Path,
    n_jobs: int,
    *,
    root: str | None = None,
    watch: Callable[[list[Job]], None] = lambda _: None,
) -> None:
    """Do the jobs, `n_jobs` at a time; each is recorded as soon as it is finished. A job that fails does not stop
    the others."""
    slots: dict[str, Slot] = {}  # by folder: two jobs that share a training wait for each other
    try:
        while any(job.state in ("waiting", "training", "testing") for job in jobs):
            for job in jobs:
                if job.state == "waiting" and len(slots) < n_jobs and str(job.folder) not in slots:
                    slots[str(job.folder)] = Slot(job, out, root)
            for place, slot in list(slots.items()):
                if slot.is_done():
                    del slots[place]
            watch(jobs)
            time.sleep(POLL)
    finally:
        for slot in slots.values():
            slot.stop()
        watch(jobs)


class Slot:
    """One process at a time, for one job: its training, then its test."""

    def __init__(self, job: Job, out: Path, root: str | None):
        self.job, self.out, self.root = job, out, root
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.start = time.monotonic()
        self.process: subprocess.Popen[str] | None = None
        self._next()

    def _next(self) -> None:
        job = self.job
        if not job.is_trained:
            job.state = "training"
            begun = has_checkpoint(job.folder)
            words = ["--resume", str(job.folder)] if begun else job.run.words(str(job.folder), self.root)
            self._launch("train", *words)
        else:
            job.state = "testing"
            distractors = str(job.run.cell.n_distractor)
            n_episodes = str(job.run.config.protocol.n_test_episodes)
            self._launch("evaluate", str(job.folder), "--distractors", distractors, "--episodes", n_episodes)

    def _launch(self, *words: str) -> None:
        self.log.seek(0)
        self.log.truncate()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sala", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log,
            text=True, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )  # fmt: skip

    def is_done(self) -> bool:
        """Looks after the process; True when the job has come to an end, good or bad."""
        assert self.process is not None
        job, code = self.job, self.process.poll()
        job.seconds = time.monotonic() - self.start
        if code is None:
            return False
        if code == 0 and job.state == "training" and job.is_trained:
            self._next()
            return False
        if code == 0 and job.state == "testing":
            try:
                record = record_run(job.run, job.folder, self.out)
            except SalaError as error:
                job.state, job.message = "failed", str(error)
            else:
                job.accuracy = {setting: str(result.interval) for setting, result in record.results.items()}
                job.state = "finished"
        else:
            self.log.seek(0)
            said = " ".join(self.log.read().split())
            job.state, job.message = "failed", said[-500:] or f"the process ended with code {code}"
        self.log.close()
        return True

    def stop(self) -> None:
        """As Ctrl-C would: a training saves and ends."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.job.state = "waiting"
        self.log.close()


def _end_with_parent() -> None:
    """In the child, on Linux: if the sweep is killed, so are its runs. They can be continued."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def expected_seconds(run: Run, store: ImageStore, n_steps: int = 4) -> float:
    """The time that a training will take on one thread of this machine, from a few steps."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        config = run.config
        method = build_method(config.method, build_backbone(config.backbone, store.image_shape), config.options).train()
        protocol = config.protocol
        sampler = EpisodeSampler(store, protocol.train, split="train", seed=0, labeled_share=protocol.labeled_share)
        state = TrainState.fresh(method, config.train)
        times = []
        for i in range(n_steps):
            start = time.perf_counter()
            episode = sampler.episode(i, with_unlabeled=method.trains_on_unlabeled)
            if i == 0:
                method.prepare(episode.task)
            for player, optimizer in state.optimizers.items():
                gradients(method, player, [(i, episode)], 1.0, config.train)
                step(optimizer, 1e-3)
            times.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(before)
    return 1.1 * min(times[1:] or times) * config.budget.n_episodes  # a tenth for validation and test


def check_jobs(n_jobs: int) -> int:
    """0 is as many as there are cores: two runs of one thread do more than one run of two."""
    if n_jobs < 0:
        raise SalaError(f"the number of jobs is 0 (one a core) or more; got {n_jobs}")
    return n_jobs or os.cpu_count() or 1
