"""What a run begins with: names of files, test shapes, length, episodes, the method and its initial weights."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import torch

from sala.data import ImageStore
from sala.episodes.fit import fit_to_classes
from sala.episodes.sampler import EpisodeSampler, fixed_sampler
from sala.errors import SalaError
from sala.methods import Method
from sala.nn import plugins
from sala.training.checkpoint import OPTIMIZER, load_checkpoint
from sala.training.config import RunConfig, run_folder
from sala.training.keeper import Watch

WEIGHTS = ("best.safetensors", "last.safetensors", "weights.safetensors")  # of a run, of a saved method


def named_by_user(config: RunConfig) -> RunConfig:
    """The config with absolute paths. Whoever starts a run names its files, and may open it later without naming them."""
    plugins.remember(config.method)
    plugins.remember(config.backbone, "backbone")
    init = config.init and str(run_folder(config.init).resolve())
    method, backbone = plugins.absolute(config.method), plugins.absolute(config.backbone, "backbone")
    return replace(config, method=method, backbone=backbone, init=init)


def check_files_known(config: RunConfig) -> None:
    """Refuse code that only the run names."""
    plugins.check_known(config.method)
    plugins.check_known(config.backbone, "backbone")


def fitted(config: RunConfig, store: ImageStore, watch: Watch, shapes: Collection[str]) -> RunConfig:
    """The config with episodes that fit the smallest class; what is changed is told."""
    protocol, notes = fit_to_classes(config.protocol, store, shapes)
    for note in notes:
        watch.on_note(note)
    return replace(config, protocol=protocol)


def extended(config: RunConfig, n_episodes: int | None) -> RunConfig:
    """The config of the same run with more episodes in all; earlier lengths are kept in the record."""
    if n_episodes is None:
        return config
    if n_episodes <= config.budget.n_episodes:
        raise SalaError(
            f"a run is extended to more episodes than it has, {config.budget.n_episodes:,}; got {n_episodes:,}; give the "
            "number in all"
        )
    budget = replace(config.budget, n_episodes=n_episodes)
    return replace(config, budget=budget, extended=(*config.extended, config.budget.n_episodes))


def training_sampler(config: RunConfig, store: ImageStore) -> EpisodeSampler:
    """The training episodes of a run."""
    p = config.protocol
    return EpisodeSampler(
        store,
        p.train,
        split="train",
        seed=config.seed,
        labeled_share=p.labeled_share,
        label_split_seed=p.label_split_seed,
    )


def samplers_of(config: RunConfig, store: ImageStore) -> tuple[EpisodeSampler, EpisodeSampler]:
    """Of training and of validation episodes."""
    p = config.protocol
    return training_sampler(config, store), fixed_sampler(store, p.validation, "val", p)


def fresh_method(config: RunConfig, store: ImageStore) -> Method:
    """The method with initial weights, on the device of the run."""
    torch.manual_seed(config.seed)
    method = config.build_method(store.image_shape)
    method.mixed_precision = config.mixed_precision
    return method.to(config.torch_device)


def begin_with(config: RunConfig, method: Method, watch: Watch) -> None:
    """Take the weights of another run, where one is named; what stays fresh is told."""
    if config.init is not None:
        fresh = take_weights(method, config.init)
        watch.on_note(f"beginning with the weights of {config.init}" + f"; fresh: {', '.join(fresh)}" * bool(fresh))


def take_weights(method: Method, run: Path | str) -> list[str]:
    """Copy what another run has under the same name and in the same shape; returns the names of what stays as it was.

    All of the backbone must be there. The rest may be another method's.
    """
    path = _weights_of(run)
    tensors, _ = load_checkpoint(path)
    given = {_plain(name): tensor for name, tensor in tensors.items() if not name.startswith(OPTIMIZER)}
    own = method.state_dict()
    taken = {name: given[_plain(name)] for name, tensor in own.items() if _fits(given.get(_plain(name)), tensor)}
    fresh = sorted(own.keys() - taken.keys())
    if missing := [name for name in fresh if name.startswith("backbone.")]:
        there = given.get(_plain(missing[0]))
        has = "is not there" if there is None else f"is {list(there.shape)} there"
        raise SalaError(
            f"the weights of {path} do not fit this backbone: {missing[0]} is {list(own[missing[0]].shape)} and {has}; "
            "begin with a run of the same backbone and image size"
        )
    if own and not taken:
        raise SalaError(f"{path} has no weights in common with {type(method).__name__}; leave out --init")
    method.load_state_dict(own | taken)
    return fresh


def _weights_of(run: Path | str) -> Path:
    folder = run_folder(run)
    for name in WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    raise SalaError(f"{run} has no weights to begin with; give a run folder, or one that sala.save wrote")


def _plain(name: str) -> str:
    """The name without the wrappers of a backbone: scaled or not, its weights are the same."""
    return re.sub(r"^backbone\.(network\.)+", "backbone.", name)


def _fits(found: object, tensor: object) -> bool:
    return getattr(found, "shape", None) == getattr(tensor, "shape", ())
