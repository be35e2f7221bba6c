"""The demo: two methods on the built-in data, in about three minutes, with a page to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from PIL import Image

from sala.episodes.protocol import PROTOCOLS, TEST_SEED, Budget, EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.task import Episode, Task
from sala.errors import writing
from sala.evaluation.report import pseudo_label_note
from sala.evaluation.results import Result
from sala.methods import Method
from sala.templates import plots, render
from sala.templates.pictures import Picture, data_uri
from sala.training.config import RunConfig, read_config
from sala.training.loading import load
from sala.training.log import read_metrics
from sala.training.measured import evaluate_run
from sala.training.run import Watch, start_run

METHODS = {"protonet": "ProtoNet (labeled images only)", "sala": "SALA (unlabeled images too)"}
N_TEST_EPISODES = 1_000
WITHOUT = replace(PROTOCOLS["glyphs"].test["large"], n_distractor=0)
WITH = replace(WITHOUT, n_distractor=5)
SETTINGS = {"without distractors": WITHOUT, "with distractors": WITH}
Watching = Callable[[RunConfig], AbstractContextManager[Watch]]


@dataclass(frozen=True)
class Demo:
    """The runs, results and report of a demo."""

    runs: dict[str, Path]  # by method
    results: dict[str, dict[str, Result]]  # by method, then setting
    report: Path


def run_demo(folder: Path, n_episodes: int, seed: int, watching: Watching) -> Demo:
    """Train both methods, test them in both settings, write the page."""
    runs = {}
    for method, config in demo_configs(n_episodes, seed).items():
        runs[method] = folder / method
        with watching(config) as watch:
            start_run(runs[method], config, watch)
            if watch.should_stop():
                raise KeyboardInterrupt
    results = {method: evaluate_run(run, SETTINGS, n_episodes=N_TEST_EPISODES) for method, run in runs.items()}
    report = folder / "report.html"
    with writing(report):
        report.write_text(_report(runs, results, n_episodes, seed), encoding="utf-8")
    return Demo(runs, results, report)


def demo_configs(n_episodes: int, seed: int) -> dict[str, RunConfig]:
    """The configuration of both runs, by method."""
    protocol = replace(PROTOCOLS["glyphs"], label_split_seed=seed)
    budget = Budget(n_episodes, validate_every=max(1, n_episodes // 8), n_validation_episodes=200)
    return {method: RunConfig(method, protocol, budget, seed) for method in METHODS}


def demo_rows(results: dict[str, dict[str, Result]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table: accuracy in each setting, and the paired difference."""
    header = ["5-way 1-shot accuracy (95 %)", *SETTINGS]
    rows = [[METHODS[name], *(str(by_setting[s].interval) for s in SETTINGS)] for name, by_setting in results.items()]
    gains = [results["sala"][s].minus(results["protonet"][s]) for s in SETTINGS]
    rows.append(["difference, paired over episodes", *(f"{g.mean:+.2f} ± {g.ci95:.2f}" for g in gains)])
    return header, rows


def _report(runs: dict[str, Path], results: dict[str, dict[str, Result]], n_episodes: int, seed: int) -> str:
    header, rows = demo_rows(results)
    manifest = json.loads((runs["sala"] / "manifest.json").read_text(encoding="utf-8"))
    notes = [f"{name.capitalize()}: {note}." for name, r in results["sala"].items() if (note := pseudo_label_note(r))]
    return render(
        "demo",
        title="sala: a few labeled letters, many unlabeled ones",
        header=header,
        rows=rows,
        notes=notes,
        n_test_episodes=N_TEST_EPISODES,
        shape=WITHOUT,
        n_episodes=n_episodes,
        seed=seed,
        machine=manifest["machine"],
        torch_version=manifest["versions"]["torch"],
        curves=plots.training_curves({name: read_metrics(run) for name, run in runs.items()}),
        example=_example(load(runs["sala"]), runs["sala"]),
        runs=runs,
    )


@dataclass(frozen=True)
class Example:
    """One test episode as a method sees it: pictures and a map."""

    classes: list[tuple[str, str]]  # name, color
    support: list[Picture]
    selected: list[Picture]
    rejected: list[Picture]
    queries: list[Picture]
    n_right: int
    embedding: plots.Plot


def _example(method: Method, run: Path) -> Example:
    """The first test episode."""
    shape = EpisodeShape(n_query=6, n_unlabeled=6, n_distractor=5)
    sampler = EpisodeSampler(read_config(run).open_store(), shape, split="test", seed=TEST_SEED)
    episode = sampler[0]
    method.selection_share = shape.selection_share
    with torch.inference_mode():
        task = method.embed(episode.task)
        predicted = method.logits(task).argmax(-1).tolist()
        is_selected, unlabeled = _unlabeled_pictures(episode, method, task)
        embeddings = torch.cat([task.support, task.unlabeled, task.query]).numpy()
    groups = ["support"] * len(task.support) + ["unlabeled"] * len(task.unlabeled) + ["query"] * len(task.query)
    query_labels = episode.query_labels.tolist()
    truth = [*task.labels.tolist(), *episode.unlabeled_labels.tolist(), *query_labels]
    return Example(
        classes=[(f"class {c + 1}", plots.COLORS[c]) for c in range(shape.n_way)],
        support=[Picture(_uri(x), plots.COLORS[c], [f"class {c + 1}"]) for c, x in enumerate(episode.task.support)],
        selected=[picture for picture, kept in zip(unlabeled, is_selected, strict=True) if kept],
        rejected=[picture for picture, kept in zip(unlabeled, is_selected, strict=True) if not kept],
        queries=[
            Picture(
                _uri(x), plots.COLORS[guess], [f"{guess + 1}", "right" if guess == label else f"wrong: {label + 1}"]
            )
            for x, guess, label in zip(episode.task.query, predicted, query_labels, strict=True)
        ],
        n_right=sum(guess == label for guess, label in zip(predicted, query_labels, strict=True)),
        embedding=plots.embedding_map(embeddings, groups, truth, shape.n_way),
    )


def _unlabeled_pictures(episode: Episode, method: Method, embedded: Task) -> tuple[list[bool], list[Picture]]:
    """Whether each unlabeled image was selected, and its picture with pseudo-label, probability and truth."""
    labels = method.pseudo_labels(embedded)
    assert labels is not None
    guesses = zip(labels.probabilities.argmax(-1).tolist(), labels.probabilities.amax(-1).tolist(), strict=True)
    selected: list[bool] = labels.selected.tolist()
    pictures = []
    for x, truth, (guess, p), is_selected in zip(
        episode.task.unlabeled, episode.unlabeled_labels.tolist(), guesses, selected, strict=True
    ):
        verdict = "distractor" if truth < 0 else "right" if truth == guess else f"is class {truth + 1}"
        lines = [f"{guess + 1} ({p:.0%})", verdict]
        pictures.append(Picture(_uri(x), plots.COLORS[guess], lines, is_faded=not is_selected))
    return selected, pictures


def _uri(image: torch.Tensor) -> str:  # [C H W]
    array = image.permute(1, 2, 0).contiguous().numpy()
    return data_uri(Image.fromarray(array[:, :, 0] if array.shape[-1] == 1 else array))
