"""A model as one ONNX file: run by the documented script, without sala, it answers as `sala predict`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from sala.classifier.fit import LabelModel
from sala.encoders import embed_files, open_encoder
from sala.encoders.base import Encoder
from sala.encoders.onnx_file import encoder_module
from sala.errors import SalaError
from sala.labeling.label import label_folder
from sala.labeling.onnx_model import PixelClassifier, export_model
from tests.helpers.painted import MeanColor, paint_outliers, painted_folders, refusal, sala

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "deploy.md"
(SCRIPT,) = re.findall(r'```python title="classify.py"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)


class MeanColorModule(nn.Module):
    def forward(self, pixels: Tensor) -> Tensor:
        return pixels.float().mean((1, 2))


class ExportedColor(MeanColor):
    """One that can be exported."""

    def module(self) -> nn.Module:
        return MeanColorModule()


def odd_files(folder: Path) -> list[Path]:
    """Photos as they come: turned by the camera, large, transparent, with a palette, gray, of one pixel in height."""
    rng = np.random.default_rng(3)
    noise = Image.fromarray(rng.integers(0, 256, (300, 500, 3), np.uint8)).resize((900, 700))
    clear = noise.copy()
    clear.putalpha(Image.fromarray(rng.integers(0, 256, (700, 900), np.uint8)))
    exif = Image.Exif()
    exif[0x0112] = 6
    folder.mkdir()
    noise.save(folder / "turned.jpg", exif=exif)
    clear.save(folder / "clear.png")
    noise.quantize(16).save(folder / "palette.png")
    noise.convert("L").save(folder / "gray.jpg")
    noise.crop((0, 0, 40, 12)).save(folder / "low.png")
    return sorted(folder.iterdir())


def answers_of_script(folder: Path, onnx: Path, files: list[Path]) -> tuple[list[str], np.ndarray]:
    (folder / "classify.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-W", "error", "classify.py", str(onnx), *map(str, files)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    cells = [line.split() for line in done.stdout.splitlines()]
    return [cell[-3] for cell in cells], np.array([cell[-2:] for cell in cells], float)


def check_against_predict(tmp_path: Path, encoder: Encoder) -> None:
    """Labels, probabilities and outlier probabilities of the script, and those of the model itself."""
    labeled, pool = painted_folders(tmp_path)
    paint_outliers(pool, tmp_path / "known")
    model = label_folder(labeled, pool, encoder, outliers=tmp_path / "known").model
    onnx, files = tmp_path / "model.onnx", [*sorted(pool.rglob("*.png"))[:6], *odd_files(tmp_path / "odd")]
    assert export_model(model, encoder, onnx) < 1e-4
    names, numbers = answers_of_script(tmp_path, onnx, files)
    wanted = model.predict(embed_files(files, encoder).features)
    assert names == [model.classes[c] for c in wanted.label]
    np.testing.assert_allclose(numbers[:, 0], wanted.probabilities.max(1), atol=1e-4)
    np.testing.assert_allclose(numbers[:, 1], wanted.outlier_probability, atol=1e-4)
    assert np.ptp(numbers, axis=0).min() > 0.01  # the files differ, and so do the answers


def test_the_script_of_the_docs_is_short_and_needs_nothing_of_ours() -> None:
    assert len([line for line in SCRIPT.splitlines() if line.strip()]) <= 20
    modules = set(re.findall(r"^(?:import|from) (\w+)", SCRIPT, re.MULTILINE))
    assert modules == {"json", "sys", "numpy", "onnxruntime", "PIL"}


@pytest.mark.slow
def test_the_script_of_the_docs_answers_as_predict_on_photos(tmp_path: Path, lite0: Encoder) -> None:
    check_against_predict(tmp_path, lite0)


@pytest.mark.slow
def test_the_script_of_the_docs_answers_as_predict_on_letters(tmp_path: Path) -> None:
    check_against_predict(tmp_path, open_encoder("omniglot-sala"))


def one_class(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return rng.normal(size=(3, 3)), np.zeros(3, int), rng.normal(size=(40, 3)), np.zeros((0, 3))


def empty_pool(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return rng.normal(size=(6, 3)), np.arange(6) % 3, np.zeros((0, 3)), np.zeros((0, 3))


def known_outliers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return rng.normal(size=(4, 3)), np.arange(4) % 2, rng.normal(size=(1500, 3)), rng.normal(size=(5, 3))


@pytest.mark.slow
@pytest.mark.parametrize("pool", [one_class, empty_pool, known_outliers])
def test_every_shape_of_model_is_exported_for_any_number_of_images(pool: Callable, tmp_path: Path) -> None:
    from sala.classifier.fit import fit_pool

    labeled, y, unlabeled, outliers = (x.astype(np.float32) * 20 + 120 for x in pool(np.random.default_rng(0)))
    y = ((y - 120) / 20).round().astype(int)
    names = ["owl", "cat", "dog"][: y.max() + 1]
    model = fit_pool(labeled, y, unlabeled, classes=names, outliers=outliers).model
    export_model(with_thresholds(model), ExportedColor(), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for n in (1, 2, 7):
        pixels = np.random.default_rng(n).integers(0, 256, (n, 8, 8, 3), np.uint8)
        p, outlier = session.run(None, {"pixels": pixels})
        wanted = model.predict(MeanColor().embed(pixels))
        np.testing.assert_allclose(p, wanted.probabilities, atol=1e-4)
        np.testing.assert_allclose(outlier, wanted.outlier_probability, atol=1e-4)
    notes = session.get_modelmeta().custom_metadata_map
    assert json.loads(notes["classes"]) == names


def with_thresholds(model: LabelModel) -> LabelModel:
    from dataclasses import replace

    return replace(model, note={"thresholds": {"precision": 0.9, "outlier": 1.0, "confident": 0.9}})


def test_the_module_that_is_exported_says_what_predict_says(painted: tuple[Path, Path]) -> None:
    encoder = ExportedColor()
    model = label_folder(*painted, encoder).model
    pixels = np.random.default_rng(1).integers(0, 256, (9, 8, 8, 3), np.uint8)
    p, outlier = PixelClassifier(encoder_module(encoder), model)(torch.from_numpy(pixels))
    wanted = model.predict(encoder.embed(pixels))
    np.testing.assert_allclose(p, wanted.probabilities, atol=1e-6)
    np.testing.assert_allclose(outlier, wanted.outlier_probability, atol=1e-6)


@pytest.mark.parametrize("name", ["lite0", "omniglot-sala"])
def test_the_module_of_an_encoder_gives_its_features(name: str, request: pytest.FixtureRequest) -> None:
    encoder = request.getfixturevalue("lite0") if name == "lite0" else open_encoder(name)
    channels = 3 if encoder.mode == "RGB" else 1
    pixels = np.random.default_rng(2).integers(0, 256, (3, encoder.image_size, encoder.image_size, channels), np.uint8)
    pixels[1] //= 3  # a dark one: of letters, light ones are inverted
    with torch.no_grad():
        found = encoder_module(encoder)(torch.from_numpy(pixels))
    np.testing.assert_allclose(found, encoder.embed(pixels), atol=1e-4, rtol=1e-4)


def test_an_encoder_that_cannot_be_exported_gets_a_sentence(painted: tuple[Path, Path], tmp_path: Path) -> None:
    model = label_folder(*painted, MeanColor()).model
    with pytest.raises(SalaError, match="mean-color cannot be exported"):
        export_model(model, MeanColor(), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_file_whose_answers_differ_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sala.encoders import onnx_file

    class Program:
        class model:
            metadata_props: dict[str, str] = {}  # noqa: RUF012

        def save(self, path: str, external_data: bool) -> None:
            Path(path).write_bytes(b"an ONNX file")

    monkeypatch.setattr(onnx_file, "_program", lambda *_: Program())
    monkeypatch.setattr(onnx_file, "largest_difference", lambda *_: float("nan"))
    with pytest.raises(SalaError, match="differs from PyTorch"):
        onnx_file.write_encoder(ExportedColor(), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_trained_run_is_exported_by_the_command(tmp_path: Path) -> None:
    sala("export", "omniglot-sala", "--onnx", tmp_path / "letters.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "letters.onnx")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 28, 28, 1), np.uint8)
    (features,) = session.run(["features"], {"pixels": pixels})
    np.testing.assert_allclose(features, open_encoder("omniglot-sala").embed(pixels), atol=1e-4, rtol=1e-4)
    assert session.get_inputs()[0].shape[0] == session.get_outputs()[0].shape[0] == "n"  # as the docs call it


@pytest.mark.slow
def test_a_trained_run_is_exported_with_a_card_that_says_how_it_was_trained(tmp_path: Path) -> None:
    sala("train", "--dataset", "glyphs", "--episodes", "4", "--out", tmp_path / "runs" / "little_one")
    sala("export", tmp_path / "runs" / "little_one", "--onnx", tmp_path / "on" / "net.onnx")
    card = json.loads((tmp_path / "on" / "net-card.json").read_text())
    text = (tmp_path / "on" / "net-card.md").read_text()
    assert (card["run"], card["method"], card["dataset"], card["training_episodes"]) == (
        "little_one",
        "sala",
        "glyphs",
        4,
    )
    assert card["validation"]["episode"] == 4
    assert "little\\_one" in text and f"{card['validation']['val_accuracy']:.1f}" in text


@pytest.mark.slow
def test_the_command_exports_a_model_with_its_card(painted: tuple[Path, Path], tmp_path: Path) -> None:
    sala("label", *painted, "--encoder", "omniglot-sala", "--out", tmp_path / "out")
    sala("export", tmp_path / "out" / "model.safetensors", "--onnx", tmp_path / "on" / "letters.onnx")
    assert {path.name for path in (tmp_path / "on").iterdir()} == {
        "letters.onnx", "letters-card.json", "letters-card.md",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.safetensors", "--onnx", "m.onnx"), "nowhere.safetensors"),
        (("omniglot-sala", "--onnx", "m.txt"), "m.txt"),
        (("omniglot-sala", "--onnx", "m.onnx", "--encoder", "lite0"), "--encoder"),
        (("no-such-run", "--onnx", "m.onnx"), "no-such-run"),
    ],
)
def test_mistakes_get_one_sentence(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refusal("export", *words)
    assert list(tmp_path.iterdir()) == []
