"""Frozen image encoders. Image files come in; features `[n, d]` go out, each image embedded once and kept in a cache.

`open_encoder` takes a name of `ENCODERS`, a run folder or a file; `embed_files` embeds files with it. An `Encoder` has a
`name`, an `identity` (a hash of all that decides its output), `image_size`, `mode` ("RGB" or "L") and `embed`. No image is
fatal: one that is damaged, empty or too large is skipped with a sentence that says why. The classifier, labeling, the page
and the command line may call. Nothing here imports the trainer, except `run.py`, which is imported when a run is opened.
"""

from sala.encoders.base import Encoder
from sala.encoders.embed import EmbeddedFiles, EmbedProgress, embed_files
from sala.encoders.precomputed import ReadyFeatures, read_features
from sala.encoders.registry import ENCODERS, open_encoder

__all__ = [
    "ENCODERS",
    "EmbedProgress",
    "EmbeddedFiles",
    "Encoder",
    "ReadyFeatures",
    "embed_files",
    "open_encoder",
    "read_features",
]
