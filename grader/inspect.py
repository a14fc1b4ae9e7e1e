"""Reads a student's SQLite files safely: the evidence that no reply can talk away.

The file is hostile. It is opened below a folder descriptor without following links, must be a regular file of bounded
size with one name, and is copied before SQLite sees it. Its schema is compared as text before anything is selected;
nothing in it is ever executed: no views, no triggers, no virtual tables.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE_BYTES_MAX = 4 * 1024 * 1024
ROWS_MAX = 500
READ_S = 0.5
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "ledger.db": {
        "receipts": ("tenant", "event_id", "fingerprint"),
        "effects": ("tenant", "event_id", "detail"),
        "totals": ("tenant", "total_cents"),
        "rejections": ("rejection_id", "body", "reason", "times_seen"),
        "decisions": ("decision_id", "rejection_id", "reviewer", "decision", "note"),
    },
    "queue.db": {"messages": ("message_id", "state", "attempt")},
}


class Unreadable(Exception):
    """The file is not what the given code makes. The text says what it is instead, in words for the student."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a fresh connection finds in the ledger: rows as tuples, in the order they were written."""

    receipts: list[tuple[Any, ...]]
    effects: list[tuple[Any, ...]]
    totals: dict[Any, Any]
    rejections: list[tuple[Any, ...]]
    decisions: list[tuple[Any, ...]]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many (receipts, effects, rejections)."""
        return len(self.receipts), len(self.effects), len(self.rejections)


def ledger(folder: int, schema: dict[str, str]) -> State:
    """The ledger below the folder descriptor. `schema`: table name -> its SQL as the given code creates it."""
    rows = _read(folder, "ledger.db", schema)
    totals = dict(rows["totals"])
    return State(
        receipts=rows["receipts"],
        effects=rows["effects"],
        totals=totals,
        rejections=rows["rejections"],
        decisions=rows["decisions"],
    )


def schema(folder: int, name: str) -> dict[str, str]:
    """Table -> SQL of a file that only given code has touched yet. Raises Unreadable."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(contents(folder, name) or b"")
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    except sqlite3.Error as error:
        raise Unreadable(f"{name} was not made") from error
    finally:
        connection.close()


def queue(folder: int, schema: dict[str, str]) -> list[tuple[Any, Any]]:
    """(state, attempt) of each message, in the order they were sent."""
    return [(state, attempt) for _, state, attempt in _read(folder, "queue.db", schema)["messages"]]


def write_locked(folder: int, name: str = "ledger.db") -> bool:
    """Another connection could not begin to write now: someone holds SQLite's reserved or WAL write lock."""
    return _locked(folder, name, 0x40000001) or _locked(folder, name + "-shm", 120)


def waited_for(folder: int, name: str = "ledger.db") -> bool:
    """Someone holds SQLite's pending or exclusive lock, which comes after the reserved one."""
    return _locked(folder, name, 0x40000000)


def _locked(folder: int, name: str, byte: int) -> bool:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        if sys.platform == "darwin":
            asked = struct.pack("qqihh", byte, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
            return struct.unpack("qqihh", fcntl.fcntl(fd, fcntl.F_GETLK, asked))[3] != fcntl.F_UNLCK
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        return bool(struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(fd)


def contents(folder: int, name: str) -> bytes | None:
    """The bytes of a regular file with one name and a bounded size; None where there is none. Raises Unreadable."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{name} is not a plain file any more") from error
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise Unreadable(f"{name} is not a plain file any more")
        if facts.st_size > FILE_BYTES_MAX:
            raise Unreadable(f"{name} has grown past {FILE_BYTES_MAX // 1024 // 1024} MiB")
        data = b""
        while len(data) <= FILE_BYTES_MAX:
            more = os.read(fd, 1 << 20)
            if not more:
                return data
            data += more
        raise Unreadable(f"{name} has grown past {FILE_BYTES_MAX // 1024 // 1024} MiB")
    finally:
        os.close(fd)


def _read(folder: int, name: str, schema: dict[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    data = contents(folder, name)
    if data is None:
        raise Unreadable(f"{name} is gone")
    beside = {suffix: contents(folder, name + suffix) for suffix in ("-journal", "-wal")}
    if data[18:20] == b"\x01\x01" and not any(beside.values()):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            connection.deserialize(data)
            return _rows(connection, name, schema)
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise Unreadable(f"{name} is no sound SQLite file any more") from error
        finally:
            connection.close()
    journal = beside["-journal"] or b""
    if journal[-8:] == _JOURNAL_MAGIC and len(journal) > 512:
        # SQLite would open, and may delete, whatever file such a journal names
        raise Unreadable(f"{name}-journal names another file")
    with tempfile.TemporaryDirectory(prefix="redelivery-inspect-") as private:
        for suffix, content in {"": data, **beside}.items():
            if content:
                Path(private, name + suffix).write_bytes(content)
        connection = sqlite3.connect(str(Path(private, name)), isolation_level=None, timeout=0)
        try:
            return _rows(connection, name, schema)
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise Unreadable(f"{name} is no sound SQLite file any more") from error
        finally:
            connection.close()


def _rows(connection: sqlite3.Connection, name: str, schema: dict[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    end = time.monotonic() + READ_S
    connection.set_progress_handler(lambda: int(time.monotonic() > end), 20_000)
    for limit, value in (
        (sqlite3.SQLITE_LIMIT_LENGTH, FILE_BYTES_MAX),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 20_000),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 20),
    ):
        connection.setlimit(limit, value)
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.text_factory = bytes
    found = {}
    for kind, table, sql in connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT 100"):
        if kind not in (b"table", b"index"):
            raise Unreadable(f"{name} holds a {_text(kind)[:20]}, which the given schema does not")
        if kind == b"table":
            found[_text(table)] = _text(sql or b"")
    for table, sql in schema.items():
        if found.get(table) != sql:
            raise Unreadable(f"the table {table} in {name} is not the given one any more")
    connection.execute("PRAGMA query_only=ON").close()
    connection.set_authorizer(_only_reading)
    if connection.execute("PRAGMA quick_check(1)").fetchone() != (b"ok",):
        raise Unreadable(f"{name} is no sound SQLite file any more")
    rows = {}
    for table, columns in _TABLES[name].items():
        got = connection.execute(
            f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid LIMIT {ROWS_MAX + 1}"
        ).fetchall()
        if len(got) > ROWS_MAX:
            raise Unreadable(f"the table {table} in {name} has more than {ROWS_MAX} rows")
        rows[table] = [tuple(_text(value) if type(value) is bytes else value for value in row) for row in got]
    return rows


_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION}


def _only_reading(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
