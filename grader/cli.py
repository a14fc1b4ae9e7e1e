"""The command line: which command with which options, and what an error comes to. What commands do is in `commands`."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import cyclopts
from rich.console import Console

from grader import catalogue, intake, sandbox
from grader.batch import BatchError
from rubric.criteria import RubricError
from rubric.report import ReportError

DONE, ATTENTION, USAGE, INTERRUPTED = 0, 1, 2, 130

app = cyclopts.App(
    name="python -m grader",
    help="Grade the redelivery lab. Exit codes: 0 graded, whatever was scored; 1 something needs attention; "
    "2 wrong usage or a broken rubric; 130 interrupted.",
    help_format="plaintext",
    version_flags=[],
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


def _console() -> Console:
    return Console(highlight=False, emoji=False, markup=False)


@app.command
def check() -> int:
    """Run the visible tests on student/ and show the feedback."""
    from grader.commands.check import check as run

    return run(_console())


@app.command
def submit() -> int:
    """Pack the editable files of student/ into submission.zip and say what is missing."""
    from grader.commands.submit import submit as run

    return run(_console())


@app.command
def grade(
    path: Annotated[Path | None, cyclopts.Parameter(help="A folder of submissions, or one submission.")] = None,
    *,
    out: Annotated[Path | None, cyclopts.Parameter(help="Run folder (default out/NAME); an old run goes on.")] = None,
    jobs: Annotated[int, cyclopts.Parameter(help="How many side by side; default: all cores.")] = 0,
    seed: Annotated[int | None, cyclopts.Parameter(help="The seed of the inputs; default: drawn, and kept.")] = None,
) -> int:
    """Grade every submission at PATH (default: the sample class) and write feedback, pages and the gradebook."""
    from grader.commands.grade import SAMPLE
    from grader.commands.grade import grade as run

    if jobs < 0:
        raise intake.IntakeError("--jobs is how many are graded side by side: 1 or more.")
    return run(path or SAMPLE, out, jobs=jobs or os.cpu_count() or 1, seed=seed, console=_console())


@app.command
def replay(
    code: Annotated[list[str], cyclopts.Parameter(help="A code from the feedback, such as A30 k5 A30.")],
) -> int:
    """Play one failing history on the files in student/, statement by statement."""
    from grader.commands.replay import replay as run

    return run(code)


@app.command
def selfcheck(
    *,
    record: Annotated[bool, cyclopts.Parameter(help="Write the sample class's golden evidence anew.")] = False,
) -> int:
    """Prove that stubs, model answers, known mistakes and correct variants are judged right."""
    from grader.commands.selfcheck import selfcheck as run

    return run(_console(), record=record)


@app.command
def proof(
    *,
    only: Annotated[str, cyclopts.Parameter(help="Changes to this file alone: a trial, nothing is written.")] = "",
    every: Annotated[int, cyclopts.Parameter(help="Every so manieth change alone: a trial as well.")] = 1,
) -> int:
    """Measure how rarely the judge is wrong and write docs/proof.md; takes minutes and needs the dev environment."""
    try:
        from grader.commands.proof import proof as run
    except ModuleNotFoundError as error:
        raise catalogue.CatalogueError(f"The proof needs {error.name}: run it as nox -s proof.") from error
    if every < 1:
        raise catalogue.CatalogueError("--every is a number of changes: 1 or more.")
    return run(_console(), only=only, every=every)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and give its exit code; whatever goes wrong is one sentence on standard error."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False)
        return code if isinstance(code, int) else DONE  # --help gives none
    except cyclopts.CycloptsError as error:
        return _complain(f"{' '.join(str(error).split())} See python -m grader --help.", USAGE)
    except (intake.IntakeError, RubricError, ReportError, catalogue.CatalogueError) as error:
        return _complain(str(error), USAGE)
    except (BatchError, sandbox.Unavailable) as error:
        return _complain(str(error), ATTENTION)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone, and the interpreter would complain once more at its end
        return DONE
    except OSError as error:
        full = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or "no reason"
        place = f" {error.filename}" if error.filename else ""
        return _complain(f"Reading or writing{place} failed: {full}; what is there is whole; do it again.", ATTENTION)
    except KeyboardInterrupt:
        return _complain("Interrupted; nothing recorded is lost, and the same command goes on from here.", INTERRUPTED)


def _complain(sentence: str, code: int) -> int:
    Console(stderr=True, highlight=False, emoji=False, markup=False, soft_wrap=True).print(
        sentence.encode("ascii", "backslashreplace").decode("ascii")
    )
    return code
