"""The trusted process that judges: one warm pytest over this package's own tests, and a fork for each submission.

Started by `runner`, alone with its own configuration: no path of a submission is ever on its path, plugins are named,
nothing is read from the environment. Jobs come in as lines of JSON, one answer a job goes out.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import gc
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import pytest  # noqa: E402  (the checkout is on the path only from here on)

from grader import probe, sandbox  # noqa: E402
from grader.plugin import Judging  # noqa: E402
from grader.session import Session  # noqa: E402

SUBMISSION_S = 60.0
"""Wall time in seconds after which a fork that judges is given up: far past the budget of any submission."""


class Server:
    """Reads jobs and forks for each; in the fork pytest's own loop goes on."""

    def __init__(self, *, practice: bool, bwrap: str) -> None:
        self.practice = practice
        self.stage = None if practice else sandbox.Stage(bwrap)
        if self.stage is not None:
            probe.prove(self.stage)
        self.plugin = Judging(self.loop)
        self.forked = False

    def loop(self, session: pytest.Session) -> bool | None:
        """pytest's hook: serve until the input ends. Returns None in a fork."""
        if session.testsfailed or not session.items:
            _say({"kind": "broken", "reason": "the grader's own tests could not be collected"})
            return True
        gc.collect()
        gc.freeze()
        _say({"kind": "ready", "tests": len(session.items)})
        for line in sys.stdin.buffer:
            job = json.loads(line)
            started = time.monotonic()
            pid = os.fork()
            if pid == 0:
                self._prepare(session.config, job)
                return None
            code = _await(pid)
            kind = "graded" if code == 0 else "needs_attention"
            _say({"kind": kind, "reason": None if code == 0 else _reason(code), "wall_s": time.monotonic() - started})
        return True

    def _prepare(self, config: pytest.Config, job: dict[str, Any]) -> None:
        self.forked = True
        _die_with_parent()
        files = {name: base64.b64decode(data) for name, data in job["files"].items()}
        if self.stage is None:
            start = functools.partial(sandbox.practice, files)
        else:
            start = functools.partial(sandbox.start, self.stage, files, slot=os.getppid() % 4000)
        self.plugin.session = Session(start)
        self.plugin.seed = job["seed"]
        config.option.json_report_file = job["report"]
        config._json_report._start_time = time.time()  # type: ignore[attr-defined]  # private, pinned and tested


def _await(pid: int) -> int:
    watch = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    if watch is not None:
        if not select.select([watch], [], [], SUBMISSION_S)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(watch)
            return -1
        os.close(watch)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _reason(code: int) -> str:
    if code == -1:
        return "grading did not end in time and was given up"
    return f"the process that judges ended early (code {code})"


def _die_with_parent() -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def _say(message: dict[str, Any]) -> None:
    os.write(_ANSWERS, json.dumps(message).encode() + b"\n")


_ANSWERS = os.dup(1)
"""Where answers go; descriptor 1 itself is given to /dev/null, so that nothing else can answer."""


def main(arguments: list[str]) -> int:
    """`judge.py practice|full BWRAP visible [hidden]`."""
    _die_with_parent()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.environ.clear()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.chdir(HERE)
    try:
        server = Server(practice=arguments[0] == "practice", bwrap=arguments[1])
    except sandbox.Unavailable as problem:
        _say({"kind": "unavailable", "reason": str(problem)})
        return 1
    options = [
        "-c",
        str(HERE / "pytest.ini"),
        f"--rootdir={HERE}",
        f"--confcutdir={HERE}",
        "-p",
        "pytest_jsonreport.plugin",
        "-p",
        "no:cacheprovider",
        "--json-report",
        "--json-report-file=",
        "--tb=native",
        "--json-report-omit",
        "keywords",
        "collectors",
        "log",
        "streams",
        "-s",
    ]
    code = pytest.main([*options, *(str(HERE / name) for name in arguments[2:])], plugins=[server.plugin])
    if server.forked:
        if server.plugin.session is not None:
            server.plugin.session.close()
        os._exit(0 if code in (0, 1) else 3)
    if server.stage is not None:
        server.stage.close()
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
