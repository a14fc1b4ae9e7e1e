"""Safe reading of what a student uploaded: a zip or a folder becomes a list of members, in memory.

Nothing is ever unpacked to disk, no link is followed, no special file is opened, and only members that
intake asks for are decompressed, each under a cap in bytes. All sizes are bytes.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

JUNK_FOLDERS = frozenset(
    "__macosx __pycache__ .git .svn .hg .idea .vscode .venv venv .nox .tox node_modules .pytest_cache "
    ".mypy_cache .ruff_cache .hypothesis .ipynb_checkpoints $recycle.bin .eggs".split()
)
JUNK_FILES = frozenset((".ds_store", "thumbs.db", "desktop.ini", ".localized", ".gitignore", ".gitattributes"))
_DRIVE = re.compile(r"^[A-Za-z]:/")
_EOCD, _ZIP64_LOCATOR = b"PK\x05\x06", b"PK\x06\x07"
_CENTRAL_ENTRY_BYTES_MAX = 1024  # a header and a long name; a directory bigger than entries_max of these is a bomb
_MAGIC = (
    (b"\x1f\x8b", "a gzip file (such as a tar.gz)"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
)


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
    zip_bytes_max: int = 20 * 1024 * 1024
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
            f"The upload holds a name that points outside of its own folder: {shown(name)}",
            "Zip the folder student/ again, with an ordinary zip program, and hand that in.",
        )
    return "/".join(parts)


def _special(path: str, mode: int) -> Refused:
    kind = "a link" if stat.S_ISLNK(mode) else "a special file (pipe, socket or device)"
    return Refused(
        Fault.UNSAFE,
        f"The upload holds {kind}, which is never followed or opened: {shown(path)}",
        "Replace it by the file itself, or leave it out, and hand in again.",
    )


def _too_many(limits: Limits) -> Refused:
    return Refused(
        Fault.TOO_LARGE,
        f"The upload holds more than {limits.entries_max:,} files and folders.",
        "Hand in the folder student/ only.",
    )


def not_a_zip(head: bytes) -> str:
    """What a file that is no zip seems to be, as a noun phrase."""
    if not head.strip(b"\0"):
        return "an empty file"
    for magic, noun in _MAGIC:
        if head.startswith(magic):
            return noun
    if head[257:262] == b"ustar":
        return "a tar archive"
    if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "a web page (perhaps a log-in page saved in place of the file)"
    return "a zip that was cut off" if head.startswith(b"PK\x03\x04") else "no zip"


class Zip:
    """A zip opened for reading by name, never extracted. Use as a context manager; raises Refused."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._limits = limits
        # O_NONBLOCK: a pipe with this name must not hang the batch.
        self._file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        try:
            self._zip = self._open()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Zip:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def _open(self) -> zipfile.ZipFile:
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _special("the upload itself", status.st_mode)
        if status.st_size > self._limits.zip_bytes_max:
            raise Refused(
                Fault.TOO_LARGE,
                f"The zip is {status.st_size:,} bytes; at most {self._limits.zip_bytes_max:,} are read.",
                "Hand in the folder student/ only.",
            )
        head = self._file.read(512)
        self._file.seek(max(0, status.st_size - 65_557))
        tail = self._file.read()
        end = tail.rfind(_EOCD)
        advice = "Make an ordinary .zip of the folder student/ (`nox -s submit` does it) and hand that in."
        if end < 0 or len(tail) - end < 22:
            raise Refused(Fault.UNREADABLE, f"The upload cannot be read as a zip: it is {not_a_zip(head)}.", advice)
        entries = int.from_bytes(tail[end + 10 : end + 12], "little")
        directory_bytes = int.from_bytes(tail[end + 12 : end + 16], "little")
        # Looked at before zipfile builds a record for each entry: the table alone could hold 400,000 of them.
        zip64 = tail[max(0, end - 20) : end].startswith(_ZIP64_LOCATOR)
        directory_bytes_max = self._limits.entries_max * _CENTRAL_ENTRY_BYTES_MAX
        if zip64 or entries > self._limits.entries_max or directory_bytes > directory_bytes_max:
            raise _too_many(self._limits)
        try:
            return zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, OverflowError) as error:
            raise Refused(Fault.UNREADABLE, f"The zip is damaged or cut off ({shown(str(error))}).", advice) from error

    def members(self) -> Iterator[Member]:
        """Every regular file that is not junk, in the zip's order; raises Refused for unsafe or locked entries."""
        infos = self._zip.infolist()
        if len(infos) > self._limits.entries_max:
            raise _too_many(self._limits)
        for info in infos:
            path = normalise(info.orig_filename)
            mode = info.external_attr >> 16
            if not path or is_junk(path):
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _special(path, mode)
            if info.orig_filename.endswith(("/", "\\")) or stat.S_ISDIR(mode):
                continue
            if info.flag_bits & 1:
                raise Refused(
                    Fault.UNREADABLE,
                    f"The zip is locked with a password ({shown(path)}).",
                    "Make a zip without a password and hand in again.",
                )
            yield Member(path=path, read=self._reader(info, path))

    def _reader(self, info: zipfile.ZipInfo, path: str) -> Callable[[int], bytes]:
        def read(count: int) -> bytes:
            advice = "Make the zip again and hand in again."
            # Only these two: the others may ask for memory by the archive's own word.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Refused(Fault.UNREADABLE, f"{shown(path)} is packed in a way that is not read here.", advice)
            try:
                with self._zip.open(info) as stream:
                    return stream.read(count)
            except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError) as error:
                raise Refused(
                    Fault.UNREADABLE, f"The zip is damaged: {shown(path)} cannot be read ({shown(str(error))}).", advice
                ) from error

        return read


def folder_members(root: Path, limits: Limits) -> Iterator[Member]:
    """Every regular file below a folder that is not junk, sorted; raises Refused for links and special files."""
    seen = 0
    waiting = [("", root)]
    while waiting:
        prefix, folder = waiting.pop()
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            seen += 1
            if seen > limits.entries_max:
                raise _too_many(limits)
            path = normalise(prefix + entry.name)
            if not path or is_junk(path):
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                if path.count("/") < limits.folder_depth_max:
                    waiting.append((path + "/", Path(entry.path)))
            elif stat.S_ISREG(mode):
                yield Member(path=path, read=_file_reader(Path(entry.path), path))
            else:
                raise _special(path, mode)


def _file_reader(source: Path, path: str) -> Callable[[int], bytes]:
    def read(count: int) -> bytes:
        try:
            descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise Refused(
                Fault.UNREADABLE, f"{shown(path)} cannot be read ({error.strerror}).", "Hand in a readable file."
            ) from error
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _special(path, os.fstat(descriptor).st_mode)
            return stream.read(count)

    return read
