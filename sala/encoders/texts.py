"""Texts in the space of a model's images (CLIP, SigLIP, ...), for descriptions of classes. Experimental.

    embed_texts(["a photo of an owl"], encoder)     # [1, d], of length 1

Texts are padded and cut to the length that the model was trained with, by its own tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sala.encoders.base import Encoder, Features
from sala.encoders.hub import VOCABULARIES
from sala.encoders.sharded import ShardedFeatures
from sala.errors import SalaError
from sala.text import printable

if TYPE_CHECKING:
    from sala.encoders.transformer import TransformersEncoder


def embed_texts(texts: Sequence[str], encoder: Encoder) -> Features:  # n -> [n, d]
    """Embeddings of texts, each of length 1, where the encoder's images are. Shards are asked for the model that made them.

    Raises
    ------
    SalaError
        If the encoder has no text part, or its tokenizer is missing.
    """
    from sala.encoders.transformer import TransformersEncoder  # lazily: the library takes seconds

    model = _maker(encoder) if isinstance(encoder, ShardedFeatures) else encoder
    if not isinstance(model, TransformersEncoder) or not hasattr(model.model, "get_text_features"):
        raise SalaError(
            f"the encoder {printable(encoder.name)} knows no texts, so classes cannot be described; leave --describe out, or "
            "take a model of images and text, such as hf:openai/clip-vit-base-patch32"
        )
    found = _text_features(model, list(texts))
    unit: Features = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit


def _maker(shards: ShardedFeatures) -> Encoder:
    from sala.encoders.registry import open_encoder

    encoder = open_encoder(shards.manifest.which)
    if encoder.identity != shards.identity:
        raise SalaError(
            f"{printable(shards.manifest.which)} is not the model any more that {printable(str(shards.folder))} was made "
            "with; leave --describe out, or embed again"
        )
    return encoder


@torch.inference_mode()
def _text_features(encoder: TransformersEncoder, texts: list[str]) -> Features:
    tokenizer = _tokenizer(encoder)
    length = int(encoder.model.config.text_config.max_position_embeddings)
    tokens = tokenizer(texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
    output = encoder.model.get_text_features(**tokens.to(encoder.device))
    features = output if isinstance(output, torch.Tensor) else output.pooler_output
    result: Features = features.float().cpu().numpy()
    return result


def _tokenizer(encoder: TransformersEncoder) -> Any:
    from transformers import AutoTokenizer

    try:
        if not any((encoder.folder / name).is_file() for name in VOCABULARIES):
            raise OSError("there is no vocabulary")  # the library would make do with an empty one
        return AutoTokenizer.from_pretrained(encoder.folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SalaError(
            f"the tokenizer of {printable(encoder.name)} cannot be opened ({reason}); copy tokenizer.json and "
            "tokenizer_config.json into its folder, or leave --describe out"
        ) from None
