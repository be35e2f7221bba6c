"""Checkpoints of a run: tensors and a note, written whole or not at all, the one before kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sala.data.tensors import read_tensors
from sala.data.tensors import write_tensors as save_checkpoint
from sala.errors import SalaError
from sala.methods import Method
from sala.training.loop import TrainState

__all__ = [
    "check_finite",
    "load_checkpoint",
    "load_weights",
    "optimizer_tensors",
    "position_of",
    "restore",
    "save_checkpoint",
]

OPTIMIZER = "optimizer."  # begins the names of its tensors


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and note of a run's checkpoint."""
    try:
        return read_tensors(path)
    except FileNotFoundError:
        raise SalaError(
            f"there is no checkpoint {path}; `sala train --resume {path.parent}` goes on with that run"
        ) from None
    except (ValueError, OSError) as error:
        raise SalaError(
            f"the checkpoint {path} is damaged ({error}); restore it from a copy, or make it again"
        ) from None


def check_finite(method: Method) -> None:
    for name, tensor in method.state_dict().items():
        if not bool(torch.isfinite(tensor).all()):
            raise SalaError(
                f"the weights {name} are no longer finite; the last good weights are kept. Lower the learning rate"
            )


def position_of(state: TrainState) -> dict[str, Any]:
    return {name: value for name, value in vars(state).items() if name != "optimizers"}


def optimizer_tensors(method: Method, state: TrainState) -> dict[str, Tensor]:
    names = {id(parameter): name for name, parameter in method.named_parameters()}
    return {
        f"{OPTIMIZER}{player}.{key}.{names[id(parameter)]}": torch.as_tensor(value)
        for player, optimizer in state.optimizers.items()
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }


def load_weights(path: Path, method: Method, tensors: Mapping[str, Tensor]) -> None:
    """Put the weights of a checkpoint into the method that it was made from."""
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(OPTIMIZER)}
    try:
        method.load_state_dict(weights)
    except RuntimeError:
        raise SalaError(
            f"{path} holds weights that do not fit {type(method).__name__} with the options of the run; they are of another "
            "method, backbone or image size"
        ) from None


def restore(
    path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any], method: Method, state: TrainState
) -> None:
    load_weights(path, method, tensors)
    try:
        _restore_optimizers(method, state, tensors)
        for name, value in position_of(state).items():
            setattr(state, name, type(value)(note[name]))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise SalaError(f"{path} holds no position to continue from ({error}); start a new run") from None


def _restore_optimizers(method: Method, state: TrainState, tensors: Mapping[str, Tensor]) -> None:
    parameters = dict(method.named_parameters())
    for full_name, tensor in tensors.items():
        if full_name.startswith(OPTIMIZER):
            player, key, name = full_name.removeprefix(OPTIMIZER).split(".", 2)
            if tensor.ndim and tensor.shape != parameters[name].shape:
                raise ValueError(f"{full_name} has another shape")
            if tensor.ndim:  # the fused optimizer walks through memory: the moments lie there as the parameter does
                tensor = torch.empty_like(parameters[name], requires_grad=False).copy_(tensor)
            state.optimizers[player].state[parameters[name]][key] = tensor.to(parameters[name].device)
