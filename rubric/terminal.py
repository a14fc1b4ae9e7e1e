"""Feedback on a terminal: plain text only, readable at 80 columns, without colour, in a pipe and in ASCII."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rubric.evidence import Status, Verdict
from rubric.feedback import Feedback, Item, item_points
from rubric.gradebook import ClassRow, RowStatus, because, hundredths_text
from rubric.visible import visible

STYLES = {Verdict.MET: "green", Verdict.NOT_MET: "bold red", Verdict.UNKNOWN: "dim"}
ROW_STYLES = {RowStatus.GRADED: "", RowStatus.NEEDS_ATTENTION: "bold red", RowStatus.NOT_SUBMITTED: "dim"}
STEPS_MAX = 12
LIMITS_MAX = 5
LABEL = 10  # columns of "Expected: "


def show(feedback: Feedback, console: Console) -> None:
    """Print one student's feedback: points, all criteria by part, what is not met, what did not run, and the limits."""
    heading = f"{feedback.title}: {feedback.submission}" if feedback.submission else feedback.title
    _line(console, heading, "bold")
    _line(console, feedback.opening, "bold red" if feedback.void else "bold")
    for note in feedback.notes:
        _line(console, f"Note: {note}")
    for section in feedback.sections:
        points = "" if feedback.void else f" ({section.text})"
        _criteria(console, section.heading + points, section.items, void=bool(feedback.void))
    for section in feedback.sections:
        for item in section.items:
            if item.verdict is Verdict.NOT_MET:
                _not_met(console, item)
            elif item.review:
                _head(console, f"Reviewed: {item.code} {item.title}")
                _review(console, item)
    _not_run(console, feedback)
    claims = [claim for item in feedback.items for claim in item.claims]
    if claims:
        _head(console, "What you noted, beside what was seen")
        for claim in claims:
            _line(console, f"{claim.command}: {claim.standing.value}. {claim.because}", indent=2)
    _head(console, "This report does not show")
    for sentence in feedback.not_shown[:LIMITS_MAX]:
        _line(console, f"- {sentence}", "dim", indent=2)
    if len(feedback.not_shown) > LIMITS_MAX:
        _line(console, f"- and more: the page lists all {len(feedback.not_shown)} limits.", "dim", indent=2)


def class_table(rows: Sequence[ClassRow], console: Console) -> None:
    """Print a class: one row a student, and how many stand how."""
    table = Table(box=_box(console), show_edge=False, header_style="bold", expand=False)
    table.add_column("Student", overflow="fold", ratio=2)
    table.add_column("Status", overflow="fold")
    for name in ("Earned", "Run", "Open"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Main cause or reason", overflow="fold", ratio=3)
    for row in rows:
        table.add_row(
            _text(console, visible(row.key)),
            _text(console, row.status.value, ROW_STYLES[row.status]),
            *(_text(console, hundredths_text(points)) for points in (row.earned, row.executed, row.open)),
            _text(console, because(row)),
        )
    console.print(table)
    held = [(status.value, sum(row.status is status for row in rows)) for status in RowStatus]
    counts = ", ".join(f"{name}: {number}" for name, number in held if number) or "none"
    _line(console, f"Students: {len(rows)} ({counts}).", "bold")


def _criteria(console: Console, heading: str, items: Sequence[Item], *, void: bool) -> None:
    _head(console, heading)
    table = Table(box=_box(console), show_edge=False, header_style="bold", expand=False)
    table.add_column("Code", no_wrap=True)
    table.add_column("Criterion", overflow="fold", ratio=1)
    table.add_column("Verdict", no_wrap=True)
    if not void:
        table.add_column("Points", justify="right", no_wrap=True)
    for item in items:
        verdict = "unexecuted" if item.status is Status.UNEXECUTED else item.verdict.value
        points = [] if void else [_text(console, item_points(item))]
        cells = [_text(console, item.code), _text(console, item.title), _text(console, verdict, STYLES[item.verdict])]
        table.add_row(*cells, *points)
    console.print(table)


def _not_met(console: Console, item: Item) -> None:
    """One criterion that is not met: done, expected, seen, why, read, the first hint, and what led there."""
    _head(console, f"Not met: {item.code} {item.title}")
    _field(console, "Done", item.done)
    _field(console, "Expected", item.expected)
    _field(console, "Seen", " ".join((item.cause_text, *item.seen)).strip())
    _review(console, item)
    if item.counts:
        _field(console, "Counted", ", ".join(f"{name} {number}" for name, number in sorted(item.counts.items())))
    _field(console, "Why", item.why)
    _field(console, "Read", item.read)
    if item.hints:
        _field(console, "Hint", item.hints[0])
    if item.history:
        _field(console, "History", f"{item.history.code} (play it on your files: nox -s replay -- {item.history.code})")
        for step in item.history.steps:
            _line(console, step, indent=4)
    if item.steps:
        _line(console, "Steps:", indent=2)
        for number, one in enumerate(item.steps[:STEPS_MAX], 1):
            _line(console, f"{number}. {one.did}" + (f": {one.saw}" if one.saw else ""), indent=4)
        if len(item.steps) > STEPS_MAX:
            _line(console, f"... and {len(item.steps) - STEPS_MAX} more steps, on the page", indent=4)


def _review(console: Console, item: Item) -> None:
    if item.review:
        review = item.review
        _field(console, "Review", f"level {review.level} of 3: {item.level_text}. {review.reviewer}, {review.date}.")
        if review.comment:
            _field(console, "Comment", review.comment)


def _not_run(console: Console, feedback: Feedback) -> None:
    if not feedback.not_run:
        return
    _head(console, "Not run, so nothing is known")
    for group in feedback.not_run:
        _line(console, f"{group.text} ({group.points} points): {', '.join(group.codes)}", indent=2)
        held = [item for item in feedback.items if item.cause is group.cause and item.status is Status.UNEXECUTED]
        for sentence in dict.fromkeys(sentence for item in held for sentence in item.seen):
            _line(console, f"- {sentence}", indent=4)


def _head(console: Console, text: str) -> None:
    console.print()
    _line(console, text, "bold")


def _field(console: Console, label: str, text: str) -> None:
    """A label and its text, which hangs under itself."""
    grid = Table.grid(padding=0)
    grid.add_column(width=LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"{label}:"), _text(console, text))
    console.print(Padding(grid, (0, 0, 0, 2)))


def _line(console: Console, text: str, style: str = "", *, indent: int = 0) -> None:
    console.print(Padding(_text(console, text, style), (0, 0, 0, indent)))


def _text(console: Console, text: str, style: str = "") -> Text:
    """Text that is no markup, and that the console's encoding can carry: what it cannot is written out."""
    text = visible(text, lines=True)
    try:
        text.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        text = text.translate(_PLAIN).encode("ascii", "backslashreplace").decode("ascii")
    return Text(text, style=style, overflow="fold")


_PLAIN = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "·": "*", "→": "->"})


def _box(console: Console) -> box.Box:
    return box.ASCII if console.options.ascii_only else box.SIMPLE_HEAD
