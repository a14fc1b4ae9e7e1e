"""One submission in, one report.json out: a handle on a warm judge process.

A judge is a process of its own, started with nothing of ours in its environment; it lives for many submissions. Use it
from the thread that made it: the sandbox's life hangs on that of its parents.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grader import sandbox

HERE = Path(__file__).resolve().parent
START_S = 60.0
ANSWER_S = 90.0
END_S = 2.0
"""How long a judge may take to end by itself. Seconds."""


class Outcome(StrEnum):
    """What became of a submission."""

    GRADED = "graded"
    NEEDS_ATTENTION = "needs_attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a submission was run. `wall_s` in seconds; `reason` says what a person must look at."""

    kind: Outcome
    reason: str | None
    wall_s: float
    isolation: str
    python: str


class NotStarted(sandbox.Unavailable):
    """A judge was ended, or said nothing, while it started: another start may do better."""


class Judge:
    """A warm judge. `practice`: without a sandbox, on one's own code only; such a run is never a grade."""

    def __init__(self, *, include_hidden: bool, practice: bool = False) -> None:
        self._folders = ["visible", "hidden"] if include_hidden else ["visible"]
        self._practice = practice
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The judge's process, once it has been started."""
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """End the judge and whatever it runs."""
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            try:
                self._process.stdin.close()  # an idle judge ends by itself and tidies up
                self._process.wait(END_S)
            except (OSError, subprocess.TimeoutExpired):
                pass
            try:
                os.killpg(
                    self._process.pid, signal.SIGKILL
                )  # the forks that judge are in its group; sandboxes die with them
            except ProcessLookupError:
                pass
            self._process.wait()
            try:
                self._process.stdin.close()
            except OSError:
                pass
            self._process.stdout.close()
            self._process = None

    def grade(self, files: dict[str, bytes], out: Path, *, key: str, seed: int) -> Run:
        """Judge the workspace `files` (path -> bytes) and leave `report.json` in the folder `out`."""
        process = self._process or self._start()
        assert process.stdin is not None
        descriptor, name = tempfile.mkstemp(dir=out, prefix=".report-")
        os.close(descriptor)
        job = {
            "files": {path: base64.b64encode(data).decode() for path, data in files.items()},
            "seed": seed,
            "report": name,
            "key": key,
        }
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            answer = self._answer(ANSWER_S)
        except OSError:
            answer = None
        if answer is None:
            self.close()
            answer = {"kind": "needs_attention", "reason": "the judge ended or fell silent", "wall_s": 0.0}
        kind = Outcome(answer["kind"])
        if kind is Outcome.GRADED and os.path.getsize(name):
            with open(name, "rb") as report:
                os.fsync(report.fileno())
            os.replace(name, out / "report.json")
        else:
            os.unlink(name)
            if kind is Outcome.GRADED:
                kind, answer["reason"] = Outcome.NEEDS_ATTENTION, "no report could be written: is the disk full?"
        return Run(
            kind=kind, reason=answer["reason"], wall_s=float(answer["wall_s"]),
            isolation="practice" if self._practice else "full", python="{}.{}.{}".format(*sys.version_info[:3]),
        )  # fmt: skip

    def _start(self) -> subprocess.Popen[bytes]:
        # Isolated as by -I, which would ignore the hash seed too: with it equal runs leave equal reports.
        line = [
            sys.executable,
            "-s",
            "-P",
            str(HERE / "judge.py"),
            "practice" if self._practice else "full",
            "" if self._practice else sandbox.bubblewrap(),  # found by the caller's PATH, which the judge does not get
            *self._folders,
        ]
        self._process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},
        )
        answer = self._answer(START_S)
        if answer is None or answer["kind"] != "ready":
            self.close()
            raise sandbox.Unavailable(answer["reason"]) if answer else NotStarted("the judge did not start")
        return self._process

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        assert self._process is not None and self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line.endswith(b"\n") else None
        return answer if isinstance(answer, dict) else None
