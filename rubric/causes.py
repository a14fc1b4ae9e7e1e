"""Why a criterion is not met or not known: the closed set, and what students are told about each."""

from enum import StrEnum


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
STOPPED = EXECUTED_CAUSES - {Cause.WRONG_ANSWER, Cause.EXCEPTION}
"""Executed and not met, because the code was stopped or its file could not be read: it gave no answer to judge."""

TEXTS = {
    Cause.WRONG_ANSWER: "What your code returned, or left in the database, was not what was expected.",
    Cause.EXCEPTION: "Your code raised an error that was not expected here.",
    Cause.DEADLINE: "Your code did not finish in time.",
    Cause.WORKER_DIED: "The process that ran your code ended in the middle of the check.",
    Cause.FLOOD: "Your code printed or returned more than the limit allows.",
    Cause.PROTOCOL_VIOLATION: "The worker's answer was not one that a worker can give.",
    Cause.DATABASE_UNREADABLE: "The database file could not be read after your code had run.",
    Cause.NOT_SUBMITTED: "The file was not handed in, or is still as it was given.",
    Cause.STUB_NOT_WRITTEN: "The function is not written yet.",
    Cause.DOES_NOT_IMPORT: "A file could not be imported, so nothing in it was called.",
    Cause.NOT_COLLECTED: "The check is not in the report, or was skipped without a cause.",
    Cause.PARTLY_RUN: "The check began or ran in part, and did not run to its end.",
    Cause.NEEDS_INSTRUCTOR: "A hidden check: your instructor runs it after you hand in.",
    Cause.WAITING_FOR_REVIEW: "A person has not read it yet.",
    Cause.REVIEW_STALE: "It was changed after a person had read it, so it waits to be read again.",
    Cause.GRADER_FAULT: "The grader failed here. This is not your fault and costs you nothing; staff must look.",
    Cause.NOT_BUILT: "This check is in the rubric, but there is no test for it yet.",
    Cause.BUDGET_SPENT: "Your submission had used up its time before this check.",
    Cause.TAMPERING_SUSPECTED: "The control test, which must fail, did not fail, so nothing of this run counts.",
}
