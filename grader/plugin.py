"""The pytest plugin of the trusted side: markers, the `lab` fixture, and what a test leaves in the report.

Only this package's own tests are collected. Each test's metadata carries the criterion, the cause and facts that are
safe to show; pytest-json-report writes them beside the outcome.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grader import sandbox
from grader.child import Kind
from grader.lab import Lab, unavailable
from grader.observation import state_words
from grader.session import Session

_LAB = pytest.StashKey[Lab]()
_LAST = "hidden/test_owntests"
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_ENDED = {
    Kind.DEADLINE: "deadline",
    Kind.DIED: "worker_died",
    Kind.FLOOD: "flood",
    Kind.VIOLATION: "protocol_violation",
}


class Judging:
    """One process's plugin; `submission` is set in the fork that grades it."""

    def __init__(self, loop: Callable[[pytest.Session], bool | None]) -> None:
        self.session: Session | None = None
        self.seed = 0
        self._loop = loop
        self._faults: dict[str, str] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        """Declare the markers."""
        config.addinivalue_line("markers", "criterion(id): the criterion that this test judges")
        config.addinivalue_line("markers", "control: this test must fail in every run")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The control test first, so that no submission can use up its time before it; the student's own tests last.

        They need modules that every later fork would have to carry.
        """
        items.sort(key=lambda item: (item.get_closest_marker("control") is None, item.nodeid.startswith(_LAST)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Serve submissions, a fork each; None in a fork lets pytest's own loop run the tests."""
        return self._loop(session)

    @pytest.fixture
    def lab(self, request: pytest.FixtureRequest) -> Iterator[Lab]:
        """The submission, as this test drives it."""
        assert self.session is not None
        name = request.node.nodeid
        lab = Lab(session=self.session, random=random.Random(f"{self.seed} {name}"), shown=name.startswith("visible/"))
        request.node.stash[_LAB] = lab
        yield lab
        try:
            self.session.end_workers()
        except sandbox.Unavailable:
            self.session.close()

    @pytest.hookimpl
    def pytest_json_modifyreport(self, json_report: dict[str, Any]) -> None:
        """Equal runs leave equal reports: times and addresses are taken out, and stand in run.json alone or nowhere."""
        json_report["created"] = json_report["duration"] = 0
        for test in json_report["tests"]:
            for stage in (test[when] for when in ("setup", "call", "teardown") if when in test):
                stage["duration"] = 0
                stage |= {key: _ADDRESS.sub("0x", stage[key]) for key in ("longrepr",) if key in stage}
                if "crash" in stage:
                    stage["crash"]["message"] = _ADDRESS.sub("0x", stage["crash"]["message"])

    @pytest.hookimpl
    def pytest_json_runtest_metadata(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> dict[str, Any]:
        """Criterion, cause and facts of a test, for the report."""
        mark = item.get_closest_marker("criterion")
        criterion = mark.args[0] if mark else None
        if call.when != "call":
            return (
                {"criterion": criterion, "cause": "grader_fault", "seen": [], "steps": [], "counts": {}}
                if call.excinfo
                else {}
            )
        lab = item.stash.get(_LAB, None)
        if lab is None:
            return {
                "criterion": criterion,
                "cause": "grader_fault" if call.excinfo else None,
                "seen": [],
                "steps": [],
                "counts": {},
            }
        facts: dict[str, Any] = {
            "criterion": criterion,
            "cause": None,
            "seen": [],
            "steps": lab.steps,
            "counts": lab.counts,
        }
        if call.excinfo is not None:
            facts |= _trouble(lab, call.excinfo.value)
        if lab.history is not None:
            facts["history"] = lab.history
        return facts


def _trouble(lab: Lab, error: BaseException) -> dict[str, Any]:
    if isinstance(error, pytest.skip.Exception):
        return {"cause": lab.cause, "seen": lab.seen}
    if isinstance(error, sandbox.Unavailable):
        return {"cause": "grader_fault", "seen": [unavailable(error)]}
    if not isinstance(error, AssertionError):
        return {
            "cause": "grader_fault",
            "seen": ["The grader's own test broke off; this says nothing about the submission."],
        }
    if lab.cause is not None:
        return {"cause": lab.cause, "seen": lab.seen}
    seen = []
    cause = "wrong_answer"
    reply = lab.last
    if reply is not None:
        expected = reply.missed[-1] if reply.missed else None
        seen.append(
            f"{reply.function} {reply.words(shown=lab.shown)}"
            + (f"; expected: {expected.words(shown=lab.shown)}." if expected else ".")
        )
        if reply.kind is Kind.RAISED and expected is not None:
            cause = "exception"
        cause = _ENDED.get(reply.kind, cause)
    if lab.state is not None:
        seen.append(f"When last looked at, the ledger held {state_words(lab.state, shown=lab.shown)}.")
    message = str(error).splitlines()[:1]
    if message and not message[0].startswith("assert "):
        seen.append(message[0][:1].upper() + message[0][1:] + ".")
    return {"cause": cause, "seen": seen}
