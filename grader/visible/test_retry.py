"""Retries: three attempts in all, and only for a failure that may be gone next time."""

import pytest

from grader.lab import Lab, raised, returned


@pytest.mark.criterion("retry.three_attempts_then_exhausted")
def test_three_attempts_then_exhausted(lab: Lab) -> None:
    """Three timeouts are three calls, then RetriesExhausted with attempts 3, caused by the last timeout."""
    timeouts = [lab.error("TimeoutError", f"timeout {number}") for number in (1, 2, 3)]

    reply = lab.worker().retry([*timeouts, "a fourth attempt was made"])

    assert [call.name for call in reply.calls] == ["operation"] * 3
    assert reply == raised("RetriesExhausted")
    assert reply.attempts == 3
    assert reply.cause_is_last, "the exhausted error's cause is not the last timeout"


@pytest.mark.criterion("retry.success_is_returned")
def test_success_is_returned(lab: Lab) -> None:
    """Success on the first, second or third call is returned, and no further call is made."""
    worker = lab.worker()
    for timeouts in (0, 1, 2):
        result = f"result {lab.random.randrange(10**6)}"

        reply = worker.retry([lab.error("TimeoutError", "slow")] * timeouts + [result])

        assert reply == returned(result)
        assert len(reply.calls) == timeouts + 1


@pytest.mark.criterion("retry.invalid_event_not_retried")
def test_invalid_event_not_retried(lab: Lab) -> None:
    """An invalid event stays invalid: one call, and the very same error comes out."""
    reply = lab.worker().retry([lab.error("InvalidEvent", "amount_cents"), "a second attempt was made"])

    assert len(reply.calls) == 1
    assert reply == raised("InvalidEvent")
    assert reply.same_error, "the error that came out is not the one that was raised"


@pytest.mark.criterion("retry.each_attempt_own_transaction")
def test_each_attempt_own_transaction(lab: Lab) -> None:
    """An effect that times out twice after writing and then succeeds is applied once: attempts share nothing."""
    event = lab.event()
    lab.send(event)
    slow = lab.fails(lab.error("TimeoutError", "slow"), times=2, after_writing=True)

    reply = lab.worker().deliver(now=0, effect=slow)

    assert reply == returned("applied")
    assert [call.name for call in reply.calls].count("effect") == 3
    assert lab.ledger().counts == (1, 1, 0)
    assert lab.ledger().totals == {event["tenant"]: event["amount_cents"]}
