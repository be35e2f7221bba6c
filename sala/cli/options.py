"""Options that commands share, with their help: the same name means the same thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sala.reproduction.published import NAMES

# what is trained or tested
MethodName = Annotated[str, typer.Option(help="A name from `sala methods`, or path/to/file.py:Class.")]
MethodAgain = Annotated[str | None, typer.Option(help="path/to/file.py:Class again, for a run of your own method.")]
BackboneAgain = Annotated[
    str | None, typer.Option("--backbone", help="path/to/file.py:Class again, for a run on your own backbone.")
]
MethodOptions = Annotated[
    list[str] | None, typer.Option("--set", help="An option of the method, name=value; repeatable.")
]
Transductive = Annotated[
    bool, typer.Option("--transductive", help="tpn: queries see each other; the same as --set transductive=true.")
]
Backbone = Annotated[
    str,
    typer.Option(help="conv4, resnet12, identity (pixels as they are), or path/to/file.py:Class, a torch.nn.Module."),
]
Init = Annotated[
    Path | None,
    typer.Option(help="Begin with the weights of this run: all of its backbone, of the rest what fits."),
]
Run = Annotated[Path, typer.Argument(help="A run folder, or a run that comes with sala: omniglot-sala.")]
EvaluatedRuns = Annotated[
    list[Path] | None,
    typer.Argument(
        help="A run folder, or several; or a run that comes with sala: omniglot-sala. Left out with --encoder."
    ),
]
Runs = Annotated[
    list[Path] | None,
    typer.Argument(help="Run folders; the others are compared with the first. Left out with --encoder."),
]
Weights = Annotated[str, typer.Option(help="best (by validation) or last.")]

# heads
Heads = Annotated[
    list[str] | None,
    typer.Option("--head", help="A head of `sala methods`, on the embeddings of the run or encoder; repeatable."),
]
TransductiveHeads = Annotated[
    bool,
    typer.Option("--transductive", help="Heads: queries join the unlabeled images; by default each is on its own."),
]
HeadEncoder = Annotated[
    str | None,
    typer.Option(
        "--encoder", help="Heads on features of the images in --root FOLDER/class_name, by this encoder (e.g. lite0)."
    ),
]

# data
DatasetName = Annotated[str, typer.Argument(help="A dataset of `sala data list`.")]
Dataset = Annotated[str, typer.Option(help="A name from `sala data list`.")]
Root = Annotated[
    Path | None, typer.Option(help="Folder (or zip) with the dataset's files; else $SALA_DATA, else the cache.")
]
MovedRoot = Annotated[Path | None, typer.Option("--root", help="Where the data of the run is now, if it has moved.")]
RunOrFolderRoot = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Where the data of the run is now, if it has moved; with --encoder, the folder of class folders."
    ),
]
ImageSize = Annotated[int | None, typer.Option(help="Side of the images in pixels; each dataset has its own default.")]
SplitFile = Annotated[Path | None, typer.Option(help="folder: a CSV of class,split lines.")]
SplitSeed = Annotated[int | None, typer.Option(help="folder: draws the split of the classes.")]
Split = Annotated[str, typer.Option(help="test, val or train: whose classes.")]

# episodes
Ways = Annotated[int | None, typer.Option(help="Classes in an episode (N).", show_default="5")]
Shots = Annotated[int | None, typer.Option(help="Labeled images per class (K).", show_default="1")]
Distractors = Annotated[
    int | None, typer.Option(help="Distractor classes: their images are unlabeled, and of none of the ways (C).")
]
Unlabeled = Annotated[int | None, typer.Option(help="Unlabeled images per class (H).")]
Queries = Annotated[int | None, typer.Option(help="Query images per class.")]
TestQueries = Annotated[
    int | None,
    typer.Option(
        help="Query images per class in validation and test.", show_default="the dataset's, fewer for small classes"
    ),
]
TestUnlabeled = Annotated[
    int | None,
    typer.Option(
        help="Unlabeled images per class in validation and test.", show_default="the dataset's, fewer for small classes"
    ),
]
LabeledShare = Annotated[float | None, typer.Option(help="Labeled share of each training class.")]
DistanceScale = Annotated[
    float | None,
    typer.Option(
        help="Squared distances are multiplied by this over the width of the embeddings; 0: as the papers print them.",
        show_default="the dataset's: 64 for photographs, 0 for characters",
        min=0,
    ),
]
Setting = Annotated[
    str | None, typer.Option(help="One of the test settings of the dataset, e.g. large.", show_default="all")
]
FixedEpisodes = Annotated[int, typer.Option("--episodes", help="How many fixed episodes.")]
EpisodeSeed = Annotated[
    int | None,
    typer.Option("--seed", help="Draws other test episodes.", show_default="the fixed ones, the same for all", min=0),
]

# length and place of a training
Budget = Annotated[
    str, typer.Option(help="cpu, long (omniglot) or paper: episodes, how often to validate, on how many.")
]
Episodes = Annotated[int | None, typer.Option(help="Training episodes; the default is the budget's.")]
ValidateEvery = Annotated[int | None, typer.Option(help="Episodes between validations.")]
LearningRate = Annotated[float | None, typer.Option(help="At the beginning of the training.", show_default="0.001")]
WeightDecay = Annotated[
    float | None, typer.Option(help="On the kernels of convolutions alone.", show_default="0.00005")
]
Optimizer = Annotated[
    str | None, typer.Option(help="adam, adamw, or sgd (with Nesterov momentum 0.9).", show_default="adam")
]
Schedule = Annotated[
    str | None,
    typer.Option(
        help="Of the learning rate: halving (at each fifth of the training), cosine, linear, constant.",
        show_default="halving",
    ),
]
EpisodesPerStep = Annotated[
    int | None,
    typer.Option(help="Episodes whose gradients are averaged in a step.", show_default="1, or torchrun's processes"),
]
Seed = Annotated[int, typer.Option(help="Of initial weights, training episodes and label split.")]
Threads = Annotated[int, typer.Option(help="CPU threads; 0 leaves it to PyTorch.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Precision = Annotated[str, typer.Option(help="float32, bfloat16 in the backbone, or auto: bfloat16 on cuda alone.")]
RunOut = Annotated[Path | None, typer.Option(help="Run folder; default runs/DATASET-METHOD-...")]
Resume = Annotated[
    Path | None,
    typer.Option(
        help="Continue this run; all other options come from it, but for --root if its data has moved. With --episodes it is "
        "extended to so many in all."
    ),
]

# results
JsonOfEpisodes = Annotated[
    bool, typer.Option("--json", help="Print everything as JSON, with the accuracy of every episode.")
]
Csv = Annotated[Path | None, typer.Option(help="Write a line for each row of the table to this file; - prints them.")]
Latex = Annotated[Path | None, typer.Option(help="Write the table for LaTeX (booktabs) to this file; - prints it.")]
Again = Annotated[bool, typer.Option("--again", help="Measure what is stored, too.")]
NoGroup = Annotated[bool, typer.Option("--no-group", help="A row for each run, also where only the seed differs.")]

# the paper's tables
Tables = Annotated[list[str], typer.Argument(help=f"Any of {', '.join(NAMES)}.")]
Datasets = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset",
        help="Only this one; repeatable.",
        show_default="miniimagenet, omniglot, tiny-tiered; omniglot with --budget long, the paper's with --budget paper",
    ),
]
OnlyShots = Annotated[
    list[int] | None, typer.Option("--shots", help="Only 1 or 5 shots; repeatable.", show_default="both")
]
Variants = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        help="Only this row (e.g. sala, soft-kmeans, or your own path/to/file.py:Class); repeatable.",
        show_default="all",
    ),
]
OldVariants = Annotated[list[str] | None, typer.Option("--arm", hidden=True)]  # of the last release
PaperBudget = Annotated[
    str, typer.Option(help="cpu (10,000 or 20,000 episodes a run), long (omniglot: 100,000) or paper (500,000).")
]
ShorterEpisodes = Annotated[
    int | None, typer.Option(help="Shorter trainings, to try it out; kept apart from the budget's.", min=1)
]
Seeds = Annotated[int, typer.Option(help="Trainings of each cell, with seeds 0, 1, ...")]
Jobs = Annotated[int, typer.Option(help="Runs at a time, one thread each; 0: one a core.")]
ResultsOut = Annotated[Path, typer.Option(help="Where records, tables and figures go.")]
RunsOut = Annotated[Path, typer.Option(help="Where run folders go.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="List what would run and how long it may take, from a few steps of each.")
]
NoRun = Annotated[bool, typer.Option("--no-run", help="Train nothing: write tables and figures of what is there.")]
Maps = Annotated[
    list[Path] | None,
    typer.Option(
        "--map", help="Also draw and measure the metric of this run of SALA (tsne), such as omniglot-sala; repeatable."
    ),
]
