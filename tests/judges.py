"""Judges for the tests of the batch: real ones that are killed at their work, and ones that never come up."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grader.runner import ANSWER_S, Judge, Run
from grader.sandbox import Unavailable

PLAN = "kills.json"
"""In the run folder: for each key who is to be killed, one name a run: `judge` (pytest) or `slot` (our own process)."""


class Killed(Judge):
    """A real judge. While it judges a submission that the plan names, it is killed with SIGKILL."""

    _victim = ""

    def grade(self, files: dict[str, bytes], out: Path, *, key: str, seed: int) -> Run:
        """Take the next kill for this key off the plan, then judge."""
        plan = out.parent.parent / PLAN
        kills = json.loads(plan.read_bytes())
        self._victim = kills[key].pop(0) if kills.get(key) else ""
        plan.write_text(json.dumps(kills), encoding="utf-8")
        return super().grade(files, out, key=key, seed=seed)

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """Called when the job has been handed over."""
        if self._victim and seconds == ANSWER_S:
            os.kill(self.pid if self._victim == "judge" else os.getpid(), signal.SIGKILL)
            self._victim = ""
        return super()._answer(seconds)


class NoSandbox:
    """A judge on a machine without a sandbox."""

    def __init__(self, *, include_hidden: bool, practice: bool) -> None:
        assert include_hidden
        assert not practice

    def __enter__(self) -> Self:
        raise Unavailable("bubblewrap is not installed: install it and start again")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""


class Broken(NoSandbox):
    """A judge that breaks whenever it starts."""

    def __enter__(self) -> Self:
        raise RuntimeError("no module named judge")
