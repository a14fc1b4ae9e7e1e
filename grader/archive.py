"""Safe reading of what a student uploaded: a zip, a tar, a folder or one file becomes a list of members, in memory.

Nothing is ever unpacked to disk, no link is followed, no special file is opened, and nothing is decompressed without
a cap in bytes: what an archive says of its own sizes is never believed. All sizes are bytes.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from grader.member import PACK_AGAIN, Fault, Limits, Member, Refused, is_junk, normalise, shown, special, too_many
from grader.zipped import looks_like_zip, zip_members

_GZIP = b"\x1f\x8b"
_LONE_ENDINGS = (".py", ".toml", ".md")
_MAGIC = (
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
)


@contextmanager
def members(source: Path, limits: Limits) -> Iterator[list[Member]]:
    """The regular files of an upload without junk, to be read inside the with block. Raises Refused and OSError."""
    mode = source.lstat().st_mode
    if stat.S_ISDIR(mode):
        yield list(_folder_members(source, limits))
        return
    with _opened(source, "the upload itself") as file:
        size = os.fstat(file.fileno()).st_size
        if source.suffix.casefold() in _LONE_ENDINGS:
            yield [Member(path=source.name, read=file.read)]
            return
        if size > limits.archive_bytes_max:
            reason = f"The upload is {size:,} bytes; at most {limits.archive_bytes_max:,} are read."
            raise Refused(Fault.TOO_LARGE, reason, "Hand in the folder student/ only.")
        head = file.read(512)
        file.seek(0)
        if head.startswith(_GZIP) or head[257:262] == b"ustar":
            yield list(_tar_members(file, zipped=head.startswith(_GZIP), limits=limits))
            return
        if not looks_like_zip(file, size):
            reason = f"The upload cannot be read as a zip or a tar: it is {_noun(head)}."
            raise Refused(Fault.UNREADABLE, reason, PACK_AGAIN)
        with zip_members(file, size, limits) as held:
            yield held


def _noun(head: bytes) -> str:
    """What a file that is no archive of ours seems to be."""
    if not head.strip(b"\0"):
        return "an empty file"
    for magic, noun in _MAGIC:
        if head.startswith(magic):
            return noun
    if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "a web page (perhaps a log-in page saved in place of the file)"
    return "a zip that was cut off" if head.startswith(b"PK\x03\x04") else "something else"


def _opened(source: Path, path: str) -> IO[bytes]:
    # O_NONBLOCK: a pipe with this name must not hang the batch.
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if source.is_symlink():
            raise special(path, stat.S_IFLNK) from error
        reason = f"{shown(path)} cannot be read on this machine: {error.strerror}."
        raise Refused(Fault.UNREADABLE, reason[0].upper() + reason[1:], "Hand in a readable file.") from error
    file = os.fdopen(descriptor, "rb")
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        file.close()
        raise special(path, mode)
    return file


def _folder_members(root: Path, limits: Limits) -> Iterator[Member]:
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
                raise too_many(limits)
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
                raise special(path, mode)


def _file_reader(source: Path, path: str) -> Callable[[int], bytes]:
    def read(count: int) -> bytes:
        with _opened(source, path) as file:
            return file.read(count)

    return read


class _Capped:
    """A stream that ends in a refusal after a number of bytes, so that a bomb costs no more than the cap."""

    def __init__(self, stream: IO[bytes], bytes_max: int) -> None:
        self._stream = stream
        self._left = bytes_max

    def read(self, count: int = -1) -> bytes:
        data = self._stream.read(min(count if count >= 0 else self._left + 1, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise Refused(
                Fault.TOO_LARGE,
                "The archive grows far larger when it is unpacked than a submission may be.",
                "Hand in the folder student/ only.",
            )
        return data


def _tar_members(file: IO[bytes], *, zipped: bool, limits: Limits) -> Iterator[Member]:
    """Every regular file of a tar that is not junk, held in memory; read as a stream, which never seeks back."""
    stream = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if zipped else file
    capped = cast("IO[bytes]", _Capped(stream, limits.unpacked_bytes_max))
    seen = 0
    try:
        with tarfile.open(fileobj=capped, mode="r|") as tar:
            for info in tar:
                seen += 1
                if seen > limits.entries_max:
                    raise too_many(limits)
                path = normalise(info.name)
                if not path or is_junk(path) or info.isdir():
                    continue
                if not info.isreg() or info.issparse():
                    raise special(path, stat.S_IFLNK if info.issym() or info.islnk() else stat.S_IFIFO)
                content = tar.extractfile(info)
                data = b"" if content is None else content.read(limits.file_bytes_max + 1)
                yield Member(path=path, read=_held(data))
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, OverflowError) as error:
        noun = "The tar.gz" if zipped else "The tar"
        reason = f"{noun} is damaged, cut off, or holds no files ({shown(str(error))})."
        raise Refused(Fault.UNREADABLE, reason, PACK_AGAIN) from error


def _held(data: bytes) -> Callable[[int], bytes]:
    return lambda count: data[:count]
