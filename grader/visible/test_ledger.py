"""The ledger: one event, one receipt, one effect, however often the event is delivered."""

import pytest

from grader.lab import Lab, raised, returned


@pytest.mark.criterion("ledger.new_event_is_applied")
def test_new_event_is_applied(lab: Lab) -> None:
    """A new event is applied: one receipt, one effect, and its amount in the total."""
    event = lab.event(amount_cents=30_000)
    worker = lab.worker()

    assert worker.apply(event) == returned("applied")

    assert lab.ledger().counts == (1, 1, 0)
    assert lab.ledger().totals == {event["tenant"]: 30_000}


@pytest.mark.criterion("ledger.repeat_is_duplicate")
def test_repeat_is_duplicate(lab: Lab) -> None:
    """Three exact repeats of an applied event are duplicates, and the ledger stays as it was."""
    event = lab.event()
    worker = lab.worker()
    assert worker.apply(event) == returned("applied")
    after_first = lab.ledger()

    for _repeat in range(3):
        assert worker.apply(event) == returned("duplicate")
        assert lab.ledger() == after_first

    assert after_first.counts == (1, 1, 0)
    assert after_first.totals == {event["tenant"]: event["amount_cents"]}


@pytest.mark.criterion("ledger.failed_effect_rolls_back")
def test_failed_effect_rolls_back(lab: Lab) -> None:
    """An effect that fails after writing leaves nothing behind, and the next try applies the event."""
    first = lab.event(amount_cents=30_000)
    second = lab.event(tenant=first["tenant"], amount_cents=40_000)
    fails_once = lab.fails(lab.error("InterruptedTransaction"), times=1, after_writing=True)
    worker = lab.worker()
    assert worker.apply(first) == returned("applied")
    before_failure = lab.ledger()

    assert worker.apply(second, effect=fails_once) == raised("InterruptedTransaction")
    assert lab.ledger() == before_failure

    assert worker.apply(second) == returned("applied")
    assert lab.ledger().counts == (2, 2, 0)
    assert lab.ledger().totals == {first["tenant"]: 70_000}


@pytest.mark.criterion("ledger.tenants_are_separate")
def test_tenants_are_separate(lab: Lab) -> None:
    """The same event id in two tenants is two events: two effects, each with its own duplicates."""
    north = lab.event(tenant="north")
    south = lab.event(tenant="south", event_id=north["event_id"], amount_cents=north["amount_cents"])
    worker = lab.worker()

    assert worker.apply(north) == returned("applied")
    assert worker.apply(south) == returned("applied")
    assert worker.apply(north) == returned("duplicate")
    assert worker.apply(south) == returned("duplicate")

    assert lab.ledger().counts == (2, 2, 0)
    assert lab.ledger().totals == {"north": north["amount_cents"], "south": south["amount_cents"]}


@pytest.mark.criterion("ledger.negative_amount_refused")
def test_negative_amount_refused(lab: Lab) -> None:
    """A negative amount is an invalid event: refused before anything is written, also under a known id."""
    negative = lab.event(amount_cents=-5_000)
    worker = lab.worker()

    refused = worker.apply(negative)
    assert refused == raised("InvalidEvent")
    assert refused.calls == (), "the effect was called for an invalid event"
    assert lab.ledger().counts == (0, 0, 0)

    known = lab.event()
    assert worker.apply(known) == returned("applied")
    assert worker.apply(known | {"amount_cents": -5_000}) == raised("InvalidEvent")
    assert lab.ledger().counts == (1, 1, 0)
    assert lab.ledger().totals == {known["tenant"]: known["amount_cents"]}
