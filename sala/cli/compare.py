"""`sala compare`: runs and heads on the same episodes, with paired differences."""

from __future__ import annotations

from sala.cli import asked, measuring
from sala.cli import options as opt


def compare(
    runs: opt.Runs = None,
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
    """Test several runs on the same episodes: a table with the paired difference of each against the first.

    Runs that differ in the seed alone are one row: mean, standard deviation and t interval. Results are stored in run folders.
    With --head, each run also has a row for each head on its embeddings; with --encoder and --root, on features of a folder.

    Example: `sala compare runs/glyphs-protonet-* runs/glyphs-sala-* --latex table.tex --csv table.csv`
    """
    from sala.cli.comparison_view import deliver, show_compared
    from sala.evaluation.comparison import to_json

    numbers = asked.numbers(ways, shots, queries, unlabeled, distractors)
    question = measuring.Question(
        runs or [], head or [], transductive, encoder, split, setting, episodes, numbers, seed, threads, weights, method,
        backbone, root, again, not no_group, has_own=True,
    )  # fmt: skip
    deliver(measuring.measure(question), show_compared, to_json if as_json else None, csv=csv, latex=latex)
