"""The card of a run's network: what it was trained on, how far it came, and what it is not for, as JSON and as Markdown."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sala.encoders.onnx_file import preprocessing
from sala.encoders.run import RunEncoder
from sala.text import escaped_markdown
from sala.training.config import read_config
from sala.training.log import metrics_so_far

LIMITS = (
    "The network gives features, and no classes: a prototype is the mean of the features of some labeled images.",
    "It was trained on images of one kind and one size, and knows of no others. Measure it on labeled images of yours.",
    "Validation accuracy chose the checkpoint, so it is a little too good. Do not use the network to decide about people.",
)


def run_card(encoder: RunEncoder) -> dict[str, Any]:
    """The card as it is written to JSON. What the run's folder does not tell is None."""
    config, best = read_config(encoder.folder), _best_validation(encoder.folder)
    return {
        "kind": "network of a run of sala",
        "sala": version("sala"),
        "run": encoder.name,
        "method": Path(config.method).name,  # of a file, not where it lay
        "options": config.options,
        "dataset": Path(config.protocol.dataset).name,
        "training_episodes": config.budget.n_episodes,
        "training_shape": config.protocol.train.describe(),
        "seed": config.seed,
        "encoder": {"name": encoder.name, "identity": encoder.identity},
        "pixels": preprocessing(encoder),
        "validation": best,
        "limits": list(LIMITS),
    }


def _best_validation(folder: Path) -> dict[str, Any] | None:
    keys = ("episode", "val_accuracy", "val_ci95")
    measured = [
        record for record in metrics_so_far(folder) if all(isinstance(record.get(key), int | float) for key in keys)
    ]
    best = max(measured, key=lambda record: record["val_accuracy"], default=None)
    return best and {key: best[key] for key in keys}


def run_card_json(card: dict[str, Any]) -> str:
    """The card as JSON, in ASCII."""
    return json.dumps(card, indent=1) + "\n"


def run_card_text(card: dict[str, Any]) -> str:
    """The card as Markdown."""
    cell, pixels, best = escaped_markdown, card["pixels"], card["validation"]
    options = "".join(f", {name} = {value}" for name, value in card["options"].items())
    measured = "No validation is recorded with it."
    if best is not None:
        measured = (
            f"{best['val_accuracy']:.1f} ± {best['val_ci95']:.1f} % accuracy on validation episodes (95 % interval over "
            f"episodes), after {best['episode']:,} of them."
        )
    lines = [
        "# Model card",
        "",
        f"The network of the run {cell(card['run'])}: from pixels to features. Card by sala {card['sala']}.",
        "",
        "## Training",
        "",
        f"{cell(card['method'] + options)} on {cell(card['dataset'])}, {card['training_episodes']:,} episodes of "
        f"{cell(card['training_shape'])}, seed {card['seed']}.",
        "",
        "## Measured",
        "",
        measured,
        "",
        "## Pixels",
        "",
        f"{cell(pixels['mode'])}, {pixels['image_size']} × {pixels['image_size']}; in order:",
        "",
        *(f"- {cell(step)}" for step in pixels["steps"]),
        "",
        "## Limits",
        "",
        *(f"- {limit}" for limit in card["limits"]),
    ]
    return "\n".join(lines) + "\n"
