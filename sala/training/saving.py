"""Methods on disk without a run: what was built and trained in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from sala.atomic import write_json
from sala.data.files import read_text
from sala.errors import SalaError
from sala.methods import METHODS, Method, build_method
from sala.methods.base import Recipe
from sala.nn import plugins
from sala.nn.backbones import Backbone, build_backbone
from sala.training.checkpoint import check_finite, load_checkpoint, load_weights, save_checkpoint
from sala.training.config import run_folder
from sala.training.loading import load, trusted_class

FORMAT = 1
KINDS: dict[str, Any] = {
    "method": (str, type(None)), "options": dict, "backbone": (str, type(None)), "shape": (list, type(None)),
    "distance_scale": (float, int, type(None)), "selection_share": (float, int),
}  # fmt: skip


def save(method: Method, folder: Path | str) -> Path:
    """The folder, with the method's weights and how it was built: `sala.load_method` opens it.

    Parameters
    ----------
    method : Method
        From `sala.build_method` or `sala.load`.
    folder : path
        A new place, or one where a method was saved before, which is replaced.

    Returns
    -------
    Path
        Of the folder.

    Raises
    ------
    SalaError
        If the method was not made by `build_method`, its weights are not finite, or the folder holds something else.

    Examples
    --------
    >>> import sala, tempfile
    >>> method = sala.build_method("matchingnet", sala.Identity(8), {"context": True})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = sala.load_method(sala.save(method, f"{place}/mine"))
    >>> again.backbone.out_dim, again.context is not None
    (8, True)
    """
    folder = Path(folder)
    if method.recipe is None:
        name = type(method).__name__
        raise SalaError(
            f"how this {name} was built is not known; make it with sala.build_method({name}, backbone, options), then it can "
            "be saved"
        )
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / "method.json").is_file()):
        raise SalaError(f"{folder} holds something else than a saved method; choose another folder")
    check_finite(method)
    description = _described(method, method.recipe)
    folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(folder / "weights.safetensors", method.state_dict(), {})
    write_json(folder / "method.json", description)
    return folder


def _described(method: Method, recipe: Recipe) -> dict[str, Any]:
    try:
        options = json.loads(json.dumps(recipe.options, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise SalaError(f"options are saved as JSON ({error}); use numbers, strings and lists") from None
    made = recipe.backbone
    name = made and (made.name if isinstance(made.name, str) else _name_of(made.name))
    if isinstance(name, str):
        plugins.remember(name, "backbone")
        name = plugins.absolute(name, "backbone")
    return {
        "format": FORMAT,
        "method": _name_of(recipe.cls),
        "options": options,
        "backbone": name,
        "shape": made and list(made.shape),
        "distance_scale": made and made.distance_scale,
        "selection_share": method.selection_share,
    }


def _name_of(cls: type[nn.Module]) -> str | None:
    """By which a class is found again; None for one that was typed in, or written in the script that runs."""
    if name := next((name for name, known in METHODS.items() if known is cls), None):
        return name
    file = plugins.file_of(cls)
    if cls.__module__ == "__main__" or file.suffix != ".py" or "." in cls.__qualname__:
        return None
    plugins.remember(f"{file}:{cls.__qualname__}")  # it runs here already
    return plugins.absolute(f"{file}:{cls.__qualname__}")


def load_method(
    folder: Path | str, *, method: type[Method] | str | None = None, backbone: Backbone | None = None
) -> Method:
    """The method that `sala.save` wrote, in evaluation mode; of a run folder, its best weights.

    Parameters
    ----------
    folder : path or str
        That `sala.save` wrote; or a run folder.
    method : class or str, optional
        The method again, where its class was written in a script or notebook, or in a file that has changed.
    backbone : Backbone, optional
        The backbone again, where it is an object of yours that `sala.build_backbone` did not make.

    Returns
    -------
    Method
        On the CPU; `method.train()` and `sala.train` go on with it.

    Raises
    ------
    SalaError
        If the folder is neither, it is damaged, or a class is needed again.

    Examples
    --------
    >>> import sala
    >>> type(sala.load_method("omniglot-sala")).__name__
    'SALA'
    """
    folder = run_folder(folder)
    if (folder / "config.json").is_file():
        return load(folder, method=method)
    content = _read(folder)
    found = build_method(
        _class(folder, content["method"], method),
        backbone or _backbone(folder, content),
        content["options"],
        selection_share=content["selection_share"],
    )
    tensors, _ = load_checkpoint(folder / "weights.safetensors")
    load_weights(folder / "weights.safetensors", found, tensors)
    return found.eval()


def _read(folder: Path) -> dict[str, Any]:
    path = folder / "method.json"
    if not path.is_file():
        raise SalaError(
            f"{folder} is no saved method: it has no method.json; sala.save(method, {str(folder)!r}) makes one"
        )
    try:
        content: dict[str, Any] = json.loads(read_text(path))
        if content["format"] != FORMAT:
            raise SalaError(f"{path} is of format {content['format']}, this version reads {FORMAT}; save it again")
        if wrong := [name for name, kinds in KINDS.items() if not isinstance(content[name], kinds)]:
            raise TypeError(f"{wrong[0]} is {content[wrong[0]]!r}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SalaError(f"{path} is damaged ({error}); restore it, or save the method again") from None
    return content


def _class(folder: Path, name: str | None, given: type[Method] | str | None) -> type[Method]:
    if name is None and given is None:
        raise SalaError(f"{folder} is of a class that was written in a script; give it: load_method(..., method=Class)")
    return trusted_class(name or "", given)


def _backbone(folder: Path, content: dict[str, Any]) -> Backbone:
    if content["backbone"] is None or content["shape"] is None:
        raise SalaError(f"{folder} has a backbone of yours; give one like it: load_method(..., backbone=Net(...))")
    plugins.check_known(content["backbone"], "backbone")
    shape = tuple(int(n) for n in content["shape"])
    return build_backbone(content["backbone"], shape, distance_scale=content["distance_scale"])
