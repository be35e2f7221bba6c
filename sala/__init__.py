"""Semi-supervised few-shot image classification: a few labelled images, many unlabelled ones, some of them junk.

What is public is imported when it is asked for: PyTorch and scikit-learn take seconds, and `sala --help` needs neither.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.backbones import BACKBONES, Identity, build_backbone
    from sala.data import DATASETS, ImageStore, load_dataset
    from sala.episode import Episode, Task
    from sala.estimator import ImageEncoder, SALAClassifier
    from sala.evaluate import Interval, Result, evaluate
    from sala.methods import METHODS, Method, build_method
    from sala.protocol import PROTOCOLS, Budget, EpisodeShape, Protocol
    from sala.runconfig import RunConfig
    from sala.runs import resume_run, start_run
    from sala.sampler import EpisodeSampler
    from sala.tasks import make_task
    from sala.train import TrainConfig, train
    from sala.trained import load

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
    "make_task",
    "resume_run",
    "start_run",
    "train",
]

_NAMES = {
    "backbones": ("BACKBONES", "Identity", "build_backbone"),
    "data": ("DATASETS", "ImageStore", "load_dataset"),
    "episode": ("Episode", "Task"),
    "estimator": ("ImageEncoder", "SALAClassifier"),
    "evaluate": ("Interval", "Result", "evaluate"),
    "methods": ("METHODS", "Method", "build_method"),
    "protocol": ("PROTOCOLS", "Budget", "EpisodeShape", "Protocol"),
    "runconfig": ("RunConfig",),
    "runs": ("resume_run", "start_run"),
    "sampler": ("EpisodeSampler",),
    "tasks": ("make_task",),
    "train": ("TrainConfig", "train"),
    "trained": ("load",),
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


class _Package(ModuleType):
    """`sala.train` and `sala.evaluate` are functions: the modules of these names, when imported, do not take their place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _MODULE_OF):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
