"""What is known about each criterion: executed, reviewed or unexecuted, with the cause. One record each, always."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from rubric import answers as notes
from rubric import prediction
from rubric.answers import Answers, Claimed, Standing
from rubric.causes import EXECUTED_CAUSES, UNEXECUTED_CAUSES, Cause
from rubric.criteria import LEVELS, Criterion, Kind, Rubric, Shown
from rubric.report import Report, Test

__all__ = ["Cause", "Claimed", "Evidence", "History", "Points", "Review", "Standing", "Status", "Step", "Verdict",
           "map_report", "points_text", "total"]  # fmt: skip

FORMAT_VERSION = 1


class Status(StrEnum):
    """How something is known."""

    EXECUTED = "executed"
    REVIEWED = "reviewed"
    UNEXECUTED = "unexecuted"


class Verdict(StrEnum):
    """What is known; unknown exactly when unexecuted."""

    MET = "met"
    NOT_MET = "not met"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a visible test."""

    did: str
    saw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The shortest failing history: `code` replays it. It reveals no test, so hidden criteria show theirs."""

    code: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One criterion's record. `earned` is exact; unexecuted <=> verdict unknown <=> earned 0 for lack of knowledge."""

    criterion: str
    status: Status
    verdict: Verdict
    cause: Cause | None
    earned: Fraction
    points: int
    seen: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()  # empty for hidden criteria
    counts: Mapping[str, int] = field(default_factory=dict)
    history: History | None = None
    sources: tuple[str, ...] = ()  # node ids of the tests that spoke
    review: "Review | None" = None
    claims: tuple[Claimed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A named person read this exact text. `current` is set only by comparing `sha256` with the submitted bytes."""

    criterion: str
    reviewer: str
    date: str  # ISO day
    level: int  # 0 to 3
    comment: str
    sha256: str
    current: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points are whole except `earned`, which is exact; `text` rounds it down once to hundredths."""

    earned: Fraction
    executed: int  # points of all that was executed or reviewed
    open: int  # points of all that is still unexecuted
    total: int

    @property
    def hundredths(self) -> int:
        """The earned points in hundredths, rounded down once."""
        return int(self.earned * 100 // 1)

    @property
    def text(self) -> str:
        """The earned points for people."""
        return points_text(self.earned)


def points_text(points: Fraction) -> str:
    """Points for people, rounded down to hundredths: '3', '1.33'."""
    whole, rest = divmod(int(points * 100 // 1), 100)
    return f"{whole}.{rest:02d}" if rest else str(whole)


def total(records: Sequence[Evidence]) -> Points:
    """The points of all records; the total is that of the rubric, whatever ran."""
    known = sum(one.points for one in records if one.status is not Status.UNEXECUTED)
    points = sum(one.points for one in records)
    earned = sum((one.earned for one in records), Fraction(0))
    return Points(earned=earned, executed=known, open=points - known, total=points)


def map_report(
    report: Report,
    rubric: Rubric,
    *,
    run: Mapping[str, Any] | None = None,
    reviews: Sequence[Review] = (),
    answers: Answers | bytes | None = None,
    log: bytes | None = None,
) -> tuple[Evidence, ...]:
    """One record for each criterion of the rubric, in its order, whatever the report holds or lacks; raises nothing.

    `run` is what run.json holds (only its `files` matter here), `answers` a student's answers.toml,
    `log` the runs.jsonl that came with it.
    """
    heard: dict[str, list[Test]] = {}
    for test in report.tests:
        heard.setdefault(test.nodeid, []).append(test)
    hidden = {node for one in rubric.criteria if one.shown is Shown.HIDDEN for node in one.tests}
    for_staff = hidden.isdisjoint(heard)
    void = _control(report, heard.get(rubric.control_test, []), rubric)
    records = []
    for criterion in rubric.criteria:
        if criterion.kind is Kind.REVIEWED:
            records.append(_reviewed(criterion, reviews, run))
        else:
            record = _executed(criterion, heard, for_staff)
            spoilt = void is not None and record.status is Status.EXECUTED
            records.append(_unexecuted(criterion, void) if spoilt and void else record)
    if answers is not None and rubric.claims_at:
        verdicts = {one.criterion: one.verdict for one in records}
        said = notes.read(answers) if isinstance(answers, bytes) else answers
        claims = notes.beside(said, rubric, lambda name: _KNOWN[verdicts[name]])
        seen = (said.trouble,) if said.trouble else ()
        beside = [replace(one, claims=claims, seen=seen) for one in records if one.criterion == rubric.claims_at]
        records = [beside[0] if one.criterion == rubric.claims_at else one for one in records]
    if isinstance(answers, bytes) and rubric.prediction is not None:
        facts = prediction.facts(answers, log, rubric.prediction)
        at = rubric.prediction.criterion
        records = [replace(one, seen=(*one.seen, *facts)) if one.criterion == at else one for one in records]
    return tuple(records)


_KNOWN = {Verdict.MET: True, Verdict.NOT_MET: False, Verdict.UNKNOWN: None}


def _control(report: Report, entries: list[Test], rubric: Rubric) -> Cause | None:
    """The cause that voids what was executed, or None when the control test failed in its call phase, as it must."""
    if not rubric.control_test or (not entries and not report.ours):
        return None
    if any(_cause(one) is Cause.GRADER_FAULT or "error" in (one.setup, one.outcome) for one in entries):
        return Cause.GRADER_FAULT
    return None if entries and all(one.call == "failed" for one in entries) else Cause.TAMPERING_SUSPECTED


def _cause(test: Test) -> Cause | None:
    """The cause that the test itself left, if it is one of ours."""
    try:
        return Cause(test.facts.cause) if test.facts else None
    except ValueError:
        return None


def _missing(test: Test) -> Cause | None:
    """Why this entry says nothing about the student's code, or None when it passed or failed in its call phase."""
    cause = _cause(test)
    if cause in UNEXECUTED_CAUSES:
        return cause
    if test.call == "failed" and test.outcome in ("failed", "error"):
        return None
    if test.passed:
        return None
    if "failed" in (test.setup, test.teardown) or test.outcome == "error":
        return Cause.GRADER_FAULT
    return Cause.PARTLY_RUN if test.outcome in ("passed", "failed") else Cause.NOT_COLLECTED


def _executed(criterion: Criterion, heard: Mapping[str, list[Test]], for_staff: bool) -> Evidence:
    """The record of a criterion with tests: met only when every entry of every one of them passed."""
    if not criterion.tests:
        return _unexecuted(criterion, Cause.NOT_BUILT)
    entries = [test for node in criterion.tests for test in heard.get(node, [])]
    absent = any(node not in heard for node in criterion.tests)
    causes = [cause for test in entries if (cause := _missing(test)) is not None]
    failed = [test for test in entries if _missing(test) is None and not test.passed]
    if failed:
        cause = _cause(failed[0])
        cause = cause if cause in EXECUTED_CAUSES else Cause.WRONG_ANSWER
        record = _record(criterion, Status.EXECUTED, Verdict.NOT_MET, cause, failed + [t for t in entries if t.passed])
        share = min(_part(criterion, test) for test in failed) if not absent and not causes else Fraction(0)
        return replace(record, earned=share)
    if not absent and not causes:
        return _record(criterion, Status.EXECUTED, Verdict.MET, None, entries)
    if Cause.GRADER_FAULT in causes:
        why = Cause.GRADER_FAULT
    elif any(test.passed and _missing(test) is None for test in entries) or (absent and Cause.PARTLY_RUN in causes):
        why = Cause.PARTLY_RUN
    elif causes:
        why = causes[0]
    else:
        why = Cause.NEEDS_INSTRUCTOR if criterion.shown is Shown.HIDDEN and for_staff else Cause.NOT_COLLECTED
    return _record(criterion, Status.UNEXECUTED, Verdict.UNKNOWN, why, [t for t in entries if _missing(t) is not None])


def _part(criterion: Criterion, test: Test) -> Fraction:
    """What a failed test of a criterion with parts earns: its share of the ideas, and never all of the points."""
    counts = test.facts.counts if criterion.partial and test.facts else {}
    noticed, ideas = counts.get("ideas_noticed", 0), counts.get("ideas", 0)
    return Fraction(criterion.points * noticed, ideas) if 0 <= noticed < ideas else Fraction(0)


def _record(
    criterion: Criterion, status: Status, verdict: Verdict, cause: Cause | None, tests: Sequence[Test]
) -> Evidence:
    """The record with the facts of the tests that spoke, the most telling first; hidden steps are left out."""
    facts = [test.facts for test in tests if test.facts is not None]
    shown = criterion.shown is Shown.VISIBLE
    replay = next((one for one in facts if one.replay), None)
    counts: dict[str, int] = {}
    for one in facts:
        for name, number in one.counts.items():
            counts[name] = counts.get(name, 0) + number
    return Evidence(
        criterion=criterion.id,
        status=status,
        verdict=verdict,
        cause=cause,
        earned=Fraction(criterion.points if verdict is Verdict.MET else 0),
        points=criterion.points,
        seen=tuple(dict.fromkeys(sentence for one in facts for sentence in one.seen)),
        steps=tuple(Step(did=step.did, saw=step.saw) for one in facts[:1] for step in one.steps) if shown else (),
        counts=counts,
        history=History(code=replay.replay, steps=replay.history) if replay else None,
        sources=tuple(dict.fromkeys(test.nodeid for test in tests)),
    )


def _unexecuted(criterion: Criterion, cause: Cause) -> Evidence:
    """The record of a criterion about which nothing is known."""
    return _record(criterion, Status.UNEXECUTED, Verdict.UNKNOWN, cause, ())


def _reviewed(criterion: Criterion, reviews: Sequence[Review], run: Mapping[str, Any] | None) -> Evidence:
    """The record of a text: known only through a named person who read these very bytes; the last review counts."""
    whole = [one for one in reviews if one.criterion == criterion.id and one.reviewer.strip()]
    usable = [one for one in whole if type(one.level) is int and 0 <= one.level < LEVELS]
    current = [one for one in usable if one.current]
    if current:
        review = current[-1]
        met = review.level == LEVELS - 1
        record = _record(criterion, Status.REVIEWED, Verdict.MET if met else Verdict.NOT_MET, None, ())
        return replace(record, earned=Fraction(criterion.points * review.level, LEVELS - 1), review=review)
    files = run.get("files") if run else None
    states = files if isinstance(files, Mapping) else {}
    found = [states.get(name, states.get(name.removeprefix("student/"))) for name in criterion.files]
    if found and all(state in ("missing", "unchanged stub") for state in found):
        return _unexecuted(criterion, Cause.NOT_SUBMITTED)
    return _unexecuted(criterion, Cause.REVIEW_STALE if usable else Cause.WAITING_FOR_REVIEW)
