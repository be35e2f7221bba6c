"""A label model with its encoder as one ONNX file: pixels in, probabilities of classes and of outliers out."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from sala.classifier.model import LabelModel
from sala.encoders import Encoder
from sala.encoders.onnx_file import encoder_module, write_onnx
from sala.labeling.predict import thresholds_of

OUTPUTS = ("probabilities", "outlier_probability")


class PixelClassifier(nn.Module):
    """What `LabelModel.predict` says of images, by its own functions: `[n, h, w, c]` in bytes to `[n, k]` and `[n]`."""

    def __init__(self, encoder: nn.Module, model: LabelModel):
        super().__init__()
        self.encoder, self.model = encoder, model

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        _, *found = self.model.scored(self.encoder(pixels))
        return self.model.probabilities(*found)


def export_model(model: LabelModel, encoder: Encoder, path: Path) -> float:
    """Write a model with its encoder as one ONNX file.

    Parameters
    ----------
    model : LabelModel
        From `label_folder`, or loaded from the file that `sala label` or the page wrote.
    encoder : Encoder
        The one that the model was fitted with; `encoder_of(model)` opens it.
    path : Path
        The file, which is written whole or not at all. Its metadata hold `classes`, `thresholds`, `encoder` and
        `preprocessing`, each as JSON.

    Returns
    -------
    float
        The largest difference between its answers and those of PyTorch, for random pixels.

    Raises
    ------
    SalaError
        If the encoder cannot be exported, `sala[onnx]` is not installed, or the file's answers differ.
    """
    module = PixelClassifier(encoder_module(encoder), model)
    notes = {
        "classes": list(model.classes),
        "thresholds": thresholds_of(model).to_json(),
        "encoder": {"name": encoder.name, "identity": encoder.identity},
    }
    with torch.no_grad():
        return write_onnx(module, encoder, OUTPUTS, notes, path)
