"""Small random vision models of `transformers`, with their processors, as `save_pretrained` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
PATCHES = {"image_size": 32, "patch_size": 8}


def vit() -> tuple[Any, Any]:
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

    return ViTForImageClassification(ViTConfig(**SMALL, **PATCHES)), ViTImageProcessorPil(
        size={"height": 32, "width": 32}, resample=2
    )


def dinov2() -> tuple[Any, Any]:
    from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

    config = Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, **PATCHES)
    crop = {"height": 32, "width": 32}
    return Dinov2Model(config), BitImageProcessorPil(size={"shortest_edge": 40}, crop_size=crop, resample=3)


def convnext() -> tuple[Any, Any]:
    from transformers import ConvNextConfig, ConvNextImageProcessorPil, ConvNextModel

    config = ConvNextConfig(hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], image_size=32)
    return ConvNextModel(config), ConvNextImageProcessorPil(size={"shortest_edge": 32}, crop_pct=0.875, resample=3)


def clip() -> tuple[Any, Any]:
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

    text = SMALL | {"vocab_size": 30, "max_position_embeddings": 12, "bos_token_id": 0, "eos_token_id": 1}
    config = CLIPConfig(text_config=text, vision_config=SMALL | PATCHES, projection_dim=12)
    crop = {"height": 32, "width": 32}
    return CLIPModel(config), CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=crop)


FAMILIES = {"vit": vit, "dinov2": dinov2, "convnext": convnext, "clip": clip}


def saved_model(family: str, folder: Path, seed: int = 0) -> tuple[Any, Any]:
    """A model and its processor, which lie in the folder."""
    torch.manual_seed(seed)
    model, processor = FAMILIES[family]()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return model.eval(), processor


def by_the_library(family: str, model: Any, processor: Any, images: list[Image.Image]) -> np.ndarray:
    """What the library's own pipeline gives, image by image, written for each family from its own documentation."""
    take = {
        "vit": lambda x: model.vit(pixel_values=x).last_hidden_state[:, 0],
        "dinov2": lambda x: model(pixel_values=x).pooler_output,
        "convnext": lambda x: model(pixel_values=x).pooler_output,
        "clip": lambda x: model.visual_projection(model.vision_model(pixel_values=x).pooler_output),
    }[family]
    with torch.inference_mode():
        each = [take(processor(images=image, return_tensors="pt")["pixel_values"]) for image in images]
    return torch.cat(each).numpy()


def pictures(folder: Path, n: int = 5) -> list[Path]:
    """Noise of odd sizes, upright and lying."""
    rng = np.random.default_rng(3)
    sizes = [(50, 70), (70, 50), (33, 90), (32, 32), (20, 24)]
    paths = [folder / f"{i}.png" for i in range(n)]
    for path, size in zip(paths, sizes, strict=False):
        Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(path)
    return paths


def saved_tokenizer(folder: Path) -> Any:
    """A tokenizer of words for `clip`, which lies in the folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<unk>", "a", "photo", "of", "an", "owl", "red", "green", "blue"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", model_max_length=12
    )
    tokenizer.save_pretrained(folder)
    return tokenizer
