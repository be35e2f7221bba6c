"""Plots as SVG and PNG, readable in print and by the color-blind."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette; distractors are gray. Class i is also told apart by its marker.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
OUTLIER = "#9A9A9A"


@dataclass(frozen=True)
class Plot:
    """A drawn figure as SVG and PNG. A template inserts it as it is: `__html__` says that its text is markup."""

    figure: Figure
    svg: str

    def png(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
        return buffer.getvalue()

    def __html__(self) -> Markup:
        return Markup(self.svg)


def training_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Plot:
    """Training loss and validation accuracy with its 95 % band, over training episodes, a line for each run."""
    figure, (left, right) = _figure(1, 2, (9.0, 3.2))
    for (name, metrics), color in zip(runs.items(), COLORS, strict=False):
        episodes = [line["episode"] for line in metrics]
        left.plot(episodes, [line["loss"] for line in metrics], color=color, label=name)
        mean = np.array([line["val_accuracy"] for line in metrics])
        half = np.array([line["val_ci95"] for line in metrics])
        right.plot(episodes, mean, color=color, label=name)
        right.fill_between(episodes, mean - half, mean + half, color=color, alpha=0.15, linewidth=0)
    left.set(xlabel="training episodes", ylabel="training loss", ylim=(0, None))
    right.set(xlabel="training episodes", ylabel="validation accuracy (%)")
    for axes in (left, right):
        axes.legend(frameon=False)
    return _plot(figure)


def growth(panels: Mapping[str, Mapping[str, tuple[float, Sequence[tuple[float, float]]]]]) -> Plot:
    """Cost against size on log-log axes, a panel for each kind of size, with the fitted line and its exponent."""
    figure, all_axes = _figure(1, len(panels), (5.2 * len(panels), 3.8))
    for axes, (title, lines) in zip(all_axes, panels.items(), strict=True):
        for k, (name, (exponent, points)) in enumerate(lines.items()):
            x, y = np.array(points).T
            offset = np.mean(np.log(y)) - exponent * np.mean(np.log(x))
            axes.plot(x, 1e3 * np.exp(offset) * x**exponent, color=COLORS[k], linewidth=1, alpha=0.6)
            axes.plot(x, 1e3 * y, MARKERS[k], color=COLORS[k], label=f"{name}, exponent {exponent:.2f}")
        axes.set(xscale="log", yscale="log", xlabel="number", ylabel="milliseconds")
        axes.set_title(title, fontsize=10)
        axes.legend(frameon=False)
    return _plot(figure)


def validation_curves(panels: Mapping[str, Mapping[str, Sequence[tuple[int, float, float]]]]) -> Plot:
    """Validation accuracy over training, a panel for each dataset; points are (episode, percent, half-width)."""
    figure, all_axes = _figure(1, len(panels), (5.2 * len(panels), 3.6))
    for axes, (title, lines) in zip(all_axes, panels.items(), strict=True):
        for k, (name, points) in enumerate(lines.items()):
            x, mean, half = np.array(points).T
            axes.plot(x, mean, color=COLORS[k], linestyle=("-", "--", ":")[k % 3], label=name)
            axes.fill_between(x, mean - half, mean + half, color=COLORS[k], alpha=0.15, linewidth=0)
        axes.set(xlabel="training episodes", ylabel="validation accuracy (%)")
        axes.set_title(title, fontsize=10)
        axes.legend(frameon=False, loc="lower right")
    return _plot(figure)


def accuracy_over_clicks(curves: Mapping[str, Sequence[float]], batch: int) -> Plot:
    """Accuracy of a pool's labels in percent over the clicks of a user, a line for each strategy; the first one is thick."""
    figure, (axes,) = _figure(1, 1, (6.4, 3.8))
    for k, (name, accuracies) in enumerate(curves.items()):
        x, style = batch * np.arange(len(accuracies)), ("-", "--", "-.", ":")[k % 4]
        axes.plot(x, accuracies, color=COLORS[k], linestyle=style, linewidth=1.4 if k else 2.6, label=name)
    axes.set(xlabel="clicks", ylabel="right labels of the pool (%)")
    axes.legend(frameon=False, loc="lower right")
    return _plot(figure)


@dataclass(frozen=True)
class Learning:
    """Curves of two methods over training, and the difference of the first to the second."""

    place: tuple[int, int]  # row and column
    title: str
    episodes: Sequence[int]
    curves: Mapping[str, NDArray[Any]]  # by method: [seeds, episodes], in percent
    differences: NDArray[Any]  # [seeds, episodes], at equal seed
    band: NDArray[Any] | None  # half-width of the interval of their mean: [episodes]


def learning(panels: Sequence[Learning]) -> Plot:
    """For each panel the accuracy over training, thin lines for seeds and thick ones for means; below it the difference."""
    from matplotlib.ticker import MaxNLocator

    n_rows, n_columns = (1 + max(panel.place[axis] for panel in panels) for axis in (0, 1))
    figure, flat = _figure(2 * n_rows, n_columns, (5.2 * n_columns, 5.0 * n_rows), height_ratios=[3, 2] * n_rows)
    grid = np.array(flat).reshape(n_rows, 2, n_columns)
    for axes in flat:
        axes.set_visible(False)
    for panel in panels:
        row, column = panel.place
        upper, lower = grid[row, :, column]
        _accuracies(upper, panel)
        _difference(lower, panel)
        lower.sharex(upper)
        lower.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        lower.xaxis.set_major_formatter("{x:,.0f}")
    figure.align_ylabels()
    return _plot(figure)


def _accuracies(axes: Any, panel: Learning) -> None:
    for k, (name, lines) in enumerate(panel.curves.items()):
        style = {"color": COLORS[k], "linestyle": ("-", "--")[k % 2]}
        seeds = "1 seed" if len(lines) == 1 else f"{len(lines)} seeds"
        axes.plot(panel.episodes, lines.mean(0), label=f"{name} ({seeds})", linewidth=2, **style)
        if len(lines) > 1:
            axes.plot(panel.episodes, lines.T, linewidth=0.7, alpha=0.45, **style)
    lowest = min(np.percentile(lines, 3) for lines in panel.curves.values())  # the first steps would flatten the rest
    axes.set_visible(True)
    axes.set_ylim(bottom=lowest)
    axes.set_ylabel("validation accuracy (%)")
    axes.set_title(panel.title, fontsize=10)
    axes.tick_params(labelbottom=False)
    axes.legend(frameon=False, loc="lower right")


def _difference(axes: Any, panel: Learning) -> None:
    mean, color = panel.differences.mean(0), COLORS[2]
    axes.axhline(0, color="#555555", linewidth=0.8)
    if len(panel.differences) > 1:
        axes.plot(panel.episodes, panel.differences.T, color=color, linewidth=0.7, alpha=0.45)
    axes.plot(panel.episodes, mean, color=color, linewidth=2)
    label = "no interval: fewer than 3 seeds"
    if panel.band is not None:
        axes.fill_between(panel.episodes, mean - panel.band, mean + panel.band, color=color, alpha=0.15, linewidth=0)
        label = "mean, 95 % interval over seeds"
    low, high = np.percentile(panel.differences, (1, 99))  # not the interval's: of three seeds it is wide
    margin = 0.6 * max(high - low, 1.0)
    axes.set_visible(True)
    axes.set(xlabel="training episodes", ylabel="SALA minus\nSoft k-Means", ylim=(low - margin, high + margin))
    axes.set_title(label, fontsize=8, loc="right", pad=3, color="#333333")


def before_and_after(panels: Mapping[str, tuple[Sequence[Sequence[float]], Sequence[int]]]) -> Plot:
    """Two-dimensional maps of embeddings, two panels a row, colored by class."""
    n_rows = -(-len(panels) // 2)
    figure, all_axes = _figure(n_rows, 2, (9.2, 4.0 * n_rows))
    for axes, (title, (points, labels)) in zip(all_axes, panels.items(), strict=True):
        xy, classes = np.array(points), np.array(labels)
        for c in sorted(set(labels)):
            at, color, marker = xy[classes == c], COLORS[c % len(COLORS)], MARKERS[c % len(MARKERS)]
            axes.scatter(at[:, 0], at[:, 1], s=18, color=color, marker=marker, alpha=0.8)
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, fontsize=10)
    return _plot(figure)


def reliability(
    bins: Sequence[tuple[float, float, float, float, int]], confidences: Mapping[str, tuple[str, NDArray[np.float32]]]
) -> Plot:
    """A reliability diagram and a histogram. Left: accuracy of held-out images against their predicted probability; a bin is
    (probability, accuracy, low, high, n). Right: the confidences of the pool, by verdict with its color."""
    figure, all_axes = _figure(1, 2 if bins else 1, (9.0, 3.4) if bins else (5.2, 3.2))
    if bins:
        p, share, low, high, n = np.array(bins).T
        axes = all_axes[0]
        axes.plot([0, 1], [0, 1], color=OUTLIER, linewidth=1, linestyle="--", label="perfectly calibrated")
        axes.errorbar(
            p, share, np.array([share - low, high - share]), fmt="o-", color=COLORS[0], capsize=3, label="95 % interval"
        )
        for x, y, count in zip(p, share, n, strict=True):
            axes.annotate(f"{int(count)}", (x, y), xytext=(6, -12), textcoords="offset points", fontsize=8)
        axes.set(xlabel="mean predicted probability", ylabel="accuracy", xlim=(0, 1.03), ylim=(0, 1.03))
        axes.set_title("held-out labeled images", fontsize=10)
        axes.legend(frameon=False, loc="upper left", fontsize=8)
    axes = all_axes[-1]
    values = [v for _, v in confidences.values()]
    axes.hist(values, bins=np.linspace(0, 1, 21), stacked=True, color=[c for c, _ in confidences.values()],
              label=list(confidences))  # fmt: skip
    axes.set(xlabel="confidence of the label", ylabel="images", xlim=(0, 1))
    axes.set_title("the pool", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return _plot(figure)


def embedding_map(embeddings: NDArray[np.float32], groups: Sequence[str], truth: Sequence[int], n_way: int) -> Plot:
    """A t-SNE map of a task. `groups` has the role of each point (support, unlabeled, query), `truth` its class, -1 for a
    distractor."""
    from sklearn.manifold import TSNE

    perplexity = min(20.0, (len(embeddings) - 1) / 3)
    xy = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(embeddings)
    figure, (axes,) = _figure(1, 1, (7.0, 5.2))
    where = np.array(groups)
    labels = np.array(truth)
    style: dict[str, dict[str, Any]] = {
        "unlabeled": {"s": 26, "alpha": 0.9, "facecolors": "none", "linewidths": 1.2},
        "query": {"s": 12, "alpha": 0.6},
        "support": {"s": 190, "edgecolors": "black", "linewidths": 1.5, "zorder": 5},
    }
    for group, options in style.items():
        for c in (*range(n_way), -1):
            at = xy[(where == group) & (labels == c)]
            color = OUTLIER if c < 0 else COLORS[c % len(COLORS)]
            paint = {"edgecolors": color} if "facecolors" in options else {"color": color}
            axes.scatter(
                at[:, 0], at[:, 1], marker="x" if c < 0 else MARKERS[c % len(MARKERS)], **_paint(c, paint, options)
            )
    handles = [_dot(f"class {c + 1}", COLORS[c % len(COLORS)], MARKERS[c % len(MARKERS)]) for c in range(n_way)]
    handles += [_dot("distractor", OUTLIER, "x")] if (labels < 0).any() else []
    axes.legend(handles=handles, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set(xticks=[], yticks=[])
    return _plot(figure)


def _paint(c: int, paint: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    if c >= 0:
        return {**options, **paint}
    kept = {key: value for key, value in options.items() if key not in ("facecolors", "edgecolors")}
    return {**kept, "color": OUTLIER}  # a cross has no face


def _dot(label: str, color: str, marker: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, marker=marker, linestyle="none", label=label)


def _figure(
    rows: int, columns: int, size: tuple[float, float], height_ratios: Sequence[float] | None = None
) -> tuple[Any, list[Any]]:
    """A figure and its axes, outside pyplot's global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns, height_ratios=height_ratios)).flat)
    for a in axes:
        a.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _plot(figure: Figure) -> Plot:
    """Draw once: a second drawing of the same figure has a slightly different layout."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "sala"}):  # the same plot is the same file
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    content = buffer.getvalue()
    return Plot(figure, content[content.index("<svg") :])
