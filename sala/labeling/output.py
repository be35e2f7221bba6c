"""The files that `sala label` writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sala.classifier.model_file import NAME as MODEL
from sala.labeling.card import save_model
from sala.labeling.check import Check, check, check_lines
from sala.labeling.export import csv_line, export, label_studio_config, write_skipped, written_whole
from sala.labeling.formats import FORMATS
from sala.labeling.report import write_report
from sala.labeling.result import LabelingResult

SKIPPED, CHECK, REPORT = "skipped.csv", "check.csv", "report.html"
NAMES = {"csv": "labels.csv"} | {form: f"{form}.json" for form in FORMATS[1:]}  # of exports


def write_result(result: LabelingResult, out: Path, forms: Iterable[str] = ("csv",), command: str = "") -> Check:
    """Labels in the asked formats, the model with its card, the skipped files, what to check and the report, each written
    whole or not at all. Returns what to check. The report tells `command`, which opens the page on the same folders."""
    out.mkdir(parents=True, exist_ok=True)
    classes = result.model.classes
    for form in sorted({"csv", *forms}):
        with written_whole(out / NAMES[form]) as file:
            file.writelines(export(result.rows(), form, classes))
    if "label-studio" in forms:
        with written_whole(out / "label-studio.xml") as file:
            file.write(label_studio_config(classes))
    write_skipped(out / SKIPPED, result.skipped)
    found = check(result)
    save_model(result.model, out / MODEL, held_out=found.held_out)
    found = replace(found, hints=write_report(out / REPORT, result, found, command))
    with written_whole(out / CHECK) as file:
        file.writelines(csv_line(cells) for cells in check_lines(found, result))
    return found


def leftovers(out: Path, forms: Iterable[str]) -> list[str]:
    """Formats whose file in `out` is of an earlier run."""
    return [form for form in FORMATS if form not in {"csv", *forms} and (out / NAMES[form]).exists()]
