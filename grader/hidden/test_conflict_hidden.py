"""Conflicts, hidden half: what belongs to the content of an event, and what to its key."""
# staff only: heron-quartz

import pytest

from grader.lab import Lab, raised, returned


@pytest.mark.criterion("conflict.key_order_is_no_conflict")
def test_key_order_is_no_conflict(lab: Lab) -> None:
    """The same fields in another order are the same event: a duplicate, not a conflict."""
    event = lab.event() | {"currency": "EUR", "memo": "invoice"}
    fields = list(event.items())
    worker = lab.worker()
    assert worker.apply(event) == returned("applied")

    for reordered in (fields[::-1], fields[2:] + fields[:2], sorted(fields)):
        assert worker.apply(dict(reordered)) == returned("duplicate")
    assert lab.ledger().counts == (1, 1, 0)


@pytest.mark.criterion("conflict.any_field_counts")
def test_any_field_counts(lab: Lab) -> None:
    """Every business field counts: one that differs, is missing or is new makes a conflict, for drafts as well."""
    event = lab.event() | {"currency": "EUR", "memo": "invoice"}
    worker = lab.worker()
    assert worker.apply(event) == returned("applied")
    others = [
        event | {"currency": "USD"},
        event | {"memo": "Invoice"},
        {name: event[name] for name in event if name != "memo"},
        event | {"due": "2030-01-01"},
        event | {"currency": event["memo"], "memo": event["currency"]},
    ]
    for other in others:
        assert worker.apply(other) == raised("OperationConflict")
    assert worker.apply(event) == returned("duplicate")

    draft = lab.draft_event(text="draft v1")
    changed = {name: "different draft" if value == "draft v1" else value for name, value in draft.items()}
    assert worker.apply(draft, effect=lab.store_draft()) == returned("applied")
    assert worker.apply(changed, effect=lab.store_draft()) == raised("OperationConflict")
    assert lab.ledger().counts == (2, 2, 0)


@pytest.mark.criterion("conflict.keys_do_not_run_together")
def test_keys_do_not_run_together(lab: Lab) -> None:
    """Tenant and event id are two things: no separator inside one of them makes two events into one."""
    worker = lab.worker()
    amount = lab.amount()
    applied = 0
    for separator in ("", ":", "/", "|", "-", "_", ".", ",", " ", "\t", "::"):
        # Names of their own for each separator, so that only the separator can make keys meet.
        left, middle, right = (f"{letter}{applied}" for letter in "xyz")
        keys = [
            (left, f"{middle}{separator}{right}"),
            (f"{left}{separator}{middle}", right),
            (left, right),
            (f"{left}{separator}{middle}", f"{middle}{separator}{right}"),
        ]
        events = [lab.event(tenant=tenant, event_id=name, amount_cents=amount) for tenant, name in keys]
        for event in events:
            assert worker.apply(event) == returned("applied")
        applied += len(events)
        keys_seen = [worker.call("conflict.operation_key", event) for event in events[:2]]
        assert [reply.kind for reply in keys_seen] == ["returned", "returned"]
        assert keys_seen[0].value != keys_seen[1].value

    # Names that only look alike are other names.
    alike = [("p", "q"), ("P", "q"), ("p", "Q"), (" p", "q"), ("p ", "q"), ("p", " q"), ("p", "q ")]
    alike += [("p", "01"), ("p", "1")]
    for tenant, name in alike:
        assert worker.apply(lab.event(tenant=tenant, event_id=name, amount_cents=amount)) == returned("applied")
    applied += len(alike)
    assert lab.ledger().counts == (applied, applied, 0)
