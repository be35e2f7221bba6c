"""Descriptions of classes in words, as text prototypes that count as prior examples. Experimental.

    found = described(["owl=a photo of an owl", "a photo of a {}"], classes, encoder)     # Descriptions
    fitted, n = fit_described(fit, pool, found.of(classes), labeled, labels)  # n prior examples for each class

Images and texts of one model lie apart, by the modality gap (Liang et al., NeurIPS 2022, arXiv:2203.02053). So the mean of
the text prototypes is moved to the mean of the labeled classes, and only what texts say of the differences between classes
counts: p_c = r (t_c - mean_c t_c + mean_c m_c), with t_c the text prototype, m_c the mean of the class's images brought to
length 1, and r the mean length of the images. A prior example is one more labeled image with the features p_c. How many there
are for each class is chosen on held-out labeled images; with 0, the fit is that without texts.

Deviations: the classifier takes no weights, so prior examples are rows, and its temperature is fitted to them as well as to
images. Their number is chosen by the log loss of images alone, under that temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from sala.classifier.fit import Fitted, HeldOut
from sala.encoders import Encoder
from sala.encoders.base import Features
from sala.encoders.texts import embed_texts
from sala.errors import SalaError
from sala.labeling.predictions import Ints
from sala.text import printable

NUMBERS = (0, 1, 2, 4, 8)  # of prior examples for each class, to choose from
UNCHOSEN = 1  # where no class has two images, of which one could be held out
NAME = "{}"  # in a template, the name of the class
POOL_SAMPLE = 500  # images of the pool to which the fits are made that are compared
Fit = Callable[[Ints, Features, Ints], Fitted]  # from rows of the pool, labeled images and their labels


@dataclass(frozen=True)
class Descriptions:
    """Of each class its texts, and their mean direction in the space of the images."""

    texts: dict[str, list[str]]  # by class
    prototypes: Features  # [classes, d], of length 1

    def of(self, classes: Sequence[str]) -> Descriptions:
        """Of some of the classes, in their order."""
        row = {name: i for i, name in enumerate(self.texts)}
        return Descriptions(
            {name: self.texts[name] for name in classes}, self.prototypes[[row[name] for name in classes]]
        )


def described(values: Sequence[str], classes: Sequence[str], encoder: Encoder) -> Descriptions:
    """Text prototypes of classes from what `--describe` was given."""
    texts = texts_of(values, classes)
    rows = embed_texts([text for some in texts.values() for text in some], encoder)
    ends = np.cumsum([len(some) for some in texts.values()])
    means = np.stack([part.mean(0) for part in np.split(rows, ends[:-1])])
    return Descriptions(texts, means / np.linalg.norm(means, axis=1, keepdims=True))


def texts_of(values: Sequence[str], classes: Sequence[str]) -> dict[str, list[str]]:
    """The texts of each class, from `CLASS=TEXT` and templates with `{}`. A class without any has its name.

    >>> texts_of(["owl=a photo of an owl", "owl=an owl at night"], ["owl", "red_fox"])
    {'owl': ['a photo of an owl', 'an owl at night'], 'red_fox': ['red fox']}
    >>> texts_of(["a photo of a {}"], ["cat", "dog"])
    {'cat': ['a photo of a cat'], 'dog': ['a photo of a dog']}
    """
    own: dict[str, list[str]] = {name: [] for name in classes}
    templates = []
    for value in values:
        name = max((name for name in classes if value.startswith(f"{name}=")), key=len, default=None)
        if name is not None and value.removeprefix(f"{name}=").strip():
            own[name].append(value.removeprefix(f"{name}=").strip())
        elif name is None and NAME in value:
            templates.append(value)
        else:
            raise SalaError(
                f'--describe is "CLASS=TEXT" with one of the classes {", ".join(map(printable, classes[:10]))}, or a text '
                f'with {NAME} for their names, such as "a photo of a {NAME}"; got {printable(value)!r}'
            )
    plain = {name: name.replace("_", " ").replace("-", " ") for name in classes}
    return {name: own[name] or [each.replace(NAME, plain[name]) for each in templates or [NAME]] for name in classes}


def prior_features(prototypes: Features, labeled: Features, labels: Ints) -> Features:  # [k, d], [s, d], [s] -> [k, d]
    """Text prototypes among the labeled images: p_c = r (t_c - mean t + mean m)."""
    lengths = np.linalg.norm(labeled, axis=1, keepdims=True)
    unit = labeled / np.maximum(lengths, np.finfo(np.float32).tiny)
    means = np.stack([unit[labels == c].mean(0) for c in range(len(prototypes))])
    moved: Features = lengths.mean() * (prototypes - prototypes.mean(0) + means.mean(0))
    return moved.astype(np.float32)


def fit_described(
    fit: Fit, pool: Ints, descriptions: Descriptions | None, labeled: Features, labels: Ints
) -> tuple[Fitted, int]:  # [n], [s, d], [s]
    """A fit with as many prior examples for each class as held-out labeled images want, and that number; without descriptions
    a plain fit."""
    if descriptions is None:
        return fit(pool, labeled, labels), 0
    prior, sample = prior_features(descriptions.prototypes, labeled, labels), pool[:: max(1, len(pool) // POOL_SAMPLE)]
    n = chosen_number({n: fit_with_prior(fit, sample, prior, labeled, labels, n).held_out for n in NUMBERS})
    return fit_with_prior(fit, pool, prior, labeled, labels, n), n


def fit_with_prior(fit: Fit, pool: Ints, prior: Features, labeled: Features, labels: Ints, n: int) -> Fitted:
    """A fit with n prior examples for each class. Only images are among its held-out ones."""
    examples = np.concatenate([labeled, np.repeat(prior, n, axis=0)])
    fitted = fit(pool, examples, np.concatenate([labels, np.repeat(np.arange(len(prior)), n)]))
    return replace(fitted, held_out=some_of(fitted.held_out, np.arange(len(labeled))))


def chosen_number(held_out: Mapping[int, HeldOut]) -> int:
    """The number of prior examples with the least log loss on the images that all have held out, the smallest of equal ones;
    `UNCHOSEN` where there are none."""
    rows = reduce(np.intersect1d, (found.rows for found in held_out.values()))
    if not len(rows):
        return UNCHOSEN
    return min(held_out, key=lambda n: (log_loss(some_of(held_out[n], rows)), n))


def log_loss(held_out: HeldOut) -> float:
    """Minus the mean log of the probability of the true class."""
    p = held_out.probabilities[np.arange(len(held_out.labels)), held_out.labels]
    return float(-np.log(np.maximum(p, np.finfo(np.float32).tiny)).mean())


def some_of(held_out: HeldOut, rows: Ints) -> HeldOut:
    """Those of some labeled images."""
    which = np.isin(held_out.rows, rows)
    return HeldOut(**{name: value[which] for name, value in vars(held_out).items()})
