"""The model card: what a saved model is, what was measured of it and what it is not for, as JSON and as Markdown.

    save_model(model, out / "model.safetensors")    # with model-card.json and model-card.md beside it

It is made from what the model itself holds, so a model that was sent without its card gets the same one again.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sala.atomic import write_atomically
from sala.classifier.fit import HeldOut
from sala.classifier.model import LabelModel
from sala.labeling.reliability import is_right, wilson_interval
from sala.text import counted, escaped_markdown

HELD_OUT = "held_out"  # of a model's note
LIMITS = (
    "The classes are those listed. An image of anything else gets one of them too; its outlier probability is what tells.",
    "Held-out accuracy is of labeled examples, which are few and were chosen by hand. Label a random sample of your images to "
    "know the accuracy on them.",
    "Probabilities hold for images like those of the pool. Other cameras, places or times want a new `sala label`.",
    "The encoder saw other images before, with their biases. Do not use the model to decide about people.",
)


def measured(held_out: HeldOut) -> dict[str, Any]:
    """What labeled images tell that were held out, as a part of a model's note: numbers and None."""
    right = is_right(held_out)
    n, p = len(right), held_out.probabilities.max(1, initial=0)
    if not n:
        return {"n": 0, "n_right": 0, "accuracy": None, "interval": None, "mean_probability": None}
    return {
        "n": n,
        "n_right": int(right.sum()),
        "accuracy": float(right.mean()),
        "interval": list(wilson_interval(right)),
        "mean_probability": float(p.mean()),
    }


def save_model(model: LabelModel, path: Path | str, *, held_out: HeldOut | None = None) -> Path:
    """Write a model with its card: `model.safetensors` gets `model-card.json` and `model-card.md` beside it.

    Parameters
    ----------
    model : LabelModel
        From `label_folder(...).model`, `fit_pool(...).model` or `SALAClassifier().fit(...).model_`.
    path : path
        The file, which `LabelModel.load` reads.
    held_out : HeldOut, optional
        From the same fit, `label_folder(...).held_out` or `fit_pool(...).held_out`: the card then tells the accuracy.

    Returns
    -------
    Path
        Of the card in Markdown.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sala import fit_pool, save_model
    >>> labeled, labels = np.array([[1, 0, 0], [1, 0.1, 0], [0, 1, 0], [0, 1, 0.1]], np.float32), np.array([0, 0, 1, 1])
    >>> fitted = fit_pool(labeled, labels, labeled + 0.1, classes=["cat", "owl"])
    >>> folder = Path(tempfile.mkdtemp())
    >>> save_model(fitted.model, folder / "model.safetensors", held_out=fitted.held_out).name
    'model-card.md'
    >>> sorted(path.name for path in folder.iterdir())
    ['model-card.json', 'model-card.md', 'model.safetensors']
    """
    if held_out is not None:
        model = replace(model, note={**model.note, HELD_OUT: measured(held_out)})
    model.save(path)
    write_cards(model, Path(path))
    return card_paths(Path(path))[1]


def card_of(model: LabelModel) -> dict[str, Any]:
    """The card as it is written to JSON. A model may come from anyone: what its note does not tell is None."""
    note = model.note
    labeled = note.get("labeled")
    counts = labeled if isinstance(labeled, dict) else {}
    return {
        "kind": "image classifier of sala",
        "sala": version("sala"),
        "classes": [{"name": name, "labeled_images": _count(counts.get(name))} for name in model.classes],
        "known_outliers": len(model.mixture.known_outliers),
        "descriptions": _lists_of_texts(note.get("descriptions")),
        "prior_examples_a_class": _count(note.get("n_prior_examples")),
        "pool_images": _count(note.get("n_pool")),
        "encoder": _texts(note.get("encoder"), ("name", "identity")),
        "features": len(model.center),
        "thresholds": _numbers(note.get("thresholds"), ("precision", "outlier", "confident")),
        HELD_OUT: _held_out(note.get(HELD_OUT)),
        "expected_outlier_share": model.mixture.outlier_share,
        "limits": list(LIMITS),
    }


def card_json(card: dict[str, Any]) -> str:
    """The card as JSON, in ASCII."""
    return json.dumps(card, indent=1) + "\n"


def card_text(card: dict[str, Any]) -> str:
    """The card as Markdown."""
    rows = [f"| {escaped_markdown(c['name'])} | {_shown(c['labeled_images'])} |" for c in card["classes"]]
    encoder, thresholds = card["encoder"], card["thresholds"]
    lines = [
        "# Model card",
        "",
        f"An image classifier of {counted(len(rows), 'class')}, fitted to the labeled images below, "
        f"{_shown(card['known_outliers'])} known outliers and a pool of {_shown(card['pool_images'])} images. "
        f"Card by sala {card['sala']}.",
        "",
        "| class | labeled images |",
        "|---|---|",
        *rows,
        "",
        *_described_lines(card),
        "## Encoder",
        "",
        f"{escaped_markdown(encoder['name'] or 'not told')} ({escaped_markdown(encoder['identity'] or 'not told')}), "
        f"{card['features']:,} features of an image.",
        "",
        "## Measured",
        "",
        *_measured_lines(card),
        "",
        "## Thresholds",
        "",
        "A label is confident if probability times (1 - outlier probability) is at least "
        f"{_shown(thresholds['confident'])}; an image is rejected above an outlier probability of "
        f"{_shown(thresholds['outlier'])} (precision {_shown(thresholds['precision'])}).",
        "",
        "## Limits",
        "",
        *(f"- {limit}" for limit in card["limits"]),
    ]
    return "\n".join(lines) + "\n"


def _described_lines(card: dict[str, Any]) -> list[str]:
    texts = [
        f"- {escaped_markdown(name)}: {escaped_markdown('; '.join(some))}"
        for name, some in card["descriptions"].items()
    ]
    if not texts:
        return []
    n = _shown(card["prior_examples_a_class"])
    return ["## Descriptions (experimental)", "", f"Texts count as {n} prior examples for each class.", "", *texts, ""]


def _measured_lines(card: dict[str, Any]) -> list[str]:
    found, share = card[HELD_OUT], card["expected_outlier_share"]
    outliers = f"- Expected share of outliers in the pool, as the classifier estimates it: {share:.1%}."
    if not found["n"] or found["interval"] is None:
        return ["- Accuracy was not measured: a class needs two labeled images for one to be held out.", outliers]
    low, high = found["interval"]
    return [
        f"- Held-out accuracy: {found['accuracy']:.1%} of {found['n']:,} labeled images, each classified by a fit without it "
        f"(95 % Wilson interval {low:.1%} to {high:.1%}).",
        f"- Mean probability that they were given: {found['mean_probability']:.1%}.",
        outliers,
    ]


def card_paths(path: Path) -> tuple[Path, Path]:
    """Where the cards of a model lie: `model.safetensors` has `model-card.json` and `model-card.md`."""
    return path.with_name(f"{path.stem}-card.json"), path.with_name(f"{path.stem}-card.md")


def write_cards(model: LabelModel, path: Path) -> None:
    """Write both cards beside the model's file."""
    card = card_of(model)
    texts = (card_json(card), card_text(card))
    for place, text in zip(card_paths(path), texts, strict=True):
        write_atomically(place, text.encode("utf-8", "backslashreplace"))


def _held_out(value: Any) -> dict[str, Any]:
    names = ("n", "n_right", "accuracy", "mean_probability")
    interval = value.get("interval") if isinstance(value, dict) else None
    is_pair = isinstance(interval, list) and len(interval) == 2 and all(_number(x) is not None for x in interval)
    found = {name: _number(value.get(name)) if isinstance(value, dict) else None for name in names}
    return found | {"interval": interval if is_pair and None not in found.values() else None}


def _numbers(value: Any, names: tuple[str, ...]) -> dict[str, float | None]:
    return {name: _number(value.get(name)) if isinstance(value, dict) else None for name in names}


def _texts(value: Any, names: tuple[str, ...]) -> dict[str, str | None]:
    return {name: str(value[name]) if isinstance(value, dict) and name in value else None for name in names}


def _lists_of_texts(value: Any) -> dict[str, list[str]]:
    found = value.items() if isinstance(value, dict) else ()
    return {str(name): [str(text) for text in texts] for name, texts in found if isinstance(texts, list)}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
