"""What a student is told: points, one sentence a criterion, what was not run, and what the report does not show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from rubric.criteria import Shown
from rubric.evidence import Cause, Claimed, History, Points, Review, Status, Step, Verdict

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One criterion for the student: done, expected, seen, why, read. All text is data: escape it at the exit."""

    criterion: str
    code: str
    title: str
    shown: Shown
    status: Status
    verdict: Verdict
    cause: Cause | None
    cause_text: str  # "" when met
    earned: Fraction
    points: int
    done: str
    expected: str
    seen: tuple[str, ...]
    why: str
    read: str
    hints: tuple[str, ...] = ()  # empty when met
    steps: tuple[Step, ...] = ()
    history: History | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    review: Review | None = None
    level_text: str = ""  # what the reviewer's level means
    claims: tuple[Claimed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """The criteria that share one cause for being unexecuted."""

    cause: Cause
    text: str
    codes: tuple[str, ...]
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """Everything the terminal, the page and the gradebook need about one submission."""

    title: str
    submission: str  # key; "" for a report without run.json
    points: Points
    opening: str  # "12.33 points earned, 40 executed, 60 still open"
    items: tuple[Item, ...]
    not_run: tuple[NotRun, ...]
    not_shown: tuple[str, ...]
    notes: tuple[str, ...] = ()  # intake notes, changed given files, isolation
    void: str = ""  # not empty: "tampering suspected: a person must look"; then no score is shown
    practice: bool = False  # practice, not isolated: never a grade
    provisional: bool = True  # something is still open
    format_version: int = FORMAT_VERSION
