"""The commands about data: `sala data list | info | prepare | fetch`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sala.cli import asked, console
from sala.cli import options as opt
from sala.episodes.protocol import PROTOCOLS
from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.data import ImageStore

app = typer.Typer(
    help="Look at, prepare and download datasets.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.command("list")
def data_list() -> None:
    """The datasets, and which of them are ready."""
    from sala.data import DATASETS, prepared_stores

    table = Table(box=None, pad_edge=False)
    for column in ("dataset", "what it is", "size", "ready"):
        table.add_column(column, overflow="fold")
    for name, dataset in DATASETS.items():
        ready = "yes" if prepared_stores(name) else "-" if dataset.folder else "on first use"
        table.add_row(name, dataset.summary, f"{dataset.image_size} px", ready)
    console.out.print(table)


@app.command("prepare")
def data_prepare(
    name: opt.DatasetName,
    root: opt.Root = None,
    image_size: opt.ImageSize = None,
    split_file: opt.SplitFile = None,
    split_seed: opt.SplitSeed = None,
) -> None:
    """Build the image store of a dataset from its files, once; later commands open it at once.

    What --root (or the dataset's folder in $SALA_DATA) holds:

    - **glyphs**: nothing is needed, it is built in
    - **omniglot**: images_background.zip and images_evaluation.zip, or the folders unpacked from them
    - **miniimagenet**: mini-imagenet-cache-{train,val,test}.pkl; or train.csv, val.csv, test.csv (filename,label) and
      images/; or a folder for each class (n01532829/...)
    - **tieredimagenet**: {train,val,test}_images_png.pkl or _images.npz, with {train,val,test}_labels.pkl; or a folder
      for each class
    - **tiny-tiered**: tiny-imagenet-200.zip or the folder unpacked from it
    - **folder**: class_name/*.jpg (png, webp, bmp, gif, tiff), or a zip of that. Its classes are divided by
      --split-file, else by folders train/, val/ and test/ above them, else 60 / 20 / 20 at random by --split-seed

    Example: `sala data prepare folder --root my-photos --image-size 64`
    """
    from sala.data import load_dataset

    with console.counting(f"preparing {name}") as progress:
        options = asked.data_options(split_file, split_seed)
        store = load_dataset(name, root, image_size=image_size, progress=progress, **options)
    _print_store(store)


@app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="omniglot; for the others it says how to get them.")],
    url: Annotated[
        str | None, typer.Option(help="Folder on a server that has the files.", show_default="the official one")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where the files go; default: downloads/ in the cache.")] = None,
) -> None:
    """Download the official files of a dataset, check them, and prepare it.

    Files that are there and whole are not fetched again; one that was cut begins anew.

    Example: `sala data fetch omniglot`
    """
    from sala.cache import cache_folder
    from sala.data import dataset_named
    from sala.data.download import OMNIGLOT_URL, downloads_of, fetch

    downloads = downloads_of(dataset_named(name).name)
    folder = out or cache_folder() / "downloads" / name
    for download in downloads:
        with console.counting(f"downloading {download.name}", "KiB") as report:
            in_kib = partial(_in_kib, report)
            fetch((download,), url or OMNIGLOT_URL, folder, in_kib)
    data_prepare(name, root=folder)


def _in_kib(report: Callable[[int, int], None], name: str, done: int, total: int) -> None:
    report(done >> 10, total >> 10)


@app.command("info")
def data_info(
    name: opt.DatasetName,
    root: opt.Root = None,
    image_size: opt.ImageSize = None,
    verify: Annotated[bool, typer.Option(help="Read all images again and check their hash.")] = False,
) -> None:
    """What a prepared dataset holds: classes and images per split, image shape, content hash, place, protocol.

    Example: `sala data info omniglot --verify`
    """
    from sala.data import load_dataset

    with console.counting(f"preparing {name}") as progress:
        store = load_dataset(name, root, image_size=image_size, progress=progress)
    _print_store(store)
    protocol = PROTOCOLS[name]
    console.out.print(f"training episodes: {protocol.train.describe()}; labeled share {protocol.labeled_share:.0%}")
    for setting, shape in protocol.test.items():
        console.out.print(f"test setting {setting}: {shape.describe()}")
    if verify:
        if not store.verify():
            raise SalaError(
                f"{store.folder} has changed since it was built; delete that folder and prepare {name} again"
            )
        console.out.print("verified: the images have the content hash above")


def _print_store(store: ImageStore) -> None:
    from sala.data.store import SPLITS

    table = Table(box=None, pad_edge=False)
    for column in ("split", "classes", "images", "images a class"):
        table.add_column(column, justify="left" if column == "split" else "right")
    for split in SPLITS:
        counts = [entry.count for entry in store.split(split)]
        per_class = (
            f"{min(counts)} - {max(counts)}" if counts and min(counts) < max(counts) else str(max(counts, default=0))
        )
        table.add_row(split, f"{len(counts):,}", f"{sum(counts):,}", per_class)
    height, width, channels = store.image_shape
    console.out.print(f"[bold]{store.name}[/]: {height} x {width} pixels, {'gray' if channels == 1 else 'RGB'}")
    console.out.print(table)
    console.out.print(f"content hash {store.content_hash}\nplace {store.folder}")
