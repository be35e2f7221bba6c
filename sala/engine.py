"""Labels for a pool of images from a few labelled ones: SALA's pipeline on features that are already there.

The interface, all of it on features `[n, d]` of any encoder and any scale:

    fitted = fit_labels(labelled, labels, pool, classes=names)   # labels: 0 .. k-1, each at least once; pool may be empty
    fitted.pool                                                  # PoolLabels: one row for each pool image
      .probabilities [n, k]   calibrated, among the known classes
      .label, .runner_up [n]  the most and second most probable class
      .none_score [n]         probability that the image is of none of the classes
      .used [n]               whether it took part in the refinement
      .label_next [m]         pool rows whose label would help most, in order
    fitted.held_out                                              # HeldOut: labelled images without themselves, for reliability
    fitted.model                                                 # LabelModel: predicts on new features
    model.predict(features) -> PoolLabels;  model.save(path);  LabelModel.load(path)
    sala.aside.aside_threshold(none_score, precision=0.9, left_out=fitted.left_out_none)
                                                                 # set aside what scores higher: so many of them are junk

How it works. Features are centred by the mean of all of them, or where the pool has but some of the classes nearer to that
of the labelled images, divided by how much each differs between them, and each image's
are scaled to length 1 (sala/points.py), so that a product of two is a similarity.
Prototypes are the means of the labelled images. Each of a few steps gives each pool image a probability for every class and
a probability to be of any class at all, and moves the prototypes by the images in proportion to both: confident
neighbours count, junk does not. Nothing assumes that classes are equally large, nor how much of the pool is junk; that
share is estimated. What seems to be junk in the end gets prototypes of its own, which tell more of it (sala/known.py).
What images of a class were then found to differ in is taken out of all points (sala/variation.py), and the classes are told
apart by what remains, after one step more. Costs are linear in the pool.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from sala.known import Known, known_by
from sala.modelfile import KIND, read_model, spoiled
from sala.points import Floats, centre_of, normalised, spread_of, to_tensor
from sala.refining import Refined, anchored, in_larger_classes, refine, refined_by
from sala.variation import Variation, no_variation, variation_of

FORMAT = 6
VARIATION_SAMPLE = 1_000  # to 2,000 images of a pool by which it is told what those of a class differ in
USUAL_LIKENESS, USUAL_CONTRAST = 0.50, 0.22  # of tasks in docs/practice.md
USUAL_STRENGTH = 1.0  # and how many images that counts for


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
    prior: tuple[float, float, float, float] = (3.37, 1.4, -1.11, -0.54)  # of the temperature: see `temperature_prior`
    prior_strength: float = 20.0  # of that prior against leave-one-out: so many labelled images

    def check(self) -> None:
        """Refuse what no fit can be made with."""
        anchor = 0.0 if self.anchor is None else self.anchor
        whole: tuple[Any, ...] = (self.n_steps, self.n_directions)
        real: tuple[Any, ...] = (self.sharpness, self.labelled_weight, anchor)
        is_good = all(isinstance(x, Integral) and x >= 0 for x in whole)  # type: ignore[operator]
        is_good = is_good and all(isinstance(x, Real) and math.isfinite(x) for x in real)
        if not is_good or min(self.sharpness, self.labelled_weight) <= 0 or not 0 <= anchor <= 1:
            raise ValueError(
                "n_steps and n_directions are whole numbers from 0 on, sharpness and labelled_weight are above 0, anchor is "
                f"0 to 1 or None; got {(*whole, *real[:2], self.anchor)}"
            )


@dataclass(frozen=True)
class PoolLabels:
    """What is said of each image of a pool; the module's docstring has the fields."""

    probabilities: Floats  # [n, k], rows sum to 1
    label: NDArray[np.int64]  # [n]
    runner_up: NDArray[np.int64]  # [n]; the label itself where there is one class only
    none_score: Floats  # [n], in [0, 1]
    used: NDArray[np.bool_]  # [n]
    label_next: NDArray[np.int64]  # [m]


@dataclass(frozen=True)
class LabelModel:
    """Prototypes before and after refinement and those of junk, and what turns similarities to them into probabilities."""

    classes: tuple[str, ...]
    centre: Tensor  # [d]
    spread: Tensor  # [d]
    known: Known  # which images are of any class
    variation: Variation  # of images of a class: taken out where classes are compared
    first: Tensor  # [k, d], of the labelled images alone
    hubs: Tensor  # [k], what similarities to these are lowered by
    refined: Tensor  # [k, d]
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
        return self._describe(points, anchored(points @ self.refined.T, to_first, self.anchor), none)

    def _describe(self, points: Tensor, similarities: Tensor, none: Tensor) -> PoolLabels:  # [n, d], [n, k], [n]
        p = (self.inverse_temperature * similarities).softmax(-1)
        top = p.topk(min(2, p.shape[1]), -1).indices
        return PoolLabels(
            probabilities=p.numpy(),
            label=top[:, 0].numpy(),
            runner_up=top[:, -1].numpy(),
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
        known = {"known_first": self.known.first, "known_refined": self.known.refined, "others": self.known.others}
        own = {name: getattr(self, name) for name in ("centre", "spread", "first", "hubs", "refined")}
        return own | known | vars(self.variation)

    def _check(self) -> None:
        """Refuse what no fit has made, and what would answer with nonsense."""
        k, d, r, j = len(self.classes), len(self.centre), len(self.variation.removed), len(self.known.others)
        vectors = {
            "centre": (d,),
            "spread": (d,),
            "hubs": (k,),
            "removed": (r,),
            "directions": (d, r),
            "others": (j, d),
        }
        parts = self._parts()
        fits = all(part.shape == vectors.get(name, (k, d)) for name, part in parts.items())
        fits = fits and all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in parts.values())
        fits = fits and self.known.belonging.n_way == k > 0
        if not fits or not self.variation.is_good():
            raise ValueError("its parts do not fit each other, or are no numbers")
        if not bool((self.spread >= 0).all()):
            raise ValueError("its parts do not fit each other, or are no numbers")
        if not 0 <= self.anchor <= 1 or not 0 < self.inverse_temperature < math.inf:
            raise ValueError("its temperature or anchor is out of range")
        self.config.check()

    @classmethod
    def load(cls, path: Path | str) -> LabelModel:
        tensors, note = read_model(Path(path), FORMAT)
        try:
            config = EngineConfig(**(note["config"] | {"prior": tuple(note["config"]["prior"])}))
            model = cls(
                tuple(map(str, note["classes"])),
                tensors["centre"],
                tensors["spread"],
                Known(
                    tensors["known_first"], tensors["known_refined"], tensors["others"], Belonging(**note["belonging"])
                ),
                Variation(tensors["directions"], tensors["removed"]),
                tensors["first"],
                tensors["hubs"],
                tensors["refined"],
                anchor=float(note["anchor"]),
                inverse_temperature=float(note["inverse_temperature"]),
                config=config,
                note=dict(note["note"]),
            )
            model._check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise spoiled(Path(path), error) from None
        return model


@dataclass(frozen=True)
class HeldOut:
    """Labelled images that were left out in turn, of classes with two or more: what is said of them then, and the truth.

    Images of the pool that came to a class by them stay there, so they are told somewhat better than new images are, and the
    more so the smaller the pool is."""

    probabilities: Floats  # [m, k]
    labels: NDArray[np.int64]  # [m]
    none_score: Floats  # [m]


@dataclass(frozen=True)
class Fitted:
    """A model, what it says of the pool that it was fitted on, and of labelled images that were left out in turn."""

    model: LabelModel
    pool: PoolLabels
    held_out: HeldOut

    @property
    def left_out_none(self) -> Floats:  # [m]
        """None-of-these scores of labelled images that were left out, for `sala.aside`. None where a class has one image
        alone, since such a class has a worse prototype than those that would speak for it."""
        is_of_all = len(np.unique(self.held_out.labels)) == len(self.model.classes)
        return self.held_out.none_score if is_of_all else self.held_out.none_score[:0]


@torch.inference_mode()
def fit_labels(
    labelled: Floats,
    labels: NDArray[np.int64],
    pool: Floats,
    *,
    classes: Sequence[str] | None = None,
    config: EngineConfig | None = None,
) -> Fitted:
    """Label a pool from a few labelled images: `[s, d], [s], [n, d]`."""
    config = config or EngineConfig()
    config.check()
    names = _checked_classes(labelled, labels, pool, classes)
    support, y = to_tensor(labelled), torch.from_numpy(np.asarray(labels, np.int64))
    points = to_tensor(pool)
    centre = centre_of(support, y, points)
    if not centre.isfinite().all():
        raise SalaError("features must be finite numbers; some are nan or infinite (or too large to be summed)")
    spread = spread_of([support, points], centre)
    support, points = (normalised(part, centre, spread) for part in (support, points))
    found = refine(
        points, support, y, n_steps=config.n_steps, sharpness=config.sharpness, labelled_weight=config.labelled_weight,
        anchor=config.anchor,
    )  # fmt: skip
    known, none, left_out_none = known_by(found, points)
    variation = no_variation(points)
    if config.n_steps and config.n_directions:
        variation = _variation(found, points, known.belonging.none_share, config.n_directions)
        support, points = (variation.taken_out_of(part) for part in (support, points))
        found = refined_by(found, points, support, 1 - none, sharpness=config.sharpness)
    similarities = anchored(found.to_refined(points), points @ found.first.T - found.hubs, found.anchor)
    held_out, rows = found.held_out(found.anchor) - found.anchor * found.hubs, in_larger_classes(y)
    prior = temperature_prior(likeness(similarities, 1 - none), contrast(similarities, 1 - none), len(names), config)
    beta = fit_temperature(held_out, y[rows], prior, config.prior_strength)
    model = LabelModel(
        names, centre, spread, known, variation, found.first, found.hubs, found.prototypes, found.anchor, beta, config
    )
    described = model._describe(points, similarities, none)
    left_out = HeldOut((beta * held_out).softmax(-1).numpy(), y[rows].numpy(), left_out_none.numpy())
    return Fitted(model, PoolLabels(**(vars(described) | {"used": found.used.numpy()})), left_out)


def _variation(found: Refined, points: Tensor, none_share: float, n_directions: int) -> Variation:
    """Of classes as a refinement found them; of a large pool in a regular sample."""
    rows = slice(None, None, max(1, len(points) // VARIATION_SAMPLE))
    return variation_of(points[rows], found.weights[rows], none_share, n_directions)


def plain_number(value: Any) -> Any:
    """Numbers of numpy, as a search over np.arange gives them, are none to JSON."""
    return value.item() if isinstance(value, np.generic) else value


def _checked_classes(
    labelled: Floats, labels: NDArray[np.int64], pool: Floats, classes: Sequence[str] | None
) -> tuple[str, ...]:
    if labelled.ndim != 2 or pool.ndim != 2 or labelled.shape[1] != pool.shape[1]:
        raise SalaError(f"features are [n, d] with one d; got {list(labelled.shape)} and {list(pool.shape)}")
    if not len(labelled) or len(labels) != len(labelled):
        raise SalaError(f"each labelled image needs a label, and there must be one; got {len(labelled)}, {len(labels)}")
    if not labelled.shape[1]:
        raise SalaError("features have no columns; an encoder gives at least one number for an image")
    n_way = int(np.max(labels)) + 1 if classes is None else len(classes)
    missing = sorted(set(range(n_way)) - set(np.asarray(labels).tolist()))
    if missing or np.min(labels) < 0 or np.max(labels) >= n_way:
        raise SalaError(f"labels are 0 .. {n_way - 1}, each at least once; missing: {missing[:5]}, give them an image")
    return tuple(map(str, classes if classes is not None else range(n_way)))


def likeness(similarities: Tensor, known: Tensor) -> float:  # [n, k], [n]
    """How similar images of a pool are to the prototype of their class."""
    return _typical(similarities.amax(-1), known, USUAL_LIKENESS)


def contrast(similarities: Tensor, known: Tensor) -> float:  # [n, k], [n]
    """How much an image's similarities to the classes differ: their standard deviation. With one class they do not."""
    n, n_way = similarities.shape
    return _typical(similarities.std(-1) if n and n_way > 1 else torch.zeros(n), known, USUAL_CONTRAST)


def _typical(values: Tensor, known: Tensor, usual: float) -> float:
    """The mean over a pool in which each image counts as much as it seems to be of any class; one image's worth of what is
    usual keeps a pool of very few from saying much."""
    total = float((known * values).sum()) if len(known) else 0.0
    return (total + USUAL_STRENGTH * usual) / (float(known.sum()) + USUAL_STRENGTH)


def temperature_prior(alike: float, differing: float, n_way: int, config: EngineConfig) -> float:
    """The inverse temperature of probabilities, from what the pool itself tells; coefficients fitted on other data.

    The more alike the images of a class are, the better features tell classes apart, and the more a difference of
    similarities says; the more similarities differ anyhow, the less: log beta = a + b log likeness + c log contrast + d log k.
    """
    a, b, c, d = config.prior
    log_beta = a + b * math.log(max(alike, 1e-3)) + c * math.log(max(differing, 1e-3)) + d * math.log(n_way)
    return min(max(math.exp(log_beta), 3.0), 60.0)  # the range that was seen


def fit_temperature(similarities: Tensor, labels: Tensor, prior: float, strength: float) -> float:
    """The inverse temperature with the highest likelihood on held-out similarities, drawn to a prior.

    Minimises sum_s -log softmax(beta s)_y + strength / 2 (log beta - log prior)^2 over a grid; with no similarities
    it is the prior.
    """
    grid = prior * torch.logspace(-0.8, 0.8, 161, dtype=torch.float64)
    if not len(labels) or similarities.shape[1] < 2:
        return prior
    logits = grid[:, None, None] * similarities.double()
    nll = -logits.log_softmax(-1)[:, torch.arange(len(labels)), labels].sum(-1)
    return float(grid[(nll + strength / 2 * (grid / prior).log().square()).argmin()])


def label_next(points: Tensor, probabilities: Tensor, known: Tensor, n: int) -> Tensor:  # -> [m] rows
    """Uncertain and representative images, most useful first, and no two of a kind; none that is rather junk, unless all are:
    a label for junk helps no class.

    worth = entropy x probability to be known x mean similarity to the pool; each choice lowers the worth of what is
    similar to it. Entropy and probability preselect, so the cost is linear.
    """
    rows = (known >= min(0.5, float(known.max()))).nonzero()[:, 0] if len(known) else torch.zeros(0, dtype=torch.long)
    p, sample = probabilities[rows], points[rows[:: max(1, len(rows) // 1000)]]
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
