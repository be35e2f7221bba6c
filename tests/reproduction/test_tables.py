"""What tables and verdicts say: claims rest on training seeds, and published numbers stand in their own setting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sala.errors import SalaError
from sala.evaluation import formats as as_text
from sala.evaluation.seeds import SeedInterval
from sala.methods import COMPARED
from sala.reproduction import formats
from sala.reproduction.published import DATASETS, PUBLISHED_SETTINGS, VARIANTS, WITH, WITHOUT
from sala.reproduction.records import Record
from sala.reproduction.tables import Column, Entry
from sala.reproduction.verdicts import verdicts
from tests.helpers.toy_records import column, entry, result, seeds


def test_the_interval_over_seeds_is_students() -> None:
    interval = SeedInterval.of([1.0, 2.0, 3.0])
    assert interval.ci95 is not None
    assert (interval.n, interval.mean) == (3, 2.0)
    assert interval.ci95 == pytest.approx(4.302653 / np.sqrt(3))  # t of two degrees of freedom, from a table
    assert SeedInterval.of([1.0]).ci95 is None


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([1.0, 1.1, 0.9], "better"),
        ([-1.0, -1.1, -0.9], "worse"),
        ([1.1, -0.1, 1.9], "no difference shown"),
        ([1.0, 1.0], "no claim"),
        ([5.0], "no claim"),
    ],
)
def test_better_and_worse_want_three_seeds_that_agree(differences: list[float], verdict: str) -> None:
    assert SeedInterval.of(differences).verdict == verdict


def test_differences_are_paired_over_common_seeds() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 1, (2, 50)), rng.uniform(0.5, 1, (1, 50))
    ours, theirs = entry("sala", *a.tolist()), entry("soft-kmeans", *b.tolist())
    difference, over_seeds = ours.minus(theirs), ours.minus_over_seeds(theirs)
    assert difference is not None and over_seeds is not None
    expected = 100 * (a[0] - b[0])
    assert difference.mean == pytest.approx(expected.mean())
    assert difference.ci95 == pytest.approx(1.96 * expected.std(ddof=1) / np.sqrt(50))
    assert over_seeds == SeedInterval(1, pytest.approx(expected.mean()), None)
    interval, sd = ours.interval, ours.seed_sd
    assert interval is not None and interval.mean == pytest.approx(100 * a.mean())
    assert sd == pytest.approx(np.std(100 * a.mean(1), ddof=1))
    assert entry("sala").minus(theirs) is None and entry("sala").minus_over_seeds(theirs) is None


def test_a_difference_needs_the_same_episodes() -> None:
    ours, theirs = entry("sala", [0.5, 0.6]), entry("soft-kmeans", [0.5, 0.6])
    other = Record(ours.records[0].run, {"ren": result([0.5, 0.6], "others")}, [], {}, "", 1, 1)
    with pytest.raises(SalaError, match="the same episodes"):
        Entry(ours.cell, "ren", (other,)).minus_over_seeds(theirs)


def test_bold_is_what_is_better_than_all_others_over_seeds() -> None:
    clear = column(sala=seeds(90, 91, 92), soft_kmeans=seeds(80, 81.1, 82), tpn=seeds(85, 86, 87.1))
    assert clear.best() == "sala"
    assert column(sala=seeds(90, 91, 92), soft_kmeans=seeds(80, 81, 95)).best() is None  # seeds disagree
    assert column(sala=seeds(90, 91, 92)).best() is None
    header, rows = formats.rows_of([clear])
    assert header[:2] == ["method", "omniglot 1-shot (ren)"]
    by_name = {texts[0]: (texts, bold) for texts, bold in rows}
    assert by_name["SALA"][1] == {1}
    assert by_name["SALA"][0][2].startswith("+") and "3 seeds" in by_name["SALA"][0][2]
    assert by_name["Soft k-Means"][0][2] == ""
    assert as_text.markdown(header, rows).count("**") == 2
    latex = as_text.latex(header, rows)
    assert latex.count(r"\\") == len(rows) + 1
    assert r"\textbf{91.00 $\pm$" in latex


def test_a_row_with_one_seed_is_marked_and_takes_the_bold_from_its_table() -> None:
    three, one = seeds(90, 91, 92), seeds(50)
    with_one = column(sala=three, soft_kmeans=seeds(80, 81.1, 82), tpn=one)
    assert with_one.best() is None
    assert column(sala=seeds(99), soft_kmeans=three, tpn=seeds(80, 81.1, 82)).best() is None  # the best has one
    _, rows = formats.rows_of([with_one])
    texts = {texts[0]: texts[1] for texts, _ in rows}
    assert as_text.ONE_SEED in texts["TPN"] and as_text.ONE_SEED not in texts["SALA"]
    assert as_text.has_one_seed(rows)
    assert not as_text.has_one_seed(formats.rows_of([column(sala=three)])[1])


def test_nothing_is_bold_while_a_published_row_is_missing() -> None:
    better, worse = seeds(90, 91, 92), seeds(80, 81.1, 82)
    variants = {"sala": entry("sala", *better), "soft-kmeans": entry("soft-kmeans", *worse)}
    assert Column("omniglot", 1, "ren", variants).best() == "sala"
    waiting = {**variants, "tpn": entry("tpn"), "masked-soft-kmeans": entry("masked-soft-kmeans", published=97.3)}
    assert Column("omniglot", 1, "ren", waiting).best() is None
    del waiting["masked-soft-kmeans"]
    assert Column("omniglot", 1, "ren", waiting).best() == "sala"


def test_json_has_the_difference_over_episodes_and_over_seeds() -> None:
    one = column(sala=seeds(90, 91, 92), soft_kmeans=seeds(80, 81, 85), tpn=seeds(80))
    cells = {cell["variant"]: cell for cell in formats.to_json("table1", [one])}
    assert cells["sala"]["difference_to_soft_kmeans"]["mean"] == pytest.approx(9)
    over_seeds = cells["sala"]["difference_to_soft_kmeans_over_seeds"]
    assert (over_seeds["n"], over_seeds["mean"]) == (3, pytest.approx(9))
    assert over_seeds["ci95"] == pytest.approx(4.302653 * np.sqrt(3) / np.sqrt(3))  # of 10, 10, 7
    assert cells["tpn"]["difference_to_soft_kmeans_over_seeds"] == {"n": 1, "mean": pytest.approx(0), "ci95": None}
    assert cells["soft-kmeans"]["difference_to_soft_kmeans_over_seeds"] is None


def test_rows_as_printed_are_compared_with_soft_kmeans_as_printed() -> None:
    one = column(sala_printed=seeds(70), soft_kmeans_printed=seeds(60), sala=seeds(90), soft_kmeans=seeds(85))
    texts = {texts[0]: texts[2] for texts, _ in formats.rows_of([one])[1]}
    assert texts["SALA, as printed"].startswith("+10.00") and texts["SALA"].startswith("+5.00")


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (seeds(95, 96, 97.1), "SALA is better"),
        (seeds(85, 86, 87.1), "SALA is worse"),
        (seeds(91, 90.9, 93.9), "no difference between"),
        (seeds(99, 99), "too few seeds"),
        (seeds(99), "one seed"),
    ],
)
def test_the_verdict_is_said_either_way(ours: list[list[float]], words: str) -> None:
    (sentence,) = verdicts("table1", [column(sala=ours, soft_kmeans=seeds(90, 91, 92))])
    assert words in sentence
    assert ("better" in sentence, "worse" in sentence) == ("better" in words, "worse" in words)


def test_a_published_number_stands_in_its_own_setting() -> None:
    for variant, setting, other in (("sala", "large", "ren"), ("soft-kmeans", "ren", "large")):
        row = entry(variant, *seeds(98), published=97.0, setting=setting)
        assert row.published == 97.0
        assert formats.published_text(row) == "97.00 (+1.00)"
        assert replace(row, setting=other).published is None
        assert formats.published_text(replace(row, setting=other)) == "-"
        assert replace(row, setting="standard").published == 97.0
    (sentence,) = verdicts("table1", [column("ren", sala=seeds(98), soft_kmeans=seeds(97))])
    assert "published" not in sentence


def test_every_published_row_of_omniglot_has_its_setting() -> None:
    settled = [variant for variants in PUBLISHED_SETTINGS.values() for variant in variants]
    assert sorted(settled) == sorted({*WITHOUT["omniglot", 1], *WITH["omniglot", 1]})
    assert set(settled) <= set(VARIANTS)


def test_columns_begin_with_miniimagenet() -> None:
    assert DATASETS["cpu"] == ("miniimagenet", "omniglot", "tiny-tiered")


def test_no_table_of_the_paper_has_a_method_beyond_its_comparison() -> None:
    assert {variant.method for variant in VARIANTS.values()} <= set(COMPARED)
