"""Intake: one upload becomes one Submission, files in memory, or one Refusal in plain words.

Bytes are kept as they came: whether they are Python that runs is for the worker to find out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader import archive, assemble
from grader.layout import EDITABLE, HAND_IN, Layout, wanted
from grader.member import Fault, Limits, Member, Refused, shown
from grader.uploads import IntakeError, Upload
from grader.uploads import find as _find

__all__ = ["Fault", "IntakeError", "Limits", "Refusal", "Submission", "Upload", "digest", "find", "read"]

FUNCTIONS = {
    "conflict.py": ("operation_key", "fingerprint", "check_replay"),
    "ledger.py": ("validate", "apply_event"),
    "retry.py": ("classify", "bounded_retry"),
    "review.py": ("record_rejection", "decide", "handle_delivery"),
}
_UNREMARKED = frozenset(("README.md", "HINTS.md", "VERSION", *(f"fixtures/{name}" for name in assemble.FIXTURES)))
_NOT_FOREIGN = frozenset(("__init__.py", "__main__.py", "test_mine.py", "setup.py", "noxfile.py", "conftest.py"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The editable files of one student, keyed by name relative to student/; `digest` is over exactly these."""

    key: str
    source: Path
    files: dict[str, bytes]
    notes: tuple[str, ...]
    digest: str
    changed_given: tuple[str, ...]
    states: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An upload that was not graded, why, and what the student can do about it."""

    key: str
    source: Path
    fault: Fault
    reason: str
    advice: str
    notes: tuple[str, ...] = ()


def find(path: Path, limits: Limits | None = None) -> list[Upload]:
    """The uploads at a path, one a student, sorted by key. Raises IntakeError when there is none."""
    del limits  # looking at names costs nothing; the caps are for reading
    return _find(path)


def written(one: Submission) -> dict[str, bytes]:
    """The written half as it lies beside a report, by file name: answers, texts, and the student's own log of runs."""
    names = {name: name for name in assemble.WRITTEN} | {assemble.LOG: assemble.LOG.rpartition("/")[2]}
    return {beside: one.files[name] for name, beside in names.items() if name in one.files}


def digest(files: dict[str, bytes]) -> str:
    """sha256 (hex) over names and bytes; the same files give the same digest, zipped or not."""
    total = hashlib.sha256()
    for name, data in sorted(files.items()):
        total.update(f"{name}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()


def read(upload: Upload, limits: Limits | None = None) -> Submission | Refusal:
    """One upload as files in memory, or the reason why not. A broken upload is a value here, never an exception."""
    limits = limits or Limits()
    try:
        with archive.members(upload.source, limits) as members:
            return _submission(upload, members, limits)
    except Refused as refused:
        fault, reason, advice = refused.fault, refused.reason, refused.advice
    except OSError as error:
        fault, advice = Fault.UNREADABLE, "Someone must look at the file that was uploaded."
        reason = f"The upload cannot be read on this machine: {error.strerror or type(error).__name__}."
    return Refusal(key=upload.key, source=upload.source, fault=fault, reason=reason, advice=advice, notes=upload.notes)


def _submission(upload: Upload, members: list[Member], limits: Limits) -> Submission:
    layout = Layout(members, limits)
    files, states = _contents(layout.chosen, layout.notes, limits)
    _refuse_other_version(layout.inside)
    _refuse_other_assignment(files, layout.inside)
    changed = _changed_given(layout.inside, limits)
    taken = {id(member) for member in layout.chosen.values()}
    unremarked = {*assemble.given(), *_UNREMARKED}
    left = [path for path, member in layout.paths if id(member) not in taken and path not in unremarked]
    if left:
        listed = ", ".join(shown(path) for path in sorted(left)[:20]) + (", …" if len(left) > 20 else "")
        layout.notes.append(f"Not part of the lab and left out: {listed}")
    if changed:
        layout.notes.append(f"Given files were changed; the package's own were used: {', '.join(changed)}")
    return Submission(
        key=upload.key,
        source=upload.source,
        files=files,
        notes=(*upload.notes, *layout.notes),
        digest=digest(files),
        changed_given=changed,
        states=states,
    )


def _contents(chosen: dict[str, Member], notes: list[str], limits: Limits) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files under both caps, and the state of every editable file; announced sizes are never trusted.

    A file too large is left out and the others are graded; too much altogether is refused.
    """
    files: dict[str, bytes] = {}
    too_large = []
    for name, member in sorted(chosen.items()):
        data = member.read(limits.file_bytes_max + 1)
        if len(data) > limits.file_bytes_max:
            too_large.append(name)
            size = f"{limits.file_bytes_max // 1024} KiB"
            notes.append(f"{shown(member.path)} is larger than {size} and was left out, as if it had not been sent.")
            continue
        files[name] = data
        line = _not_utf8(data)
        if line:
            notes.append(f"{shown(member.path)} is not UTF-8 text (line {line}): open it and save it as UTF-8.")
        if sum(map(len, files.values())) > limits.submission_bytes_max:
            reason = f"The files are larger than {limits.submission_bytes_max // 1024} KiB together."
            raise Refused(Fault.TOO_LARGE, reason, "Hand in your own code and text only.")
    if too_large and not files:
        reason = f"Every file of the lab is larger than {limits.file_bytes_max // 1024} KiB: {', '.join(too_large)}."
        raise Refused(Fault.TOO_LARGE, reason, "Hand in your own code and text only.")
    states = {name: _state(name, files.get(name)) for name in (*EDITABLE, "tests/test_mine.py", *files)}
    return files, dict(sorted((states | dict.fromkeys(too_large, "too large")).items()))


def _not_utf8(data: bytes) -> int:
    """The first line that is not UTF-8, counted from 1; 0 where all are, or the file declares another encoding."""
    if any(b"coding" in line for line in data.split(b"\n")[:2]):
        return 0
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data[: error.start].count(b"\n") + 1
    return 0


def _state(name: str, data: bytes | None) -> str:
    """Missing, empty, unchanged stub (as handed out, line ends apart) or present."""
    if data is None:
        return "missing"
    if not data.strip():
        return "empty"
    stub = assemble.stub(name)
    return "unchanged stub" if stub is not None and _lines(data) == _lines(stub) else "present"


def _lines(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip()


def _refuse_other_version(inside: Iterable[tuple[str, Member]]) -> None:
    own = (assemble.stub("VERSION") or b"").strip()
    for path, member in inside:
        if path == "VERSION" and (mark := member.read(200).strip()) != own:
            raise Refused(
                Fault.OTHER_ASSIGNMENT,
                "This looks like another assignment, or another version of this one: it is marked "
                f"“{shown(mark.decode('utf-8', 'replace'), 40)}”.",
                "Copy your work into the present hand-out and hand that in.",
            )


def _refuse_other_assignment(files: dict[str, bytes], inside: Iterable[tuple[str, Member]]) -> None:
    """Same file name, other exercise: one stub at most, without its functions, beside foreign code."""
    stubs = [name for name in assemble.STUBS if files.get(name)]
    foreign = sorted(
        path
        for path, _ in inside
        if path.endswith(".py") and "/" not in path and not wanted(path) and path not in _NOT_FOREIGN
    )
    if len(stubs) > 1 or not foreign or not any(name.endswith(".py") for name in files):
        return
    if all(any(function.encode() not in files[name] for function in FUNCTIONS[name]) for name in stubs):
        raise Refused(
            Fault.OTHER_ASSIGNMENT,
            f"This looks like another assignment: it holds {', '.join(map(shown, foreign[:5]))}, and "
            f"{' and '.join(stubs) or 'no stub file'} without this lab's functions.",
            HAND_IN,
        )


def _changed_given(inside: Iterable[tuple[str, Member]], limits: Limits) -> tuple[str, ...]:
    """Given files and fixtures that differ from the package's own (line ends apart); reported, never used."""
    own = assemble.given()
    changed = set()
    for path, member in inside:
        if path.endswith(".py") and assemble.is_given(path):
            try:
                data = member.read(limits.file_bytes_max)
            except Refused:
                data = b""
            if path not in own or _lines(data) != _lines(own[path]):
                changed.add(shown(path))
    return tuple(sorted(changed))
