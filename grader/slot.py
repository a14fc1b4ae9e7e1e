"""A judge in a child process of its own: one job slot of the batch.

One process for each slot, not a thread: the sandbox dies with the thread that started it. The child leads its own
session, so that Ctrl-C in the terminal reaches the parent alone, and so that the parent can end all of it at once.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import NoReturn

from grader.runner import NotStarted
from grader.sandbox import Unavailable

JUDGE = "grader.runner:Judge"
_STOP_S_MAX = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a judge is asked: the files of one workspace, and the empty folder that takes report.json."""

    key: str
    seed: int
    files: dict[str, bytes]
    out: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a judge said of one task: `kind` is graded or needs_attention, `wall_s` in seconds."""

    kind: str
    reason: str | None
    wall_s: float
    isolation: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The judge itself failed (our fault); `started` is False when it never came up."""

    reason: str
    started: bool
    hopeless: bool = False  # another start would fail in the same way: there is no sandbox


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def serve(pipe: Connection, judge: str, include_hidden: bool, practice: bool) -> None:
    """The child: opens the judge, answers one task after the other, ends when the parent is gone."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    module, _, name = judge.partition(":")
    try:
        with getattr(importlib.import_module(module), name)(include_hidden=include_hidden, practice=practice) as it:
            pipe.send(None)
            while (task := pipe.recv()) is not None:
                done = it.grade(task.files, task.out, key=task.key, seed=task.seed)
                pipe.send(
                    Answer(
                        kind=str(done.kind),
                        reason=done.reason,
                        wall_s=float(done.wall_s),
                        isolation=str(done.isolation),
                        python=str(done.python),
                    )
                )
    except (EOFError, BrokenPipeError):
        return
    except Unavailable as problem:
        with suppress(OSError):
            pipe.send(Broken(reason=str(problem), started=False, hopeless=not isinstance(problem, NotStarted)))
    except Exception as error:  # whatever it is, it is ours: it goes to the parent as a reason, not to a traceback
        with suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}"[:500])


class Slot:
    """The parent's end: starts the judge, gives it one task at a time, ends it."""

    def __init__(self, *, judge: str, include_hidden: bool, practice: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, judge, include_hidden, practice), daemon=True)
        self._process.start()
        theirs.close()
        self.started = False
        self.task: Task | None = None
        self.since = time.monotonic()

    def give(self, task: Task) -> None:
        """Hand over a task; a judge that has died meanwhile is noticed by `take`."""
        self.task = task
        self.since = time.monotonic()
        with suppress(OSError):
            self.pipe.send(task)

    def take(self) -> Answer | Broken | None:
        """What the judge has to say; None when it has only come up. Call when the pipe is ready."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(_STOP_S_MAX)
            return Broken(reason=f"the judge ended (exit code {self._process.exitcode})", started=self.started)
        if isinstance(said, (Answer, Broken)):
            return said
        if isinstance(said, str):
            return Broken(reason=said, started=self.started)
        self.started = True
        return None

    def ask_to_stop(self) -> None:
        """Politely: the judge ends its pytest and its sandboxes itself."""
        with suppress(OSError):
            self.pipe.close()
        self._process.terminate()

    def stop(self, wait_s_max: float = _STOP_S_MAX) -> None:
        """End the judge and all that is left in its session, within `wait_s_max` seconds."""
        self.ask_to_stop()
        self._process.join(wait_s_max)
        pid = self._process.pid
        if pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self._process.kill()
        self._process.join(1.0)
