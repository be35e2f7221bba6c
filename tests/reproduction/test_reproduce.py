"""The paper's tables as data, and the records of runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sala.episodes.protocol import PROTOCOLS
from sala.errors import SalaError
from sala.nn.backbones import Scaled
from sala.reproduction.plan import Cell, Run, cells_of, check_names
from sala.reproduction.published import MODULES, TABLES, VARIANTS, WITH, WITHOUT
from sala.reproduction.records import read_record, record_path


def test_published_numbers_are_the_papers() -> None:
    assert [WITHOUT[key]["sala"] for key in WITHOUT] == [98.93, 54.14, 67.23, 58.41, 72.24]
    assert [WITH[key]["sala"] for key in WITH] == [98.16, 51.44, 64.12, 55.85, 69.45]
    assert [WITHOUT[key]["soft-kmeans"] for key in WITHOUT] == [97.25, 50.09, 64.59, 51.52, 70.25]
    assert list(MODULES["tieredimagenet", 1].values()) == [55.76, 57.08, 58.04, 58.41]
    for spec in TABLES.values():
        assert set(spec.variants) <= set(VARIANTS)
        for (dataset, shots), row in spec.published.items():
            assert dataset in PROTOCOLS
            assert shots in spec.shots
            assert set(row) <= set(spec.variants)


def test_cells_are_what_the_table_shows() -> None:
    cells = cells_of("table1", ["omniglot", "miniimagenet"])
    assert {cell.shots for cell in cells if cell.dataset == "omniglot"} == {1}  # two labeled images a class
    assert {cell.shots for cell in cells if cell.dataset == "miniimagenet"} == {1, 5}
    assert len(cells) == 9 * 3
    assert {cell.n_distractor for cell in cells_of("table2", ["omniglot"])} == {5}
    (one,) = cells_of("table2", ["omniglot"], variants=["sala"])
    assert one.published == 98.16
    with pytest.raises(SalaError, match="there is no variant 'salad'"):
        check_names(["table1"], [], ["salad"])
    with pytest.raises(SalaError, match="there is no table or figure 'table9'"):
        check_names(["table9"], [], [])


def test_fewer_unlabeled_photos_in_training_for_every_variant_alike_and_only_there() -> None:
    for variant in TABLES["table1"].variants:
        run = Run(Cell("tiny-tiered", 1, 0, variant), "cpu", 0)
        assert run.config.protocol.train == replace(PROTOCOLS["tiny-tiered"].train, n_unlabeled=5)
        assert run.config.protocol.test == PROTOCOLS["tiny-tiered"].test
    for dataset, budget in (("omniglot", "cpu"), ("miniimagenet", "paper"), ("tiny-tiered", "paper")):
        run = Run(Cell(dataset, 1, 0, "sala"), budget, 0)
        assert run.config.protocol.train == PROTOCOLS[dataset].train


def test_a_method_that_ignores_unlabeled_images_is_trained_once() -> None:
    protonet, soft = Cell("omniglot", 1, 5, "protonet"), Cell("omniglot", 1, 5, "soft-kmeans")
    assert protonet.trained == replace(protonet, n_distractor=0)
    assert soft.trained == soft
    assert Cell("omniglot", 1, 5, "metagan").trained.n_distractor == 5  # its generator sees them


def test_a_record_of_another_protocol_is_not_taken(tmp_path: Path) -> None:
    run = Run(Cell("omniglot", 1, 0, "sala"), "cpu", 0)
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    config = replace(run.config, seed=5).to_json()
    path.write_text(json.dumps({"config": config}))
    with pytest.raises(SalaError, match="another seed"):
        read_record(tmp_path, run)


def test_a_record_of_the_last_release_calls_its_variant_an_arm(tmp_path: Path) -> None:
    run = Run(Cell("omniglot", 1, 0, "sala"), "cpu", 0)
    here = Path(__file__).parents[2] / "results"
    content = json.loads(record_path(here, run).read_text())
    content["arm"] = content.pop("variant")
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    assert read_record(tmp_path, run) == read_record(here, run)


def test_the_command_of_a_record_names_its_table() -> None:
    runs = [Run(Cell("omniglot", 1, d, variant), "cpu", 2) for d, variant in ((5, "protonet"), (0, "sala-ramp"))]
    assert [run.command.split()[2] for run in runs] == ["table2", "ablation"]
    assert "--variant protonet" in runs[0].command and "--seeds 3" in runs[0].command


def test_a_record_without_one_of_the_settings_is_damaged(tmp_path: Path) -> None:
    run = Run(Cell("omniglot", 1, 0, "sala"), "cpu", 0)
    content = json.loads(record_path(Path(__file__).parents[2] / "results", run).read_text())
    del content["results"]["large"]
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    with pytest.raises(SalaError, match=r"damaged.*large"):
        read_record(tmp_path, run)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"[" * 100_000, b"\xff" * 9_000, b'{"config": 1}'])
def test_a_damaged_record_is_told_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    run = Run(Cell("omniglot", 1, 0, "sala"), "cpu", 0)
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(SalaError, match=r"is damaged|is not text in UTF-8") as refusal:
        read_record(tmp_path, run)
    assert len(str(refusal.value)) < 400


def test_printed_distances_are_rows_of_their_own_where_the_protocol_has_another_scale() -> None:
    scaled, printed = (Run(Cell("miniimagenet", 1, 0, key), "cpu", 0) for key in ("sala", "sala-printed"))
    assert scaled.config.protocol.distance_scale == PROTOCOLS["miniimagenet"].distance_scale == 64
    assert replace(scaled.config.protocol, distance_scale=None) == printed.config.protocol
    assert "table1" in scaled.command
    assert "scale" in printed.command
    assert {"sala", "sala-printed"} <= {cell.variant for cell in cells_of("scale", ["miniimagenet"])}
    assert not cells_of("scale", ["omniglot"])


def test_the_long_budget_has_more_unlabeled_images_and_anneals_deeper() -> None:
    config = Run(Cell("omniglot", 1, 0, "sala"), "long", 0).config
    assert (config.budget.n_episodes, config.budget.n_validation_episodes) == (100_000, 600)
    assert config.protocol.train.n_unlabeled == 15
    assert 5e-6 < config.protocol.learning_rate / 2**config.protocol.n_halvings < 2e-5


def test_the_distance_scale_is_for_methods_that_sum_over_the_width() -> None:
    protonet, tpn = (Run(Cell("tiny-tiered", 1, 0, key), "cpu", 0).config for key in ("protonet", "tpn"))
    assert isinstance(protonet.build_method((32, 32, 3)).backbone, Scaled)
    assert not isinstance(tpn.build_method((32, 32, 3)).backbone, Scaled)


def test_options_beyond_the_paper_are_rows_of_a_table_of_their_own() -> None:
    spec = TABLES["beyond"]
    assert not spec.published
    assert (spec.n_distractor, spec.shots) == (0, (1,))
    assert {"protonet", "soft-kmeans", "masked-soft-kmeans", "sala"} <= set(spec.variants)
    for key in spec.variants:
        variant = VARIANTS[key]
        plain = Run(Cell("omniglot", 1, 0, variant.method), "cpu", 0).config
        run = Run(Cell("omniglot", 1, 0, key), "cpu", 0)
        assert run.config == replace(plain, options=variant.options)  # the same protocol and budget
        assert run.command.split()[2] == ("beyond" if variant.options else "table1")
        options = {"n_refinement_steps": int(key[-7])} if key.endswith("-steps") else {"swap": True}
        assert variant.options == (options if key != variant.method else {})
        assert (f"{key}-printed" in VARIANTS) == (key == variant.method)
