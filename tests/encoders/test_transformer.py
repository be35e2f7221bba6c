"""Vision models of `transformers` as encoders: the library's own features, identities, refusals, no network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sala.encoders import embed_files, open_encoder
from sala.encoders.base import cache_key
from sala.encoders.estimator import embed_arrays
from sala.encoders.transformer import TransformersEncoder
from sala.errors import SalaError
from tests.helpers.painted import folders_painted, labels, painted, sala  # noqa: F401

pytest.importorskip("transformers")

from tests.helpers.vision_models import FAMILIES, by_the_library, pictures, saved_model


def encoder_of(folder: Path) -> TransformersEncoder:
    encoder = open_encoder(f"hf:{folder}")
    assert isinstance(encoder, TransformersEncoder)
    return encoder


@pytest.mark.parametrize("family", FAMILIES)
def test_features_are_those_of_the_librarys_own_pipeline(tmp_path: Path, family: str) -> None:
    model, processor = saved_model(family, tmp_path / "model")
    paths = pictures(tmp_path)
    encoder = encoder_of(tmp_path / "model")
    images = [Image.open(path) for path in paths]
    expected = by_the_library(family, model, processor, images)
    np.testing.assert_allclose(embed_files(paths, encoder, cache=False).features, expected, atol=1e-5)
    np.testing.assert_allclose(embed_arrays([np.asarray(image) for image in images], encoder), expected, atol=1e-5)


def test_the_identity_follows_weights_and_preprocessing_and_not_the_place(tmp_path: Path) -> None:
    saved_model("convnext", tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "moved")
    saved_model("convnext", tmp_path / "other-weights", seed=1)
    shutil.copytree(tmp_path / "a", tmp_path / "other-mean")
    settings = tmp_path / "other-mean" / "preprocessor_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"image_mean": [0.1, 0.2, 0.3]}))
    keys = {name: cache_key(encoder_of(tmp_path / name)) for name in ("a", "moved", "other-weights", "other-mean")}
    assert keys["a"] == keys["moved"] and len(set(keys.values())) == 3


def test_half_precision_checkpoints_are_computed_in_full_precision(tmp_path: Path) -> None:
    saved_model("convnext", tmp_path / "model")
    model, _ = FAMILIES["convnext"]()
    model.to(torch.float16).save_pretrained(tmp_path / "model")
    assert next(encoder_of(tmp_path / "model").model.parameters()).dtype == torch.float32


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    saved_model("convnext", tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").rename(tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(SalaError, match="pickles"):
        encoder_of(tmp_path / "model")


def test_code_of_a_folder_is_not_run(tmp_path: Path) -> None:
    saved_model("convnext", tmp_path / "model")
    (tmp_path / "model" / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    config = tmp_path / "model" / "config.json"
    own = {"auto_map": {"AutoModel": "code.Mine", "AutoConfig": "code.Mine"}, "model_type": "mine"}
    config.write_text(json.dumps(json.loads(config.read_text()) | own))
    with pytest.raises(SalaError, match="never run"):
        encoder_of(tmp_path / "model")
    assert not (tmp_path / "ran").exists()


def test_lacking_weights_are_refused_and_not_random(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    saved_model("convnext", tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    tensors = load_file(path)
    tensors.pop(next(name for name in tensors if "encoder" in name))
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(SalaError, match="lacks weights"):
        encoder_of(tmp_path / "model")


def test_a_model_that_keeps_proportions_is_refused(tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path / "model")
    settings = tmp_path / "model" / "preprocessor_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_center_crop": False}))
    with pytest.raises(SalaError, match="do_center_crop"):
        encoder_of(tmp_path / "model")


@pytest.mark.parametrize("damage", ["", "[]", "{"])
def test_a_damaged_configuration_is_one_sentence(tmp_path: Path, damage: str) -> None:
    saved_model("convnext", tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(damage)
    with pytest.raises(SalaError):
        encoder_of(tmp_path / "model")


def test_an_unreachable_hub_is_one_sentence_with_the_local_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(name: str, *, local_files_only: bool = False, **_: object) -> str:
        if local_files_only:
            raise huggingface_hub.errors.LocalEntryNotFoundError("not in the cache")
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(SalaError, match="hf:FOLDER") as found:
        open_encoder("hf:facebook/dinov2-small")
    assert "\n" not in str(found.value)


def test_a_downloaded_model_is_used_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    saved_model("convnext", tmp_path / "model")

    def downloaded(name: str, *, local_files_only: bool = False, **_: object) -> str:
        assert local_files_only and name == "owner/name"
        return str(tmp_path / "model")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", downloaded)
    assert open_encoder("hf:owner/name").identity == encoder_of(tmp_path / "model").identity


@pytest.mark.parametrize("lacking", ["model.safetensors", "preprocessor_config.json"])
def test_a_model_that_another_program_fetched_in_part_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    import huggingface_hub

    saved_model("convnext", tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "part")
    (tmp_path / "part" / lacking).unlink()
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda _, *, local_files_only=False, **__: str(tmp_path / ("part" if local_files_only else "whole")),
    )
    assert open_encoder("hf:owner/name").identity == encoder_of(tmp_path / "whole").identity


def test_a_model_of_the_hub_in_pickles_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not downloaded, so none lies in its folder."""
    import huggingface_hub

    saved_model("convnext", tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path / "model"))
    with pytest.raises(SalaError, match="pickles"):
        open_encoder("hf:owner/name")


@pytest.mark.parametrize("name", ["hf:", "hf:nowhere", "hf:../nowhere", "hf:/no/where", "hf:a/b/c"])
def test_what_is_neither_folder_nor_name_is_refused(name: str) -> None:
    with pytest.raises(SalaError, match="hf:"):
        open_encoder(name)


def test_folders_are_labeled_and_later_images_predicted(folders: tuple[Path, Path], tmp_path: Path) -> None:
    saved_model("convnext", tmp_path / "model")
    labeled, pool = folders
    sala("label", labeled, pool, "--encoder", f"hf:{tmp_path / 'model'}", "--out", tmp_path / "out")
    said = {row["path"]: row["label"] for row in labels(tmp_path / "out" / "labels.csv")}
    assert len(said) == 30
    model, later = tmp_path / "out" / "model.safetensors", tmp_path / "later.csv"
    sala("predict", model, pool, "--encoder", f"hf:{tmp_path / 'model'}", "--out", later)
    assert len(labels(later)) == 30
