"""Review: nothing is lost, rejected messages keep their evidence, and acknowledging comes last."""

import json

import pytest

from grader.lab import Lab, returned


def content(body_text: object) -> object:
    """Return what a recorded body says as JSON, or the body itself when it is no JSON."""
    try:
        return json.loads(str(body_text))
    except (ValueError, RecursionError):
        return body_text


@pytest.mark.criterion("review.rejection_recorded_then_acknowledged")
def test_rejection_recorded_then_acknowledged(lab: Lab) -> None:
    """A rejected message is kept with its whole body and reason, then acknowledged; the total is untouched."""
    good = lab.event(amount_cents=30_000)
    bad = lab.event(tenant=good["tenant"], amount_cents=-5_000)
    lab.send(good)
    lab.send(bad)
    worker = lab.worker()
    assert worker.deliver(now=0) == returned("applied")

    assert worker.deliver(now=1) == returned("rejected")

    recorded = lab.ledger().rejections
    assert len(recorded) == 1
    _rejection_id, body_text, reason, times_seen = recorded[0]
    assert content(body_text) == bad
    assert str(reason).startswith("invalid_event")
    assert times_seen == 1
    assert lab.queue() == [("settled", 1), ("settled", 1)]
    assert lab.ledger().counts == (1, 1, 1)
    assert lab.ledger().totals == {good["tenant"]: 30_000}


@pytest.mark.criterion("review.decisions_are_appended")
def test_decisions_are_appended(lab: Lab) -> None:
    """A second decision is added to the first: neither decision nor evidence is ever changed or removed."""
    worker = lab.worker()
    rejection = worker.record(lab.event(amount_cents=-5_000), error=lab.error("InvalidEvent", "amount_cents"))
    assert rejection.kind == "returned"
    evidence = lab.ledger().rejections
    assert [row[0] for row in evidence] == [rejection.value]

    assert worker.decide(rejection.value, "Ana", "escalate", "ask the sender").kind == "returned"
    assert worker.decide(rejection.value, "Ben", "keep_rejected", "sender agrees").kind == "returned"

    assert [row[1:] for row in lab.ledger().decisions] == [
        (rejection.value, "Ana", "escalate", "ask the sender"),
        (rejection.value, "Ben", "keep_rejected", "sender agrees"),
    ]
    assert lab.ledger().rejections == evidence


@pytest.mark.criterion("review.acknowledged_after_commit")
def test_acknowledged_after_commit(lab: Lab) -> None:
    """When a message is acknowledged, another connection already sees its committed effect or its rejection."""
    lab.send(lab.event())
    lab.send(lab.event(amount_cents=-5_000))
    worker = lab.worker()

    for now, committed in ((0, (1, 1, 0)), (1, (1, 1, 1))):
        acknowledged = [call for call in worker.deliver(now=now).calls if call.name == "acknowledge"]
        assert len(acknowledged) == 1
        assert acknowledged[0].committed == committed


@pytest.mark.criterion("review.duplicate_acknowledged")
def test_duplicate_acknowledged(lab: Lab) -> None:
    """A duplicate is work already done: it is acknowledged and nothing is written."""
    event = lab.event()
    lab.send(event)
    lab.send(event)
    worker = lab.worker()

    assert worker.deliver(now=0) == returned("applied")
    assert worker.deliver(now=1) == returned("duplicate")

    assert lab.queue() == [("settled", 1), ("settled", 1)]
    assert lab.ledger().counts == (1, 1, 0)


@pytest.mark.criterion("review.conflict_goes_to_review")
def test_conflict_goes_to_review(lab: Lab) -> None:
    """A conflicting message goes to review and is acknowledged; receipt, effect and total stay the first ones."""
    original = lab.event()
    other = original | {"amount_cents": original["amount_cents"] + 1}
    lab.send(original)
    lab.send(other)
    worker = lab.worker()
    assert worker.deliver(now=0) == returned("applied")
    applied = lab.ledger()

    assert worker.deliver(now=1) == returned("rejected")

    recorded = lab.ledger().rejections
    assert len(recorded) == 1
    _rejection_id, body_text, reason, _times_seen = recorded[0]
    assert content(body_text) == other
    assert str(reason).startswith("operation_conflict")
    assert lab.queue() == [("settled", 1), ("settled", 1)]
    assert (lab.ledger().receipts, lab.ledger().effects) == (applied.receipts, applied.effects)
    assert lab.ledger().totals == {original["tenant"]: original["amount_cents"]}
