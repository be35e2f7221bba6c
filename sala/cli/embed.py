"""`sala embed`: features of large pools, in shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sala.cli import console
from sala.cli.labeling_options import Encoder
from sala.text import counted, printable

if TYPE_CHECKING:
    from sala.encoders.shards import Share, WrittenShards


def embed(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of images, and all below them: pool, labeled images, outliers.", readable=False),
    ],
    out: Annotated[
        Path, typer.Option(help="Where the shards go; the same command again makes those that are missing.")
    ],
    encoder: Encoder = "lite0",
    shard_size: Annotated[
        int, typer.Option(help="Images in a shard: what a killed process loses at most.", min=1, max=1_000_000)
    ] = 4_096,
) -> None:
    """Embed folders of images once, in shards that `--encoder` takes: for pools of millions, on one machine or several.

    Under `torchrun` each process makes its share; the processes need the same folders and the same --out, and send each other
    nothing. A shard is complete or absent, so a process that was killed is started again and makes what is missing.

    Example: `sala embed labeled/ photos/ --out features/`, then `sala label labeled/ photos/ --encoder features/`

    Example: `torchrun --nproc-per-node=4 -m sala embed photos/ --out features/ --encoder hf:facebook/dinov2-small`
    """
    from sala.encoders import open_encoder
    from sala.encoders.shards import share_of_environment, take_own_gpu, write_shards
    from sala.labeling.embedding import describe_encoder
    from sala.labeling.folders import check_folder, check_writable
    from sala.labeling.listing import listed

    for folder in folders:
        check_folder(folder, "images")
    check_writable(out, "--out")
    share = share_of_environment()
    take_own_gpu()
    with console.err.status("listing images"):
        files, passed = listed(folders, skip=out)
    network, which = open_encoder(encoder), describe_encoder(encoder)
    with console.embedding("embedding") as progress:
        written = write_shards(
            files, folders, network, out, which=which, share=share, shard_size=shard_size, progress=progress
        )
    _tell(written, passed | written.skipped, share, out)


def _tell(written: WrittenShards, skipped: dict[Path, str], share: Share, out: Path) -> None:
    place = printable(str(out))
    if skipped:
        first = next(iter(skipped.values()))
        console.warn(f"skipped: {counted(len(skipped), 'file')}; the first: {first}")
    there = f", {written.n_there:,} there already" if written.n_there else ""
    who = f" by process {share.rank} of {share.world}" if share.world > 1 else ""
    console.out.print(
        f"{place}: {counted(written.n_images, 'image')} embedded into {written.n_written:,} of "
        f"{counted(written.n_shards, 'shard')}{who}{there}",
        markup=False,
    )
    if share.rank == 0:
        console.out.print(f"label with: sala label LABELED POOL --encoder {place}", markup=False)
