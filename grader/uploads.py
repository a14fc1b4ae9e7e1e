"""The uploads of a class: one a student, found by name alone; nothing is read here."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from grader import assemble
from grader.layout import wanted
from grader.member import is_junk, shown

ARCHIVE_ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")
_BESIDE = (".csv", ".md", ".txt", ".rst", ".json", ".toml", ".yml", ".yaml", ".xlsx", ".ods", ".html", ".htm", ".log")
"""Endings of what instructors and exports leave beside the uploads; any other file is somebody's upload."""
_BESIDE_NAMES = ("readme", "license", "makefile")


class IntakeError(Exception):
    """The path given holds nothing to grade; the text is one sentence for the instructor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One student's upload: a folder or a file. `key` names the student in every output."""

    key: str
    source: Path
    notes: tuple[str, ...] = ()


def find(path: Path) -> list[Upload]:
    """The uploads of a class folder, one a student, sorted by key; a lone submission is a class of one.

    Raises IntakeError when there is no such path, or nothing in it that could be an upload.
    """
    name = shown(str(path), 200)
    try:
        if not path.exists():
            raise IntakeError(f"There is no file or folder {name}: give a folder of submissions, or one submission.")
        if path.is_file():
            if not path.name.casefold().endswith(ARCHIVE_ENDINGS) and wanted(path.name) is None:
                raise IntakeError(f"{name} is no submission: give a folder of submissions, or one .zip or .tar.gz.")
            return [Upload(key=_key(path), source=path)]
        if not path.is_dir():
            raise IntakeError(f"{name} is neither a folder nor a file that can be graded.")
        children = _children(path)
        if _is_submission(path, children):
            return [Upload(key=_text(path.resolve().name), source=path)]
        if len(children) == 1 and _is_class(children[0]):
            children = _children(children[0])
    except OSError as error:
        raise IntakeError(f"{name} cannot be read: {error.strerror}.") from error
    if not children:
        raise IntakeError(f"{name} holds no submission: it should hold one folder, .zip or .tar.gz for each student.")
    return _named(children)


def _children(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if _is_upload(child))


def _is_upload(child: Path) -> bool:
    name = child.name.casefold()
    if is_junk(name) or name.startswith("."):
        return False
    if child.is_dir() or child.is_symlink() or name.endswith(ARCHIVE_ENDINGS):
        return True
    return not name.endswith(_BESIDE) and not name.startswith(_BESIDE_NAMES)


def _holds_stub(folder: Path) -> bool:
    return any((folder / name).is_file() for name in assemble.STUBS)


def _is_submission(path: Path, children: list[Path]) -> bool:
    """True for the folder student/ itself, and for one that holds it beside fixtures and the like."""
    return _holds_stub(path) or any(child.name == "student" and _holds_stub(child) for child in children)


def _is_class(folder: Path) -> bool:
    """True for the one folder around a class, as unpacking an export makes it: several uploads and no work itself."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    children = _children(folder)
    holds_work = sum(child.name.casefold().endswith(ARCHIVE_ENDINGS) or _holds_stub(child) for child in children)
    return holds_work > 1 and not _is_submission(folder, children)


def _text(name: str) -> str:
    """A file name as text that can be written as UTF-8, whatever bytes it has."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _key(path: Path) -> str:
    """The name of a folder, or that of a file without its ending."""
    if path.is_dir() and not path.is_symlink():
        return _text(path.name)
    for ending in ARCHIVE_ENDINGS:
        if path.name.casefold().endswith(ending) and len(path.name) > len(ending):
            return _text(path.name[: -len(ending)])
    return _text(path.stem)


def _named(children: list[Path]) -> list[Upload]:
    """Two uploads never share a key: where names without ending are equal, the whole file names are kept."""
    plain = {child: _key(child) for child in children}
    often = Counter(plain.values())
    taken: set[str] = set()
    uploads = []
    for child, key in plain.items():
        notes: tuple[str, ...] = ()
        if often[key] > 1:
            notes = (f"More than one upload is called {shown(key)}; each is graded on its own.",)
            key = _text(child.name)
        while key in taken:
            key += "+"
        taken.add(key)
        uploads.append(Upload(key=key, source=child, notes=notes))
    return sorted(uploads, key=lambda upload: upload.key)
