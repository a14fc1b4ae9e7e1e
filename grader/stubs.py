"""Why student code could not be called: a stub that is not written, a file that is missing or does not import."""

from __future__ import annotations

from grader.child import Answer, Kind

_STUBS = tuple(
    f"{name}:"
    for name in (
        "conflict.operation_key",
        "conflict.fingerprint",
        "conflict.check_replay",
        "ledger.validate",
        "ledger.apply_event",
        "retry.classify",
        "retry.bounded_retry",
        "review.record_rejection",
        "review.decide",
        "review.handle_delivery",
    )
)
_FILES = tuple(dict.fromkeys(stub.partition(".")[0] for stub in _STUBS))


def import_trouble(module: str, answer: Answer, *, secret: bool) -> tuple[str, str]:
    """Cause and sentence. `secret`: a hidden input may stand in the error's name, line or module, so none is shown."""
    file = f"student/{module}.py"
    if answer.kind is Kind.UNIMPORTABLE:
        absent = next((name for name in _FILES if answer.missing == f"student.{name}"), None)
        if absent is not None:
            return "not_submitted", f"student/{absent}.py was not handed in."
        if answer.file in _FILES:  # where the error is, which need not be the file that was asked for
            file = f"student/{answer.file}.py"
        if secret:
            return "does_not_import", f"{file} could not be imported any more in the middle of a check."
        name = next((name for name in answer.mro if name != "object"), "an error")
        where = f" in line {answer.line}" if answer.line is not None else ""
        lacking = f" (no module {answer.missing})" if answer.missing else ""
        return "does_not_import", f"{file} could not be imported: {name}{where}{lacking}."
    ended = {
        Kind.DEADLINE: "did not come to an end in time",
        Kind.DIED: "ended the whole process",
        Kind.FLOOD: "printed without end",
        Kind.VIOLATION: "wrote into the grader's own channel",
    }
    return "does_not_import", f"Importing {file} {ended.get(answer.kind, 'failed')}."


def unwritten(answer: Answer) -> str | None:
    """The sentence for a call that met a stub as it was handed out; None for any other answer."""
    if answer.kind is not Kind.RAISED or answer.error != "NotImplementedError":
        return None
    stub = next((stub for stub in _STUBS if answer.text.startswith(stub)), None)
    if stub is None:
        return None
    module, name = stub.rstrip(":").split(".")
    return f"{name} in student/{module}.py is not written yet."
