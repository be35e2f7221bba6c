"""What a user asked for on the command line, as parts of a `RunConfig`. An option that was not given is None."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sala.episodes.protocol import PROTOCOLS, Budget, EpisodeShape, Protocol
from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.training.config import RunConfig

T = TypeVar("T")
Numbers = dict[str, int | None]  # fields of an `EpisodeShape`
TRAINED = ("n_query", "n_unlabeled")  # numbers that a user sets for training alone


def numbers(
    ways: int | None, shots: int | None, queries: int | None, unlabeled: int | None, distractors: int | None
) -> Numbers:
    """Options as fields of an `EpisodeShape`."""
    return {"n_way": ways, "n_shot": shots, "n_query": queries, "n_unlabeled": unlabeled, "n_distractor": distractors}


def protocol(
    dataset: str, seed: int, labeled_share: float | None, distance_scale: float | None, numbers: Numbers
) -> Protocol:
    """The dataset's protocol, with other choices where they are given; a distance scale of 0 is distances as printed."""
    from sala.data import dataset_named

    common = {name: number for name, number in numbers.items() if name not in TRAINED}
    asked = PROTOCOLS[dataset_named(dataset).name].with_shape(**common)
    return replace(
        asked,
        train=with_numbers(asked.train, **{name: numbers[name] for name in TRAINED}),
        labeled_share=given(labeled_share, asked.labeled_share),
        label_split_seed=seed,
        distance_scale=asked.distance_scale if distance_scale is None else distance_scale or None,
    )


def tested_on(protocol: Protocol, n_query: int | None, n_unlabeled: int | None) -> Protocol:
    """The protocol with other queries and unlabeled images in validation and test, where they are given."""
    numbers = {"n_query": n_query, "n_unlabeled": n_unlabeled}
    return replace(protocol, test={name: with_numbers(shape, **numbers) for name, shape in protocol.test.items()})


def optimized(
    protocol: Protocol,
    learning_rate: float | None,
    weight_decay: float | None,
    optimizer: str | None,
    schedule: str | None,
) -> Protocol:
    """The protocol with another learning rate, weight decay, optimizer or schedule, where one is given."""
    return replace(
        protocol,
        learning_rate=given(learning_rate, protocol.learning_rate),
        weight_decay=given(weight_decay, protocol.weight_decay),
        optimizer=given(optimizer, protocol.optimizer),
        schedule=given(schedule, protocol.schedule),
    )


def with_numbers(shape: EpisodeShape, **numbers: int | None) -> EpisodeShape:
    """The shape with the numbers that are given."""
    return replace(shape, **{name: number for name, number in numbers.items() if number is not None})


def evaluation_shapes(protocol: Protocol, setting: str | None, **numbers: int | None) -> dict[str, EpisodeShape]:
    """The test settings by name, or the one that is asked for; only `asked` where the numbers make several the same."""
    settings = {setting: protocol.test_shape(setting)} if setting else protocol.test
    return together({name: with_numbers(shape, **numbers) for name, shape in settings.items()})


def together(shapes: dict[str, EpisodeShape]) -> dict[str, EpisodeShape]:
    """The shapes by name; only `asked` where several are the same."""
    one, *others = shapes.values()
    return {"asked": one} if others and set(others) == {one} else shapes


def budget(protocol: Protocol, name: str, episodes: int | None, validate_every: int | None) -> Budget:
    """A budget of the protocol, with other numbers where they are given."""
    asked = protocol.budget(name, episodes)
    return replace(asked, validate_every=given(validate_every, asked.validate_every))


def run(
    method: str, pairs: list[str], transductive: bool, protocol: Protocol, budget: Budget, seed: int, backbone: str,
    init: Path | None, rest: dict[str, Any],
) -> RunConfig:  # fmt: skip
    """All that determines a run; `pairs` are its method's options as name=value."""
    from sala.training.config import RunConfig

    options = method_options(pairs, transductive)
    return RunConfig(method, protocol, budget, seed, backbone, options, init=str(init) if init else None, **rest)


def method_options(pairs: list[str], transductive: bool) -> dict[str, str]:
    """Options of a method by name, from `name=value`."""
    options = {}
    for pair in [*pairs, *(["transductive=true"] if transductive else [])]:
        name, sign, value = pair.partition("=")
        if not sign:
            raise SalaError(f"--set wants name=value; got {pair!r}")
        options[name] = value
    return options


def data(root: Path | None, image_size: int | None, split_file: Path | None, split_seed: int | None) -> dict[str, Any]:
    """Where the data is and how it is read, as fields of a `RunConfig`."""
    place = str(root.resolve()) if root else None
    return {"root": place, "image_size": image_size, "data_options": data_options(split_file, split_seed)}


def machine(threads: int, device: str, precision: str) -> dict[str, Any]:
    """On what it is computed, as fields of a `RunConfig`."""
    return {"threads": threads, "device": device, "precision": precision}


def data_options(split_file: Path | None, split_seed: int | None) -> dict[str, Any]:
    """What a user said about the split of the classes, and only that."""
    options = {"split_file": split_file and str(split_file.resolve()), "split_seed": split_seed}
    return {name: value for name, value in options.items() if value is not None}


def given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value
