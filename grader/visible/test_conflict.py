"""Conflicts: the same idempotency key with other content is an error, never a duplicate."""

import pytest

from grader.lab import Lab, raised, returned


@pytest.mark.criterion("conflict.other_amount_is_conflict")
def test_other_amount_is_conflict(lab: Lab) -> None:
    """An applied event that comes again with another amount is a conflict; the total does not move."""
    event = lab.event(amount_cents=30_000)
    worker = lab.worker()
    assert worker.apply(event) == returned("applied")
    applied = lab.ledger()

    for other_amount in (30_001, 29_999, lab.random.randint(50_000, 90_000)):
        reply = worker.apply(event | {"amount_cents": other_amount})
        assert reply == raised("OperationConflict")
        assert reply.calls == (), "the effect was called for a conflicting event"
        assert lab.ledger() == applied

    assert applied.counts == (1, 1, 0)
    assert applied.totals == {event["tenant"]: 30_000}


@pytest.mark.criterion("conflict.first_receipt_stays")
def test_first_receipt_stays(lab: Lab) -> None:
    """A conflict leaves the first receipt in place: the original is still a duplicate, the other still a conflict."""
    original = lab.event()
    other = original | {"amount_cents": original["amount_cents"] + 1}
    worker = lab.worker()
    assert worker.apply(original) == returned("applied")
    first_receipt = lab.ledger().receipts

    for _round in range(2):
        assert worker.apply(other) == raised("OperationConflict")
        assert lab.ledger().receipts == first_receipt
        assert worker.apply(original) == returned("duplicate")

    assert lab.ledger().counts == (1, 1, 0)
    assert lab.ledger().totals == {original["tenant"]: original["amount_cents"]}


@pytest.mark.criterion("conflict.check_replay_alone")
def test_check_replay_alone(lab: Lab) -> None:
    """Asked alone, check_replay knows three answers: new, duplicate, and OperationConflict."""
    event = lab.event()
    other = event | {"amount_cents": event["amount_cents"] + 1}
    worker = lab.worker()
    stored = worker.call("conflict.fingerprint", event)
    assert stored.kind == "returned" and type(stored.value) is str

    assert worker.call("conflict.check_replay", None, event) == returned("new")
    assert worker.call("conflict.check_replay", stored.value, event) == returned("duplicate")
    assert worker.call("conflict.check_replay", stored.value, other) == raised("OperationConflict")
