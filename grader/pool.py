"""Grading a list of workspaces side by side, for commands that need no record of it: self-check and proof."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from grader import record
from grader.runner import Judge, Outcome, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One workspace to grade: `files` by path below the workspace's root."""

    key: str
    files: dict[str, bytes]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """How it went; `report` is there unless the run needs attention."""

    work: Work
    run: Run
    report: Path


def graded(work: Sequence[Work], folder: Path, *, jobs: int) -> Iterator[Graded]:
    """Grade all of it on warm judges, one for each job; results come as they are ready.

    Reports go to a folder each below `folder`. Raises sandbox.Unavailable when no judge comes up.
    """
    held = threading.local()
    judges: list[Judge] = []

    def one(number: int) -> Graded:
        # A judge belongs to the thread that started it: it ends when that thread does.
        if not hasattr(held, "judge"):
            held.judge = Judge(include_hidden=True).__enter__()
            judges.append(held.judge)
        item = work[number]
        place = folder / f"{number:03}-{record.folder_name(item.key)}"
        place.mkdir(parents=True)
        run = held.judge.grade(item.files, place, key=item.key, seed=item.seed)
        if run.kind is not Outcome.GRADED:  # once more, on a fresh judge, before it is called a fault
            run = held.judge.grade(item.files, place, key=item.key, seed=item.seed)
        return Graded(work=item, run=run, report=place / "report.json")

    with ThreadPoolExecutor(max_workers=jobs) as threads:
        try:
            for future in as_completed([threads.submit(one, number) for number in range(len(work))]):
                yield future.result()
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
            for judge in judges:
                judge.close()
