"""One row a student: points by part for the gradebook. Blank is not 0, and nobody is left out."""

import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

from defusedcsv import csv

from rubric import files
from rubric.evidence import Cause, Status, Verdict, points_text
from rubric.feedback import PRACTICE, Feedback
from rubric.visible import visible


class RowStatus(StrEnum):
    """Whether a student has points, and if not, who must act."""

    GRADED = "graded"
    NEEDS_ATTENTION = "needs attention"  # our fault, or a person must look
    NOT_SUBMITTED = "not submitted"


class Part(StrEnum):
    """The first half of a criterion's id."""

    LEDGER = "ledger"
    CONFLICT = "conflict"
    RETRY = "retry"
    REVIEW = "review"
    DRILL = "drill"
    TESTS = "tests"
    WRITTEN = "written"


PARTS = frozenset(part.value for part in Part)
COLUMNS = ("key", "name", "status", "reason", *Part, "earned", "executed", "open", "total", "causes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How one criterion stands for one student."""

    criterion: str
    code: str
    title: str
    status: Status
    verdict: Verdict
    cause: Cause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRow:
    """One student. Points are whole hundredths, rounded down; None where there are none to give, which is not 0."""

    key: str
    name: str
    status: RowStatus
    reason: str  # "" when graded
    parts: Mapping[Part, int | None] = field(default_factory=dict)
    earned: int | None = None
    executed: int | None = None
    open: int | None = None
    total: int | None = None
    causes: Mapping[Cause, int] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()


def graded(feedback: Feedback, *, name: str = "", key: str = "") -> ClassRow:
    """The row of a submission with feedback; a void or practice run needs attention and has no points.

    Where the grader failed at some criteria, or the code wrote into the grader's own channel, the points stay, and the
    row needs attention.
    """
    key = key or feedback.submission
    if feedback.void or feedback.practice:
        return unmarked(key, name=name, reason=feedback.void or PRACTICE)
    exact: dict[Part, Fraction] = {}
    for item in feedback.items:
        half = item.criterion.partition(".")[0]
        if half not in PARTS:
            continue  # a rubric with other parts has its points in the sums alone
        part = Part(half)
        known = item.status is not Status.UNEXECUTED
        if known or part in exact:  # a part of which nothing was executed stays blank
            exact[part] = exact.get(part, Fraction(0)) + (item.earned if known else 0)
    causes = Counter(item.cause for item in feedback.items if item.cause is not None)
    reason = suspicion(feedback)
    if ours := [item.code for item in feedback.items if item.cause is Cause.GRADER_FAULT]:
        reason = f"The grader failed at {', '.join(ours)}; staff must look."
    return ClassRow(
        key=key,
        name=name,
        status=RowStatus.NEEDS_ATTENTION if reason else RowStatus.GRADED,
        reason=reason,
        parts={part: int(points * 100 // 1) for part, points in exact.items()},
        earned=feedback.points.hundredths,
        executed=feedback.points.executed * 100,
        open=feedback.points.open * 100,
        total=feedback.points.total * 100,
        causes={cause: causes[cause] for cause in Cause if causes[cause]},
        marks=tuple(
            Mark(
                criterion=item.criterion,
                code=item.code,
                title=item.title,
                status=item.status,
                verdict=item.verdict,
                cause=item.cause,
            )
            for item in feedback.items
        ),
    )


def suspicion(feedback: Feedback) -> str:
    """Why a person must look at what was handed in, with the fact that gave it away; "" where nothing did.

    Bytes on the channel between worker and grader come from nowhere but code that looked for it.
    """
    codes = [item.code for item in feedback.items if item.cause is Cause.PROTOCOL_VIOLATION]
    if not codes:
        return ""
    return f"Tampering suspected: code wrote into the grader's own channel at {', '.join(codes)}; a person must look."


def unmarked(key: str, *, reason: str, name: str = "", status: RowStatus = RowStatus.NEEDS_ATTENTION) -> ClassRow:
    """The row of a student without points: needs attention (the default) or not submitted. A reason is required."""
    if status is RowStatus.GRADED or not reason.strip():
        raise ValueError(f"the row of {key!r} has no points, so it needs a reason and a status other than graded")
    return ClassRow(key=key, name=name, status=status, reason=reason)


def hundredths_text(points: int | None) -> str:
    """Hundredths as people read them: '12.50', '12', and '' for None. The same figure at every exit."""
    return "" if points is None else points_text(Fraction(points, 100))


def because(row: ClassRow) -> str:
    """Why a row has no points, or else the cause that is there most often: 'wrong answer (3)'. Made visible."""
    if row.reason:
        return visible(row.reason)
    waiting = (Cause.WAITING_FOR_REVIEW, Cause.NOT_BUILT)  # true of nearly everybody, so it tells nothing
    causes = [cause for cause in Cause if row.causes.get(cause) and cause not in waiting]
    if not causes:
        return ""
    cause = max(causes, key=lambda one: row.causes[one])
    return f"{cause.value.replace('_', ' ')} ({row.causes[cause]})"


def cells(row: ClassRow) -> tuple[str, ...]:
    """The row in the order of COLUMNS, every column always; foreign text made visible, formulas not yet defused."""
    causes = "; ".join(f"{cause.value} {count}" for cause, count in row.causes.items())
    parts = [hundredths_text(row.parts.get(part)) for part in Part]
    points = [hundredths_text(value) for value in (row.earned, row.executed, row.open, row.total)]
    return (visible(row.key), visible(row.name), row.status.value, visible(row.reason), *parts, *points, causes)


def write(rows: Iterable[ClassRow], path: Path) -> None:
    """Write gradebook.csv: UTF-8 with a byte order mark (spreadsheets need it), comma, CRLF, no formula anywhere.

    The file is whole or the old one: written to a temporary name, synced and renamed. Raises OSError.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(COLUMNS)
    for row in rows:
        table.writerow([_text(cell) for cell in cells(row)])
    files.write(path, text.getvalue().encode("utf-8-sig"))


def _text(cell: str) -> str:
    """No formula behind blanks or in full-width signs either; defusedcsv looks at the first ASCII character alone."""
    start = cell.lstrip()[:1]
    hidden = start and (start in "\uff1d\uff0b\uff0d\uff20" or (start in "=+-@|%" and not cell.startswith(start)))
    return "'" + cell if hidden else cell
