"""Run folders: a training that can be stopped, continued, measured and loaded.

config.json      what was asked for: method, options, data, protocol, budget, seed
manifest.json    under which circumstances: versions, machine, data hash, command
metrics.jsonl    one line per validation
best.safetensors, last.safetensors    weights; `last` also carries the optimiser and the position, as does `previous`,
                 the checkpoint before the last
results/         evaluations, with their per-episode accuracies
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sala.backbones import build_backbone
from sala.checkpoint import load_checkpoint, save_checkpoint, write_json
from sala.data import ImageStore
from sala.errors import SalaError
from sala.evaluate import Embeddings, evaluate
from sala.methods import METHODS, Method, build_method, plugins
from sala.ranks import ALONE, LostOthers, Ranks
from sala.runconfig import RunConfig, read_config
from sala.runfolder import CHECKPOINTS, alone, check_free, clear, has_checkpoint
from sala.runlog import RunLog, forget_after, manifest, recorded_hash
from sala.sampler import EpisodeSampler, fixed_sampler
from sala.train import Record, TrainState, train

SAVE_EVERY = 30.0  # seconds; when to save has no influence on what is computed
OPTIMIZER = "optimizer."


@dataclass(frozen=True)
class Watch:
    """Who is told about a training while it goes on. All optional."""

    on_data: Callable[[int, int], None] | None = None
    on_episode: Callable[[TrainState, float], None] | None = None
    on_record: Callable[[TrainState, Record], None] | None = None
    should_stop: Callable[[], bool] = lambda: False
    on_warning: Callable[[str], None] = warnings.warn
    on_note: Callable[[str], None] = lambda _: None  # what goes as it should


def start_run(folder: Path | str, config: RunConfig, watch: Watch | None = None, ranks: Ranks = ALONE) -> TrainState:
    """Train from the beginning into a new folder. Of several processes, the first writes it."""
    folder, watch = Path(folder), watch or Watch()
    _check_enough_episodes(config, ranks)
    if ranks.is_first:
        check_free(folder)
    if plugins.is_file(config.method):
        plugins.remember(config.method)
        config = replace(config, method=plugins.absolute(config.method))
    store = config.open_store(watch.on_data)
    method = _fresh_method(config, store)
    samplers = _samplers(config, store)  # before anything is written: an impossible request leaves no folder
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
    folder: Path | str, watch: Watch | None = None, ranks: Ranks = ALONE, *, root: Path | None = None
) -> TrainState:
    """Go on where the last checkpoint of a run is; the end is the same, bit for bit, as without the interruption. The number
    of processes may be another one, which changes the order of sums and so the last bits. `root` is where the data is now, if
    not where it was."""
    folder, watch = Path(folder), watch or Watch()
    config = read_config(folder)
    config = config if root is None else replace(config, root=str(root.resolve()))
    _check_enough_episodes(config, ranks)
    if plugins.is_file(config.method):
        plugins.check_known(config.method)
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
    method = _fresh_method(config, store)
    state = TrainState.fresh(method, config.train)
    samplers = _samplers(config, store)
    with alone(folder) if ranks.is_first else nullcontext():
        _restore_newest(folder, method, state, watch)
        watch.on_note(f"going on after episode {state.episode:,} of {config.budget.n_episodes:,}")
        ranks.any(False)  # all have read before the first writes
        if ranks.is_first:
            forget_after(folder / "metrics.jsonl", state.episode)
        return _train(folder, config, method, samplers, state, watch, ranks)


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
            return _restore(path, tensors, note, method, state)
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
        keeper = _Keeper(folder, method, log, watch)
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


class _Keeper:
    """Keeps a training on disk while it goes on, and tells those who watch it. Without a log it is one of the processes that
    write nothing."""

    def __init__(self, folder: Path, method: Method, log: RunLog | None, watch: Watch):
        self.folder, self.method, self.log, self.watch = folder, method, log, watch
        self.saved_at = time.monotonic()

    def on_episode(self, state: TrainState, loss: float) -> None:
        if time.monotonic() - self.saved_at > SAVE_EVERY:
            self.save(state)
        if self.watch.on_episode:
            self.watch.on_episode(state, loss)

    def on_record(self, state: TrainState, record: Record) -> None:
        if self.log is None:
            return
        if record.is_best:
            _check_finite(self.method)
            save_checkpoint(self.folder / "best.safetensors", self.method.state_dict(), _note(self.method, state))
        self.log.write(record)
        self.save(state)
        if self.watch.on_record:
            self.watch.on_record(state, record)

    def save(self, state: TrainState) -> None:
        if self.log is None:
            return
        _check_finite(self.method)
        tensors = {**self.method.state_dict(), **_optimizer_tensors(self.method, state)}
        last, previous = (self.folder / name for name in CHECKPOINTS)
        save_checkpoint(last, tensors, _note(self.method, state), previous=previous)
        self.saved_at = time.monotonic()


def _samplers(config: RunConfig, store: ImageStore) -> tuple[EpisodeSampler, EpisodeSampler]:
    p = config.protocol
    training = EpisodeSampler(
        store,
        p.train,
        split="train",
        seed=config.seed,
        labeled_share=p.labeled_share,
        label_split_seed=p.label_split_seed,
    )
    return training, fixed_sampler(store, p.validation, "val", p)


def _fresh_method(config: RunConfig, store: ImageStore) -> Method:
    torch.manual_seed(config.seed)
    method = build_method(
        config.method,
        build_backbone(config.backbone, store.image_shape),
        config.options,
        selection_share=config.protocol.train.selection_share,
    )
    method.mixed_precision = config.mixed_precision
    return method.to(config.torch_device)


def _note(method: Method, state: TrainState) -> dict[str, Any]:
    return {**_position(state), "image_shape": method.backbone.image_shape}


def _position(state: TrainState) -> dict[str, Any]:
    return {name: value for name, value in vars(state).items() if name != "optimizers"}


def _check_finite(method: Method) -> None:
    for name, tensor in method.state_dict().items():
        if not bool(torch.isfinite(tensor).all()):
            raise SalaError(
                f"the weights {name} are no longer finite; the last good weights are kept. Lower the learning rate"
            )


def _optimizer_tensors(method: Method, state: TrainState) -> dict[str, Tensor]:
    names = {id(parameter): name for name, parameter in method.named_parameters()}
    return {
        f"{OPTIMIZER}{player}.{key}.{names[id(parameter)]}": torch.as_tensor(value)
        for player, optimizer in state.optimizers.items()
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }


def load_weights(path: Path, method: Method, tensors: Mapping[str, Tensor]) -> None:
    """Put the weights of a checkpoint into the method that it was made from."""
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(OPTIMIZER)}
    try:
        method.load_state_dict(weights)
    except RuntimeError:
        raise SalaError(
            f"{path} holds weights that do not fit {type(method).__name__} with the options of the run; they are of another "
            "method, backbone or image size"
        ) from None


def _restore(
    path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any], method: Method, state: TrainState
) -> None:
    load_weights(path, method, tensors)
    try:
        _restore_optimizers(method, state, tensors)
        for name, value in _position(state).items():
            setattr(state, name, type(value)(note[name]))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise SalaError(f"{path} holds no position to continue from ({error}); start a new run") from None


def _restore_optimizers(method: Method, state: TrainState, tensors: Mapping[str, Tensor]) -> None:
    parameters = dict(method.named_parameters())
    for full_name, tensor in tensors.items():
        if full_name.startswith(OPTIMIZER):
            player, key, name = full_name.removeprefix(OPTIMIZER).split(".", 2)
            if tensor.ndim and tensor.shape != parameters[name].shape:
                raise ValueError(f"{full_name} has another shape")
            if tensor.ndim:  # the fused optimiser walks through memory: the moments lie there as the parameter does
                tensor = torch.empty_like(parameters[name], requires_grad=False).copy_(tensor)
            state.optimizers[player].state[parameters[name]][key] = tensor.to(parameters[name].device)
