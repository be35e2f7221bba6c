"""`--head`, `--encoder` and `--transductive` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sala.data import ImageStore
from tests.helpers.painted import refusal, sala

WORDS = ("--episodes", "4", "--setting", "large", "--queries", "2", "--unlabeled", "3")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, glyphs: ImageStore) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "protonet"
    sala("train", "--method", "protonet", "--dataset", "glyphs", "--episodes", "3", "--threads", "1", "--out", folder)
    return folder


@pytest.fixture
def colors(tmp_path: Path) -> Path:
    """Six classes of flat pictures, each of its color, and one file that is no image."""
    rng = np.random.default_rng(0)
    for i, color in enumerate(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]])):
        (tmp_path / "photos" / f"c{i}").mkdir(parents=True)
        for j in range(7):
            pixel = np.clip(color * 200 + rng.integers(0, 30, 3), 0, 255).astype(np.uint8)
            Image.fromarray(np.broadcast_to(pixel, (8, 8, 3)).copy()).save(tmp_path / "photos" / f"c{i}" / f"{j}.png")
    return tmp_path / "photos"


def test_evaluate_shows_each_head(run: Path) -> None:
    out = sala("evaluate", run, *WORDS, "--head", "simpleshot", "--head", "oslo", "--distractors", "2").stdout
    assert "large: 4 test episodes" in out
    assert " %  simpleshot" in out and " %  oslo" in out and "AUROC" in out


def test_evaluate_as_json_has_every_accuracy_of_every_head(run: Path) -> None:
    found = json.loads(sala("evaluate", run, *WORDS, "--head", "simpleshot", "--head", "tim", "--json").stdout)
    assert list(found["heads"]["large"]) == ["simpleshot", "tim"]
    assert len(found["heads"]["large"]["tim"]["accuracies"]) == 4


def test_compare_has_the_own_method_and_the_heads(run: Path) -> None:
    rows = json.loads(sala("compare", run, *WORDS, "--head", "simpleshot", "--head", "bd-cspn", "--json").stdout)
    assert [row["method"] for row in rows] == ["protonet", "simpleshot", "bd-cspn"]
    assert rows[0]["difference"]["mean"] == 0
    assert rows[1]["difference"]["mean"] == pytest.approx(rows[1]["mean"] - rows[0]["mean"])


def test_queries_join_the_pool_if_asked(run: Path) -> None:
    words = ("evaluate", run, *WORDS, "--head", "pt-map", "--json")
    alone, together = (json.loads(sala(*words, *more).stdout) for more in ((), ("--transductive",)))
    assert alone["heads"]["large"]["pt-map"]["episodes"] == together["heads"]["large"]["pt-map"]["episodes"]


def test_heads_on_features_of_class_folders(colors: Path, color_encoder: None) -> None:
    words = ("--encoder", "color", "--root", colors, "--ways", "3", "--queries", "2", "--unlabeled", "3")
    out = sala("evaluate", *words, "--head", "simpleshot", "--episodes", "5").stdout
    assert "5 test episodes, 3-way 1-shot, 2 queries and 3 unlabeled a class" in out
    assert "100.00 ± 0.00 %  simpleshot" in out
    table = sala("compare", *words, "--head", "simpleshot", "--head", "oslo", "--episodes", "5").stdout
    assert "color + oslo" in table


def test_an_image_that_cannot_be_read_is_left_out_with_a_warning(colors: Path, color_encoder: None) -> None:
    (colors / "c0" / "broken.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="1 image left out"):
        sala("evaluate", "--encoder", "color", "--root", colors, "--head", "tim", "--ways", "2", "--queries", "2",
             "--unlabeled", "2", "--episodes", "2")  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "got neither"),
        (("omniglot-sala", "--encoder", "lite0"), "got both"),
        (("--encoder", "lite0", "--head", "tim"), "--root FOLDER"),
        (("--encoder", "lite0", "--root", "."), "--encoder is for heads"),
        (("--encoder", "lite0", "--root", ".", "--head", "tim", "--split", "val"), "leave out --split"),
        (("omniglot-sala", "--transductive"), "--transductive is for heads"),
        (("omniglot-sala", "--head", "simpleshoot"), "the heads are simpleshot"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_what_does_not_go_together_is_refused(command: str, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in refusal(command, *words)


def test_methods_lists_heads_apart() -> None:
    methods, heads = sala("methods").stdout.split("heads, without a training of their own")
    assert "laplacianshot" in heads and "laplacianshot" not in methods
