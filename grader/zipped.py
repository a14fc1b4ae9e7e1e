"""Zips, read by name and never extracted: duplicates, overlaps, locks and bombs are found before a byte is unpacked."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import IO

from grader.member import PACK_AGAIN, Fault, Limits, Member, Refused, is_junk, normalise, shown, special, too_many

_END, _END_BYTES, _COMMENT_BYTES_MAX = b"PK\x05\x06", 22, 65_535
_ZIP64_LOCATOR, _ZIP64_LOCATOR_BYTES = b"PK\x06\x07", 20
_ENTRY_BYTES_MAX = 1024  # in the directory: a header and a long name; more for each is a bomb
_LOCAL_HEADER_BYTES = 30
_FOLDER_ENDS = ("/", "\\")


def _tail(file: IO[bytes], size: int) -> tuple[bytes, int]:
    """The last bytes of the file, and where in them the end record starts (-1: nowhere)."""
    file.seek(max(0, size - _END_BYTES - _COMMENT_BYTES_MAX))
    tail = file.read(_END_BYTES + _COMMENT_BYTES_MAX)
    end = tail.rfind(_END)
    return tail, end if len(tail) - end >= _END_BYTES else -1


def looks_like_zip(file: IO[bytes], size: int) -> bool:
    """True when a zip's end record is there; what is before it may still be damaged."""
    return _tail(file, size)[1] >= 0


@contextmanager
def zip_members(file: IO[bytes], size: int, limits: Limits) -> Iterator[list[Member]]:
    """Every regular file that is not junk, in the zip's order, to be read inside the with block. Raises Refused."""
    tail, end = _tail(file, size)
    entries = int.from_bytes(tail[end + 10 : end + 12], "little")
    directory_bytes = int.from_bytes(tail[end + 12 : end + 16], "little")
    # Looked at before zipfile builds a record for each entry: the table alone could hold 400,000 of them.
    zip64 = tail[max(0, end - _ZIP64_LOCATOR_BYTES) : end].startswith(_ZIP64_LOCATOR)
    if zip64 or entries > limits.entries_max or directory_bytes > limits.entries_max * _ENTRY_BYTES_MAX:
        raise too_many(limits)
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, OverflowError) as error:
        reason = f"The zip is damaged or cut off ({shown(str(error))})."
        raise Refused(Fault.UNREADABLE, reason, PACK_AGAIN) from error
    with archive:
        infos = archive.infolist()
        if len(infos) > limits.entries_max:
            raise too_many(limits)
        _refuse_overlaps(infos, archive.start_dir)
        yield list(_members(archive, infos))


def _refuse_overlaps(infos: list[zipfile.ZipInfo], directory_at: int) -> None:
    """Entries that share bytes are how the worst bombs are made; zipfile itself looks from Python 3.11.8 on."""
    spans = sorted(
        (info.header_offset, info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size) for info in infos
    )
    spans.append((directory_at, directory_at))
    if any(end > start for (_, end), (start, _) in pairwise(spans)):
        raise Refused(
            Fault.UNSAFE, "The zip holds entries that overlap, which no ordinary zip program makes.", PACK_AGAIN
        )


def _members(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo]) -> Iterator[Member]:
    for info in infos:
        path = normalise(info.orig_filename)
        mode = info.external_attr >> 16
        if not path or is_junk(path):
            continue
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise special(path, mode)
        if info.orig_filename.endswith(_FOLDER_ENDS) or stat.S_ISDIR(mode):
            continue
        if info.flag_bits & 1:
            reason = f"The zip is locked with a password ({shown(path)})."
            raise Refused(Fault.UNREADABLE, reason, "Make a zip without a password and hand in again.")
        yield Member(path=path, read=_reader(archive, info, path))


def _reader(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> Callable[[int], bytes]:
    def read(count: int) -> bytes:
        # Only these two: the others may ask for memory by the archive's own word.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Refused(Fault.UNREADABLE, f"The zip packs {shown(path)} in a way that is not read here.", PACK_AGAIN)
        try:
            with archive.open(info) as stream:
                return stream.read(count)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError) as error:
            reason = f"The zip is damaged: {shown(path)} cannot be read ({shown(str(error))})."
            raise Refused(Fault.UNREADABLE, reason, PACK_AGAIN) from error

    return read
