"""Task 3: which failures are worth another attempt, and how many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def classify(error: BaseException) -> str:
    """TRANSIENT, TERMINAL or UNKNOWN (from student.lab.errors), by the class of the error alone, never by its text.

    TRANSIENT: TimeoutError and its subclasses.
    TERMINAL: InvalidEvent, OperationConflict, PermissionError, RetriesExhausted, and their subclasses.
    UNKNOWN: everything else, "database is locked" included. Unknown is never retried, never rejected and never
    acknowledged: the queue will deliver the message again.
    """
    raise NotImplementedError("retry.classify: answer transient, terminal or unknown")


def bounded_retry(operation: Callable[[], T], max_attempts: int = 3) -> T:
    """Call `operation()` up to `max_attempts` times in all, the first call included; return its first result.

    Only TRANSIENT errors are tried again. Any other error passes out at once, as the same object.
    When the last attempt times out too: raise RetriesExhausted(max_attempts) from that last error.
    Never sleeps: this lab counts ticks, not seconds.
    """
    raise NotImplementedError("retry.bounded_retry: at most max_attempts calls, only transient errors again")
