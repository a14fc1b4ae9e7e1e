"""Review, hidden half: redelivered rejects, refused decisions, unknown failures and lost leases."""
# staff only: heron-quartz

import json

import pytest

from grader.lab import Lab, raised, returned


def content(body_text: object) -> object:
    """Return what a recorded body says as JSON, or the body itself when it is no JSON."""
    try:
        return json.loads(str(body_text))
    except (ValueError, RecursionError):
        return body_text


@pytest.mark.criterion("review.same_rejection_counted")
def test_same_rejection_counted(lab: Lab) -> None:
    """The same body rejected for the same reason is one row: seen twice, same id, whatever came between."""
    body = lab.event(amount_cents=-5_000)
    error = lab.error("InvalidEvent", "amount_cents")
    worker = lab.worker()

    first = worker.record(body, error=error)
    between = worker.record(lab.event(amount_cents=-1), error=error)
    again = lab.worker().record(dict(reversed(body.items())), error=error)

    assert first.kind == between.kind == again.kind == "returned"
    assert type(first.value) is type(between.value) is int
    assert again.value == first.value != between.value
    assert {row[0]: row[3] for row in lab.ledger().rejections} == {first.value: 2, between.value: 1}


@pytest.mark.criterion("review.other_rejections_own_rows")
def test_other_rejections_own_rows(lab: Lab) -> None:
    """Another body, another tenant or another reason is another rejection with a row of its own."""
    body = lab.event(tenant="north", amount_cents=-5_000)
    rejected = [
        (body, "amount_cents"),
        (body | {"amount_cents": -5_001}, "amount_cents"),
        (body | {"tenant": "south"}, "amount_cents"),
        (body, "amount too small"),
    ]
    worker = lab.worker()

    ids = [worker.record(each, error=lab.error("InvalidEvent", detail)).value for each, detail in rejected]

    assert [type(rejection) for rejection in ids] == [int] * 4
    assert len(set(ids)) == 4
    rows = lab.ledger().rejections
    assert {row[0]: content(row[1]) for row in rows} == dict(zip(ids, (each for each, _ in rejected), strict=True))
    assert [row[3] for row in rows] == [1, 1, 1, 1]
    assert len({row[2] for row in rows}) == 2


@pytest.mark.criterion("review.bad_decisions_refused")
def test_bad_decisions_refused(lab: Lab) -> None:
    """A decision without a reviewer, a note, a known word or a known rejection is refused and writes nothing."""
    worker = lab.worker()
    rejection = worker.record(lab.event(amount_cents=-5_000), error=lab.error("InvalidEvent", "amount_cents")).value
    assert type(rejection) is int
    evidence = lab.ledger().rejections
    assert [row[0] for row in evidence] == [rejection]

    refused = [
        ("", "escalate", "why"),
        ("   ", "escalate", "why"),
        ("Ana", "escalate", ""),
        ("Ana", "escalate", " \t\n"),
        ("Ana", "delete", "why"),
        ("Ana", "", "why"),
        ("Ana", "applied", "why"),
    ]
    for reviewer, decision, note in refused:
        assert worker.decide(rejection, reviewer, decision, note) == raised("ValueError")
    assert worker.decide(rejection + 1000, "Ana", "escalate", "why") == raised("LookupError")
    assert lab.ledger().decisions == []
    assert lab.ledger().rejections == evidence
    assert worker.begin_immediate() == returned("ok")

    words = ["keep_rejected", "resubmit_corrected", "escalate"]
    for word in words:
        assert worker.decide(rejection, "Ana", word, "why").kind == "returned"
    assert [row[3] for row in lab.ledger().decisions] == words


@pytest.mark.criterion("review.redelivery_keeps_decision")
def test_redelivery_keeps_decision(lab: Lab) -> None:
    """A rejected message that comes again after a decision keeps its rejection id and its decision."""
    bad = lab.event(amount_cents=-5_000)
    for body in (bad, lab.event(amount_cents=-1), bad):
        lab.send(body)
    worker = lab.worker()
    assert worker.deliver(now=0) == returned("rejected")
    assert worker.deliver(now=1) == returned("rejected")
    rejections = lab.ledger().rejections
    assert len(rejections) == 2
    rejection = rejections[0][0]
    worker.decide(rejection, "Ana", "keep_rejected", "the amount is wrong")
    decisions = lab.ledger().decisions
    assert [row[1] for row in decisions] == [rejection]

    assert worker.deliver(now=2) == returned("rejected")

    assert [(row[0], row[3]) for row in lab.ledger().rejections] == [(rejection, 2), (rejections[1][0], 1)]
    assert lab.ledger().decisions == decisions


@pytest.mark.criterion("review.unknown_failure_not_acknowledged")
def test_unknown_failure_not_acknowledged(lab: Lab) -> None:
    """A failure nobody can name is raised, not acknowledged and not recorded; the redelivery applies the event."""
    failures = ("InterruptedTransaction", "KeyError", "ValueError", "sqlite3.OperationalError")
    worker = lab.worker()
    for number, name in enumerate(failures):
        lab.send(lab.event())
        now = 10 * number

        reply = worker.deliver(now, effect=lab.fails(lab.error(name, "trouble"), times=1, after_writing=True))

        assert reply == raised(name)
        assert reply.same_error
        assert [call.name for call in reply.calls] == ["effect"]
        assert lab.queue()[-1] == ("in flight", 1)
        assert lab.ledger().counts == (number, number, 0)

        assert worker.deliver(now + 5) == returned("applied")
        assert lab.queue()[-1] == ("settled", 2)
        assert lab.ledger().counts == (number + 1, number + 1, 0)


@pytest.mark.criterion("review.exhausted_is_parked")
def test_exhausted_is_parked(lab: Lab) -> None:
    """A message whose every attempt times out is parked once: three calls, nothing applied, recorded, acknowledged."""
    event = lab.event()
    lab.send(event)
    slow = lab.fails(lab.error("TimeoutError", "slow"), times=9, after_writing=True)

    reply = lab.worker().deliver(now=0, effect=slow)

    assert reply == returned("rejected")
    assert [call.name for call in reply.calls] == ["effect", "effect", "effect", "acknowledge"]
    state = lab.ledger()
    assert state.counts == (0, 0, 1)
    assert state.totals == {}
    assert [(content(row[1]), row[3]) for row in state.rejections] == [(event, 1)]
    assert lab.queue() == [("settled", 1)]


@pytest.mark.criterion("review.lost_lease_passes_on")
def test_lost_lease_passes_on(lab: Lab) -> None:
    """A lease that ends before the acknowledgement is a lost delivery, not a bad message: the next is a duplicate."""
    event = lab.event()
    lab.send(event)
    worker = lab.worker()

    assert worker.deliver(now=0, handled_at=5) == raised("DeliveryLost")
    assert lab.ledger().counts == (1, 1, 0)
    assert lab.queue() == [("in flight", 1)]

    assert worker.deliver(now=6) == returned("duplicate")
    assert lab.ledger().counts == (1, 1, 0)
    assert lab.ledger().totals == {event["tenant"]: event["amount_cents"]}
    assert lab.queue() == [("settled", 2)]


@pytest.mark.criterion("review.malformed_bodies_recorded")
def test_malformed_bodies_recorded(lab: Lab) -> None:
    """A body that is no event at all is recorded as it came and acknowledged, so that it cannot come back for ever."""
    bodies = [{}, [], None, 7, 1.5, True, "not an event", {"tenant": "north"}, [lab.event()], {"event_id": {"a": [1]}}]
    for body in bodies:
        lab.send(body)
    worker = lab.worker()

    for now, _body in enumerate(bodies):
        assert worker.deliver(now) == returned("rejected")

    assert lab.queue() == [("settled", 1)] * len(bodies)
    assert [content(row[1]) for row in lab.ledger().rejections] == bodies
    assert lab.ledger().counts == (0, 0, len(bodies))
