"""The report: one page with the pictures inside, to look through what was labelled."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sala import figures, page
from sala.checkpoint import write_atomically
from sala.data import images
from sala.data.files import open_regular
from sala.engine import HeldOut
from sala.errors import SalaError
from sala.labelling.fit import Labelling
from sala.labelling.folders import as_text
from sala.labelling.rows import DOUBTFUL, NONE_OF_THESE, SURE, Row
from sala.wording import counted, printable

MAX_OF_CLASS, MAX_IN_ALL, MAX_NEXT, MAX_SET_ASIDE = 60, 2_000, 24, 200  # pictures or lines
THUMBNAIL = 120  # pixels
COLOURS = {SURE: figures.COLOURS[2], DOUBTFUL: figures.COLOURS[4], NONE_OF_THESE: figures.JUNK}
MEANING = {SURE: "sure", DOUBTFUL: "doubtful: look at these", NONE_OF_THESE: "none of these"}
BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


def write_report(path: Path, labelling: Labelling) -> None:
    write_atomically(path, report(labelling).encode("utf-8", "backslashreplace"))


def report(labelling: Labelling) -> str:
    rows = list(labelling.rows())
    classes = labelling.model.classes
    n_shown = max(6, min(MAX_OF_CLASS, MAX_IN_ALL // len(classes)))
    by_class: dict[str, list[Row]] = {name: [] for name in classes}
    for row in rows:
        if row.verdict != NONE_OF_THESE:
            by_class[row.label].append(row)
    sheets = [
        _class_sheet(f"class-{i}", name, sorted(mine, key=lambda row: row.confidence), n_shown)
        for i, (name, mine) in enumerate(by_class.items())
    ]
    return page.page(
        f"{counted(len(rows), 'image')}, {counted(len(classes), 'class')}",
        page.paragraph(_lead(labelling, rows)),
        page.legend((MEANING[kind], colour) for kind, colour in COLOURS.items()),
        _counts(labelling, by_class, len(rows)),
        page.links([("label next", "next"), ("none of these", "junk"), ("can I trust it?", "trust"),
                    *((printable(name), f"class-{i}") for i, name in enumerate(classes))]),
        _next(labelling, rows),
        *sheets,
        _junk(rows, labelling.thresholds.precision),
        _trust(labelling, rows),
        _set_aside(labelling.set_aside),
    )  # fmt: skip


def _lead(labelling: Labelling, rows: Sequence[Row]) -> str:
    n = {kind: sum(row.verdict == kind for row in rows) for kind in COLOURS}
    examples = labelling.examples
    start = f"From {counted(len(examples.paths), 'labelled image')} of {counted(len(examples.classes), 'class')}"
    start += f", and {counted(labelling.n_junk, 'image')} of none of them. " if labelling.n_junk else ". "
    if not rows:
        return start + "The pool holds no image that can be read; the model is there for later images."
    return (
        f"{start}The pool has {counted(len(rows), 'image')}: {n[SURE]:,} with a label to rely on, {n[DOUBTFUL]:,} doubtful, "
        f"{n[NONE_OF_THESE]:,} seemingly of none of these classes."
    )


def _counts(labelling: Labelling, by_class: dict[str, list[Row]], n_rows: int) -> str:
    given = labelling.examples.labels
    lines = []
    for c, (name, mine) in enumerate(by_class.items()):
        n_sure = sum(row.verdict == SURE for row in mine)
        mean = f"{np.mean([row.confidence for row in mine]):.0%}" if mine else "-"
        lines.append((printable(name), f"{given.count(c)}", f"{n_sure:,}", f"{len(mine) - n_sure:,}", mean))
    n_junk = f"{labelling.n_junk}" if labelling.n_junk else ""
    lines.append(("none of these", n_junk, f"{n_rows - sum(map(len, by_class.values())):,}", "", ""))
    return page.table(("class", "labelled", "sure", "doubtful", "mean confidence"), lines)


def _class_sheet(place: str, name: str, mine: Sequence[Row], n_shown: int) -> str:
    n_doubtful = sum(row.verdict == DOUBTFUL for row in mine)
    about = f"{counted(len(mine), 'image')}, {n_doubtful:,} of them doubtful; the least sure first."
    if len(mine) > n_shown:
        about += f" Not shown: {counted(len(mine) - n_shown, 'surer image')}; labels.csv has them all."
    about = about if mine else "No image of the pool seems to be of this class."
    return page.section(printable(name), page.paragraph(about, note=True), _sheet(mine[:n_shown]), place=place)


def _sheet(rows: Sequence[Row], *, with_label: bool = False) -> str:
    return page.sheet(_photo(row, _lines(row, with_label)) for row in rows)


def _lines(row: Row, with_label: bool) -> list[str]:
    """What stands below a picture: how sure the label is, and where it is not, what else the image may be."""
    label, other = printable(row.label), printable(row.runner_up)
    lines = [f"{label} {percent(row.confidence)}" if with_label else percent(row.confidence)]
    if row.verdict != SURE:
        lines += [f"or {other}"] if other and row.probability < 0.9 else []
        lines += [f"none of these {percent(row.none_of_these)}"] if row.none_of_these > 0.1 else []
    return lines


def _photo(row: Row, lines: Sequence[str]) -> str:
    title = (
        f"{printable(as_text(row.path))}\n{printable(row.label)} {row.probability:.1%} among the classes, "
        f"then {printable(row.runner_up) or '-'}\nnone of these {row.none_of_these:.1%}"
    )
    return page.photo(thumbnail(row.path), printable(as_text(row.path.name)), lines, title, COLOURS[row.verdict])


def percent(share: float) -> str:
    """Rounded down, so that what is below a threshold is shown below it; nothing is ever certain."""
    return f"{int(100 * share)}%" if share < 0.99 else "> 99%"


def thumbnail(path: Path) -> str:
    """A small JPEG as a data URI; a blank one where the image is gone or was never needed."""
    try:
        with open_regular(path) as file:
            image = images.thumbnail(file, "", side=THUMBNAIL)
    except (SalaError, OSError):
        return BLANK
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=70, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _next(labelling: Labelling, rows: Sequence[Row]) -> str:
    chosen = [rows[i] for i in labelling.label_next[:MAX_NEXT]]
    about = (
        "A label for these would help most: the model is unsure of them, they are like many others, and no two are of "
        "a kind. "
        "Copy some into their class folders, in this order, those of no class into a folder for --junk, and run the command "
        "again."
    )
    body = (
        (page.paragraph(about, note=True), _sheet(chosen, with_label=True)) if chosen else (page.paragraph("Nothing."),)
    )
    return page.section("What to label next", *body, place="next")


def _junk(rows: Sequence[Row], precision: float) -> str:
    junk = sorted((row for row in rows if row.verdict == NONE_OF_THESE), key=lambda row: row.none_of_these)
    if junk:
        shown = junk[:MAX_OF_CLASS]
        about = (
            f"{counted(len(junk), 'image')} seemingly of no class; about {precision:.0%} should be so (--precision). "
            "That is an estimate: look through them before you throw any away. The least sure first."
        )
        about += f" Not shown: {counted(len(junk) - len(shown), 'surer image')}." if len(junk) > len(shown) else ""
    else:
        shown = sorted(rows, key=lambda row: -row.none_of_these)[:MAX_NEXT]
        about = "No image is of none of the classes so surely that it was set aside. "
        about += "These are the likeliest, the likeliest first; a lower --precision sets more aside." if rows else ""
    sheet = page.sheet(_photo(row, [percent(row.none_of_these), f"else {printable(row.label)}"]) for row in shown)
    return page.section("None of these", page.paragraph(about, note=True), sheet, place="junk")


def _trust(labelling: Labelling, rows: Sequence[Row]) -> str:
    held_out, thresholds = labelling.held_out, labelling.thresholds
    n = len(held_out.labels)
    if n:
        n_right = int((held_out.probabilities.argmax(1) == held_out.labels).sum())
        how = (
            f"Each of the {n} labelled images whose class has another was left out in turn, with some of other classes, and "
            f"labelled from the rest and the pool: {n_right} of {n} came out right. With all of them labelled it should be "
            "a little better. The temperature that turns similarities into probabilities, and how much a linear classifier "
            "counts, were fitted on them, together with a prior from other data; these are two numbers, so left-out images "
            "still tell whether they hold. "
            "No label of a pool image was used, for there is none."
        )
    else:
        how = (
            "No class has two labelled images, so none could be left out to look whether the label comes out right: the "
            "probabilities rest on a prior that was fitted on other images. A second image in some classes would tell more."
        )
    what = (
        "The confidence of a label is its probability among the classes, times that of being of any of them. A label "
        "is sure "
        f"from {thresholds.sure:.0%} on. An image is of none of these where that score is above "
        f"{thresholds.none_of_these:.0%}, the score from which {thresholds.precision:.0%} of what is set aside is "
        "estimated to be junk; it can be less. "
        "The rest is doubtful."
    )
    groups = {
        kind: (COLOURS[kind], np.array([row.confidence for row in rows if row.verdict == kind], np.float32))
        for kind in COLOURS
    }
    plot = figures.reliability(reliability_bins(held_out), groups) if rows or n else ""
    encoder = labelling.model.note["encoder"]
    note = f"Encoder {printable(encoder['name'])}; inverse temperature {labelling.model.inverse_temperature:.1f}."
    return page.section(
        "Can I trust the probabilities?", page.paragraph(how), page.paragraph(what), plot, page.paragraph(note, note=True),
        place="trust",
    )  # fmt: skip


def reliability_bins(held_out: HeldOut, n_bins: int = 5) -> list[tuple[float, float, float, float, int]]:
    """(mean probability, share that is right, its 95 % interval by Wilson, n) of groups of about equal size, 8 or more."""
    p = held_out.probabilities.max(1, initial=0)
    is_right = held_out.probabilities.argmax(1) == held_out.labels if len(p) else np.zeros(0, bool)
    order = np.argsort(p, kind="stable")
    parts = np.array_split(order, max(1, min(n_bins, len(p) // 8))) if len(p) else []
    return [
        (float(p[i].mean()), float(is_right[i].mean()), *wilson(int(is_right[i].sum()), len(i)), len(i)) for i in parts
    ]


def wilson(n_right: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share."""
    share = n_right / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return min(middle - half, share), max(middle + half, share)


def _set_aside(set_aside: dict[Path, str]) -> str:
    if not set_aside:
        return ""
    lines = [(reason,) for reason in list(set_aside.values())[:MAX_SET_ASIDE]]
    more = len(set_aside) - len(lines)
    rest = page.paragraph(f"{more:,} more in set-aside.csv.", note=True) if more else ""
    return page.section("Files that could not be used", page.table(("what is wrong",), lines), rest)
