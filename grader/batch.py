"""Grading many: at-least-once work with repeatable results.

Every upload ends as a result with a reason, whatever happens to it or to a judge; results are recorded one by one,
so that a run that was ended anywhere goes on from there. Points are not known here: `finish` maps a result.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path

from grader import assemble, intake
from grader.archive import Limits, shown
from grader.record import Ledger, RecordError, Result
from grader.slot import JUDGE, Answer, Broken, Slot, Task

FAULTS_MAX = 2  # the judge is started afresh once for a submission
STARTS_MAX = 3  # judges that never came up, one after the other, before the run gives up
TASK_S_MAX = 600.0
START_S_MAX = 60.0
OUR_FAULT = "Not graded, through no fault of the submission: "


class BatchError(Exception):
    """The run as a whole cannot go on; the text is one sentence for the instructor. Nothing recorded is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One upload with its result. `run` is what run.json holds; `fresh` is False when an earlier result stands."""

    key: str
    folder: Path
    run: dict[str, object]
    answers: bytes | None
    fresh: bool

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
    faults: int = 0


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: temporary name, synced, renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: object) -> None:
    """JSON with a final newline, ASCII only: foreign text cannot break the file."""
    write(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode("ascii"))


@cache
def engine(root: Path = assemble.PACKAGE) -> str:
    """sha256 over everything of ours that decides a report: grader, tests, given files, fixtures."""
    total = hashlib.sha256()
    files = [path for part in ("grader", "student", "fixtures") for path in (root / part).rglob("*")]
    for path in sorted(files):
        inside = path.relative_to(root)
        if (
            path.is_file()
            and path.suffix in (".py", ".toml", ".json", ".ini", ".bpf")
            and inside.parts[1] != "submissions"
        ):
            total.update(f"{inside.as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def run_json(
    upload: intake.Submission | intake.Refusal, *, seed: int, answer: Answer | None, started: str, reason: str | None
) -> dict[str, object]:
    """The facts of one run that may differ from time to time; everything else lives in report.json."""
    sent = upload if isinstance(upload, intake.Submission) else None
    return {
        "format_version": 1,
        "submission": upload.key,
        "digest": sent.digest if sent else "",
        "seed": seed,
        "isolation": answer.isolation if answer else "full",
        "started": started,
        "wall_s": round(answer.wall_s, 3) if answer else 0.0,
        "python": answer.python if answer else "",
        "notes": list(upload.notes),
        "changed_given": list(sent.changed_given) if sent else [],
        "status": "graded" if reason is None else "needs_attention",
        "reason": reason,
        "files": dict(sent.states) if sent else {},
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Batch:
    """One run over a list of uploads. `report` is called in this process for each Done, as soon as it is recorded."""

    def __init__(
        self,
        folder: Path,
        ledger: Ledger,
        *,
        seed: int,
        jobs: int,
        judge: str,
        include_hidden: bool,
        limits: Limits,
        report: Callable[[Done], None],
    ) -> None:
        self.folder = folder
        self.ledger = ledger
        self.seed = seed
        self.jobs = jobs
        self.judge = judge
        self.include_hidden = include_hidden
        self.limits = limits
        self.report = report
        self.slots: dict[object, Slot] = {}
        self.busy: dict[object, tuple[_Work, str]] = {}
        self.again: deque[_Work] = deque()
        self.starts_failed = 0
        self.done: list[Done] = []
        self.scratch = folder / ".work"

    def run(self, uploads: list[intake.Upload]) -> tuple[Done, ...]:
        """Grade all that has no result yet; raises BatchError when no judge comes up, KeyboardInterrupt at Ctrl-C."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        todo = self.open_work(uploads)
        waiting = next(todo, None)
        try:
            while waiting or self.again or self.busy:
                while (self.again or waiting) and len(self.busy) < self.jobs:
                    if self.again:
                        work = self.again.popleft()
                    else:
                        assert waiting is not None
                        work, waiting = waiting, next(todo, None)
                    self.start(work)
                self.listen()
        finally:
            self.stop()
            shutil.rmtree(self.scratch, ignore_errors=True)
        return tuple(sorted(self.done, key=lambda one: one.key))

    def open_work(self, uploads: list[intake.Upload]) -> Iterator[_Work]:
        """Reads one upload after the other, as slots fall free; refusals and earlier results are done at once."""
        names = self.ledger.folders(upload.key for upload in uploads)
        for upload in uploads:
            folder = self.folder / names[upload.key]
            one = intake.read(upload, self.limits)
            if isinstance(one, intake.Refusal):
                reason = f"{one.reason} {one.advice}"
                run = run_json(one, seed=self.seed, answer=None, started=now(), reason=reason)
                self.record(folder, run, report=b"", answers=None)
                continue
            earlier = self.ledger.get(one.key)
            if earlier and self.stands(earlier, one, folder):
                run = json.loads((folder / "run.json").read_bytes())
                self.tell(Done(key=one.key, folder=folder, run=run, answers=one.files.get("answers.toml"), fresh=False))
                continue
            yield _Work(submission=one, folder=folder)

    def stands(self, earlier: Result, one: intake.Submission, folder: Path) -> bool:
        """True when the earlier result is of the same bytes, seed and grader, and its files are still there."""
        if earlier.status != "graded" or (earlier.digest, earlier.seed, earlier.engine) != (
            one.digest,
            self.seed,
            engine(),
        ):
            return False
        try:
            run = json.loads((folder / "run.json").read_bytes())
            report = hashlib.sha256((folder / "report.json").read_bytes()).hexdigest()
        except (OSError, ValueError):
            return False
        return report == earlier.report and isinstance(run, dict) and run.get("digest") == one.digest

    def start(self, work: _Work) -> None:
        idle = next((pipe for pipe in self.slots if pipe not in self.busy), None)
        if idle is None:
            slot = Slot(judge=self.judge, include_hidden=self.include_hidden, practice=False)
            idle = slot.pipe
            self.slots[idle] = slot
        # A new folder each time: an old or half-written report can never be read as this one.
        out = Path(tempfile.mkdtemp(prefix="report-", dir=self.scratch))
        files = assemble.workspace(work.submission)
        self.busy[idle] = (work, now())
        self.slots[idle].give(Task(key=work.submission.key, seed=self.seed, files=files, out=out))

    def listen(self) -> None:
        for pipe in wait([slot.pipe for slot in self.slots.values()], timeout=0.5):
            said = self.slots[pipe].take()
            if said is not None:
                self.heard(pipe, said)
        for pipe, slot in list(self.slots.items()):
            limit = TASK_S_MAX if slot.started else START_S_MAX
            if pipe in self.busy and time.monotonic() - slot.since > limit:
                self.heard(pipe, Broken(reason=f"no answer from the judge in {limit:.0f} s", started=slot.started))

    def heard(self, pipe: object, said: Answer | Broken) -> None:
        slot = self.slots[pipe]
        entry = self.busy.pop(pipe, None)
        if isinstance(said, Broken):
            del self.slots[pipe]
            slot.stop()
            self.starts_failed = 0 if said.started else self.starts_failed + 1
            if self.starts_failed >= STARTS_MAX:
                raise BatchError(f"No judge comes up, so nothing more was graded: {shown(said.reason, 300)}")
        if entry is None or slot.task is None:
            return
        work, started = entry
        report = _read_report(slot.task.out) if isinstance(said, Answer) else b""
        shutil.rmtree(slot.task.out, ignore_errors=True)
        if isinstance(said, Answer):
            self.starts_failed = 0
            reason = said.reason or "The judge gave no reason." if said.kind != "graded" else None
            if reason is None and not report:
                reason = OUR_FAULT + "the judge left no report."
            run = run_json(work.submission, seed=self.seed, answer=said, started=started, reason=reason)
            self.record(work.folder, run, report=report, answers=work.submission.files.get("answers.toml"))
            return
        # A judge that never came up says nothing about the submission that waited for it.
        work.faults += said.started
        if work.faults < FAULTS_MAX:
            self.again.append(work)
            return
        reason = f"{OUR_FAULT}the judge failed {work.faults} times on it ({shown(said.reason, 200)})."
        run = run_json(work.submission, seed=self.seed, answer=None, started=started, reason=reason)
        self.record(work.folder, run, report=b"", answers=work.submission.files.get("answers.toml"))

    def record(self, folder: Path, run: dict[str, object], *, report: bytes, answers: bytes | None) -> None:
        """Files first, then the ledger: ended in between, the same work is simply done again."""
        key = str(run["submission"])
        earlier = self.ledger.get(key)
        if run["status"] != "graded" and earlier and earlier.report and earlier.digest == run["digest"]:
            # Our fault on a regrade never takes a result away: the earlier one stays, and is marked.
            run["notes"] = [*_list(run["notes"]), "The earlier report of the same files was kept."]
            recorded = earlier.report
        elif report:
            write(folder / "report.json", report)
            recorded = hashlib.sha256(report).hexdigest()
        else:
            for stale in ("report.json", "evidence.json", "feedback.json", "feedback.html"):
                (folder / stale).unlink(missing_ok=True)
            recorded = ""
        write_json(folder / "run.json", run)
        self.ledger.put(
            Result(
                key=key,
                folder=folder.name,
                digest=str(run["digest"]),
                seed=self.seed,
                engine=engine(),
                status=str(run["status"]),
                reason=None if run["reason"] is None else str(run["reason"]),
                report=recorded,
            )
        )
        self.tell(Done(key=key, folder=folder, run=run, answers=answers, fresh=True))

    def tell(self, done: Done) -> None:
        self.done.append(done)
        self.report(done)

    def stop(self) -> None:
        for slot in self.slots.values():
            slot.ask_to_stop()
        for slot in self.slots.values():
            slot.stop()
        self.slots.clear()


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _read_report(out: Path) -> bytes:
    try:
        return (out / "report.json").read_bytes()
    except OSError:
        return b""


@contextmanager
def _ledger(folder: Path) -> Iterator[Ledger]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BatchError(f"Nothing can be written to {folder}: {error.strerror}.") from error
    try:
        ledger = Ledger(folder)
    except RecordError as error:
        raise BatchError(str(error)) from error
    try:
        yield ledger
    finally:
        ledger.close()


def grade(
    uploads: list[intake.Upload],
    folder: Path,
    *,
    jobs: int,
    seed: int | None = None,
    report: Callable[[Done], None] = lambda done: None,
    judge: str = JUDGE,
    include_hidden: bool = True,
    limits: Limits | None = None,
) -> Summary:
    """Grade the uploads into the run folder `folder`, or go on with the run that is there.

    `report` is called once for each upload. Raises BatchError (one sentence) and KeyboardInterrupt.
    """
    with _ledger(folder.absolute()) as ledger:
        fixed = ledger.seed(seed, secrets.randbits(32))
        batch = Batch(
            folder.absolute(),
            ledger,
            seed=fixed,
            jobs=max(1, min(jobs, len(uploads))),
            judge=judge,
            include_hidden=include_hidden,
            limits=limits or Limits(),
            report=report,
        )
        return Summary(folder=folder, seed=fixed, done=batch.run(uploads))
