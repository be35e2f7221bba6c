"""The commands about data: `sala data list | info | prepare | fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sala import console
from sala.cache import cache_folder
from sala.errors import SalaError
from sala.fetch import OMNIGLOT_URL, downloads_of, fetch
from sala.protocol import PROTOCOLS

if TYPE_CHECKING:
    from sala.data import ImageStore

app = typer.Typer(
    help="Look at, prepare and download datasets.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

Root = Annotated[
    Path | None, typer.Option(help="Folder (or zip) with the dataset's files; else $SALA_DATA, else the cache.")
]
MovedRoot = Annotated[Path | None, typer.Option("--root", help="Where the data of the run is now, if it has moved.")]
ImageSize = Annotated[int | None, typer.Option(help="Side of the images in pixels; each dataset has its own default.")]
SplitFile = Annotated[Path | None, typer.Option(help="folder: a CSV of class,split lines.")]
SplitSeed = Annotated[int | None, typer.Option(help="folder: draws the split of the classes.")]


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
    name: Annotated[str, typer.Argument(help="A dataset of `sala data list`.")],
    root: Root = None,
    image_size: ImageSize = None,
    split_file: SplitFile = None,
    split_seed: SplitSeed = None,
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
        options = data_options(split_file, split_seed)
        store = load_dataset(name, root, image_size=image_size, progress=progress, **options)
    _print_store(store)


def data_options(split_file: Path | None, split_seed: int | None) -> dict[str, Any]:
    """What a user said about the split of the classes, and only that."""
    options = {"split_file": split_file and str(split_file.resolve()), "split_seed": split_seed}
    return {name: value for name, value in options.items() if value is not None}


@app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="omniglot; for the others it says how to get them.")],
    url: Annotated[str, typer.Option(help="Folder on a server that has the official files.")] = OMNIGLOT_URL,
    out: Annotated[Path | None, typer.Option(help="Where the files go; default: downloads/ in the cache.")] = None,
) -> None:
    """Download the official files of a dataset, check them, and prepare it.

    A download that was cut goes on where it ended when the command is given again.

    Example: `sala data fetch omniglot`
    """
    from sala.data import dataset_named

    downloads = downloads_of(dataset_named(name).name)
    folder = out or cache_folder() / "downloads" / name
    for download in downloads:
        with console.counting(f"downloading {download.name}", "KiB") as report:
            fetch((download,), url, folder, lambda _, done, total, report=report: report(done >> 10, total >> 10))  # type: ignore[misc]
    data_prepare(name, root=folder)


@app.command("info")
def data_info(
    name: Annotated[str, typer.Argument(help="A dataset of `sala data list`.")],
    root: Root = None,
    image_size: ImageSize = None,
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
    console.out.print(f"training episodes: {protocol.train.describe()}; labelled share {protocol.labeled_share:.0%}")
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
        spread = (
            f"{min(counts)} - {max(counts)}" if counts and min(counts) < max(counts) else str(max(counts, default=0))
        )
        table.add_row(split, f"{len(counts):,}", f"{sum(counts):,}", spread)
    height, width, channels = store.image_shape
    console.out.print(f"[bold]{store.name}[/]: {height} x {width} pixels, {'grey' if channels == 1 else 'RGB'}")
    console.out.print(table)
    console.out.print(f"content hash {store.content_hash}\nplace {store.folder}")
