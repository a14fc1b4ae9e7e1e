"""Runs the student's own tests inside a worker and keeps the outcome of each. Standard library only.

Kept apart from `worker`, because unittest is large and every fork would carry it.
"""

from __future__ import annotations

import unittest
from types import ModuleType
from typing import Any

TESTS_MAX = 60


def run(module: ModuleType, result: Outcomes) -> None:
    """Run all tests of a module."""
    unittest.defaultTestLoader.loadTestsFromModule(module).run(result)


class Outcomes(unittest.TestResult):
    """The outcome of each test by its method's name: passed, skipped or failed; failed wins."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}

    def _note(self, test: Any, outcome: str) -> None:
        name = str(getattr(getattr(test, "test_case", test), "_testMethodName", "set-up"))[:60]
        if len(self.outcomes) < TESTS_MAX and self.outcomes.get(name) != "failed":
            self.outcomes[name] = outcome

    def addSuccess(self, test: Any) -> None:  # noqa: N802  (unittest's own names)
        self._note(test, "passed")

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._note(test, "skipped")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note(test, "failed")

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note(test, "failed")

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self._note(test, "failed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._note(test, "failed")
