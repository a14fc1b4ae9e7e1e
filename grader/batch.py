"""Grading many: at-least-once work with repeatable results.

Every upload ends as a result with a reason, whatever happens to it or to a judge; results are recorded one by one,
so that a run that was ended anywhere goes on from there. Points are not known here.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from grader import assemble, intake
from grader.facts import SEED_BITS, engine, now, run_json, seed_of
from grader.member import Limits, shown
from grader.record import Ledger, RecordError, Result, write, write_json
from grader.slot import JUDGE, Answer, Broken, Slot, Task

FAULTS_MAX = 2  # the judge is started afresh once for a submission
STARTS_MAX = 3  # judges that never came up, one after the other, before the run gives up
TASK_S_MAX = 600.0
START_S_MAX = 90.0
PROBE_BYTES = 256 * 1024  # as much as a report takes
OUR_FAULT = "Not graded, through no fault of the submission: "
OUTPUTS = ("report.json", "evidence.json", "feedback.json", "feedback.html")


class BatchError(Exception):
    """The run as a whole cannot go on; the text is one sentence for the instructor. Nothing recorded is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One upload with its result. `run` is what run.json holds; `fresh` is False when an earlier result stands.

    `written` holds the written half as handed in, by file name, and is there only while the result is reported.
    """

    key: str
    folder: Path
    run: dict[str, object]
    fault: intake.Fault | None = None
    written: Mapping[str, bytes] = field(default_factory=dict)
    fresh: bool = True

    @property
    def reason(self) -> str | None:
        """Why a person must look, or None."""
        return None if self.run["status"] == "graded" else str(self.run["reason"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A finished run; `done` is sorted by key."""

    folder: Path
    seed: int
    done: tuple[Done, ...]

    @property
    def attention(self) -> tuple[Done, ...]:
        return tuple(one for one in self.done if one.reason is not None)


@dataclass(slots=True, kw_only=True)
class _Work:
    submission: intake.Submission
    folder: Path
    seed: int
    started: str = ""
    faults: int = 0


class Batch:
    """One run over a list of uploads. `report` is called in this process for each Done, as soon as it is recorded."""

    def __init__(
        self, folder: Path, ledger: Ledger, *, seed: int, jobs: int, judge: str, report: Callable[[Done], None]
    ) -> None:
        self.folder = folder
        self.ledger = ledger
        self.seed = seed
        self.jobs = jobs
        self.judge = judge
        self.report = report
        self.limits = Limits()
        self.scratch = folder / ".work"
        self.slots: dict[Connection, Slot] = {}
        self.busy: dict[Connection, _Work] = {}
        self.again: deque[_Work] = deque()
        self.starts_failed = 0
        self.done: list[Done] = []

    def run(self, uploads: list[intake.Upload]) -> tuple[Done, ...]:
        """Grade all that has no result yet; raises BatchError when no judge comes up, KeyboardInterrupt at Ctrl-C."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        todo = self._open_work(uploads)
        try:
            waiting = next(todo, None)
            while waiting or self.again or self.busy:
                while (self.again or waiting) and len(self.busy) < self.jobs:
                    if self.again:
                        self._start(self.again.popleft())
                    elif waiting:
                        self._start(waiting)
                        waiting = next(todo, None)
                self._listen()
        finally:
            self._stop()
            shutil.rmtree(self.scratch, ignore_errors=True)
        return tuple(sorted(self.done, key=lambda one: one.key))

    def _open_work(self, uploads: list[intake.Upload]) -> Iterator[_Work]:
        """Reads one upload after the other, as slots fall free; refusals and earlier results are done at once."""
        names = self.ledger.folders(upload.key for upload in uploads)
        for upload in uploads:
            folder = self.folder / names[upload.key]
            one = intake.read(upload, self.limits)
            if isinstance(one, intake.Refusal):
                run = run_json(one, seed=self.seed, ran=None, started=now(), reason=f"{one.reason} {one.advice}")
                self._record(Done(key=one.key, folder=folder, run=run, fault=one.fault), b"")
                continue
            work = _Work(submission=one, folder=folder, seed=seed_of(self.seed, one.digest))
            earlier = self._earlier(work)
            if earlier is None:
                yield work
            else:
                self._tell(Done(key=one.key, folder=folder, run=earlier, written=intake.written(one), fresh=False))

    def _earlier(self, work: _Work) -> dict[str, object] | None:
        """run.json of an earlier result, if it is of the same bytes, seed and grader, and its files are still there."""
        held = self.ledger.get(work.submission.key)
        wanted = (work.submission.digest, work.seed, engine(), "graded")
        if held is None or (held.digest, held.seed, held.engine, held.status) != wanted:
            return None
        try:
            run = json.loads((work.folder / "run.json").read_bytes())
            report = hashlib.sha256((work.folder / "report.json").read_bytes()).hexdigest()
        except (OSError, ValueError):
            return None
        same = report == held.report and isinstance(run, dict) and run.get("digest") == held.digest
        return run if same and run.get("status") == "graded" else None

    def _start(self, work: _Work) -> None:
        idle = [pipe for pipe in self.slots if pipe not in self.busy]
        if idle:
            pipe = idle[0]
        else:
            slot = Slot(judge=self.judge, include_hidden=True, practice=False)
            pipe = slot.pipe
            self.slots[pipe] = slot
        # A new folder each time: an old or half-written report can never be read as this one.
        out = Path(tempfile.mkdtemp(prefix="report-", dir=self.scratch))
        work.started = now()
        self.busy[pipe] = work
        files = assemble.workspace(work.submission)
        self.slots[pipe].give(Task(key=work.submission.key, seed=work.seed, files=files, out=out))

    def _listen(self) -> None:
        ready = wait([slot.pipe for slot in self.slots.values()], timeout=0.5)
        for pipe in [pipe for pipe in self.slots if pipe in ready]:
            said = self.slots[pipe].take()
            if said is not None:
                self._heard(pipe, said)
        for pipe, slot in list(self.slots.items()):
            limit = TASK_S_MAX if slot.started else START_S_MAX
            if pipe in self.busy and time.monotonic() - slot.since > limit:
                self._heard(pipe, Broken(reason=f"no answer from the judge in {limit:.0f} s", started=slot.started))

    def _heard(self, pipe: Connection, said: Answer | Broken) -> None:
        slot = self.slots[pipe]
        work = self.busy.pop(pipe, None)
        if isinstance(said, Broken):
            del self.slots[pipe]
            slot.stop()
            self.starts_failed = 0 if said.started else self.starts_failed + 1
        if work is None or slot.task is None:
            return
        report = _read_report(slot.task.out) if isinstance(said, Answer) and said.kind == "graded" else b""
        shutil.rmtree(slot.task.out, ignore_errors=True)
        if isinstance(said, Answer) and report:
            self.starts_failed = 0
            self._finish(work, said, None, report)
            return
        self._refuse_full_disk()
        if isinstance(said, Broken) and (self.starts_failed >= STARTS_MAX or said.hopeless):
            raise BatchError(f"No judge comes up, so nothing more was graded: {shown(said.reason, 300)}")
        # A judge that never came up says nothing about the submission that waited for it.
        work.faults += said.started if isinstance(said, Broken) else 1
        if work.faults < FAULTS_MAX:
            self.again.append(work)
            return
        why = shown(said.reason or "it left no report", 200)
        reason = f"{OUR_FAULT}the judge failed {work.faults} times on it ({why})."
        self._finish(work, said if isinstance(said, Answer) else None, reason, b"")

    def _refuse_full_disk(self) -> None:
        """A full disk looks like a judge that leaves no report: find out before anyone's submission is blamed."""
        write(self.scratch / "probe", b"\0" * PROBE_BYTES)

    def _finish(self, work: _Work, answer: Answer | None, reason: str | None, report: bytes) -> None:
        run = run_json(work.submission, seed=work.seed, ran=answer, started=work.started, reason=reason)
        written = intake.written(work.submission)
        self._record(Done(key=work.submission.key, folder=work.folder, run=run, written=written), report)

    def _record(self, done: Done, report: bytes) -> None:
        """Files first, then the ledger: ended in between, the same work is simply done again."""
        run, folder = done.run, done.folder
        earlier = self.ledger.get(done.key)
        recorded = hashlib.sha256(report).hexdigest() if report else ""
        if report:
            write(folder / "report.json", report)
        elif earlier and earlier.report and earlier.digest == run["digest"]:
            # Our fault on a regrade never takes a result away: the earlier one stays, and is marked.
            notes = run["notes"] if isinstance(run["notes"], list) else []
            run["notes"] = [*notes, "The earlier report of the same files was kept."]
            recorded = earlier.report
        else:
            for name in OUTPUTS:
                (folder / name).unlink(missing_ok=True)
        write_json(folder / "run.json", run)
        self.ledger.put(
            Result(
                key=done.key,
                folder=folder.name,
                digest=str(run["digest"]),
                seed=int(str(run["seed"])),
                engine=engine(),
                status=str(run["status"]),
                reason=done.reason,
                report=recorded,
            )
        )
        self._tell(done)

    def _tell(self, done: Done) -> None:
        self.report(done)
        self.done.append(replace(done, written={}))

    def _stop(self) -> None:
        for slot in self.slots.values():
            slot.ask_to_stop()
        for slot in self.slots.values():
            slot.stop()
        self.slots.clear()


def _read_report(out: Path) -> bytes:
    try:
        return (out / "report.json").read_bytes()
    except OSError:
        return b""


@contextmanager
def _run_folder(folder: Path) -> Iterator[Ledger]:
    """The ledger of a run folder; what the disk says against it becomes one sentence."""
    ledger: Ledger | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ledger = Ledger(folder)
        yield ledger
    except RecordError as error:
        raise BatchError(str(error)) from error
    except (OSError, sqlite3.OperationalError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BatchError(
            f"Writing to {folder} failed ({what}); results already there are kept, and the same command goes on later."
        ) from error
    finally:
        if ledger is not None:
            ledger.close()


def grade(
    uploads: list[intake.Upload],
    folder: Path,
    *,
    jobs: int,
    seed: int | None = None,
    report: Callable[[Done], None] = lambda done: None,
    judge: str = JUDGE,
) -> Summary:
    """Grade the uploads into the run folder `folder`, or go on with the run that is there.

    `report` is called once for each upload. Raises BatchError (one sentence) and KeyboardInterrupt.
    """
    folder = folder.absolute()
    with _run_folder(folder) as ledger:
        fixed = ledger.seed(seed, secrets.randbits(SEED_BITS))
        jobs = max(1, min(jobs, len(uploads)))
        batch = Batch(folder, ledger, seed=fixed, jobs=jobs, judge=judge, report=report)
        return Summary(folder=folder, seed=fixed, done=batch.run(uploads))
