"""A class on disk: gradebook.csv, class.html and class.json of a run folder, and a run folder mapped again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rubric import feedback as words
from rubric import files, gradebook, pages, report, reviews
from rubric.criteria import Rubric
from rubric.evidence import Cause, Evidence, map_report
from rubric.feedback import Feedback
from rubric.gradebook import ClassRow, RowStatus

FORMAT_VERSION = 1
RUN_BYTES_MAX = 4 * 1024 * 1024
NOT_READ = "run.json cannot be read, so a person must look."


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """One submission's report, mapped: its records, its words, and what was doubtful about the report."""

    evidence: tuple[Evidence, ...]
    feedback: Feedback
    doubts: tuple[str, ...]
    attention: bool  # a person must look


def map_file(path: Path, rubric: Rubric) -> Mapped:
    """Map one report file, with run.json, answers.toml and review.toml beside it if there. Raises ReportError."""
    held = report.read(path)
    run = read_run(path.parent)
    answers, log = _bytes(path.parent / "answers.toml"), _bytes(path.parent / "runs.jsonl")
    signed = reviews.read(path.parent / reviews.FILE, rubric, run)
    evidence = map_report(held, rubric, run=run, reviews=signed, answers=answers, log=log)
    told = words.build(evidence, rubric, run)
    ours = any(one.cause is Cause.GRADER_FAULT for one in evidence)
    suspect = bool(told.void or gradebook.suspicion(told))
    attention = suspect or ours or (run is not None and bool(_reason(run)))
    return Mapped(evidence=evidence, feedback=told, doubts=held.doubts, attention=attention)


def map_folder(folder: Path, rubric: Rubric) -> tuple[ClassRow, ...]:
    """Map every report of a run folder again and write all feedback anew. Raises OSError.

    Names, and students who handed in nothing, are kept from the class.json that is there.
    """
    before = {row["key"]: row for row in _held(folder)}
    rows = []
    for place in sorted(path.parent for path in folder.glob("*/run.json")):
        row = map_place(place, rubric)
        rows.append(replace(row, name=before.get(row.key, {}).get("name", "")))
    seen = {row.key for row in rows}
    for key, held in before.items():
        if key not in seen and held["status"] == RowStatus.NOT_SUBMITTED:
            reason = held["reason"] or "Nothing was handed in."
            status = RowStatus.NOT_SUBMITTED
            rows.append(gradebook.unmarked(key, name=held["name"], reason=reason, status=status))
    rows.sort(key=lambda row: row.key)
    write(rows, folder)
    return tuple(rows)


def write(rows: Sequence[ClassRow], folder: Path) -> None:
    """Write gradebook.csv, class.html and class.json, each whole or not at all. Raises OSError."""
    gradebook.write(rows, folder / "gradebook.csv")
    files.write(folder / "class.html", pages.class_page(rows).encode("utf-8"))
    files.write(folder / "class.json", files.json_bytes({"format_version": FORMAT_VERSION, "rows": tuple(rows)}))


def read_run(folder: Path) -> dict[str, Any] | None:
    """What run.json in that folder holds, or None when it is not there or no JSON object."""
    content = _bytes(folder / "run.json")
    try:
        run = json.loads(content) if content is not None else None
    except (ValueError, RecursionError):
        return None
    return run if isinstance(run, dict) else None


def map_place(place: Path, rubric: Rubric) -> ClassRow:
    """The row of one submission's folder; its feedback files are written anew if it has a report."""
    run = read_run(place)
    key = str(run.get("submission") or place.name) if run else place.name
    reason = _reason(run)
    if not (place / "report.json").exists():
        return gradebook.unmarked(key, reason=reason or "There is no report, so a person must look.")
    try:
        mapped = map_file(place / "report.json", rubric)
    except reviews.ReviewError as error:
        return gradebook.unmarked(key, reason=str(error))
    except report.ReportError:
        return gradebook.unmarked(key, reason=reason or "The report cannot be read, so a person must look.")
    words.write(mapped.feedback, mapped.evidence, place)
    row = gradebook.graded(mapped.feedback, key=key)
    return replace(row, status=RowStatus.NEEDS_ATTENTION, reason=reason) if reason else row


def _reason(run: Mapping[str, Any] | None) -> str:
    """Why a person must look, by run.json; "" for a graded submission."""
    if run is None:
        return NOT_READ
    if run.get("status") == "graded":
        return ""
    return str(run.get("reason") or "run.json gives no reason, so a person must look.")


def _held(folder: Path) -> list[dict[str, str]]:
    """The rows of class.json: key, name, status and reason as text; none when it is not there or cannot be read."""
    content = _bytes(folder / "class.json")
    try:
        rows = json.loads(content)["rows"] if content is not None else []
        return [{name: str(row[name]) for name in ("key", "name", "status", "reason")} for row in rows]
    except (ValueError, RecursionError, KeyError, TypeError):
        return []


def _bytes(path: Path) -> bytes | None:
    """At most RUN_BYTES_MAX bytes of a file, or None when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(RUN_BYTES_MAX)
    except OSError:
        return None
