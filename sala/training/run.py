"""Run folders: a training that can be stopped, continued, measured and loaded.

config.json      what was asked for: method, options, data, protocol, budget, seed
manifest.json    under which circumstances: versions, machine, data hash, command
metrics.jsonl    one line per validation
best.safetensors, last.safetensors    weights; `last` also carries the optimizer and the position, as does `previous`,
                 the checkpoint before the last
results/         evaluations, with their per-episode accuracies
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from sala.atomic import write_json
from sala.episodes.fit import FITTED
from sala.episodes.sampler import EpisodeSampler
from sala.errors import SalaError
from sala.evaluation.embeddings import Embeddings
from sala.evaluation.evaluate import evaluate
from sala.methods import METHODS, Method, method_class, plugins
from sala.nn.distributed import ALONE, LostOthers, Ranks
from sala.training.beginning import (
    begin_with,
    check_files_known,
    extended,
    fitted,
    fresh_method,
    named_by_user,
    samplers_of,
)
from sala.training.checkpoint import load_checkpoint, restore
from sala.training.config import RunConfig, read_config
from sala.training.folder import CHECKPOINTS, alone, check_free, clear, has_checkpoint
from sala.training.keeper import Keeper, Watch
from sala.training.log import RunLog, forget_after, manifest, recorded_hash
from sala.training.loop import TrainState, train

__all__ = ["Watch", "resume_run", "start_run"]


def start_run(
    folder: Path | str,
    config: RunConfig,
    watch: Watch | None = None,
    ranks: Ranks = ALONE,
    *,
    fit: Collection[str] = FITTED,
) -> TrainState:
    """The state at the end of a training into a new folder.

    Parameters
    ----------
    folder : path
        A place where nothing is yet. Of several processes, the first writes it.
    config : RunConfig
        What is trained, on what, for how long.
    watch : Watch, optional
        Who is told about the training while it goes on, and may stop it.
    ranks : Ranks, optional
        The processes of the training.
    fit : collection of str, default ("train", "test")
        Which episodes get fewer queries and unlabeled images where a class is too small for them: those of training, those of
        validation and test. The watch is told. For others it is an error.

    Returns
    -------
    TrainState
        With `episode`, `best_accuracy` and `best_episode`.

    Raises
    ------
    SalaError
        If the folder holds something else, or the request cannot be met: no folder is left behind then.

    Examples
    --------
    >>> import sala, tempfile
    >>> config = sala.RunConfig("protonet", sala.PROTOCOLS["glyphs"], sala.Budget(4, 2, 2), threads=1)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     state = sala.start_run(f"{place}/run", config)
    ...     method = sala.load(f"{place}/run")
    >>> state.episode, type(method).__name__
    (4, 'ProtoNet')
    """
    folder, watch = Path(folder), watch or Watch()
    _check_enough_episodes(config, ranks)
    if ranks.is_first:
        check_free(folder)
    config = named_by_user(config)
    method_class(config.method)  # a typo is told before the data are prepared
    store = config.open_store(watch.on_data)
    config = fitted(config, store, watch, fit)
    method = fresh_method(config, store)
    samplers = samplers_of(config, store)  # before anything is written: an impossible request leaves no folder
    state = TrainState.fresh(method, config.train)
    if not ranks.is_first:
        return _train(folder, config, method, samplers, state, watch, ranks)
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        check_free(folder)  # again: another training may have been faster
        clear(folder)
        try:
            write_json(folder / "config.json", config.to_json())
            write_json(folder / "manifest.json", manifest(store))
            return _train(folder, config, method, samplers, state, watch, ranks)
        except Exception:
            if not has_checkpoint(folder):  # it failed at once: there is nothing to continue
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _check_enough_episodes(config: RunConfig, ranks: Ranks) -> None:
    if ranks.world > config.episodes_per_step:
        raise SalaError(
            f"{ranks.world} processes, and a step of this run has {config.episodes_per_step} episodes: some would have "
            f"nothing to do; start fewer processes, or a new run with --episodes-per-step {ranks.world}"
        )


def resume_run(
    folder: Path | str,
    watch: Watch | None = None,
    ranks: Ranks = ALONE,
    *,
    root: Path | None = None,
    n_episodes: int | None = None,
) -> TrainState:
    """The state at the end of a run that goes on where its last checkpoint is.

    The end is the same, bit for bit, as without the interruption. The number of processes may be another one, which
    changes the order of sums and so the last bits.

    Parameters
    ----------
    folder : path
        Of a run that `start_run` began. One that is finished stays as it is, unless it is extended.
    watch : Watch, optional
        Who is told about the training while it goes on, and may stop it.
    ranks : Ranks, optional
        The processes of the training.
    root : path, optional
        Where the data is now, if it has moved.
    n_episodes : int, optional
        Extends the run to so many training episodes in all. From here on the schedule is that of the longer training.

    Returns
    -------
    TrainState
        With `episode`, `best_accuracy` and `best_episode`.

    Raises
    ------
    SalaError
        If the folder is not a run, or the data is not the one that it was started on.

    Examples
    --------
    >>> import sala, tempfile
    >>> config = sala.RunConfig("protonet", sala.PROTOCOLS["glyphs"], sala.Budget(4, 2, 2), threads=1)
    >>> answers = iter([False, True])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     stopped = sala.start_run(f"{place}/run", config, sala.Watch(should_stop=lambda: next(answers)))
    ...     finished = sala.resume_run(f"{place}/run")
    >>> stopped.episode, finished.episode
    (1, 4)
    """
    folder, watch = Path(folder), watch or Watch()
    recorded_config = extended(read_config(folder), n_episodes)
    config = recorded_config if root is None else replace(recorded_config, root=str(root.resolve()))
    _check_enough_episodes(config, ranks)
    check_files_known(config)
    if not has_checkpoint(folder):
        watch.on_note(f"{folder} has no checkpoint yet: the training begins anew")
        return start_run(folder, config, watch, ranks)
    store = config.open_store(watch.on_data)
    recorded = recorded_hash(folder)
    if store.content_hash != recorded:
        raise SalaError(
            f"the run {folder} was started on other data (hash {recorded[:12]}, now {store.content_hash[:12]}); "
            "bring back the data it had, or start a new run"
        )
    method = fresh_method(config, store)
    state = TrainState.fresh(method, config.train)
    samplers = samplers_of(config, store)
    with alone(folder) if ranks.is_first else nullcontext():
        _restore_newest(folder, method, state, watch)
        watch.on_note(_how_far(state.episode, config.budget.n_episodes))
        ranks.any(False)  # all have read before the first writes
        if ranks.is_first:
            forget_after(folder / "metrics.jsonl", state.episode)
            if n_episodes is not None:
                write_json(folder / "config.json", recorded_config.to_json())
        return _train(folder, config, method, samplers, state, watch, ranks)


def _how_far(episode: int, n_episodes: int) -> str:
    if episode >= n_episodes:
        return f"all {n_episodes:,} episodes are done; --episodes with a larger number extends the run"
    return f"going on after episode {episode:,} of {n_episodes:,}"


def _restore_newest(folder: Path, method: Method, state: TrainState, watch: Watch) -> None:
    """The last checkpoint, or the one before if the last is damaged or missing."""
    paths = [path for name in CHECKPOINTS if (path := folder / name).is_file()]
    for i, path in enumerate(paths):
        try:
            tensors, note = load_checkpoint(path)
        except SalaError as error:
            if i == len(paths) - 1:
                raise
            watch.on_warning(f"{error}. The one before it is used: {paths[i + 1].name}")
        else:
            return restore(path, tensors, note, method, state)
    return None


def _train(
    folder: Path,
    config: RunConfig,
    method: Method,
    samplers: tuple[EpisodeSampler, EpisodeSampler],
    state: TrainState,
    watch: Watch,
    ranks: Ranks,
) -> TrainState:
    if config.threads:
        torch.set_num_threads(config.threads)
    training, validation = samplers
    outside = nullcontext() if config.method in METHODS else plugins.blaming(method, config.method)
    with RunLog(folder) if ranks.is_first else nullcontext() as log, outside, _telling_how_to_go_on(folder):
        keeper = Keeper(folder, method, log, watch)
        state = train(
            method,
            training,
            config.train,
            state=state,
            validate=lambda m: evaluate(
                m,
                validation,
                config.budget.n_validation_episodes,
                embeddings=Embeddings(m, validation.store, ranks),
            ),
            on_episode=keeper.on_episode,
            on_record=keeper.on_record,
            initialize=lambda m: begin_with(config, m, watch),
            progress=False,
            should_stop=watch.should_stop,
            ranks=ranks,
        )
        keeper.save(state)
    return state


@contextmanager
def _telling_how_to_go_on(folder: Path) -> Iterator[None]:
    try:
        yield
    except LostOthers as error:
        raise SalaError(
            f"{error}. The last checkpoint is good: go on with `sala train --resume {folder}`, with as many processes as you "
            "like"
        ) from None
