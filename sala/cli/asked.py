"""What a user asked for on the command line, as parts of a `RunConfig`. An option that was not given is None."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sala.episodes.protocol import PROTOCOLS, Budget, EpisodeShape, Protocol
from sala.errors import SalaError

T = TypeVar("T")


def protocol(
    dataset: str, labeled_share: float | None, seed: int, *, n_unlabeled: int | None, n_query: int | None, **shape: Any
) -> Protocol:
    """The dataset's protocol, with other numbers where they are given: `shape` in training and test alike."""
    from sala.data import dataset_named

    asked = PROTOCOLS[dataset_named(dataset).name].with_shape(**shape)
    return replace(
        asked,
        train=with_numbers(asked.train, n_unlabeled=n_unlabeled, n_query=n_query),
        labeled_share=given(labeled_share, asked.labeled_share),
        label_split_seed=seed,
    )


def scaled(protocol: Protocol, distance_scale: float | None) -> Protocol:
    """The protocol with another scale of distances where one is given; 0 is distances as printed."""
    return protocol if distance_scale is None else replace(protocol, distance_scale=distance_scale or None)


def with_numbers(shape: EpisodeShape, **numbers: int | None) -> EpisodeShape:
    """The shape with the numbers that are given."""
    return replace(shape, **{name: number for name, number in numbers.items() if number is not None})


def evaluation_shapes(protocol: Protocol, setting: str | None, **numbers: int | None) -> dict[str, EpisodeShape]:
    """The test settings by name, or the one that is asked for; one of them where the numbers make all the same."""
    settings = {setting: protocol.test_shape(setting)} if setting else protocol.test
    shapes = {name: with_numbers(shape, **numbers) for name, shape in settings.items()}
    return dict(list(shapes.items())[:1]) if len(set(shapes.values())) == 1 else shapes


def budget(protocol: Protocol, name: str, episodes: int | None, validate_every: int | None) -> Budget:
    """A budget of the protocol, with other numbers where they are given."""
    asked = protocol.budget(name, episodes)
    return replace(asked, validate_every=given(validate_every, asked.validate_every))


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


def data_options(split_file: Path | None, split_seed: int | None) -> dict[str, Any]:
    """What a user said about the split of the classes, and only that."""
    options = {"split_file": split_file and str(split_file.resolve()), "split_seed": split_seed}
    return {name: value for name, value in options.items() if value is not None}


def given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value
