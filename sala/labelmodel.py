"""A model that labels images by their features: what it is made of, what it says, and its file.

`sala.engine` fits it, and has the whole interface.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala.belonging import Belonging
from sala.checkpoint import save_checkpoint
from sala.errors import SalaError
from sala.known import Known
from sala.modelfile import KIND, class_names, number, numbers_of, read_model, spoiled
from sala.points import Floats, normalised, to_tensor
from sala.refining import anchored
from sala.variation import Variation

FORMAT = 8
LARGEST = 1e6  # what no fit comes near: three of them multiplied are a number still


@dataclass(frozen=True)
class EngineConfig:
    """The knobs. Defaults were chosen on classes of tiny-tiered's training and validation splits (docs/practice.md)."""

    n_steps: int = 4  # of refinement
    sharpness: float = 20.0  # of class probabilities during refinement: softmax(sharpness * similarity)
    labelled_weight: float = 2.0  # of a labelled image, where a sure pool image counts 1
    anchor: float | None = None  # share of the first prototypes in those that classify; None: by the share of junk
    n_directions: int = (
        16  # in which images of a class differ most: they count less where classes are compared; 0: all alike
    )
    n_label_next: int = 50
    prior: tuple[float, float, float, float] = (3.33, 1.39, -1.11, -0.52)  # of the temperature: `temperature_prior`
    prior_strength: float = 5.0  # of that prior against left-out images: so many of these
    linear_weight: float | None = None  # of a linear classifier beside the prototypes; None: as left-out images tell

    def check(self) -> None:
        """Refuse what no fit can be made with."""
        anchor = 0.0 if self.anchor is None else self.anchor
        whole: tuple[Any, ...] = (self.n_steps, self.n_directions)
        linear = 0.0 if self.linear_weight is None else self.linear_weight
        real: tuple[Any, ...] = (self.sharpness, self.labelled_weight, anchor, linear)
        is_good = all(isinstance(x, Integral) and x >= 0 for x in whole)  # type: ignore[operator]
        is_good = is_good and all(isinstance(x, Real) and math.isfinite(x) for x in real)
        if (
            not is_good
            or min(self.sharpness, self.labelled_weight) <= 0
            or not 0 <= anchor <= 1
            or not 0 <= linear <= 100
        ):
            raise ValueError(
                "n_steps and n_directions are whole numbers from 0 on, sharpness and labelled_weight are above 0, anchor is "
                "0 to 1 or None, linear_weight is 0 to 100 or None; got "
                f"{(*whole, *real[:2], self.anchor, self.linear_weight)}"
            )


@dataclass(frozen=True)
class PoolLabels:
    """What is said of each image of a pool; the docstring of sala/engine.py has the fields."""

    probabilities: Floats  # [n, k], rows sum to 1
    label: NDArray[np.int64]  # [n]
    runner_up: NDArray[np.int64]  # [n]; the label itself where there is one class only
    none_score: Floats  # [n], in [0, 1]
    used: NDArray[np.bool_]  # [n]
    label_next: NDArray[np.int64]  # [m]


@dataclass(frozen=True)
class LabelModel:
    """Prototypes before and after refinement and those of junk, a linear classifier of the labelled images, and what turns
    similarities into probabilities."""

    classes: tuple[str, ...]
    centre: Tensor  # [d]
    spread: Tensor  # [d]
    known: Known  # which images are of any class
    variation: Variation  # of images of a class: taken out where classes are compared
    first: Tensor  # [k, d], of the labelled images alone
    hubs: Tensor  # [k], what similarities to these are lowered by
    refined: Tensor  # [k, d]
    linear: Tensor  # [k, d], a linear classifier of the labelled images, as much as it counts beside the prototypes
    anchor: float  # share of the first prototypes in those that classify
    inverse_temperature: float
    config: EngineConfig = field(default_factory=EngineConfig)
    note: dict[str, Any] = field(default_factory=dict)  # for the caller: encoder, date, ...

    def predict(self, features: Floats) -> PoolLabels:
        """Labels for new images, which change nothing in the model."""
        if features.ndim != 2 or features.shape[1] != len(self.centre):
            raise SalaError(f"the model knows features [n, {len(self.centre)}]; got {list(features.shape)}")
        points = normalised(to_tensor(features), self.centre, self.spread)
        none = self.known.none_of(points)
        if not none.isfinite().all():
            row = int((~none.isfinite()).nonzero()[0])
            raise SalaError(f"features must be finite numbers; row {row} has some that are nan, infinite or too large")
        points = self.variation.taken_out_of(points)
        to_first = points @ self.first.T - self.hubs
        similarities = anchored(points @ self.refined.T, to_first, self.anchor) + points @ self.linear.T
        return self._describe(points, similarities, none)

    def _describe(self, points: Tensor, similarities: Tensor, none: Tensor) -> PoolLabels:  # [n, d], [n, k], [n]
        p = (self.inverse_temperature * similarities).softmax(-1)
        label = p.argmax(-1, keepdim=True)
        runner_up = p.scatter(1, label, -1.0).argmax(-1)  # of one class, that class
        return PoolLabels(
            probabilities=p.numpy(),
            label=label[:, 0].numpy(),
            runner_up=runner_up.numpy(),
            none_score=none.numpy(),
            used=np.zeros(len(points), bool),
            label_next=label_next(points, p, 1 - none, self.config.n_label_next).numpy(),
        )

    def save(self, path: Path | str) -> None:
        """One safetensors file with a JSON note in its header, written whole or not at all."""
        tensors = self._parts()
        note = {
            "format": FORMAT,
            "kind": KIND,
            "classes": list(self.classes),
            "belonging": vars(self.known.belonging),
            "anchor": self.anchor,
            "inverse_temperature": self.inverse_temperature,
            "config": {key: plain_number(value) for key, value in vars(self.config).items()},
            "note": self.note,
        }
        save_checkpoint(Path(path), tensors, note)

    def _parts(self) -> dict[str, Tensor]:
        known = {"known_first": self.known.first, "known_refined": self.known.refined}
        known |= {"others": self.known.others, "marked": self.known.marked}
        own = {name: getattr(self, name) for name in ("centre", "spread", "first", "hubs", "refined", "linear")}
        return own | known | vars(self.variation)

    def _check(self) -> None:
        """Refuse what no fit has made, and what would answer with nonsense."""
        k, d, r = len(self.classes), len(self.centre), len(self.variation.removed)
        vectors = {
            "centre": (d,),
            "spread": (d,),
            "hubs": (k,),
            "removed": (r,),
            "directions": (d, r),
            "others": (len(self.known.others), d),
            "marked": (len(self.known.marked), d),
        }
        parts = self._parts()
        fits = all(part.shape == vectors.get(name, (k, d)) for name, part in parts.items())
        fits = fits and all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in parts.values())
        fits = fits and self.known.belonging.n_way == k > 0
        compared = [part for name, part in parts.items() if name not in ("centre", "spread") and part.numel()]
        fits = fits and all(float(part.abs().max()) < LARGEST for part in compared)
        if not fits or not self.variation.is_good():
            raise ValueError("its parts do not fit each other, or are no numbers")
        if not bool((self.spread >= 0).all()):
            raise ValueError("its parts do not fit each other, or are no numbers")
        if not 0 <= self.anchor <= 1 or not 0 < self.inverse_temperature < LARGEST:
            raise ValueError("its temperature or anchor is out of range")
        self.config.check()

    @classmethod
    def load(cls, path: Path | str) -> LabelModel:
        tensors, note = read_model(Path(path), FORMAT)
        try:
            config = numbers_of(EngineConfig, note["config"])
            model = cls(
                class_names(note["classes"]),
                tensors["centre"],
                tensors["spread"],
                Known(
                    tensors["known_first"],
                    tensors["known_refined"],
                    tensors["others"],
                    tensors["marked"],
                    numbers_of(Belonging, note["belonging"]),
                ),
                Variation(tensors["directions"], tensors["removed"]),
                tensors["first"],
                tensors["hubs"],
                tensors["refined"],
                tensors["linear"],
                anchor=number(note["anchor"]),
                inverse_temperature=number(note["inverse_temperature"]),
                config=config,
                note=dict(note["note"]),
            )
            model._check()
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise spoiled(Path(path), error) from None
        return model


def plain_number(value: Any) -> Any:
    """Numbers of numpy, as a search over np.arange gives them, are none to JSON."""
    return value.item() if isinstance(value, np.generic) else value


def label_next(points: Tensor, probabilities: Tensor, known: Tensor, n: int) -> Tensor:  # -> [m] rows
    """Uncertain and representative images, most useful first, and no two of a kind; none that is rather junk, unless all are:
    a label for junk helps no class.

    worth = entropy x probability to be known x mean similarity to the pool; each choice lowers the worth of what is
    similar to it. Entropy and probability preselect, so the cost is linear.
    """
    rows = (known >= min(0.5, float(known.max()))).nonzero()[:, 0] if len(known) else torch.zeros(0, dtype=torch.long)
    p, sample = probabilities[rows], points[rows[:: max(1, len(rows) // 500)]]
    doubt = -(p * p.clamp_min(1e-12).log()).sum(-1) * known[rows]
    doubt, chosen_first = doubt.topk(min(len(doubt), max(10 * n, 200)))
    candidates = rows[chosen_first]
    x = points[candidates]
    worth = doubt * (x @ sample.T).clamp_min(0).mean(-1).sqrt()
    chosen = []
    for _ in range(min(n, len(candidates))):
        best = int(worth.argmax())
        chosen.append(best)
        worth = worth * (1 - (x @ x[best]).clamp(0, 1))
        worth[chosen] = -1.0
    return candidates[torch.tensor(chosen, dtype=torch.long)]
