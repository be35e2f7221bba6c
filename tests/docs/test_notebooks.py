"""The notebooks run from top to bottom, in a folder of their own, as any notebook service runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sala.data import ImageStore
from sala.encoders import Encoder

nbformat = pytest.importorskip("nbformat", reason="notebooks are run with the extra `dev`")
nbclient = pytest.importorskip("nbclient")
NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))
LESS = {  # less data and fewer episodes than a reader takes
    "range(30 if": "range(6 if",
    'kind != "crosses" else 12)': 'kind != "crosses" else 6)',
    "N_TRAINING_EPISODES = 1000": "N_TRAINING_EPISODES = 6",
    "N_TEST_EPISODES = 500": "N_TEST_EPISODES = 6",
}


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def run(name: str, folder: Path) -> str:
    """What a notebook prints; an error in a cell is an error of the test."""
    (path,) = [path for path in NOTEBOOKS if path.stem == name]
    notebook, n_replaced = read(path), 0
    for cell in notebook.cells:
        for much, less in LESS.items():
            n_replaced += much in cell.source
            cell.source = cell.source.replace(much, less)
    assert n_replaced == 2
    nbclient.NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_needs_no_file_beside_it_and_holds_no_output(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "pip install" in code[0].source
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert not any(name in cell.source for cell in code for name in ("/home", "../", "C:\\"))


@pytest.mark.slow
def test_the_notebook_on_labeling_runs(tmp_path: Path, lite0: Encoder) -> None:
    printed = run("label-a-folder", tmp_path)
    assert "of 16 images of the four classes have the right label" in printed
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.slow
def test_the_notebook_on_comparing_runs(tmp_path: Path, glyphs: ImageStore) -> None:
    printed = run("compare-methods", tmp_path)
    assert printed.count("±") == 6 and "with distractors" in printed
