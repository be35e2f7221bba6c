"""Draw the figures of docs/explanation: `python docs/tools/figures.py` writes classifier.svg and architecture.svg."""

from __future__ import annotations

from html import escape
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sala.classifier.fit import ClassifierConfig, fit_pool

ASSETS = Path(__file__).parents[1] / "assets"
COLORS = ("#0072b2", "#d55e00", "#009e73")
GRAY = "#777777"
N_KNOWN = 5  # outliers, in the last picture


def toy_pool(seed: int = 11) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Three classes in 24 features, one labeled image of each, outliers, and the plane of the three classes that the picture
    shows: [3, 24], [n, 24], [n], [24, 2]."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(4, 24))  # the last is that of the outliers
    truth = np.repeat([0, 1, 2, -1], [50, 50, 50, 25])
    pool, labeled = (center + 1.1 * rng.normal(size=center.shape) for center in (centers[truth], centers[:3]))
    plane = np.linalg.svd(centers[:3] - centers[:3].mean(0))[2][:2].T
    return labeled.astype(np.float32), pool.astype(np.float32), truth, plane


def draw_classifier() -> None:
    labeled, pool, truth, plane = toy_pool()
    shown = [labeled @ plane, pool @ plane]
    figure = Figure(figsize=(10.5, 3.7), layout="constrained")
    axes = figure.subplots(1, 3)
    for ax, step, n_steps in zip(axes, ("labeled images alone", "with the pool"), (0, 4), strict=False):
        fitted = fit_pool(labeled, np.arange(3), pool, config=ClassifierConfig(n_steps=n_steps))
        is_wrong = (fitted.pool.label != truth) & (truth >= 0)
        scatter(ax, *shown, [COLORS[label] for label in fitted.pool.label], truth < 0)
        ax.scatter(*shown[1][is_wrong].T, s=60, facecolor="none", edgecolor="black", linewidths=0.9)
        ax.set_title(f"{step}: {1 - is_wrong.sum() / (truth >= 0).sum():.0%} right", fontsize=10)
    known = np.flatnonzero(truth < 0)[:N_KNOWN]
    rest = np.setdiff1d(np.arange(len(pool)), known)
    fitted = fit_pool(labeled, np.arange(3), pool[rest], outliers=pool[known])
    shade = [str(1 - float(p)) for p in fitted.pool.outlier_probability]  # a gray: "0" is black
    scatter(axes[2], shown[0], shown[1][rest], shade, truth[rest] < 0)
    axes[2].scatter(*shown[1][known].T, s=60, c="red", marker="X", edgecolor="black", linewidths=0.9, zorder=3)
    axes[2].set_title(f"outlier probability, {N_KNOWN} known: white 0, black 1", fontsize=10)
    save(figure, "classifier.svg")


def scatter(ax: Axes, labeled: np.ndarray, pool: np.ndarray, colors: list[str], is_outlier: np.ndarray) -> None:
    """Dots are images of a class, crosses outliers, stars the labeled images."""
    of = np.array(colors)
    ax.scatter(*pool[~is_outlier].T, s=18, c=of[~is_outlier], edgecolor=GRAY, linewidths=0.4)
    ax.scatter(*pool[is_outlier].T, s=30, c=of[is_outlier], marker="X", edgecolor=GRAY, linewidths=0.4)
    ax.scatter(*labeled.T, s=150, marker="*", color=COLORS, edgecolor="black", linewidths=0.9, zorder=3)
    ax.set(xticks=[], yticks=[], aspect="equal")


def save(figure: Figure, name: str) -> None:
    with mpl.rc_context({"svg.hashsalt": "sala", "svg.fonttype": "none"}):  # the same bytes each time, text as text
        figure.savefig(ASSETS / name, metadata={"Date": None}, facecolor="white")


RESEARCH = [
    ("data/", "image sets, safe decoding, the store"),
    ("episodes/", "Task, protocol, sampler"),
    ("nn/", "backbones and CPU kernels"),
    ("functional/, methods/, heads/", "one file per paper"),
    ("evaluation/", "accuracy, intervals, comparison"),
    ("training/", "loop, checkpoint, run folder"),
    ("reproduction/", "the paper's tables and figures"),
]
LABELING = [
    ("encoders/", "frozen image encoders, feature cache"),
    ("classifier/", "features in, predictions out"),
    ("labeling/", "folders, one table of predictions, export"),
    ("web/", "the page: server, state, security"),
]
WAYS = [
    "dataset → sampler → Episode → backbone → prototypes → metric → selection → refinement → logits → loss | accuracy → table",
    "files → encoder → features → normalize → mixture → whitening → neighbors → calibration → CSV | report | page | model",
]


def box(x: int, y: int, width: int, title: str, text: str, fill: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="44" rx="6" fill="{fill}" stroke="#446"/>'
        f'<text x="{x + 12}" y="{y + 19}" font-weight="bold">{escape(title)}</text>'
        f'<text x="{x + 12}" y="{y + 36}" fill="#334">{escape(text)}</text>'
    )


def arrow(x: int, y: int, to_y: int) -> str:
    return f'<path d="M{x} {y}V{to_y}" stroke="#446" stroke-width="1.5" marker-end="url(#tip)"/>'


def column(x: int, y: int, rooms: list[tuple[str, str]], fill: str) -> list[str]:
    parts = [box(x, y + 64 * i, 340, title, text, fill) for i, (title, text) in enumerate(rooms)]
    return parts + [arrow(x + 170, y + 64 * i + 44, y + 64 * (i + 1) - 6) for i in range(len(rooms) - 1)]


def draw_architecture() -> None:
    """Rooms from top to bottom in the order in which they may be imported, and the two ways of the data below."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 760" font-family="sans-serif" font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#446"/></marker></defs><rect width="800" height="760" fill="white"/>',
        '<text x="40" y="30" font-weight="bold" font-size="15">For researchers</text>',
        '<text x="420" y="30" font-weight="bold" font-size="15">For practitioners</text>',
        *column(40, 46, RESEARCH, "#e3f0f8"),
        *column(420, 110, LABELING, "#e4f4ec"),
        '<path d="M380 68H590V104" fill="none" stroke="#446" stroke-width="1.5" marker-end="url(#tip)"/>',
        '<text x="400" y="60" fill="#334">decoding</text>',
        box(40, 516, 720, "cli/", "one file for each command: parse, call the library, print", "#f6efdd"),
        arrow(210, 474, 510),
        arrow(590, 346, 510),
        '<text x="40" y="600" font-weight="bold">The two ways of the data</text>',
    ]
    for i, way in enumerate(WAYS):
        parts.append(
            f'<text x="40" y="{630 + 50 * i}" font-weight="bold" fill="#334">{("research", "labeling")[i]}</text>'
        )
        parts.append(f'<text x="40" y="{650 + 50 * i}" font-size="11.5">{escape(way)}</text>')
    (ASSETS / "architecture.svg").write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw_classifier()
    draw_architecture()
