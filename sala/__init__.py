"""Semi-supervised few-shot image classification: a few labeled images, many unlabeled ones, some of them outliers.

Public names are imported when they are first used: PyTorch and scikit-learn take seconds, and `sala --help` needs neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sala.errors import SalaError

if TYPE_CHECKING:  # the same names as in _NAMES below, for type checkers and editors (a test compares the two)
    from sala.classifier.config import ClassifierConfig
    from sala.classifier.estimator import SALAClassifier
    from sala.classifier.fit import fit_pool
    from sala.classifier.model import LabelModel
    from sala.classifier.rejection import rejection_threshold
    from sala.data.datasets import DATASETS, load_dataset
    from sala.data.features import FeatureStore
    from sala.data.store import ImageStore
    from sala.encoders.embed import embed_files
    from sala.encoders.estimator import ImageEncoder
    from sala.encoders.folders import embed_class_folders
    from sala.encoders.registry import ENCODERS, open_encoder
    from sala.episodes.make import make_task
    from sala.episodes.protocol import PROTOCOLS, Budget, EpisodeShape, Protocol
    from sala.episodes.sampler import EpisodeSampler
    from sala.episodes.task import Episode, Task
    from sala.evaluation.evaluate import evaluate
    from sala.evaluation.heads import evaluate_heads
    from sala.evaluation.results import Interval, Result
    from sala.functional.distances import squared_distances
    from sala.functional.prototypes import class_means, weighted_means
    from sala.functional.refinement import refine
    from sala.functional.selection import PseudoLabels, nearest
    from sala.heads import HEADS, Head
    from sala.labeling.card import save_model
    from sala.labeling.label import LabelingResult, label_folder
    from sala.labeling.predict import encoder_of, predict_files
    from sala.methods import METHODS, Method, build_method
    from sala.nn.backbones import BACKBONES, Identity, build_backbone
    from sala.nn.base import Backbone
    from sala.training.config import RunConfig
    from sala.training.keeper import Watch
    from sala.training.loading import load
    from sala.training.loop import Record, TrainState, train
    from sala.training.run import resume_run, start_run
    from sala.training.saving import load_method, save
    from sala.training.schedule import TrainConfig

__all__ = [
    "BACKBONES",
    "DATASETS",
    "ENCODERS",
    "HEADS",
    "METHODS",
    "PROTOCOLS",
    "Backbone",
    "Budget",
    "ClassifierConfig",
    "Episode",
    "EpisodeSampler",
    "EpisodeShape",
    "FeatureStore",
    "Head",
    "Identity",
    "ImageEncoder",
    "ImageStore",
    "Interval",
    "LabelModel",
    "LabelingResult",
    "Method",
    "Protocol",
    "PseudoLabels",
    "Record",
    "Result",
    "RunConfig",
    "SALAClassifier",
    "SalaError",
    "Task",
    "TrainConfig",
    "TrainState",
    "Watch",
    "build_backbone",
    "build_method",
    "class_means",
    "embed_class_folders",
    "embed_files",
    "encoder_of",
    "evaluate",
    "evaluate_heads",
    "fit_pool",
    "label_folder",
    "load",
    "load_dataset",
    "load_method",
    "make_task",
    "nearest",
    "open_encoder",
    "predict_files",
    "refine",
    "rejection_threshold",
    "resume_run",
    "save",
    "save_model",
    "squared_distances",
    "start_run",
    "train",
    "weighted_means",
]

_NAMES = {
    "classifier.config": ("ClassifierConfig",),
    "classifier.estimator": ("SALAClassifier",),
    "classifier.fit": ("fit_pool",),
    "classifier.model": ("LabelModel",),
    "classifier.rejection": ("rejection_threshold",),
    "data.datasets": ("DATASETS", "load_dataset"),
    "data.features": ("FeatureStore",),
    "data.store": ("ImageStore",),
    "encoders.embed": ("embed_files",),
    "encoders.estimator": ("ImageEncoder",),
    "encoders.folders": ("embed_class_folders",),
    "encoders.registry": ("ENCODERS", "open_encoder"),
    "episodes.make": ("make_task",),
    "episodes.protocol": ("PROTOCOLS", "Budget", "EpisodeShape", "Protocol"),
    "episodes.sampler": ("EpisodeSampler",),
    "episodes.task": ("Episode", "Task"),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.heads": ("evaluate_heads",),
    "evaluation.results": ("Interval", "Result"),
    "functional.distances": ("squared_distances",),
    "functional.prototypes": ("class_means", "weighted_means"),
    "functional.refinement": ("refine",),
    "functional.selection": ("PseudoLabels", "nearest"),
    "heads": ("HEADS", "Head"),
    "labeling.card": ("save_model",),
    "labeling.label": ("LabelingResult", "label_folder"),
    "labeling.predict": ("encoder_of", "predict_files"),
    "methods": ("METHODS", "Method", "build_method"),
    "nn.backbones": ("BACKBONES", "Identity", "build_backbone"),
    "nn.base": ("Backbone",),
    "training.config": ("RunConfig",),
    "training.keeper": ("Watch",),
    "training.loading": ("load",),
    "training.loop": ("Record", "TrainState", "train"),
    "training.run": ("resume_run", "start_run"),
    "training.saving": ("load_method", "save"),
    "training.schedule": ("TrainConfig",),
}  # by the module that has them
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sala' has no attribute {name!r}")
    value = getattr(import_module(f"sala.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
