"""`sala evaluate`: accuracies of runs and heads on fixed episodes, with their intervals."""

from __future__ import annotations

from sala.cli import asked, measuring
from sala.cli import options as opt


def evaluate(
    runs: opt.EvaluatedRuns = None,
    head: opt.Heads = None,
    transductive: opt.TransductiveHeads = False,
    encoder: opt.HeadEncoder = None,
    split: opt.Split = "test",
    setting: opt.Setting = None,
    episodes: opt.FixedEpisodes = 1_000,
    ways: opt.Ways = None,
    shots: opt.Shots = None,
    queries: opt.Queries = None,
    unlabeled: opt.Unlabeled = None,
    distractors: opt.Distractors = None,
    seed: opt.EpisodeSeed = None,
    threads: opt.Threads = 0,
    weights: opt.Weights = "best",
    method: opt.MethodAgain = None,
    backbone: opt.BackboneAgain = None,
    root: opt.RunOrFolderRoot = None,
    again: opt.Again = False,
    no_group: opt.NoGroup = False,
    csv: opt.Csv = None,
    latex: opt.Latex = None,
    as_json: opt.JsonOfEpisodes = False,
) -> None:
    """Test a run: mean accuracy with its 95 % interval on fixed episodes, and how good the pseudo-labels were.

    With --head, other classifiers are tested on the embeddings of the run; with --encoder and --root, on features of a
    folder of class folders. Results are stored in the run folder.

    Example: `sala evaluate runs/glyphs-sala-5way1shot-s0 --setting large --distractors 5`
    """
    from sala.cli.comparison_view import deliver, each_as_json, show_each

    numbers = asked.numbers(ways, shots, queries, unlabeled, distractors)
    question = measuring.Question(
        runs or [], head or [], transductive, encoder, split, setting, episodes, numbers, seed, threads, weights, method,
        backbone, root, again, not no_group, has_own=False,
    )  # fmt: skip
    deliver(measuring.measure(question), show_each, each_as_json if as_json else None, csv=csv, latex=latex)
