"""Semi-supervised few-shot image classification: a few labelled images, many unlabelled ones, some of them junk."""

from typing import TYPE_CHECKING, Any

from sala.backbones import BACKBONES, Identity, build_backbone
from sala.data import DATASETS, ImageStore, load_dataset
from sala.episode import Episode, Task
from sala.errors import SalaError
from sala.evaluate import Interval, Result, evaluate
from sala.methods import METHODS, Method, build_method
from sala.protocol import PROTOCOLS, Budget, EpisodeShape, Protocol
from sala.runconfig import RunConfig
from sala.runs import resume_run, start_run
from sala.sampler import EpisodeSampler
from sala.train import TrainConfig, train
from sala.trained import load

if TYPE_CHECKING:
    from sala.estimator import ImageEncoder, SALAClassifier

__all__ = [
    "BACKBONES",
    "DATASETS",
    "METHODS",
    "PROTOCOLS",
    "Budget",
    "Episode",
    "EpisodeSampler",
    "EpisodeShape",
    "Identity",
    "ImageEncoder",
    "ImageStore",
    "Interval",
    "Method",
    "Protocol",
    "Result",
    "RunConfig",
    "SALAClassifier",
    "SalaError",
    "Task",
    "TrainConfig",
    "build_backbone",
    "build_method",
    "evaluate",
    "load",
    "load_dataset",
    "resume_run",
    "start_run",
    "train",
]


def __getattr__(name: str) -> Any:
    """The estimators are imported when they are asked for: scikit-learn takes as long to import as PyTorch."""
    if name in ("ImageEncoder", "SALAClassifier"):
        from sala import estimator

        return getattr(estimator, name)
    raise AttributeError(f"module 'sala' has no attribute {name!r}")
