"""What an upload is made of: named members, the caps on them, and the reasons for refusing all of it."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

JUNK_FOLDERS = frozenset(
    [
        "__macosx",
        "__pycache__",
        ".git",
        ".svn",
        ".hg",
        ".idea",
        ".vscode",
        ".venv",
        "venv",
        ".nox",
        ".tox",
        "node_modules",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".ipynb_checkpoints",
        "$recycle.bin",
        ".eggs",
    ]
)
JUNK_FILES = frozenset((".ds_store", "thumbs.db", "desktop.ini", ".localized", ".gitignore", ".gitattributes"))
PACK_AGAIN = "Make an ordinary .zip of the folder student/ (`nox -s submit` does it) and hand that in."
_DRIVE = re.compile(r"^[A-Za-z]:/")


class Fault(StrEnum):
    """Why an upload was refused: a closed set, so that rows of one kind can be counted together."""

    NOTHING_SUBMITTED = "nothing submitted"
    OTHER_ASSIGNMENT = "another assignment"
    UNREADABLE = "unreadable"
    UNSAFE = "unsafe"
    TOO_LARGE = "too large"
    AMBIGUOUS = "ambiguous"


class Refused(Exception):
    """The upload as a whole cannot be read; `reason` and `advice` are plain sentences for the student."""

    def __init__(self, fault: Fault, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.fault = fault
        self.reason = reason
        self.advice = advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Caps on one upload; sizes in bytes."""

    file_bytes_max: int = 256 * 1024
    submission_bytes_max: int = 2 * 1024 * 1024
    archive_bytes_max: int = 20 * 1024 * 1024
    unpacked_bytes_max: int = 32 * 1024 * 1024  # of a tar, which must be unpacked to be looked at
    entries_max: int = 2_000
    tests_max: int = 20
    folder_depth_max: int = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One regular file of an upload: its normalised path with `/`, and how to read at most `n` bytes of it."""

    path: str
    read: Callable[[int], bytes]


def shown(text: str, length_max: int = 80) -> str:
    """Foreign text for a sentence: unprintable characters escaped, long text cut."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return safe if len(safe) <= length_max else safe[: length_max - 1] + "…"


def is_junk(path: str) -> bool:
    """True for what an operating system, an editor, git or Python leaves lying beside the work."""
    *folders, name = path.casefold().split("/")
    return (
        not JUNK_FOLDERS.isdisjoint(folders)
        or name in JUNK_FOLDERS
        or name in JUNK_FILES
        or name.startswith("._")
        or name.endswith((".pyc", ".pyo", ".swp", "~"))
    )


def normalise(name: str) -> str:
    """A member's name as a relative path with `/`; raises Refused when it points out of the submission."""
    slashed = name.replace("\\", "/")
    parts = [part for part in slashed.split("/") if part not in ("", ".")]
    if "\0" in name or slashed.startswith("/") or _DRIVE.match(slashed) or ".." in parts:
        raise Refused(
            Fault.UNSAFE,
            f"The upload holds a name that points outside of its own folder: {shown(name)}.",
            PACK_AGAIN,
        )
    return "/".join(parts)


def special(path: str, mode: int) -> Refused:
    """The refusal of a link, pipe, socket or device; `mode` as in st_mode."""
    kind = "a link" if stat.S_ISLNK(mode) else "a special file (pipe, socket or device)"
    return Refused(
        Fault.UNSAFE,
        f"The upload holds {kind}, which is never followed or opened: {shown(path)}.",
        "Replace it by the file itself, or leave it out, and hand in again.",
    )


def too_many(limits: Limits) -> Refused:
    """The refusal of an upload with more entries than are looked at."""
    return Refused(
        Fault.TOO_LARGE,
        f"The upload holds more than {limits.entries_max:,} files and folders.",
        "Hand in the folder student/ only.",
    )
