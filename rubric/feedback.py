"""What a student is told: points, one sentence a criterion, what was not run, and what the report does not show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from rubric import evidence as records
from rubric import files, pages
from rubric.causes import STOPPED, TEXTS, Cause
from rubric.criteria import Criterion, Kind, Rubric, Shown
from rubric.evidence import Claimed, Evidence, History, Points, Review, Status, Step, Verdict, points_text, total
from rubric.hints import TASKS
from rubric.visible import visible

FORMAT_VERSION = 1
VOID = (
    "tampering suspected: a person must look. The control test, which must fail, did not fail, so no points are shown"
)
PRACTICE = "Practice, not isolated: this ran in a plain process and can never be a grade."
NOTES_MAX = 50


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
    cause_text: str  # "" when met, and where the rubric's own sentence says it
    earned: Fraction
    points: int
    done: str
    expected: str
    seen: tuple[str, ...]
    why: str
    read: str
    unknown: str = ""  # what stays unknown; "" when executed or reviewed
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
class Section:
    """The items of one part of the lab, with the points of that part."""

    part: str  # the first half of the ids
    heading: str
    items: tuple[Item, ...]
    points: Points

    @property
    def text(self) -> str:
        """The points of the part; a part of which nothing is known has none to show."""
        return f"{self.points.text} of {self.points.total}" if self.points.executed else f"open, {self.points.total}"


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

    @property
    def not_met(self) -> tuple[Item, ...]:
        """What is known and not met, in the order of the parts."""
        return tuple(item for section in self.sections for item in section.items if item.verdict is Verdict.NOT_MET)

    @property
    def sections(self) -> tuple[Section, ...]:
        """The items by part: the tasks in their order, then any other part of the rubric."""
        parts = dict.fromkeys(_part(item.criterion) for item in self.items)
        order = [name for name in TASKS if name in parts] + [name for name in parts if name not in TASKS]
        sections = []
        for name in order:
            items = tuple(item for item in self.items if _part(item.criterion) == name)
            known = sum(item.points for item in items if item.status is not Status.UNEXECUTED)
            points = sum(item.points for item in items)
            earned = sum((item.earned for item in items), Fraction(0))
            tally = Points(earned=earned, executed=known, open=points - known, total=points)
            sections.append(Section(part=name, heading=TASKS.get(name, name), items=items, points=tally))
        return tuple(sections)


def _part(criterion: str) -> str:
    return criterion.partition(".")[0]


def item_points(item: Item) -> str:
    """The points of one item for people: '1.33 of 4', or 'open, 4' when nothing is known."""
    if item.status is Status.UNEXECUTED:
        return f"open, {item.points}"
    return f"{points_text(item.earned)} of {item.points}"


def build(evidence: Sequence[Evidence], rubric: Rubric, run: Mapping[str, Any] | None = None) -> Feedback:
    """What one student is told. `evidence` is what map_report gave for the same rubric, `run` what run.json holds."""
    run = run or {}
    items = tuple(_item(one, rubric.get(one.criterion)) for one in evidence)
    points = total(evidence)
    void = VOID if any(one.cause is Cause.TAMPERING_SUSPECTED for one in evidence) else ""
    opening = f"{points.text} points earned, {points.executed} executed or reviewed, {points.open} still open"
    return Feedback(
        title=rubric.title,
        submission=_clean(run.get("submission")),
        points=points,
        opening=f"No points: {void}." if void else f"{opening} (of {points.total}).",
        items=items,
        not_run=_not_run(items),
        not_shown=rubric.not_shown,
        notes=_notes(run),
        void=void,
        practice=run.get("isolation") == "practice",
        provisional=points.open > 0,
    )


def write(feedback: Feedback, evidence: Sequence[Evidence], folder: Path) -> None:
    """Write evidence.json, feedback.json and feedback.html, each whole or not at all. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    held = {"format_version": records.FORMAT_VERSION, "submission": feedback.submission, "records": tuple(evidence)}
    files.write(folder / "evidence.json", files.json_bytes(held))
    files.write(folder / "feedback.json", files.json_bytes(feedback))
    files.write(folder / "feedback.html", pages.student_page(feedback).encode("utf-8"))


def _clean(value: object) -> str:
    return visible(value) if isinstance(value, str) else ""


def _item(record: Evidence, criterion: Criterion) -> Item:
    """One criterion in words: the rubric's sentences first, then the facts that were observed."""
    facts = tuple(visible(sentence) for sentence in record.seen)
    if record.verdict is Verdict.UNKNOWN:
        seen = facts
    elif record.verdict is Verdict.MET:
        seen = (criterion.met, *facts)
    else:  # of code that was stopped on the way nobody knows what it would have done
        seen = facts if record.cause in STOPPED else (criterion.not_met, *facts)
    shown = criterion.shown is Shown.VISIBLE
    review = record.review
    return Item(
        criterion=criterion.id,
        code=criterion.code,
        title=criterion.title,
        shown=criterion.shown,
        status=record.status,
        verdict=record.verdict,
        cause=record.cause,
        cause_text=TEXTS[record.cause] if record.cause and record.cause is not Cause.WRONG_ANSWER else "",
        earned=record.earned,
        points=record.points,
        done=criterion.done,
        expected=criterion.expected,
        seen=seen,
        why=criterion.why,
        read=criterion.read,
        unknown=criterion.unexecuted if record.verdict is Verdict.UNKNOWN else "",
        hints=() if record.verdict is Verdict.MET else criterion.hints,
        steps=tuple(Step(did=visible(one.did), saw=visible(one.saw)) for one in record.steps) if shown else (),
        history=_history(record.history),
        counts={visible(name.replace("_", " ")): number for name, number in record.counts.items()},
        review=_signed(review) if review else None,
        level_text=criterion.levels[review.level] if review and criterion.kind is Kind.REVIEWED else "",
        claims=record.claims,
    )


def _history(history: History | None) -> History | None:
    if history is None:
        return None
    return History(code=visible(history.code), steps=tuple(visible(step) for step in history.steps))


def _signed(review: Review) -> Review:
    return replace(
        review,
        reviewer=visible(review.reviewer),
        date=visible(review.date),
        comment=visible(review.comment, lines=True),
        sha256=visible(review.sha256),
    )


def _not_run(items: Sequence[Item]) -> tuple[NotRun, ...]:
    """What was not executed, by cause, in the order of the causes."""
    groups = []
    for cause in Cause:
        held = [item for item in items if item.status is Status.UNEXECUTED and item.cause is cause]
        if held:
            codes = tuple(item.code for item in held)
            points = sum(item.points for item in held)
            groups.append(NotRun(cause=cause, text=TEXTS[cause], codes=codes, points=points))
    return tuple(groups)


def _notes(run: Mapping[str, Any]) -> tuple[str, ...]:
    """What a student should know about how the submission was taken in and run."""
    notes = [PRACTICE] if run.get("isolation") == "practice" else []
    if run.get("status") == "needs_attention":
        notes.append(f"A person must look: {_clean(run.get('reason')) or 'no reason was recorded.'}")
    changed = [_clean(name) for name in _texts(run.get("changed_given"))]
    if changed:
        notes.append(f"Changed given files have no effect; the given ones were used: {', '.join(changed)}.")
    return (*notes, *(_clean(note) for note in _texts(run.get("notes"))))


def _texts(value: object) -> list[str]:
    return [one for one in value[:NOTES_MAX] if isinstance(one, str)] if isinstance(value, list) else []
