"""Labels for a pool of images from a few labelled ones: SALA's pipeline on features that are already there.

The interface, all of it on features `[n, d]` of any encoder and any scale:

    fitted = fit_labels(labelled, labels, pool, classes=names)   # labels: 0 .. k-1, each at least once; pool may be empty
                                                                 # junk=features of images that are of none, if some are known
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
share is estimated. What seems to be junk in the end gets prototypes of its own, which tell more of it (sala/known.py);
and so do images that are said to be junk.
What images of a class were then found to differ in is taken out of all points (sala/variation.py), and the classes are told
apart by what remains, after one step more. Labelled images of classes with two or more are left out in turn, and the pool
is sorted anew without them (sala/leftout.py): that tells how sure one may be, and how much a linear classifier of the
labelled images is to count beside the prototypes (sala/linear.py). Costs are linear in the pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala.belonging import of_all_sorts
from sala.errors import SalaError
from sala.labelmodel import EngineConfig, LabelModel, PoolLabels
from sala.leftout import MAX_KEPT, evenly, fit_probabilities, left_out, sample_of
from sala.linear import linear_classifier
from sala.points import Floats, centre_of, normalised, spread_of, to_tensor
from sala.sorting import Sorted, sorted_by

__all__ = ["EngineConfig", "Fitted", "HeldOut", "LabelModel", "PoolLabels", "fit_labels"]

USUAL_LIKENESS, USUAL_CONTRAST = 0.50, 0.22  # of tasks in docs/practice.md
USUAL_STRENGTH = 1.0  # and how many images that counts for


@dataclass(frozen=True)
class HeldOut:
    """Labelled images that were left out in turn, of classes with two or more (of very many labelled images some): what is
    said of them then, and the truth."""

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
    junk: Floats | None = None,
    config: EngineConfig | None = None,
) -> Fitted:
    """Label a pool from a few labelled images: `[s, d], [s], [n, d]`; images that are said to be `junk` `[m, d]` are not
    among them."""
    config = config or EngineConfig()
    config.check()
    junk = labelled[:0] if junk is None else junk
    names = _checked_classes(labelled, labels, pool, junk, classes)
    support, y = to_tensor(labelled), torch.from_numpy(np.asarray(labels, np.int64))
    points, marked = to_tensor(pool), to_tensor(junk)
    centre = centre_of(support, y, points)
    _finite(centre)
    spread = spread_of([support, points], centre)
    marked = marked[of_all_sorts(_finite(normalised(marked, centre, spread)))]
    sample, n_folds = sample_of(points)

    def sorted_without(kept: Tensor) -> tuple[Sorted, Callable[[Tensor], Tensor]]:
        its_centre = centre_of(support[kept], y[kept], sample)
        its_spread = spread_of([support[kept], sample], its_centre)
        x, s, j = (normalised(part, its_centre, its_spread) for part in (sample, support[kept], marked))
        return sorted_by(x, s, y[kept], j, config), lambda rows: normalised(support[rows], its_centre, its_spread)

    x, s = (normalised(part, centre, spread) for part in (points, support))
    found = sorted_by(x, s, y, normalised(marked, centre, spread), config)
    similarities, known = found.pool_similarities(), 1 - found.none
    prior = temperature_prior(likeness(similarities, known), contrast(similarities, known), len(names), config)
    left = left_out(found.refined.support, y, sorted_without, n_folds)
    beta, weight = fit_probabilities(left, prior, config.prior_strength, config.linear_weight)
    refined = found.refined
    some = evenly(refined.support, y, MAX_KEPT)
    linear = weight * linear_classifier(refined.support[some], y[some])
    model = LabelModel(
        names, centre, spread, found.known, found.variation, refined.first, refined.hubs, refined.prototypes, linear,
        refined.anchor, beta, config,
    )  # fmt: skip
    similarities = similarities + found.points @ linear.T if weight else similarities
    described = model._describe(found.points, similarities, found.none)
    held_out = HeldOut((beta * left.logits(weight)).softmax(-1).numpy(), left.labels.numpy(), left.none.numpy())
    return Fitted(model, PoolLabels(**(vars(described) | {"used": refined.used.numpy()})), held_out)


def _finite(values: Tensor) -> Tensor:
    if not values.isfinite().all():
        raise SalaError("features must be finite numbers; some are nan or infinite (or too large to be summed)")
    return values


def _checked_classes(
    labelled: Floats, labels: NDArray[np.int64], pool: Floats, junk: Floats, classes: Sequence[str] | None
) -> tuple[str, ...]:
    shapes = [part.shape for part in (labelled, pool, junk)]
    if any(len(shape) != 2 or shape[1] != shapes[0][1] for shape in shapes):
        raise SalaError(f"features are [n, d] with one d; got {', '.join(str(list(shape)) for shape in shapes)}")
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
