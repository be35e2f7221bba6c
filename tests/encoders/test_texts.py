"""Texts in the space of a model's images: the library's own features, also through shards, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sala.encoders import open_encoder
from sala.encoders.shards import write_shards
from sala.encoders.texts import embed_texts
from sala.errors import SalaError

pytest.importorskip("transformers")

from tests.helpers.vision_models import pictures, saved_model, saved_tokenizer

TEXTS = [
    "a photo of an owl",
    "red",
    "a photo of a blue owl of a blue owl of a blue owl of a blue owl",
]  # the last is cut


def test_features_are_those_of_the_librarys_own_pipeline(tmp_path: Path) -> None:
    model, _ = saved_model("clip", tmp_path)
    tokenizer = saved_tokenizer(tmp_path)
    with torch.inference_mode():
        each = [
            model.text_projection(
                model.text_model(**tokenizer([text], truncation=True, return_tensors="pt")).pooler_output
            )
            for text in TEXTS
        ]
    expected = torch.nn.functional.normalize(torch.cat(each)).numpy()
    np.testing.assert_allclose(embed_texts(TEXTS, open_encoder(f"hf:{tmp_path}")), expected, atol=1e-5)


def test_shards_ask_the_model_that_made_them(tmp_path: Path) -> None:
    saved_model("clip", tmp_path / "clip")
    saved_tokenizer(tmp_path / "clip")
    encoder, which = open_encoder(f"hf:{tmp_path / 'clip'}"), f"hf:{tmp_path / 'clip'}"
    files = [(0, path) for path in pictures(tmp_path)]
    write_shards(files, [tmp_path], encoder, tmp_path / "features", which=which)
    shards = open_encoder(tmp_path / "features")
    np.testing.assert_array_equal(embed_texts(TEXTS, shards), embed_texts(TEXTS, encoder))
    saved_model("clip", tmp_path / "clip", seed=1)
    with pytest.raises(SalaError, match="embed again"):
        embed_texts(TEXTS, shards)


def test_a_missing_tokenizer_is_one_sentence(tmp_path: Path) -> None:
    saved_model("clip", tmp_path)
    with pytest.raises(SalaError, match=r"tokenizer\.json") as found:
        embed_texts(TEXTS, open_encoder(f"hf:{tmp_path}"))
    assert "\n" not in str(found.value)
