"""Task 1: when are two deliveries the same message, and when do they only look alike?"""

from __future__ import annotations

from typing import Any


def operation_key(event: dict[str, Any]) -> tuple[str, str]:
    """The idempotency key of an event: the pair (tenant, event_id), both str.

    Both exactly as they are in the event. The key stays the same over all deliveries, so it is never the number of a
    message or of a delivery.

    >>> operation_key({"tenant": "north", "event_id": "A", "amount_cents": 30000})
    ('north', 'A')
    """
    raise NotImplementedError("conflict.operation_key: return the tenant and the event id as a pair")


def fingerprint(event: dict[str, Any]) -> str:
    """The content of an event as text: every field that is not part of the key, whatever it is called.

    Equal content gives the same text, also when the fields come in another order, and also in another process.
    Other content (another value, a field more, a field less) gives another text.
    """
    raise NotImplementedError("conflict.fingerprint: return the same text for the same content")


def check_replay(stored: str | None, event: dict[str, Any]) -> str:
    """Compare an event with the fingerprint that is stored under its key; `stored` is None when there is none.

    Returns "new" when nothing is stored, "duplicate" when the content is the same.
    Raises OperationConflict when the content differs: the same key with other content is not a repeat.
    """
    raise NotImplementedError("conflict.check_replay: answer new or duplicate, or raise OperationConflict")
