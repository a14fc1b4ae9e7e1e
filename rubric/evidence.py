"""What is known about each criterion: executed, reviewed or unexecuted, with the cause. One record a criterion, always."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

FORMAT_VERSION = 1


class Status(StrEnum):
    EXECUTED = "executed"
    REVIEWED = "reviewed"
    UNEXECUTED = "unexecuted"


class Verdict(StrEnum):
    MET = "met"
    NOT_MET = "not met"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Why a criterion was not met, or why it is unknown."""

    WRONG_ANSWER = "wrong_answer"
    EXCEPTION = "exception"
    DEADLINE = "deadline"
    WORKER_DIED = "worker_died"
    FLOOD = "flood"
    PROTOCOL_VIOLATION = "protocol_violation"
    DATABASE_UNREADABLE = "database_unreadable"
    NOT_SUBMITTED = "not_submitted"
    STUB_NOT_WRITTEN = "stub_not_written"
    DOES_NOT_IMPORT = "does_not_import"
    NOT_COLLECTED = "not_collected"
    PARTLY_RUN = "partly_run"
    NEEDS_INSTRUCTOR = "needs_instructor"
    WAITING_FOR_REVIEW = "waiting_for_review"
    REVIEW_STALE = "review_stale"
    GRADER_FAULT = "grader_fault"
    NOT_BUILT = "not_built"
    BUDGET_SPENT = "budget_spent"
    TAMPERING_SUSPECTED = "tampering_suspected"  # the control test did not fail: the run is void


EXECUTED_CAUSES = frozenset(
    {
        Cause.WRONG_ANSWER,
        Cause.EXCEPTION,
        Cause.DEADLINE,
        Cause.WORKER_DIED,
        Cause.FLOOD,
        Cause.PROTOCOL_VIOLATION,
        Cause.DATABASE_UNREADABLE,
    }
)
UNEXECUTED_CAUSES = frozenset(Cause) - EXECUTED_CAUSES


class Standing(StrEnum):
    """How a student's claim stands beside what was seen."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    NOT_CHECKABLE = "not checkable here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    did: str
    saw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The shortest failing history: `code` replays it; `steps` is empty for hidden criteria."""

    code: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """Something the student says happened. Never counted as executed."""

    command: str
    observed: str
    standing: Standing
    because: str


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
        return int(self.earned * 100 // 1)

    @property
    def text(self) -> str:
        return points_text(self.earned)


def points_text(points: Fraction) -> str:
    """Points for people, rounded down to hundredths: '3', '1.33'."""
    whole, rest = divmod(int(points * 100 // 1), 100)
    return f"{whole}.{rest:02d}" if rest else str(whole)


__all__ = ["Any", "Sequence"]
