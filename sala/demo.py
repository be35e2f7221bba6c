"""The demonstration: two methods on the built-in data, in about two minutes, with a page to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from sala import figures, page
from sala.episode import Episode, Task
from sala.errors import writing
from sala.evaluate import Result
from sala.methods import Method
from sala.protocol import PROTOCOLS, TEST_SEED, Budget, EpisodeShape
from sala.report import pseudo_label_note
from sala.runconfig import RunConfig, read_config
from sala.runlog import read_metrics
from sala.runs import Watch, start_run
from sala.sampler import EpisodeSampler
from sala.trained import evaluate_run, load

METHODS = {"protonet": "ProtoNet (labelled images only)", "sala": "SALA (unlabelled images too)"}
N_TEST_EPISODES = 1_000
WITHOUT = replace(PROTOCOLS["glyphs"].test["large"], n_distractor=0)
WITH = replace(WITHOUT, n_distractor=5)
SETTINGS = {"without distractors": WITHOUT, "with distractors": WITH}
Watching = Callable[[RunConfig], AbstractContextManager[Watch]]


@dataclass(frozen=True)
class Demo:
    """What a demonstration gave."""

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
    """What the two runs are asked for."""
    protocol = replace(PROTOCOLS["glyphs"], label_split_seed=seed)
    budget = Budget(n_episodes, validate_every=max(1, n_episodes // 8), n_validation_episodes=200)
    return {method: RunConfig(method, protocol, budget, seed) for method in METHODS}


def demo_rows(results: dict[str, dict[str, Result]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table: accuracy in each setting, and what SALA gains on the same episodes."""
    header = ["5-way 1-shot accuracy (95 %)", *SETTINGS]
    rows = [[METHODS[name], *(str(by_setting[s].interval) for s in SETTINGS)] for name, by_setting in results.items()]
    gains = [results["sala"][s].minus(results["protonet"][s]) for s in SETTINGS]
    rows.append(["difference, paired over episodes", *(f"{g.mean:+.2f} ± {g.ci95:.2f}" for g in gains)])
    return header, rows


def _report(runs: dict[str, Path], results: dict[str, dict[str, Result]], n_episodes: int, seed: int) -> str:
    curves = figures.training_curves({name: read_metrics(run) for name, run in runs.items()})
    machine = json.loads((runs["sala"] / "manifest.json").read_text(encoding="utf-8"))
    notes = [f"{name.capitalize()}: {note}." for name, r in results["sala"].items() if (note := pseudo_label_note(r))]
    return page.page(
        "sala: a few labelled letters, many unlabelled ones",
        page.paragraph(
            "Each test episode shows five letters of scripts that were never seen in training, one labelled image of each, "
            "and 75 unlabelled images; in the second column 75 more images of five other letters, distractors, are mixed in. "
            "The Prototypical Network uses the labelled images alone; SALA uses all of them."
        ),
        page.section(
            "Results",
            page.table(*demo_rows(results)),
            page.paragraph(
                f"Built-in data (glyphs), test scripts; {N_TEST_EPISODES:,} test episodes, {WITHOUT.n_query} queries a class; "
                f"{n_episodes:,} training episodes without distractors, best of 8 validations, seed {seed}; one run of each "
                f"method, so the interval is over episodes and not over trainings. Machine: {machine['machine']}; torch "
                f"{machine['versions']['torch']}. Command: sala demo --episodes {n_episodes} --seed {seed}.",
                note=True,
            ),
            *(page.paragraph(note) for note in notes),
        ),
        page.section("Training", curves),
        *_example(load(runs["sala"]), runs["sala"]),
        page.section(
            "Go on",
            page.code(
                f"sala evaluate {runs['sala']} --setting ren\n"
                f"sala compare {runs['protonet']} {runs['sala']} --distractors 5\n"
                "sala train --dataset glyphs --method sala --distractors 5"
            ),
        ),
    )


def _example(method: Method, run: Path) -> list[str]:
    """One test episode, the first, as SALA sees it: pictures and a map."""
    shape = EpisodeShape(n_query=6, n_unlabeled=6, n_distractor=5)
    sampler = EpisodeSampler(read_config(run).open_store(), shape, split="test", seed=TEST_SEED)
    episode = sampler[0]
    method.selection_share = shape.selection_share
    with torch.inference_mode():
        task = method.embed(episode.task)
        predicted = method.logits(task).argmax(-1)
        pictures = _episode_pictures(episode, method, task, predicted.tolist())
        points = torch.cat([task.support, task.unlabeled, task.query]).numpy()
    groups = ["support"] * len(task.support) + ["unlabelled"] * len(task.unlabeled) + ["query"] * len(task.query)
    truth = [*task.labels.tolist(), *episode.unlabeled_labels.tolist(), *episode.query_labels.tolist()]
    return [
        page.section("One test episode, as SALA sees it", *pictures),
        page.section(
            "The same episode in the embedding",
            figures.embedding_map(points, groups, truth, shape.n_way),
            page.paragraph(
                "A t-SNE map of the embeddings. Large symbols: labelled; hollow: unlabelled; small: queries; grey crosses: "
                "distractors. Colours are the true classes, which the method sees only for the large symbols.",
                note=True,
            ),
        ),
    ]


def _episode_pictures(episode: Episode, method: Method, embedded: Task, predicted: list[int]) -> list[str]:
    labels = method.pseudo_labels(embedded)
    assert labels is not None
    guesses = list(zip(labels.probabilities.argmax(-1).tolist(), labels.probabilities.amax(-1).tolist(), strict=True))
    selected = labels.selected.tolist()
    colour = figures.COLOURS
    support = [page.picture(_array(x), f"class {c + 1}", colour[c]) for c, x in enumerate(episode.task.support)]
    taken: list[str] = []
    left: list[str] = []
    for x, truth, (guess, p), is_selected in zip(
        episode.task.unlabeled, episode.unlabeled_labels.tolist(), guesses, selected, strict=True
    ):
        verdict = "distractor" if truth < 0 else "right" if truth == guess else f"is class {truth + 1}"
        picture = page.picture(_array(x), f"{guess + 1} ({p:.0%})\n{verdict}", colour[guess], faded=not is_selected)
        (taken if is_selected else left).append(picture)
    queries = [
        page.picture(_array(x), f"{guess + 1}\n{'right' if guess == truth else f'wrong: {truth + 1}'}", colour[guess])
        for x, guess, truth in zip(episode.task.query, predicted, episode.query_labels.tolist(), strict=True)
    ]
    n_right = sum(g == t for g, t in zip(predicted, episode.query_labels.tolist(), strict=True))
    return [
        page.legend([(f"class {c + 1}", colour[c]) for c in range(episode.task.n_way)]),
        page.paragraph("The labelled images, one a class:"),
        page.row(support),
        page.paragraph(
            f"The {len(taken)} unlabelled images that were selected: frame and number are the pseudo-label, in brackets its "
            "probability, below the truth."
        ),
        page.row(taken),
        page.paragraph(f"The {len(left)} that were left out, being far from every class:"),
        page.row(left),
        page.paragraph(f"The queries, {n_right} of {len(queries)} right:"),
        page.row(queries),
    ]


def _array(image: torch.Tensor) -> NDArray[np.uint8]:
    return np.ascontiguousarray(image.permute(1, 2, 0).numpy())
