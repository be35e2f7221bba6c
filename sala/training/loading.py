"""Finished runs: the trained method, and its results kept in the run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sala.data import ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler, fixed_sampler
from sala.errors import SalaError
from sala.evaluation.embeddings import Embeddings
from sala.methods import Method, method_class, method_options, plugins
from sala.nn import kernels
from sala.training.checkpoint import load_checkpoint, load_weights
from sala.training.config import RunConfig, read_config, run_folder
from sala.training.log import recorded_hash


def load(
    folder: Path | str,
    *,
    weights: str = "best",
    method: type[Method] | str | None = None,
    backbone: str | None = None,
) -> Method:
    """The trained method of a run, in evaluation mode.

    Parameters
    ----------
    folder : path or str
        A run folder, or the name of a run that comes with the package.
    weights : {"best", "last"}, default "best"
        Those of the best validation, or of the last checkpoint.
    method : class or str, optional
        The method again, where it is a file that has not been used on this machine before.
    backbone : str, optional
        The backbone again, likewise.

    Returns
    -------
    Method
        On the CPU; `method.classify(task)` gives class scores.

    Raises
    ------
    SalaError
        If the folder is not a run, has no such weights, or is of another version.

    Examples
    --------
    >>> import sala, torch
    >>> method = sala.load("omniglot-sala")
    >>> method.embed_images(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 64])
    """
    folder = run_folder(folder)
    config = read_config(folder)
    if weights not in ("best", "last"):
        raise SalaError(f"weights are best (by validation) or last; got {weights!r}")
    path = Path(folder) / f"{weights}.safetensors"
    if weights == "best" and not path.is_file():
        path = Path(folder) / "last.safetensors"
    tensors, note = load_checkpoint(path)
    if path.stem != weights and note.get("best_episode"):
        raise SalaError(
            f"{folder} has lost its best.safetensors; restore it, or take the last weights with --weights last"
        )
    cls = trusted_class(config.method, method)
    config = replace(config, backbone=plugins.trusted(config.backbone, backbone, "backbone"))
    _check_options(folder, config, cls)
    built = config.build_method(_image_shape(path, note), cls)
    load_weights(path, built, tensors)
    return built.eval()


def _check_options(folder: Path, config: RunConfig, cls: type[Method]) -> None:
    if unknown := sorted(set(config.options) - set(method_options(cls))):
        raise SalaError(
            f"{folder}/config.json was made by another version of {cls.__name__}: the method has no option "
            f"{', '.join(unknown)} now; use the version of sala that manifest.json names, or train again"
        )


def _image_shape(path: Path, note: Mapping[str, Any]) -> tuple[int, int, int]:
    try:
        height, width, channels = (range(1, 1025)[index(n) - 1] for n in note["image_shape"])
    except (KeyError, ValueError, TypeError, IndexError):
        raise SalaError(f"{path} does not say for which images it is; it was not written by `sala train`") from None
    return height, width, channels


def trusted_class(name: str, again: type[Method] | str | None) -> type[Method]:
    """The class of a run's or saved method, or the one that the user gives or names again."""
    return method_class(plugins.trusted(name, again)) if again is None or isinstance(again, str) else again


@dataclass(frozen=True)
class Again:
    """What the user names again of a run: files of one's own that have moved or changed, and where the data is now."""

    method: str | None = None
    backbone: str | None = None
    root: Path | None = None

    def check(self, folder: Path, config: RunConfig) -> None:
        """Results are kept as the run's own: a file may have moved or changed, but it is not another method's."""
        for kind, own, again in (
            ("method", config.method, self.method),
            ("backbone", config.backbone, self.backbone),
        ):
            if again and again.rpartition(":")[2] != own.rpartition(":")[2]:
                raise SalaError(f"{folder} is a run of {own}, not of {again}; leave out --{kind}")


NOTHING = Again()


@dataclass(frozen=True)
class OpenedRun:
    """A trained run and its data, with what is embedded already."""

    folder: Path
    config: RunConfig
    weights: str
    method: str  # what the user calls it
    embeddings: Embeddings

    def sampler(self, shape: EpisodeShape, split: str, seed: int | None = None) -> EpisodeSampler:
        """Of the fixed episodes of a split, or of those of another seed."""
        return fixed_sampler(self.embeddings.store, shape, split, self.config.protocol, seed)


def open_run(
    folder: Path | str,
    *,
    weights: str = "best",
    again: Again = NOTHING,
    progress: Callable[[int, int], None] | None = None,
) -> OpenedRun:
    """A run and its images, of which none is embedded yet."""
    folder = run_folder(folder)
    config = read_config(folder)
    again.check(folder, config)
    trained = load(folder, weights=weights, method=again.method, backbone=again.backbone)
    store = open_data(folder, config, again.root, progress)
    if store.image_shape != trained.backbone.image_shape:
        raise SalaError(
            f"{folder} was trained on images of {trained.backbone.image_shape}, and {store.name} has {store.image_shape}"
        )
    return OpenedRun(folder, config, weights, again.method or config.method, Embeddings(trained, store))


def open_data(
    folder: Path, config: RunConfig, root: Path | None, progress: Callable[[int, int], None] | None = None
) -> ImageStore:
    """The images of a run; those of another `root` must be the same ones. `progress` is told where they are read anew."""
    if root is None:
        return config.open_store(progress)
    store = replace(config, root=str(root.resolve())).open_store(progress)
    if store.content_hash != (recorded := recorded_hash(folder)):
        raise SalaError(
            f"{root} holds other data than {folder} was trained on (hash {store.content_hash[:12]}, recorded "
            f"{recorded[:12]}); give the folder with the data of the run"
        )
    return store


def plain_backbone(method: Method) -> nn.Module:
    """The network of a method by PyTorch's operations alone, without compiled kernels, so that it can be exported."""
    return _Unfused(method.backbone)


class _Unfused(nn.Module):
    def __init__(self, backbone: nn.Module):
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Tensor:
        with kernels.unfused():
            embeddings: Tensor = self.backbone(images)
        return embeddings
