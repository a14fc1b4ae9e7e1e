"""The feedback command: map a report, or a whole run folder, again. Nobody's code is run."""

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import cyclopts
from rich.console import Console

from rubric import classes, criteria, terminal
from rubric import feedback as words
from rubric.criteria import RubricError
from rubric.gradebook import RowStatus
from rubric.report import ReportError

GRADED, ATTENTION, USAGE, INTERRUPTED = 0, 1, 2, 130

app = cyclopts.App(
    name="python -m rubric",
    help="Map a report.json, or each report of a run folder, to feedback again. Nobody's code is run.",
    help_format="plaintext",
    version_flags=[],
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


@app.default
def feedback(
    report: Annotated[Path, cyclopts.Parameter(help="A report of pytest-json-report, or a run folder.")],
    *,
    out: Annotated[Path | None, cyclopts.Parameter(help="Write feedback.html and its JSON files there.")] = None,
    rubric: Annotated[Path | None, cyclopts.Parameter(help="Another rubric than rubric/rubric.toml.")] = None,
) -> int:
    """Show what a report says; a run folder gets new feedback, gradebook.csv and class.html."""
    console = _Screen(highlight=False, emoji=False, markup=False)
    wanted = criteria.load(rubric)
    if report.is_dir() and not (report / "report.json").is_file():
        if out is not None:
            raise ReportError(f"{report} is a run folder, and its feedback is written there; leave out --out.")
        if not any(report.glob("*/run.json")):
            raise ReportError(f"{report} is no run folder: no folder in it holds a run.json; name a run or a report.")
        rows = classes.map_folder(report, wanted)
        terminal.class_table(rows, console)
        return ATTENTION if any(row.status is RowStatus.NEEDS_ATTENTION for row in rows) else GRADED
    mapped = classes.map_file(report / "report.json" if report.is_dir() else report, wanted)
    for doubt in mapped.doubts:
        _complain(doubt)
    terminal.show(mapped.feedback, console)
    if out is not None:
        words.write(mapped.feedback, mapped.evidence, out)
    return ATTENTION if mapped.attention else GRADED


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit code; whatever goes wrong is one sentence on standard error."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()  # here, where a full disk can still be told
        return code if isinstance(code, int) else GRADED  # --help gives none
    except cyclopts.CycloptsError as error:
        _complain(f"{' '.join(str(error).split())} See python -m rubric --help.")
        return USAGE
    except (RubricError, ReportError) as error:
        _complain(str(error))
        return USAGE
    except BrokenPipeError:
        _drop_output()
        return GRADED
    except OSError as error:
        _drop_output()
        full = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or "no reason"
        place = f" {error.filename}" if error.filename else ""
        _complain(f"Writing{place} failed: {full}; what was there before is kept, so make room and do it again.")
        return ATTENTION
    except KeyboardInterrupt:
        _complain("Interrupted; each file that was written is whole.")
        return INTERRUPTED


class _Screen(Console):
    """A console that leaves a reader who has gone (`| head`) to main; rich would end with code 1."""

    def on_broken_pipe(self) -> None:
        """Say so by an exception."""
        raise BrokenPipeError


def _drop_output() -> None:
    """Send what is still buffered nowhere; the interpreter would try, and complain, once more at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # no real file behind it, so nothing to complain about


def _complain(sentence: str) -> None:
    Console(stderr=True, highlight=False, emoji=False, markup=False, soft_wrap=True).print(
        sentence.encode("ascii", "backslashreplace").decode("ascii")
    )


if __name__ == "__main__":
    sys.exit(main())
