"""`sala export`: a model or a trained network as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sala.cli import console
from sala.errors import SalaError
from sala.text import printable


def export(
    what: Annotated[
        str,
        typer.Argument(
            help="The model.safetensors that `sala label` or the page wrote, or a run (folder or name).",
            metavar="MODEL|RUN",
        ),
    ],
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    encoder: Annotated[
        str | None,
        typer.Option(help="The encoder that the model was made with; only asked for if it is a run of yours."),
    ] = None,
) -> None:
    """Write a model of `sala label`, or the network of a run, as one ONNX file that runs without sala.

    It takes `pixels`, bytes of images of one size, and gives `probabilities` and `outlier_probability`, or of a run
    `features`. How an image file becomes pixels stands in its metadata. Its answers are compared with PyTorch's before the
    file is there. A model card lies beside it. Needs `pip install 'sala[onnx]'`.

    Example: `sala export out/model.safetensors --onnx model.onnx`

    Example: `sala export omniglot-sala --onnx letters.onnx`
    """
    from sala.labeling.folders import check_file

    check_file(onnx, "--onnx")
    if onnx.suffix.lower() != ".onnx":
        raise SalaError(f"--onnx is a file that ends with .onnx; got {printable(str(onnx))}")
    with console.err.status("exporting"):
        difference = _export_model(Path(what), onnx, encoder) if _is_model(what) else _export_run(what, onnx, encoder)
    console.out.print(f"{printable(str(onnx))}: {onnx.stat().st_size / 1e6:.1f} MB", markup=False)
    console.err.print(f"its answers differ from PyTorch's by {difference:.0e} at most")


def _is_model(what: str) -> bool:
    from sala.classifier.model_file import NAME

    path = Path(what)
    return path.is_file() or path.suffix == ".safetensors" or (path / NAME).is_file()


def _export_model(path: Path, onnx: Path, encoder: str | None) -> float:
    from sala.classifier.fit import LabelModel
    from sala.labeling.card import write_cards
    from sala.labeling.onnx_model import export_model
    from sala.labeling.predict import encoder_of

    model = LabelModel.load(path)
    difference = export_model(model, encoder_of(model, encoder), onnx)
    write_cards(model, onnx)
    return difference


def _export_run(run: str, onnx: Path, encoder: str | None) -> float:
    from sala.atomic import write_atomically
    from sala.encoders.onnx_file import check_installed, write_encoder
    from sala.encoders.run import RunEncoder
    from sala.encoders.run_card import run_card, run_card_json, run_card_text
    from sala.labeling.card import card_paths

    if encoder is not None:
        raise SalaError(f"--encoder is for models of `sala label`, and {printable(run)} is a run; leave it out")
    check_installed(onnx)
    opened = RunEncoder(run)
    difference = write_encoder(opened, onnx)
    card = run_card(opened)
    for place, text in zip(card_paths(onnx), (run_card_json(card), run_card_text(card)), strict=True):
        write_atomically(place, text.encode("utf-8", "backslashreplace"))
    return difference
