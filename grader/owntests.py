"""The student's own tests, graded by what they notice: right on correct code, and failing on known mistakes.

They run in the sandbox over code of ours. Of a run only the outcome of each test comes back, so that a test tells its
writer nothing about the code it ran on.
"""

from __future__ import annotations

import base64
import builtins
import marshal
import random
import re
from dataclasses import dataclass, field

from grader import catalogue, wire
from grader.child import Kind
from grader.lab import Lab

_CHAFFS = {
    "test_conflict": ("m11", "m12", "m26", "m27"),
    "test_three_timeouts": ("m29", "m30", "m35", "m36"),
}
"""The template's two tests, and the known mistakes that each should notice."""
_MODULES = ("conflict", "ledger", "retry", "review")
_FILE = "student/tests/test_mine.py"
_LINES_MAX = 5_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}\Z")
_ENDED = {
    Kind.DEADLINE: ("deadline", "did not come to an end in time"),
    Kind.DIED: ("worker_died", "ended the whole process"),
    Kind.FLOOD: ("flood", "printed without end"),
    Kind.VIOLATION: ("protocol_violation", "wrote into the grader's own channel"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One piece of code that the tests run on: `mistake` is "" for correct code; `modules` as the worker takes them."""

    id: str
    mistake: str
    modules: dict[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The tests' outcomes (passed, failed, skipped) on one piece of code; `kind` says how the run ended."""

    code: Code
    kind: Kind
    outcomes: dict[str, str] = field(default_factory=dict)
    trouble: str = ""


def _codes() -> tuple[Code, ...]:
    reference = catalogue.reference()
    wanted = {name for names in _CHAFFS.values() for name in names}
    pieces = [("reference", "", reference)]
    pieces += [(e.id, "", catalogue.written(e, reference)) for e in catalogue.load(catalogue.VARIANTS) if e.wheat]
    pieces += [
        (e.id, e.idea, catalogue.written(e, reference)) for e in catalogue.load(catalogue.MISTAKES) if e.id in wanted
    ]
    return tuple(
        Code(id=name, mistake=idea, modules={module: _compiled(files[f"{module}.py"]) for module in _MODULES})
        for name, idea, files in pieces
    )


def _compiled(source: bytes) -> list[str]:
    text = base64.b64encode(marshal.dumps(compile(source, "/given.py", "exec", dont_inherit=True))).decode()
    return [text[at : at + wire.TEXT_CHARS_MAX] for at in range(0, len(text), wire.TEXT_CHARS_MAX)]


CODES = _codes()
"""Made once, before any fork that judges."""


def judge(lab: Lab, test: str) -> None:
    """Judge the tests by the mistakes meant for the template's `test`; ends the lab's test unless all are noticed."""
    if not lab.session.own_tests:
        order = random.Random(lab.random.random()).sample(CODES, len(CODES))
        lab.session.own_tests = [_run(lab, code) for code in order]
    runs: list[Ran] = lab.session.own_tests
    right = [ran for ran in runs if not ran.code.mistake]
    reference = next(ran for ran in right if ran.code.id == "reference")
    if reference.kind is Kind.UNIMPORTABLE:
        lab.unexecuted("does_not_import", reference.trouble)
    if reference.kind is not Kind.RETURNED:
        cause, words = _ENDED[reference.kind]
        lab.not_met(cause, f"On correct code your tests were stopped: the run {words}.")
    written = {name for name, outcome in reference.outcomes.items() if outcome != "skipped"}
    sound = {name for name in written if all(ran.outcomes.get(name) == "passed" for ran in right)}
    demanding = sorted(name for name in written - sound if _NAME.match(name))
    meant = sorted((ran for ran in runs if ran.code.id in _CHAFFS[test]), key=lambda ran: ran.code.id)
    missed = [ran.code.mistake for ran in meant if not _notices(ran, sound)]
    lab.counts = {
        "tests": len(written), "tests_right_on_correct_code": len(sound), "correct_variants": len(right),
        "ideas": len(meant), "ideas_noticed": len(meant) - len(missed),
    }  # fmt: skip
    if len(missed) == len(meant) and not demanding and (not written or reference.outcomes.get(test) == "skipped"):
        lab.unexecuted("stub_not_written", f"{test} in {_FILE} is not written yet.")
    if missed:
        words = "fails on correct code: it demands more than the task, and was left out."
        overlooked = (f"Your tests do not notice this mistake: {idea}" for idea in missed)
        lab.not_met("wrong_answer", *(f"{name} {words}" for name in _shown(demanding)), *overlooked)


def _shown(names: list[str]) -> list[str]:
    """Names for the report: a test can be named, while it runs, after the code of ours that it runs on."""
    known = [name for name in names if name in _CHAFFS]
    return known + ["Another of your tests"] * (len(known) < len(names))


def _notices(ran: Ran, sound: set[str]) -> bool:
    if ran.kind is not Kind.RETURNED:
        return bool(sound)
    return any(ran.outcomes.get(name, "failed") == "failed" for name in sound)


def _run(lab: Lab, code: Code) -> Ran:
    lab.folder = None
    process = lab.spawn(tests=True)
    answer = process.call("own_tests", {"modules": code.modules}, lambda name, detail: {}, "the student's own tests")
    process.end()
    if answer.kind is Kind.UNIMPORTABLE:
        # Line and class are the test file's own words, said in sight of code of ours: only the usual ones pass.
        where = f" in line {answer.line}" if answer.line is not None and 0 < answer.line <= _LINES_MAX else ""
        name = next((name for name in answer.mro if type(getattr(builtins, name, None)) is type), "an error")
        return Ran(code=code, kind=answer.kind, trouble=f"{_FILE} could not be imported: {name}{where}.")
    if answer.kind is not Kind.RETURNED:
        # Raised out of unittest itself, as by SystemExit: the process would have ended with it.
        return Ran(code=code, kind=Kind.DIED if answer.kind is Kind.RAISED else answer.kind)
    pairs = answer.value if type(answer.value) is list else []
    outcomes = {pair[0]: pair[1] for pair in pairs if type(pair) is list and list(map(type, pair)) == [str, str]}
    return Ran(code=code, kind=Kind.RETURNED, outcomes=outcomes)
