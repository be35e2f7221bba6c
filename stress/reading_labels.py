"""The readers of encoders, of the feature cache, and of the models and states of a labeling."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from stress import world as make
from stress.page import CORRECTIONS, Page
from stress.readers import Reader
from stress.world import MeanColor, World, an_image, copy, in_child


def of_encoders(world: World, folder: Path) -> list[Reader]:
    make.onnx_encoder(folder / "onnx")
    make.write_features(_ready(folder / "features"), list(world.images))
    (folder / "script").mkdir()
    in_child(lambda: _script(folder / "script" / "net.pt"), folder)
    in_child(lambda: _fill_cache(world, folder / "cache"), folder)
    return [
        Reader("features", folder / "features", ("features.npy", "features.txt"), lambda f: _look_up(world, f), 4),
        Reader("onnx", folder / "onnx", ("net.onnx", "net.json"), lambda f: _embed_by(f / "net.onnx"), 1.5),
        Reader("torchscript", folder / "script", ("net.pt", "net.json"), lambda f: _embed_by(f / "net.pt"), 1),
        Reader(
            "feature-cache",
            folder / "cache",
            ("embeddings/*.sqlite",),
            lambda f: _embed_cached(world, f),
            3,
            is_ours=True,
        ),
    ]


def _ready(folder: Path) -> Path:
    folder.mkdir()
    return folder / "features.npy"


def _look_up(world: World, folder: Path) -> None:
    from sala.encoders import embed_files, open_encoder

    embed_files(sorted((world / "pool").iterdir()), open_encoder(folder / "features.npy"))


def _script(path: Path) -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    torch.jit.trace(network, torch.zeros(1, 3, 16, 16)).save(str(path))  # type: ignore[no-untyped-call]
    path.with_suffix(".json").write_text('{"image_size": 16}')


def _embed_by(path: Path) -> None:
    from sala.encoders import embed_files, open_encoder

    embed_files([an_image(path.parent)], open_encoder(path), cache=False)


def _fill_cache(world: World, folder: Path) -> None:
    from sala.encoders import embed_files

    os.environ["SALA_CACHE"] = str(folder)
    embed_files(sorted((world / "pool").iterdir()), MeanColor())


def _embed_cached(world: World, folder: Path) -> None:
    from sala.encoders import embed_files

    os.environ["SALA_CACHE"] = str(folder)
    files = sorted((world / "pool").iterdir())
    found = embed_files(files, MeanColor())
    if found.features.shape != (len(files), 3) or not np.isfinite(found.features).all():
        raise AssertionError(f"features of {found.features.shape}, or not finite, out of a damaged cache")


# models and states of a labeling


def of_labels(world: World, folder: Path) -> list[Reader]:
    copy(world / "labels" / "model.safetensors", folder / "model" / "model.safetensors")
    (folder / "journal").mkdir()
    page = Page(world, folder / "journal" / "state.jsonl", folder)
    for body in CORRECTIONS:
        page.ask("/api/act", body)
    page.end()
    return [
        Reader(
            "label-model",
            folder / "model",
            ("model.safetensors",),
            lambda f: predict(world, f, str(world / "features.npy")),
            4,
        ),
        Reader("journal", folder / "journal", ("state.jsonl",), lambda f: _open_page(world, f), 6),
    ]


def predict(world: World, folder: Path, encoder: str | None = None) -> None:
    """With the encoder that the model names, or one that the user names."""
    from sala.classifier.fit import LabelModel
    from sala.labeling.export import export
    from sala.labeling.predict import encoder_of, predict_files

    model = LabelModel.load(folder / "model.safetensors")
    files = ((path, None) for path in sorted((world / "pool").iterdir()))
    rows = predict_files(model, encoder_of(model, encoder), files, cache=False)
    with (folder / "labels.csv").open("w") as file:
        file.writelines(export(rows, "csv", model.classes))


def _open_page(world: World, folder: Path) -> None:
    """A session with all that its page asks for."""
    from sala.encoders import open_encoder
    from sala.labeling.embedding import embed_project
    from sala.labeling.places import Places
    from sala.labeling.project import open_project
    from sala.web import downloads
    from sala.web.journal import Journal
    from sala.web.session import Session

    journal = Journal(folder / "state.jsonl")
    labeled, pool = world.images
    project = open_project(Places(pool, labeled))
    session = Session(embed_project(project, open_encoder(world / "features.npy"), needs_examples=False), journal)
    for write in (downloads.to_csv, downloads.to_label_studio, downloads.to_coco, downloads.to_zip):
        b"".join(write(session))
    session.label([8], to=0)
    session.undo()
