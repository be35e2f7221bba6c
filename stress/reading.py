"""The readers of images, datasets and runs: for each a folder of good files, and how `sala` reads it. What is read is also
used, as a command does."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from stress import world as make
from stress.readers import Reader
from stress.world import MeanColor, World, an_image, copy

# images


def of_images(folder: Path) -> list[Reader]:
    make.image_files(folder / "images")
    return [
        Reader("images", folder / "images", ("*",), _embed_images, 6),
        Reader("pictures", folder / "images", ("*",), _show_images, 3),
    ]


def _embed_images(folder: Path) -> None:
    from sala.encoders import embed_files

    embed_files(sorted(folder.iterdir()), MeanColor(), cache=False)


def _show_images(folder: Path) -> None:
    """As the page shows them: each is refused alone."""
    from sala.errors import SalaError
    from sala.labeling.project import Item, Project
    from sala.web.thumbnails import FULL, THUMB, Pictures

    items = tuple(Item("pool", path.name) for path in sorted(folder.iterdir()))
    pictures = Pictures(SimpleNamespace(project=Project({"pool": folder.resolve()}, (), items)))  # type: ignore[arg-type]
    for i in range(len(items)):
        for side in (THUMB, FULL):
            with suppress(SalaError):
                pictures.jpeg(i, side)


# datasets


def of_datasets(world: World, folder: Path) -> list[Reader]:
    make.mini_imagenet(folder / "mini")
    make.mini_imagenet_lists(folder / "lists")
    make.tiered_imagenet(folder / "tiered", as_npz=False)
    make.tiered_imagenet(folder / "npz", as_npz=True)
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        make.zip_of(folder / "lists" / "images", folder / "zips" / f"{how}" / "images.zip", how)
        _in_classes(folder / "zips" / f"{how}" / "images.zip", folder / "lists" / "images", how)
    _split_list(folder / "splits" / "splits.csv")
    copy(next((world.cache / "stores").glob("folder-*")), folder / "store")
    return [
        Reader("zip", folder / "zips", ("*/images.zip",), _open_zips, 4),
        Reader("miniimagenet", folder / "mini", ("*.pkl",), _prepare("miniimagenet"), 3),
        Reader("miniimagenet-csv", folder / "lists", ("*.csv",), _prepare("miniimagenet"), 2),
        Reader("tieredimagenet", folder / "tiered", ("*.pkl",), _prepare("tieredimagenet"), 3),
        Reader("tieredimagenet-npz", folder / "npz", ("*.npz", "train_labels.pkl"), _prepare("tieredimagenet"), 2),
        Reader("split-file", folder / "splits", ("splits.csv",), lambda f: _read_splits(world, f), 2),
        Reader("store", folder / "store", ("index.json", "images.bin"), _use_store, 2, is_ours=True),
    ]


def _in_classes(path: Path, images: Path, how: int) -> None:
    """Written anew with a folder for each class."""
    with zipfile.ZipFile(path, "w", how) as archive:
        for file in sorted(images.glob("*.png")):
            archive.write(file, f"{file.name.partition('_')[0]}/{file.name}")


def _split_list(path: Path) -> None:
    path.parent.mkdir()
    splits = ["train"] * 5 + ["val"] * 2 + ["test"] * 2
    path.write_text("class,split\n" + "".join(f"class{c},{split}\n" for c, split in enumerate(splits)))


def _own_cache(folder: Path) -> None:
    os.environ["SALA_CACHE"] = str(folder.parent / "cache")


def _prepare(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        from sala.data import load_dataset

        _own_cache(folder)
        return load_dataset(name, folder, image_size=16)

    return read


def _open_zips(folder: Path) -> None:
    from sala.data import load_dataset
    from sala.errors import SalaError

    _own_cache(folder)
    for path in sorted(folder.glob("*/images.zip")):
        try:
            load_dataset("folder", path, image_size=16)
        except SalaError:
            continue


def _read_splits(world: World, folder: Path) -> None:
    from sala.data import load_dataset

    load_dataset("folder", world / "classes", image_size=16, split_file=str(folder / "splits.csv"))


def _use_store(folder: Path) -> None:
    from sala.data import ImageStore
    from sala.episodes.protocol import PROTOCOLS
    from sala.episodes.sampler import fixed_sampler

    store = ImageStore(folder)
    store.verify()
    protocol = PROTOCOLS["folder"].with_shape(n_way=2)
    fixed_sampler(store, protocol.validation, "val", protocol)[0]


# runs


def of_runs(world: World, folder: Path) -> list[Reader]:
    copy(world.run, folder / "run")
    record, run = _a_record(folder / "records")
    texts, weights = ("config.json", "manifest.json", "metrics.jsonl"), ("last.safetensors", "best.safetensors")
    return [
        Reader("run", folder / "run", ("config.json",), evaluate, 3),
        Reader("run-resumed", folder / "run", texts, resume, 3),
        Reader("run-results", folder / "run", ("results/*.json",), evaluate, 2),
        Reader("checkpoint", folder / "run", (*weights, "previous.safetensors"), _evaluate_and_resume, 4),
        Reader("run-as-encoder", folder / "run", ("config.json", "best.safetensors"), _embed_by_run, 2),
        Reader("record", folder / "records", (record,), lambda f: _read_record(f, run), 2),
    ]


def evaluate(folder: Path) -> None:
    from sala.training.config import read_config
    from sala.training.measured import evaluate_run

    evaluate_run(folder, read_config(folder).protocol.test, n_episodes=3)


def resume(folder: Path) -> None:
    """Opened, and stopped at the first episode: a number of episodes may be anything."""
    from sala.training.log import read_metrics
    from sala.training.run import Watch, resume_run

    resume_run(folder, Watch(should_stop=lambda: True))
    read_metrics(folder)


def _evaluate_and_resume(folder: Path) -> None:
    from sala.errors import SalaError

    with suppress(SalaError):  # refused; the other way to open it may be, too
        evaluate(folder)
    resume(folder)


def _embed_by_run(folder: Path) -> None:
    from sala.encoders import embed_files, open_encoder

    embed_files([an_image(folder)], open_encoder(folder), cache=False)


def _a_record(folder: Path) -> tuple[str, object]:
    """One of the records that the repository keeps, and the run that it is of."""
    from sala.reproduction.plan import wanted_runs
    from sala.reproduction.records import record_path

    results = Path(__file__).parent.parent / "results"
    runs = wanted_runs(["table1"], ["omniglot"], [], [], "cpu", 1)
    run = next(run for run in runs if record_path(results, run).is_file())
    copy(record_path(results, run), record_path(folder, run))
    return record_path(folder, run).relative_to(folder).as_posix(), run


def _read_record(folder: Path, run: object) -> None:
    from sala.evaluation.formats import markdown
    from sala.reproduction import formats, tables
    from sala.reproduction.records import read_record

    read_record(folder, run)  # type: ignore[arg-type]
    columns = tables.columns_of("table1", ["omniglot"], "cpu", folder)
    markdown(*formats.rows_of(columns))
