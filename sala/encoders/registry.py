"""Which encoder a name, a folder or a file stands for.

`ENCODERS` is the table of names. A new encoder is one row: a name, a line that describes it, and a function that opens it.

>>> for entry in ENCODERS.values():
...     print(f"{entry.name}: {entry.summary}")
lite0: photos; EfficientNet-Lite0, ImageNet weights, 1280 features
lite1: photos; EfficientNet-Lite1, slower and a little better
lite2: photos; EfficientNet-Lite2, the largest
omniglot-sala: letters; the network of a SALA run on Omniglot, 64 features
omniglot-sala-distractors: letters; the same, trained with distractors
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sala.encoders.base import Encoder
from sala.encoders.efficientnet_lite import LITE
from sala.encoders.exported import TORCHSCRIPT_SUFFIXES, OnnxEncoder, TorchScriptEncoder
from sala.encoders.hub import PREFIX
from sala.encoders.lite import LiteEncoder
from sala.encoders.precomputed import ReadyFeatures
from sala.encoders.sharded import ShardedFeatures, is_sharded
from sala.errors import SalaError
from sala.text import printable


def _open_run(run: Path | str) -> Encoder:
    from sala.encoders.run import RunEncoder  # lazily: only an encoder from a run needs the trainer

    return RunEncoder(run)


def _open_transformer(which: str) -> Encoder:
    from sala.encoders.transformer import TransformersEncoder  # lazily: the library takes seconds

    return TransformersEncoder(which)


@dataclass(frozen=True)
class EncoderEntry:
    """One row of ENCODERS: a name, what it is good for, and how it is opened."""

    name: str
    summary: str
    open: Callable[[], Encoder]


ENCODERS: dict[str, EncoderEntry] = {
    name: EncoderEntry(name, summary, partial(LiteEncoder if name in LITE else _open_run, name))
    for name, summary in {
        "lite0": "photos; EfficientNet-Lite0, ImageNet weights, 1280 features",
        "lite1": "photos; EfficientNet-Lite1, slower and a little better",
        "lite2": "photos; EfficientNet-Lite2, the largest",
        "omniglot-sala": "letters; the network of a SALA run on Omniglot, 64 features",
        "omniglot-sala-distractors": "letters; the same, trained with distractors",
    }.items()
}
FILES: dict[str, Callable[[Path], Encoder]] = {
    ".onnx": OnnxEncoder,
    ".npy": ReadyFeatures,
    **dict.fromkeys(sorted(TORCHSCRIPT_SUFFIXES), TorchScriptEncoder),
}  # by suffix


def open_encoder(which: str | Path | Encoder = "lite0") -> Encoder:
    """A frozen image encoder, ready to embed.

    Parameters
    ----------
    which : str, Path or Encoder, default "lite0"
        A name of `sala.ENCODERS`; the folder of a trained run; an ONNX (`.onnx`) or TorchScript (`.pt`) file; features that
        are there already (a folder of `sala embed`, or `.npy` with the paths of the images in a `.txt` beside it);
        `hf:OWNER/NAME` or `hf:FOLDER`, a vision model of `transformers`; or an encoder, which is returned.

    Returns
    -------
    Encoder
        With `name`, `identity`, `image_size`, `mode` ("RGB" or "L") and `embed(images)`, from uint8
        `[n, image_size, image_size, channels]` to float32 `[n, d]`.

    Raises
    ------
    SalaError
        If there is no such name, file or folder, if it is of no known kind, or if its weights are not installed.

    Examples
    --------
    >>> import numpy as np, sala
    >>> encoder = sala.open_encoder("omniglot-sala")
    >>> encoder.image_size, encoder.mode
    (28, 'L')
    >>> encoder.embed(np.zeros((2, 28, 28, 1), np.uint8)).shape
    (2, 64)
    """
    if not isinstance(which, str | Path):
        return which
    path = Path(which)
    if is_ours(str(which)):
        return ENCODERS[str(which)].open()
    if str(which).startswith(PREFIX):
        return _open_transformer(str(which))
    if is_sharded(path):
        return ShardedFeatures(path)
    if path.is_dir():
        return _open_run(path)
    if not path.is_file():
        raise _missing(path)
    if path.suffix.lower() in FILES:
        return FILES[path.suffix.lower()](path)
    raise SalaError(f"{path} is of no known kind; an encoder is a run folder or a file in .onnx, .pt or .npy")


def is_ours(which: str) -> bool:
    """Whether it is a name of ENCODERS. A file or folder of the same name as a run of ours is meant instead of that run."""
    return which in LITE or (which in ENCODERS and not Path(which).exists())


def _missing(path: Path) -> SalaError:
    """For what is no name of ours: a path, by its looks, or a mistyped name."""
    shown = printable(str(path))
    if path.suffix.lower() in FILES or len(path.parts) > 1:
        return SalaError(f"there is no file or folder {shown} to be an encoder; look at its name and where it is")
    return SalaError(
        f"there is no encoder {shown}; take {', '.join(ENCODERS)}, a run folder, a folder of `sala embed`, a .onnx, .pt or "
        f".npy file, or {PREFIX}OWNER/NAME for a model of transformers"
    )
