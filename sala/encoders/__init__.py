"""Image files in, features out: encoders behind one small interface, and a cache so that each image is embedded once.

    encoder = open_encoder("lite0")                       # or "lite1", a run folder, model.onnx, model.pt, features.npy
    embedded = embed_files(paths, encoder, progress=show)  # EmbeddedFiles: features [n, d], kept rows, what was set aside
    features = encoder.embed(images)                       # uint8 [n, size, size, channels] -> float32 [n, d]

An `Encoder` has a `name`, an `identity` (a hash of all that decides its output), `image_size`, `mode` ("RGB" or "L") and
`embed`. No image is fatal: one that is damaged, empty, huge or no image at all is set aside with a sentence that says why.
"""

from sala.encoders.base import Encoder
from sala.encoders.embed import EmbeddedFiles, EmbedProgress, embed_files
from sala.encoders.networks import open_encoder
from sala.encoders.ready import ReadyFeatures, read_features

__all__ = [
    "EmbedProgress",
    "EmbeddedFiles",
    "Encoder",
    "ReadyFeatures",
    "embed_files",
    "open_encoder",
    "read_features",
]
