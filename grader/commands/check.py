"""`nox`: the visible tests on the student's own files, with the feedback on the screen and as a page."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader import assemble, facts, intake, record, sandbox
from grader.commands import own
from grader.runner import Judge, Outcome, Run
from rubric import classes, criteria, feedback, terminal

OUT = assemble.PACKAGE / "out" / "check"


def check(console: Console, out: Path = OUT) -> int:
    """Run the visible tests on student/ and show what came of it; the exit code speaks about the grader alone."""
    rubric = criteria.load()
    one = own.submission()
    if isinstance(one, intake.Refusal):
        console.print(Text(f"{one.reason} {one.advice}"))
        return 2
    seed = facts.seed_of(0, one.digest)
    started = facts.now()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=out) as place:
        run = _run(one, Path(place), seed)
        report = Path(place) / "report.json"
        if run.kind is Outcome.GRADED and report.is_file():
            record.write(out / "report.json", report.read_bytes())
    reason = None if run.kind is Outcome.GRADED else f"Not graded, through no fault of yours: {run.reason}."
    record.write_json(out / "run.json", facts.run_json(one, seed=seed, ran=run, started=started, reason=reason))
    if reason is not None:
        console.print(Text(reason))
        return 1
    for name, data in intake.written(one).items():
        record.write(out / name, data)
    mapped = classes.map_file(out / "report.json", rubric)
    feedback.write(mapped.feedback, mapped.evidence, out)
    terminal.show(mapped.feedback, console)
    console.print(Text(f"The same as a page: {_near(out / 'feedback.html')}"), soft_wrap=True)
    return 1 if mapped.attention else 0


def _run(one: intake.Submission, place: Path, seed: int) -> Run:
    """Isolated where this machine can; else in a plain process, which is practice and never a grade."""
    files = assemble.workspace(one)
    try:
        with Judge(include_hidden=False) as judge:
            return judge.grade(files, place, key=one.key, seed=seed)
    except sandbox.Unavailable:
        with Judge(include_hidden=False, practice=True) as judge:
            return judge.grade(files, place, key=one.key, seed=seed)


def _near(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
