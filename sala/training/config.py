"""What a run is asked to do: all that determines it, kept as config.json in its folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields
from operator import index
from pathlib import Path
from typing import Any

import torch

from sala.data import ImageStore, load_dataset
from sala.data.files import read_text
from sala.episodes.protocol import Budget, EpisodeShape, Protocol
from sala.errors import SalaError, at_least
from sala.methods import Method, build_method, method_class, method_options
from sala.nn.backbones import build_backbone
from sala.training.schedule import TrainConfig

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "float32", "bfloat16")
_NONE = type(None)
_KINDS: dict[str, Any] = {
    "method": str, "backbone": str, "options": dict, "data_options": dict, "root": (str, _NONE), "image_size": (int, _NONE),
}  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """All that determines a run: kept as config.json in its folder, so that `resume_run` and `load` need only the folder.

    Parameters
    ----------
    method : str
        A name of `sala.METHODS`, of an installed plug-in, or `path/to/file.py:Class`.
    protocol : Protocol
        Dataset, episode shapes, label split and schedule, such as `sala.PROTOCOLS["omniglot"]`.
    budget : Budget
        Length of the training and its validations, such as `protocol.budget("cpu")`.
    seed : int, default 0
        Of initial weights and training episodes.
    backbone : str, default "conv4"
        A name of `sala.BACKBONES`, of an installed plug-in, or `path/to/file.py:Class`.
    options : dict, optional
        Keyword arguments of the method.
    root : str, optional
        Where the files of the dataset are; by default $SALA_DATA or the cache.
    image_size : int, optional
        Side of the images in pixels; by default the dataset's.
    data_options : dict, optional
        Further arguments of the dataset's reader, such as `split_file`.
    threads : int, default 0
        CPU threads; 0 leaves it to PyTorch.
    episodes_per_step : int, default 1
        Episodes whose gradients are averaged in a step; shared out to the processes where there are several.
    device : {"auto", "cpu", "cuda"}, default "auto"
        "auto" is cuda where there is one.
    precision : {"auto", "float32", "bfloat16"}, default "auto"
        Of the backbone; "auto" is bfloat16 on cuda alone.
    init : str, optional
        A run folder, or one that `sala.save` wrote: its weights are the initial ones, as far as they have the same names and
        shapes. The backbone's must all fit.
    extended : tuple of int, default ()
        Lengths that the run had before it was extended.

    Raises
    ------
    SalaError
        If a number or a name cannot be.

    Examples
    --------
    >>> import sala
    >>> protocol = sala.PROTOCOLS["glyphs"].with_shape(n_distractor=5)
    >>> config = sala.RunConfig("sala", protocol, protocol.budget("cpu", 1_000), options={"metric": False})
    >>> config.train.n_episodes, config.protocol.train.describe()
    (1000, '5-way 1-shot, 1 query and 5 unlabeled a class, 5 distractor classes')
    >>> sala.RunConfig.from_json(config.to_json()) == config
    True
    """

    method: str
    protocol: Protocol
    budget: Budget
    seed: int = 0
    backbone: str = "conv4"
    options: dict[str, Any] = field(default_factory=dict)
    root: str | None = None
    image_size: int | None = None
    data_options: dict[str, Any] = field(default_factory=dict)
    threads: int = 0
    episodes_per_step: int = 1
    device: str = "auto"
    precision: str = "auto"
    init: str | None = None
    extended: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for part, kind, example in (
            (self.protocol, Protocol, 'PROTOCOLS["glyphs"]'),
            (self.budget, Budget, "Budget(1_000, validate_every=100, n_validation_episodes=50)"),
        ):
            if not isinstance(part, kind):
                raise SalaError(
                    f"expected a sala.{kind.__name__}, such as sala.{example}; got {type(part).__name__} {part!r}"
                )
        if not 0 <= index(self.seed) < 2**64:
            raise SalaError(f"a seed is a number from 0 to 2**64 - 1; got {self.seed}")
        if not 0 <= index(self.threads) <= 1024:
            raise SalaError(f"threads are a number from 0 (PyTorch's choice) to 1024; got {self.threads}")
        at_least(1, index(self.episodes_per_step), "the number of episodes a step")
        if self.device not in DEVICES:
            raise SalaError(f"a device is one of {', '.join(DEVICES)}; got {self.device!r}")
        if self.precision not in PRECISIONS:
            raise SalaError(f"a precision is one of {', '.join(PRECISIONS)}; got {self.precision!r}")

    @property
    def train(self) -> TrainConfig:
        """Length and schedule of the training."""
        p = self.protocol
        return TrainConfig(
            self.budget.n_episodes, self.budget.validate_every, p.learning_rate, p.n_halvings, p.weight_decay,
            self.episodes_per_step, p.optimizer, p.schedule,
        )  # fmt: skip

    @property
    def torch_device(self) -> torch.device:
        """The device of this process."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise SalaError("device is cuda, and PyTorch sees no GPU here; use --device cpu or auto")
        return torch.device("cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu")

    @property
    def mixed_precision(self) -> bool:
        """Whether the backbone computes in bfloat16."""
        return self.precision == "bfloat16" or (self.precision == "auto" and self.torch_device.type == "cuda")

    def open_store(self, progress: Callable[[int, int], None] | None = None) -> ImageStore:
        """The images of the run; they are prepared first where they are not yet."""
        return load_dataset(
            self.protocol.dataset, self.root, image_size=self.image_size, progress=progress, **self.data_options
        )

    def build_method(self, image_shape: tuple[int, ...], cls: type[Method] | None = None) -> Method:
        """The method on its backbone, untrained, for images of [H, W, C]; `cls` in place of the class that is named."""
        cls = cls or method_class(self.method)
        ways = {"n_way": self.protocol.train.n_way} if "n_way" in method_options(cls) else {}
        scale = self.protocol.distance_scale if cls.sums_distances else None
        return build_method(
            cls,
            build_backbone(self.backbone, image_shape, distance_scale=scale),
            ways | self.options,
            selection_share=self.protocol.train.selection_share,
        )

    def to_json(self) -> dict[str, Any]:
        """The content of config.json."""
        return {**asdict(self), "protocol": self.protocol.to_json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> RunConfig:
        """The config that `to_json` was called on."""
        _check_fields(content)
        for name, kinds in _KINDS.items():
            if not isinstance(content[name], kinds):
                raise TypeError(f"{name} is {content[name]!r}")
        if not isinstance(content.get("init"), (str, _NONE)):
            raise TypeError(f"init is {content['init']!r}")
        if not isinstance(content["protocol"]["dataset"], str) or not content["protocol"]["test"]:
            raise TypeError("the protocol has no dataset or no test setting")
        parts = {
            "protocol": Protocol.from_json(content["protocol"]),
            "budget": Budget(**content["budget"]),
            "extended": tuple(map(index, content.get("extended", ()))),
        }
        return cls(**{**content, **parts})


class OtherVersion(ValueError):
    """A configuration that has other fields than this version writes."""


def _check_fields(content: dict[str, Any]) -> None:
    """Refuse fields that this version does not know, and the lack of those without which it cannot read a run."""
    protocol = content.get("protocol", {})
    shapes = [protocol.get("train", {}), *protocol.get("test", {}).values()]
    budgets = [content.get("budget", {}), *protocol.get("budgets", {}).values()]
    parts = [(RunConfig, content), (Protocol, protocol)]
    for cls, part in [*parts, *((EpisodeShape, shape) for shape in shapes), *((Budget, b) for b in budgets)]:
        known = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(cls)}
        needed = {name for name, is_needed in known.items() if is_needed} | (set(_KINDS) if cls is RunConfig else set())
        if different := sorted((set(part) - set(known)) | (needed - set(part))):
            verb = "has" if different[0] in part else "lacks"
            raise OtherVersion(f"its {cls.__name__} {verb} {different[0]!r}")


SHIPPED = Path(__file__).parents[1] / "pretrained"  # runs of ours that come with the package, by name


def shipped_runs() -> list[str]:
    """The names of the runs that come with the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "config.json").is_file())


def run_folder(run: Path | str) -> Path:
    """A folder, or the name of a run that comes with the package."""
    return SHIPPED / run if not Path(run).exists() and str(run) in shipped_runs() else Path(run)


def is_shipped(folder: Path) -> bool:
    return folder.parent == SHIPPED


def read_config(folder: Path | str) -> RunConfig:
    """The config of a run, by its folder or by the name of a run that comes with the package."""
    path = run_folder(folder) / "config.json"
    if not path.is_file():
        raise SalaError(
            f"{folder} is not a run: it has no config.json; `sala train --out {folder}` makes one, and these come with the "
            f"package: {', '.join(shipped_runs())}"
        )
    try:
        return RunConfig.from_json(json.loads(read_text(path)))
    except OtherVersion as error:
        raise SalaError(
            f"{path} was made by another version of sala: {error}; use the version that manifest.json names, or train again"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError, SalaError) as error:
        raise SalaError(
            f"{path} is damaged or of another version of sala ({error}); restore it, or train again"
        ) from None
