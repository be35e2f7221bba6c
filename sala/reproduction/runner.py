"""Many runs on one machine: worker processes of one thread each, a few at a time. A run that is recorded is skipped, one
that was begun is continued; so a sweep can be stopped at any moment and started again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sala.errors import SalaError
from sala.reproduction.plan import Run
from sala.reproduction.records import read_record, record_path
from sala.reproduction.worker import work
from sala.training.log import episodes_done, metrics_so_far

POLL = 0.5  # seconds
PATIENCE = 60.0  # seconds that a worker has to save its checkpoint
SPAWN = multiprocessing.get_context("spawn")  # a fork of a process with threads is not sound


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
        return episodes_done(self.folder)

    @property
    def validation(self) -> float | None:
        """The best so far."""
        return max((float(line["val_accuracy"]) for line in metrics_so_far(self.folder)), default=None)

    @property
    def is_trained(self) -> bool:
        return self.episode >= self.run.config.budget.n_episodes

    @property
    def is_over(self) -> bool:
        return self.state in ("finished", "failed")


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
    workers: dict[Path, Worker] = {}  # by run folder: two jobs that share a training wait for each other
    with tempfile.TemporaryDirectory() as logs:
        try:
            while not all(job.is_over for job in jobs):
                for job in jobs:
                    if job.state == "waiting" and len(workers) < n_jobs and job.folder not in workers:
                        workers[job.folder] = Worker(job, out, root, Path(logs))
                for folder, worker in list(workers.items()):
                    if worker.is_done():
                        del workers[folder]
                watch(jobs)
                time.sleep(POLL)
        finally:
            for worker in workers.values():
                worker.line.close()  # all at once: each saves its checkpoint and ends
            for worker in workers.values():
                worker.wait()
            watch(jobs)


class Worker:
    """The process of a job, and the end of the line that keeps it going."""

    def __init__(self, job: Job, out: Path, root: str | None, logs: Path):
        self.job, self.out, self.log, self.start = job, out, logs / f"{job.run.name}.txt", time.monotonic()
        theirs, self.line = SPAWN.Pipe(duplex=False)
        self.process = SPAWN.Process(target=work, args=(job.run, job.folder, out, root, self.log, theirs))
        with _without_interrupts():
            self.process.start()
        theirs.close()
        job.state = "training"

    def is_done(self) -> bool:
        """Looks after the process; True when the job has come to an end, good or bad."""
        job = self.job
        job.seconds = time.monotonic() - self.start
        if self.process.is_alive():
            job.state = "testing" if job.is_trained else "training"
            return False
        self.process.join()
        self.line.close()
        try:
            job.accuracy, job.state = self._accuracy(), "finished"
        except SalaError as error:
            job.message, job.state = str(error), "failed"
        return True

    def _accuracy(self) -> dict[str, str]:
        """Of the record that the process has written, by test setting."""
        record = read_record(self.out, self.job.run) if self.process.exitcode == 0 else None
        if record is None:
            said = self.log.read_text(encoding="utf-8", errors="replace") if self.log.is_file() else ""
            raise SalaError(" ".join(said.split())[-500:] or f"the process ended with code {self.process.exitcode}")
        return {setting: str(result.interval) for setting, result in record.results.items()}

    def wait(self) -> None:
        """Until a process whose line is closed has ended. The job waits for the next sweep."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.job.state = "waiting"


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process that is started here ignores Ctrl-C from its first moment on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def check_jobs(n_jobs: int) -> int:
    """0 is as many as there are cores: two runs of one thread do more than one run of two."""
    if n_jobs < 0:
        raise SalaError(f"the number of jobs is 0 (one a core) or more; got {n_jobs}")
    return n_jobs or os.cpu_count() or 1
