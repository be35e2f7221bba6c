"""scikit-learn's classifiers as heads, on embeddings of length 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sala.functional import unit_length
from sala.heads.base import FittedHead, Head, Scores, fitted

UNLABELED = -1  # in scikit-learn
MAX_STEPS, TOLERANCE = 1_000, 1e-6  # of a solver: enough that an answer does not depend on the order of images


@dataclass(frozen=True)
class LogisticRegressionHead(Head):
    """Multinomial logistic regression on the support; the pool is not used.

    Tian et al., ECCV 2020, arXiv:2003.11539, with scikit-learn's `LogisticRegression`.

    Parameters
    ----------
    C : float, default 1.0
        Inverse strength of the L2 penalty.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]])
    >>> sala.HEADS["logistic-regression"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Tian et al., ECCV 2020"
    uses_unlabeled = False

    C: float = 1.0  # scikit-learn's

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        predict = logistic_regression(unit_length(support), labels, self.C)
        return fitted(pool, lambda x: predict(unit_length(x)))


@dataclass(frozen=True)
class LabelSpreadingHead(Head):
    """Labels spread over a graph of support and pool; a query takes the mean of its neighbors, weighted by the graph's kernel.

    Zhou et al., NIPS 2003, with scikit-learn's `LabelSpreading`.

    Parameters
    ----------
    alpha : float, default 0.2
        The share that an image takes from its neighbors.
    gamma : float, default 20.0
        Of the kernel exp(-gamma |x - y|^2).

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> sala.HEADS["label-spreading"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Zhou et al., NIPS 2003"
    is_transductive = True

    alpha: float = 0.2  # scikit-learn's
    gamma: float = 20.0  # scikit-learn's

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        from sklearn.semi_supervised import LabelSpreading

        images, known = _both(support, labels, pool)
        model = LabelSpreading(alpha=self.alpha, gamma=self.gamma, max_iter=MAX_STEPS, tol=TOLERANCE).fit(images, known)
        predict = _predictor(model, like=support)
        spread = _logs(model.label_distributions_[len(support) :], like=support)
        return FittedHead(Scores(spread), lambda query: Scores(predict(unit_length(query))))


@dataclass(frozen=True)
class SelfTrainingHead(Head):
    """Logistic regression that labels the pool's most confident images and learns them too.

    Yarowsky, ACL 1995, with scikit-learn's `SelfTrainingClassifier`.

    Deviations: scikit-learn's default takes images of a probability above 0.75, which a regression on a few images of length 1
    gives to none; ours takes the most confident ones (`criterion="k_best"`). Classes are weighted to count alike: otherwise
    the class that is labeled more often at first takes all.

    Parameters
    ----------
    C : float, default 1.0
        Inverse strength of the L2 penalty.
    k_best : int, default 10
        Images labeled in a round.
    max_iter : int, default 10
        Rounds.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> sala.HEADS["self-training"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Yarowsky, ACL 1995"

    C: float = 1.0  # scikit-learn's
    k_best: int = 10  # scikit-learn's
    max_iter: int = 10  # scikit-learn's

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        from sklearn.semi_supervised import SelfTrainingClassifier

        if not len(pool):
            return LogisticRegressionHead(self.C).fit(support, labels, pool, n_way)
        model = SelfTrainingClassifier(
            _regression(self.C, class_weight="balanced"),
            criterion="k_best",
            k_best=min(self.k_best, len(pool)),
            max_iter=self.max_iter,
        )
        predict = _predictor(model.fit(*_both(support, labels, pool)), like=support)
        return fitted(pool, lambda x: predict(unit_length(x)))


def logistic_regression(x: Tensor, labels: Tensor, C: float = 1.0) -> Callable[[Tensor], Tensor]:  # [n, d], [n]
    """From embeddings to log probabilities, by a multinomial regression on labeled embeddings."""
    return _predictor(_regression(C).fit(x.cpu().numpy(), labels.cpu().numpy()), like=x)


def _regression(C: float, **more: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=C, max_iter=MAX_STEPS, tol=TOLERANCE, **more)


def _both(support: Tensor, labels: Tensor, pool: Tensor) -> tuple[Any, Any]:
    images = unit_length(torch.cat([support, pool])).cpu().numpy()
    return images, np.concatenate([labels.cpu().numpy(), np.full(len(pool), UNLABELED)])


def _predictor(model: Any, like: Tensor) -> Callable[[Tensor], Tensor]:
    def predict(x: Tensor) -> Tensor:
        if not len(x):
            return like.new_empty(0, len(model.classes_))
        return _logs(model.predict_proba(x.cpu().numpy()), like)

    return predict


def _logs(probabilities: Any, like: Tensor) -> Tensor:
    return torch.from_numpy(probabilities).to(like).clamp_min(torch.finfo(like.dtype).tiny).log()
