"""Heads: classifiers without a training of their own, one file per paper. Embeddings of a task come in; class scores go out.

A head runs on the embeddings of any run or encoder. It sees tasks of tensors, never a network or a dataset; `linear` adapts
scikit-learn's classifiers and `classifier` the one of `sala label`. Evaluation, training and the command line may call.

>>> list(HEADS)[:4]
['simpleshot', 'laplacianshot', 'bd-cspn', 'tim']
"""

from __future__ import annotations

from sala.errors import SalaError
from sala.heads.base import FittedHead, Head, Scores
from sala.heads.bdcspn import BDCSPN
from sala.heads.classifier import ClassifierHead
from sala.heads.ilpc import ILPC
from sala.heads.laplacianshot import LaplacianShot
from sala.heads.linear import LabelSpreadingHead, LogisticRegressionHead, SelfTrainingHead
from sala.heads.oslo import OSLO
from sala.heads.ptmap import PTMAP
from sala.heads.simpleshot import SimpleShot
from sala.heads.tim import TIM

__all__ = ["HEADS", "FittedHead", "Head", "Scores", "head_named"]

HEADS: dict[str, type[Head]] = {
    "simpleshot": SimpleShot,
    "laplacianshot": LaplacianShot,
    "bd-cspn": BDCSPN,
    "tim": TIM,
    "pt-map": PTMAP,
    "ilpc": ILPC,
    "oslo": OSLO,
    "logistic-regression": LogisticRegressionHead,
    "label-spreading": LabelSpreadingHead,
    "self-training": SelfTrainingHead,
    "classifier": ClassifierHead,
}


def head_named(name: str) -> Head:
    """The head of this name with its default hyper-parameters; a SalaError that lists the names if there is none."""
    if name not in HEADS:
        raise SalaError(f"there is no head {name!r}; the heads are {', '.join(HEADS)}")
    return HEADS[name]()
