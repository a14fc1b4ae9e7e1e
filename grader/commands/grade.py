"""`nox -s grade -- FOLDER`: from uploads to reports, and on to feedback and the gradebook."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from grader import assemble, batch, intake, record
from rubric import classes, criteria, terminal
from rubric.gradebook import ClassRow, RowStatus
from rubric.visible import visible

SAMPLE = assemble.PACKAGE / "fixtures" / "submissions"
OUT = assemble.PACKAGE / "out"


class _Rate(ProgressColumn):
    """Submissions a minute since the start."""

    def render(self, task: object) -> Text:
        elapsed, done = getattr(task, "elapsed", None), getattr(task, "completed", 0)
        return Text(f"{60 * done / elapsed:.0f}/min" if elapsed and done else "-/min")


class _Evening:
    """What the instructor sees while a class is graded, and the rows of the class so far."""

    def __init__(self, rubric: criteria.Rubric, console: Console, total: int) -> None:
        self.rubric = rubric
        self.console = console
        self.total = total
        self.rows: list[ClassRow] = []
        self.progress = Progress(
            TextColumn("grading"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(),
            TextColumn("{task.fields[attention]}", markup=False),
            console=console, disable=not console.is_terminal, transient=True,
        )  # fmt: skip
        self.task = self.progress.add_task("grading", total=total, attention="")

    def heard(self, done: batch.Done) -> None:
        """One submission has a result on disk: map it, write its feedback, show its line."""
        for name in (*assemble.WRITTEN, assemble.LOG.rpartition("/")[2]):
            if name in done.written:
                record.write(done.folder / name, done.written[name])
            else:
                (done.folder / name).unlink(missing_ok=True)
        row = classes.map_place(done.folder, self.rubric)
        self.rows.append(row)
        attention = sum(one.status is RowStatus.NEEDS_ATTENTION for one in self.rows)
        words = f"{attention} need attention" if attention else ""
        self.progress.update(self.task, advance=1, attention=words)
        if not self.console.is_terminal:
            how = "needs attention" if row.status is RowStatus.NEEDS_ATTENTION else "graded"
            kept = "" if done.fresh else " (unchanged, kept)"
            line = f"[{len(self.rows)}/{self.total}] {visible(done.key)}: {how}{kept}"
            coding = self.console.encoding
            self.console.print(Text(line.encode(coding, "backslashreplace").decode(coding)), soft_wrap=True)


def grade(path: Path, out: Path | None, *, jobs: int, seed: int | None, console: Console) -> int:
    """Grade what is found at `path` into the run folder `out`; returns the exit code.

    Raises IntakeError, RubricError (exit code 2), BatchError (1) and KeyboardInterrupt, each with one sentence.
    """
    rubric = criteria.load()
    uploads = intake.find(path)
    folder = (out or OUT / record.folder_name(path.resolve().name)).absolute()
    evening = _Evening(rubric, console, len(uploads))
    with evening.progress:
        batch.grade(uploads, folder, jobs=jobs, seed=seed, report=evening.heard)
    rows = sorted(evening.rows, key=lambda row: row.key)
    classes.write(rows, folder)
    terminal.class_table(rows, console)
    for name in ("gradebook.csv", "class.html"):
        console.print(Text(str(_near(folder / name))), soft_wrap=True)
    console.print(Text(f"{_near(folder)}/*/feedback.html: a page for each student. report.json is for staff only."))
    return 1 if any(row.status is RowStatus.NEEDS_ATTENTION for row in rows) else 0


def _near(path: Path) -> Path:
    """The path from where the user stands, if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
