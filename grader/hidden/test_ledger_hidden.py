"""The ledger, hidden half: restarts, bad input, open transactions, and errors that keep their identity."""
# staff only: heron-quartz

import math

import pytest

from grader.lab import Effect, Lab, raised, returned

WRITTEN_FAILURES = ("InterruptedTransaction", "KeyError", "TimeoutError")
"""Errors an effect raises after it has written."""


@pytest.mark.criterion("ledger.repeat_in_new_process")
def test_repeat_in_new_process(lab: Lab) -> None:
    """A repeat in a new interpreter is a duplicate: nothing may live in memory or hang on its hash seed."""
    event = lab.event() | {"currency": "EUR", "memo": "invoice"}
    assert lab.worker().apply(event) == returned("applied")
    applied = lab.ledger()

    for _restart in range(2):
        assert lab.worker(new_process=True).apply(event) == returned("duplicate")
        assert lab.ledger() == applied

    assert applied.counts == (1, 1, 0)


@pytest.mark.criterion("ledger.bad_events_refused")
def test_bad_events_refused(lab: Lab) -> None:
    """Whatever is not a proper event is an InvalidEvent: no effect, nothing written, no transaction left open."""
    event = lab.event()
    bad_amounts: list[object] = [0, -1, True, False, 30000.0, "30000", None, math.nan, 10**12 + 1, 10**18, 10**30]
    bad_amounts += [[30000], {"cents": 30000}]
    bad_names = ("", "   ", None, 7, True, ["A"])
    bad: list[object] = [event | {"amount_cents": amount} for amount in bad_amounts]
    bad += [lab.draft_event(amount_cents=amount) for amount in (0, None)]
    bad += [event | {field: name} for field in ("tenant", "event_id") for name in bad_names]
    bad += [lab.draft_event(draft=name) for name in bad_names]
    bad += [{name: event[name] for name in event if name != field} for field in event]
    bad += [{}, [], [event], None, 7, "A", True]
    worker = lab.worker()

    for faulty in bad:
        reply = worker.apply(faulty)
        assert reply == raised("InvalidEvent")
        assert reply.calls == (), "the effect was called for an invalid event"
    assert lab.ledger().counts == (0, 0, 0)
    assert worker.begin_immediate() == returned("ok")

    # The limits themselves are good amounts, so refusing everything is no answer.
    for cents in (1, 10**12):
        assert worker.apply(lab.event(amount_cents=cents)) == returned("applied")
    # A bad amount under a known id is invalid, not a conflict: validation comes first.
    assert worker.apply(event) == returned("applied")
    assert worker.apply(event | {"amount_cents": 0}) == raised("InvalidEvent")
    assert lab.ledger().counts == (3, 3, 0)


@pytest.mark.criterion("ledger.leaves_no_transaction")
def test_leaves_no_transaction(lab: Lab) -> None:
    """After a conflict, a failure or an invalid event nothing is half done and another connection can write at once."""
    event = lab.event()
    worker = lab.worker()
    assert worker.apply(event) == returned("applied")
    applied = lab.ledger()

    troubles: list[tuple[str, dict[str, object], Effect | None]] = [
        ("OperationConflict", event | {"amount_cents": event["amount_cents"] + 1}, None),
        ("InvalidEvent", lab.event(amount_cents=-5_000), None),
    ]
    for name in WRITTEN_FAILURES:
        troubles.append((name, lab.event(), lab.fails(lab.error(name, "trouble"), times=1, after_writing=True)))
    for name, troubled, effect in troubles:
        assert worker.apply(troubled, effect=effect) == raised(name)
        assert worker.begin_immediate() == returned("ok")
        assert lab.ledger() == applied

    # A duplicate ends cleanly too, and the same connection goes on working.
    assert worker.apply(event) == returned("duplicate")
    assert worker.begin_immediate() == returned("ok")
    assert worker.apply(lab.event()) == returned("applied")
    assert worker.begin_immediate() == returned("ok")


@pytest.mark.criterion("ledger.error_passes_unchanged")
def test_error_passes_unchanged(lab: Lab) -> None:
    """The effect's own error object comes out, whatever it is: a timeout stays that timeout."""
    worker = lab.worker()
    for name in ("TimeoutError", "sub:TimeoutError", "KeyError", "InterruptedTransaction", "sqlite3.OperationalError"):
        effect = lab.fails(lab.error(name, "from the effect"), times=1, after_writing=True)

        reply = worker.apply(lab.event(), effect=effect)

        assert reply.kind == "raised"
        assert reply.same_error, "the error that came out is not the one the effect raised"


@pytest.mark.criterion("ledger.effect_once_in_transaction")
def test_effect_once_in_transaction(lab: Lab) -> None:
    """The effect is called once for a new event, inside the write transaction, and never for a repeat or a conflict."""
    event = lab.event()
    worker = lab.worker()

    calls = worker.apply(event).calls
    assert [call.name for call in calls] == ["effect"]
    assert calls[0].write_locked, "another connection could write while the effect ran: no transaction was open"
    assert calls[0].committed == (0, 0, 0), "something was committed before the effect ran"

    assert worker.apply(event).calls == ()
    assert worker.apply(event | {"amount_cents": event["amount_cents"] + 1}).calls == ()
