"""The methods, one file per paper. A name and a backbone come in; a `Method` goes out.

A name is one of `METHODS`, an entry point of the group `sala.methods`, or `path/to/file.py:Class`. `METHODS` are those that
the SALA paper compares (`COMPARED`) and others of the field (`BEYOND`). A method sees tasks of tensors, never a dataset or
the training loop. Evaluation, training, reproduction and the command line may call.

>>> list(METHODS)[:3]
['protonet', 'semi-inference', 'soft-kmeans']
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from sala.errors import SalaError
from sala.methods.base import Method, Recipe
from sala.methods.feat import FEAT, SemiFEAT
from sala.methods.kmeans import SemiInference, SoftKMeans, SoftKMeansCluster
from sala.methods.maml import MAML
from sala.methods.masked_kmeans import MaskedSoftKMeans
from sala.methods.matchingnet import MatchingNet
from sala.methods.metagan import MetaGAN
from sala.methods.plugins import from_entry_point, from_file, installed_plugins, is_file
from sala.methods.protonet import ProtoNet
from sala.methods.relationnet import RelationNet
from sala.methods.sala import SALA
from sala.methods.tadam import TADAM
from sala.methods.tpn import TPN
from sala.nn.backbones import Backbone

__all__ = ["BEYOND", "COMPARED", "METHODS", "Method", "build_method", "method_class", "method_options"]

COMPARED: dict[str, type[Method]] = {  # in the SALA paper
    "protonet": ProtoNet,
    "semi-inference": SemiInference,
    "soft-kmeans": SoftKMeans,
    "soft-kmeans-cluster": SoftKMeansCluster,
    "masked-soft-kmeans": MaskedSoftKMeans,
    "tpn": TPN,
    "tadam": TADAM,
    "metagan": MetaGAN,
    "sala": SALA,
}
BEYOND: dict[str, type[Method]] = {  # of the field, on the same episodes; in no table of the SALA paper
    "matchingnet": MatchingNet,
    "relationnet": RelationNet,
    "maml": MAML,
    "feat": FEAT,
    "semi-feat": SemiFEAT,
}
METHODS = COMPARED | BEYOND


def build_method(
    name: str | type[Method],
    backbone: Backbone,
    options: Mapping[str, Any] | None = None,
    *,
    selection_share: float = 1.0,
) -> Method:
    """An untrained method on a backbone.

    Parameters
    ----------
    name : str or type of Method
        A name of `sala.METHODS`, of an installed plug-in, `path/to/file.py:Class`, or a class.
    backbone : Backbone
        From `sala.build_backbone`, or `sala.Identity` for ready-made features.
    options : mapping, optional
        Keyword arguments of the class. Strings are converted to the annotated types.
    selection_share : float, default 1.0
        The share of the unlabeled images that methods with a selection may take in the end.

    Returns
    -------
    Method
        With `classify(task)` for images and `logits(task)` for embeddings.

    Raises
    ------
    SalaError
        If there is no such method or option, or an option has a value that the method refuses.

    Examples
    --------
    >>> import sala
    >>> method = sala.build_method("sala", sala.build_backbone("conv4", (28, 28, 1)), {"eta": 3.0})
    >>> method.eta
    3.0
    """
    cls = method_class(name) if isinstance(name, str) else name
    if not isinstance(backbone, Backbone):
        raise SalaError(
            f"a backbone is a sala.Backbone; got {type(backbone).__name__}; sala.build_backbone(network, store.image_shape) "
            "makes one of any torch.nn.Module"
        )
    arguments = parse_options(cls, options or {})
    try:
        method = cls(backbone, **arguments)
    except (TypeError, ValueError, RuntimeError, MemoryError, AttributeError, KeyError) as error:
        _check_options_by_keyword(cls)
        raise SalaError(f"{cls.__name__} cannot be built with the options {arguments}: {error}") from error
    method.selection_share = selection_share
    method.recipe = Recipe(cls, arguments, backbone.recipe)
    return method


def method_class(name: str) -> type[Method]:
    """The class behind a name of METHODS, an installed plug-in's name, or `path/to/file.py:Class`."""
    if name in METHODS:
        return METHODS[name]
    if is_file(name):
        return from_file(name)
    if plugin := from_entry_point(name):
        return plugin
    known = ", ".join([*METHODS, *installed_plugins()])
    raise SalaError(f"there is no method {name!r}; the methods are {known}, or give your own as path/to/file.py:Class")


def method_options(cls: type[Method]) -> dict[str, inspect.Parameter]:
    """The keyword arguments of a method's class: its options."""
    try:
        parameters = inspect.signature(cls.__init__, eval_str=True).parameters
    except NameError as error:
        raise SalaError(f"the types of {cls.__name__}'s options cannot be read: {error}; import them") from error
    return {name: p for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


def _check_options_by_keyword(cls: type[Method], name: str | None = None) -> None:
    """Tell the author of a method that its options, or the one of this name, must come after `*`."""
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    is_option = [p for p in parameters[1:] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    wrong = [p.name for p in is_option if (p.name == name if name else p.default is p.empty)]
    if wrong:
        raise SalaError(
            f"options of a method are keyword-only arguments, and {wrong[0]} of {cls.__name__} is not; write "
            f"def __init__(self, backbone, *, {wrong[0]}: ... = ...)"
        )


def parse_options(cls: type[Method], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options checked against the signature; strings (from the command line) converted to the annotated type."""
    known = method_options(cls)
    parsed = {}
    for name, value in options.items():
        if name not in known:
            _check_options_by_keyword(cls, name)
            has = f"its options are {', '.join(known)}" if known else "it has no options"
            raise SalaError(f"{cls.__name__} has no option {name!r}; {has}")
        parsed[name] = _convert(value, known[name].annotation, name) if isinstance(value, str) else value
    return parsed


def _convert(value: str, kind: Any, name: str) -> Any:
    choices = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        if value.lower() == "none" and type(None) in choices:
            return None
        return _convert(value, next(choice for choice in choices if choice is not type(None)), name)
    if typing.get_origin(kind) is typing.Literal:
        if value not in choices:
            raise SalaError(f"{name} is one of {', '.join(map(str, choices))}; got {value!r}")
        return value
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise SalaError(f"{name} is true or false; got {value!r}")
        return value.lower() == "true"
    if kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            raise SalaError(f"{name} is a number ({kind.__name__}); got {value!r}") from None
        if not -math.inf < number < math.inf:
            raise SalaError(f"{name} is a finite number; got {value!r}")
        return number
    return value
