"""Given: the errors of the lab, and the three words for a failure."""

from __future__ import annotations

TRANSIENT = "transient"
"""May succeed when it is tried again."""
TERMINAL = "terminal"
"""Will never succeed, however often it is tried: a person must look."""
UNKNOWN = "unknown"
"""Nobody knows: not retried here, not rejected, not acknowledged. The queue will deliver the message again."""


class LabError(ValueError):
    """An error with a fixed code. `str(error)` is the code, or `code: detail`.

    It is a ValueError. So `except ValueError` also catches errors that say "nobody knows": look twice first.
    """

    code = "lab_error"

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"{self.code}: {detail}" if detail else self.code)


class NotAvailable(LabError):
    """The queue has no message to hand out at this tick."""

    code = "not_available"


class DeliveryLost(LabError):
    """The acknowledgement came too late, or with an old delivery: the queue will deliver the message again."""

    code = "delivery_lost"


class InvalidEvent(LabError):
    """The body is not an event that could ever be applied."""

    code = "invalid_event"


class OperationConflict(LabError):
    """The same idempotency key was applied before, with other content."""

    code = "operation_conflict"


class InterruptedTransaction(LabError):
    """The work was interrupted before its commit."""

    code = "interrupted_transaction"


class RetriesExhausted(RuntimeError):
    """Every attempt timed out. `attempts` is how many calls were made. Deliberately no TimeoutError."""

    def __init__(self, attempts: int) -> None:
        super().__init__(f"retries_exhausted: {attempts} attempts")
        self.attempts = attempts
