"""Retries, hidden half: which errors are which, what counts as a result, and what must never happen."""
# staff only: heron-quartz

import pytest

from grader.lab import Lab, raised, returned


@pytest.mark.criterion("retry.other_errors_not_retried")
def test_other_errors_not_retried(lab: Lab) -> None:
    """Only a timeout is tried again: any other error comes out at once, as the very same object."""
    worker = lab.worker()
    others = (
        ("PermissionError", "no entry"),
        ("OperationConflict", "other content"),
        ("InterruptedTransaction", "stopped"),
        ("KeyError", "tenant"),
        ("OSError", "disk"),
        ("ConnectionResetError", "peer"),
        ("sqlite3.OperationalError", "database is locked"),
        ("RuntimeError", "timeout"),
        ("ValueError", "timed out"),
    )
    for name, text in others:
        reply = worker.retry([lab.error(name, text), "a second attempt was made"])
        assert len(reply.calls) == 1
        assert reply == raised(name)
        assert reply.same_error

    mixed = worker.retry([lab.error("TimeoutError", "slow"), lab.error("InvalidEvent", "amount_cents"), "third"])
    assert len(mixed.calls) == 2
    assert mixed == raised("InvalidEvent")
    assert mixed.same_error


CLASSES = {
    "transient": (("TimeoutError", "slow"), ("TimeoutError", "permission denied"), ("sub:TimeoutError", "slower")),
    "terminal": (
        ("InvalidEvent", "amount_cents"),
        ("OperationConflict", "other content"),
        ("PermissionError", "no entry"),
        ("PermissionError", "timed out"),
        ("RetriesExhausted", "3"),
    ),
    "unknown": (
        ("InterruptedTransaction", "stopped"),
        ("DeliveryLost", "late"),
        ("NotAvailable", "nothing to do"),
        ("ValueError", "invalid_event"),
        ("KeyError", "tenant"),
        ("OSError", "timeout"),
        ("ConnectionResetError", "peer"),
        ("sqlite3.OperationalError", "database is locked"),
        ("RuntimeError", "timed out"),
    ),
}


@pytest.mark.criterion("retry.classify_table")
def test_classify_table(lab: Lab) -> None:
    """An error is transient, terminal or unknown by its class alone, and unknown is an answer of its own."""
    worker = lab.worker()
    for expected, errors in CLASSES.items():
        for name, text in errors:
            assert worker.call("retry.classify", lab.error(name, text)) == returned(expected)


@pytest.mark.criterion("retry.never_sleeps")
def test_never_sleeps(lab: Lab) -> None:
    """Retrying never waits: time in this lab is counted in ticks, by others."""
    worker = lab.worker()
    timeout = lab.error("TimeoutError", "slow")
    for answers in ([timeout, timeout, "done"], [timeout]):
        reply = worker.retry(answers)
        assert reply.kind in ("returned", "raised")
        assert [call.name for call in reply.calls] == ["operation"] * 3


@pytest.mark.criterion("retry.interrupts_pass")
def test_interrupts_pass(lab: Lab) -> None:
    """Somebody who wants the program to stop is obeyed at once: interrupts are neither retried nor kept."""
    worker = lab.worker()
    for name in ("KeyboardInterrupt", "SystemExit"):
        reply = worker.retry([lab.error(name, "stop"), "a second attempt was made"])
        assert len(reply.calls) == 1
        assert reply == raised(name)
        assert reply.same_error


@pytest.mark.criterion("retry.max_attempts_counts_calls")
def test_max_attempts_counts_calls(lab: Lab) -> None:
    """max_attempts is the number of calls in all, the first one included."""
    worker = lab.worker()
    timeout = lab.error("TimeoutError", "slow")
    for attempts in (1, 2, 5):
        reply = worker.retry([timeout], max_attempts=attempts)
        assert len(reply.calls) == attempts
        assert reply == raised("RetriesExhausted")
        assert reply.attempts == attempts

        last_try = worker.retry([timeout] * (attempts - 1) + ["done"], max_attempts=attempts)
        assert last_try == returned("done")


@pytest.mark.criterion("retry.falsy_results_are_results")
def test_falsy_results_are_results(lab: Lab) -> None:
    """None, 0, the empty text and False are results like any other: returned after one call."""
    worker = lab.worker()
    for result in (None, 0, "", False):
        reply = worker.retry([result, "a second attempt was made"])
        assert reply == returned(result)
        assert len(reply.calls) == 1


@pytest.mark.criterion("retry.nested_retry_three_calls")
def test_nested_retry_three_calls(lab: Lab) -> None:
    """A retry inside a retry still makes three calls: exhausted retries are terminal for the outer one."""
    reply = lab.worker().retry([lab.nested([lab.error("TimeoutError", "slow")])])

    assert len([call for call in reply.calls if not call.detail.get("nested")]) == 3
    assert reply == raised("RetriesExhausted")
    assert reply.attempts == 3
