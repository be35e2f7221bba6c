"""What was learned follows the records: the words flip when the numbers flip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sala.reproduction import coverage
from sala.reproduction.coverage import core_hours
from sala.reproduction.findings import FINDINGS, Evidence, sentences
from sala.reproduction.tables import Entry
from tests.helpers.toy_records import entry, seeds

RESULTS = Path(__file__).parents[2] / "results"


def evidence(*rows: Entry) -> Evidence:
    keys = {("cpu", r.cell.dataset, r.cell.n_distractor, r.setting, r.cell.variant): r for r in rows}
    return Evidence(keys, "cpu")


def omniglot(variant: str, *percents: float, n_distractor: int = 0, **more: float) -> Entry:
    return entry(variant, *seeds(*percents), setting="large", n_distractor=n_distractor, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ((95, 96, 97.1), "SALA is better than Soft k-Means on Omniglot"),
        ((85, 86, 87.1), "SALA is worse than Soft k-Means on Omniglot"),
        ((91, 90.9, 93.9), "SALA is not shown to differ from Soft k-Means on Omniglot"),
        ((99,), "too few seeds to compare SALA with Soft k-Means on Omniglot (+9.00, one seed)"),
    ],
)
@pytest.mark.parametrize(("name", "n_distractor"), [("sala-without", 0), ("sala-with", 5)])
def test_sala_against_soft_kmeans(name: str, n_distractor: int, ours: tuple[float, ...], words: str) -> None:
    rows = (
        omniglot("sala", *ours, n_distractor=n_distractor),
        omniglot("soft-kmeans", 90, 91, 92, n_distractor=n_distractor),
    )
    assert words in (FINDINGS[name](evidence(*rows)) or "")


def test_datasets_with_other_outcomes_share_a_sentence_with_miniimagenet_first() -> None:
    rows = [omniglot("sala", 85, 86, 87.1), omniglot("soft-kmeans", 90, 91, 92)]
    rows += [
        entry(v, *seeds(p), dataset="miniimagenet", setting="standard") for v, p in (("sala", 50), ("soft-kmeans", 49))
    ]
    text = FINDINGS["sala-without"](evidence(*rows)) or ""
    assert "is worse than Soft k-Means on Omniglot" in text and "on miniImageNet (+1.00, one seed)" in text
    assert evidence(*rows).datasets == ["miniimagenet", "omniglot"]


def test_datasets_of_one_outcome_share_a_clause() -> None:
    rows = [omniglot("sala", 95, 96, 97.1), omniglot("soft-kmeans", 90, 91, 92)]
    for variant, percents in (("sala", (41, 42, 43.1)), ("soft-kmeans", (40, 41, 42))):
        rows.append(entry(variant, *seeds(*percents), dataset="tiny-tiered", setting="standard"))
    text = FINDINGS["sala-without"](evidence(*rows)) or ""
    assert text.count("better") == text.count("Soft k-Means") == 1
    assert text.index("on Omniglot (+5.03") < text.index("on tiny-tiered (+1.03")


def test_a_comparison_is_of_the_dataset_with_most_seeds() -> None:
    rows = [omniglot(v, 90, 91, 92.1, n_distractor=5) for v in ("sala", "tpn")]
    rows += [entry(v, *seeds(50), dataset="miniimagenet", setting="standard", n_distractor=5) for v in ("sala", "tpn")]
    text = FINDINGS["keeping-distractors-out"](evidence(*rows)) or ""
    assert "Omniglot" in text and "miniImageNet" not in text


def test_modules_and_controls_are_compared_with_all_of_sala() -> None:
    rows = [
        omniglot("sala", 90, 91, 92),
        omniglot("sala-metric", 80, 81.1, 82),
        omniglot("sala-constant", 95, 96.1, 97),
    ]
    assert "SALA is better than its metric alone" in (FINDINGS["modules"](evidence(*rows)) or "")
    assert "SALA is worse than itself with weights" in (FINDINGS["controls"](evidence(*rows)) or "")


def test_published_numbers_are_above_or_below_in_their_own_setting() -> None:
    ours = omniglot("sala", 98, published=98.93)
    theirs = entry("soft-kmeans", *seeds(98), setting="ren", published=97.25)
    elsewhere = entry("sala", *seeds(90), setting="ren", published=98.93)
    text = FINDINGS["published"](evidence(ours, theirs, elsewhere)) or ""
    assert "SALA is 0.93 below (1 seed) and Soft k-Means is 0.75 above (1 seed)" in text
    assert "above" not in (FINDINGS["published"](evidence(ours)) or "")


def test_selected_distractors_are_counted() -> None:
    row = omniglot("sala", 98, 97, n_distractor=5, distractors=12.0)
    assert "12 % on Omniglot (2 seeds)" in (FINDINGS["selected-distractors"](evidence(row)) or "")


def test_the_scale_of_distances_is_compared_method_by_method() -> None:
    names = {"sala": (50, 51, 52), "sala-printed": (40, 41, 42.1), "soft-kmeans-printed": (40, 41, 42)}
    rows = [entry(v, *seeds(*p), dataset="tiny-tiered", setting="standard") for v, p in names.items()]
    text = FINDINGS["printed-distances"](evidence(*rows)) or ""
    assert "SALA is better than itself with distances as printed on tiny-tiered" in text
    assert "SALA is not shown to differ from Soft k-Means, both with distances as printed, on tiny-tiered" in text


def test_a_finding_without_evidence_is_silent(tmp_path: Path) -> None:
    assert [FINDINGS[name](evidence()) for name in FINDINGS] == [None] * len(FINDINGS)
    assert [FINDINGS[name](evidence(omniglot("tadam", 90))) for name in FINDINGS] == [None] * len(FINDINGS)
    assert sentences(tmp_path) == []


def test_there_are_ten_findings_at_most_and_each_is_one_sentence() -> None:
    found = sentences(RESULTS)
    assert 2 <= len(found) <= len(FINDINGS) <= 10
    assert all(text.endswith(".") and ". " not in text and "(" in text for text in found)


def test_core_hours_go_on_where_the_clock_started_anew() -> None:
    record = replace(omniglot("sala", 90).records[0], metrics=[{"seconds": s} for s in (1800, 3600, 900, 1800)])
    assert core_hours(record) == pytest.approx(1.5)


def test_coverage_names_what_is_missing_and_what_a_run_costs(tmp_path: Path) -> None:
    nothing = coverage.coverage("miniimagenet", "cpu", tmp_path)
    assert len(nothing.missing) == len(nothing.records) and "core-hours" not in nothing.sentence()
    assert all(row[3].startswith("all ") for row in nothing.rows()[1:])
    cell = next(cell for cell in nothing.records if (cell.variant, cell.shots, cell.n_distractor) == ("sala", 1, 0))
    record = replace(omniglot("sala", 90).records[0], metrics=[{"seconds": 7200}])
    one = replace(nothing, records={**nothing.records, cell: (record,)}, hours={"sala": [2.0]})
    assert "2.0 core-hours" in one.sentence()
    row = next(row for row in one.rows() if row[0] == "1 shot, no distractors")
    assert row[1:3] == ["-", "`sala`"] and "`sala`" not in row[3].split(", ")


def test_a_run_with_distances_as_printed_tells_the_cost_as_well() -> None:
    found = coverage.coverage("tiny-tiered", "cpu", RESULTS)
    assert found.hours["sala"] and all(0 < hours < 10 for hours in found.hours["sala"])
