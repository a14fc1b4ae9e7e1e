"""Whatever a submission leaves where its database should be, looking at it is safe and ends in words."""

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader import inspect

SCHEMA = {
    "receipts": "CREATE TABLE receipts (tenant TEXT NOT NULL, event_id TEXT NOT NULL, fingerprint TEXT NOT NULL)",
    "effects": "CREATE TABLE effects (tenant TEXT, event_id TEXT, detail TEXT)",
    "totals": "CREATE TABLE totals (tenant TEXT PRIMARY KEY, total_cents INTEGER)",
    "rejections": "CREATE TABLE rejections (rejection_id INTEGER PRIMARY KEY, body, reason, times_seen)",
    "decisions": "CREATE TABLE decisions (decision_id INTEGER PRIMARY KEY, rejection_id, reviewer, decision, note)",
}


def made(folder: Path, *more: str) -> sqlite3.Connection:
    """The given tables, and whatever the submission did to them."""
    db = sqlite3.connect(folder / "ledger.db", isolation_level=None)
    for sql in (*SCHEMA.values(), *more):
        db.execute(sql)
    return db


def looked_at(folder: Path) -> inspect.State:
    """The ledger as the trusted side sees it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return inspect.ledger(descriptor, SCHEMA)
    finally:
        os.close(descriptor)


def locked(folder: Path) -> bool:
    """Whether the trusted side sees a write lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return inspect.write_locked(descriptor)
    finally:
        os.close(descriptor)


def test_committed_rows_are_seen_and_uncommitted_ones_are_not(tmp_path: Path) -> None:
    """The look sees what a fresh connection sees: nothing of an open transaction, everything of a committed one."""
    db = made(tmp_path)
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO receipts VALUES ('north', 'A', 'f')")
    assert looked_at(tmp_path).counts == (0, 0, 0)
    db.execute("COMMIT")
    assert looked_at(tmp_path).receipts == [("north", "A", "f")]
    db.close()


def test_rows_in_a_write_ahead_log_are_seen(tmp_path: Path) -> None:
    """A student may switch the file to WAL; its committed rows are seen all the same."""
    db = made(tmp_path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("INSERT INTO effects VALUES ('north', 'A', 'x')")
    assert looked_at(tmp_path).counts == (0, 1, 0)
    db.close()


def test_a_write_lock_is_seen_from_outside(tmp_path: Path) -> None:
    """Whether someone holds the write lock is asked of the kernel, not of the file."""
    db = made(tmp_path)
    reader = os.fork()
    if reader == 0:  # POSIX locks of one's own process do not show: ask from another one
        os._exit(int(locked(tmp_path)))
    assert os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) == 0
    db.execute("BEGIN IMMEDIATE")
    reader = os.fork()
    if reader == 0:
        os._exit(int(locked(tmp_path)))
    assert os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) == 1
    db.close()


def _link(folder: Path) -> None:
    (folder / "ledger.db").symlink_to("/etc/passwd")


def _second_name(folder: Path) -> None:
    made(folder).close()
    os.link(folder / "ledger.db", folder / "other")


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "ledger.db")


def _folder(folder: Path) -> None:
    (folder / "ledger.db").mkdir()


def _sparse(folder: Path) -> None:
    with open(folder / "ledger.db", "wb") as file:
        file.truncate(1 << 40)


def _garbage(folder: Path) -> None:
    (folder / "ledger.db").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)


def _trigger(folder: Path) -> None:
    made(folder, "CREATE TRIGGER t AFTER INSERT ON receipts BEGIN DELETE FROM totals; END").close()


def _view(folder: Path) -> None:
    made(
        folder, "DROP TABLE effects", "CREATE VIEW effects AS SELECT tenant, event_id, 'x' AS detail FROM receipts"
    ).close()


def _hidden_column(folder: Path) -> None:
    made(
        folder, "DROP TABLE effects", "CREATE TABLE effects (tenant TEXT, event_id TEXT, detail TEXT AS ('x'))"
    ).close()


def _too_many(folder: Path) -> None:
    made(
        folder,
        "INSERT INTO effects WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 600) "
        "SELECT i, i, i FROM n",
    ).close()


def _nothing(folder: Path) -> None:
    """Leave no file at all."""


def _journal_naming_another_file(folder: Path) -> None:
    made(folder).close()
    victim = folder / "victim"
    victim.write_bytes(b"ledger.db-journal\0")
    name = str(victim).encode()
    tail = (2**31 - 1).to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + (sum(name) % 2**32).to_bytes(4, "big")
    (folder / "ledger.db-journal").write_bytes(
        bytes.fromhex("d9d505f920a163d7").ljust(1024, b"\1") + tail + bytes.fromhex("d9d505f920a163d7")
    )


@pytest.mark.parametrize(
    "leave",
    [
        _link,
        _second_name,
        _fifo,
        _folder,
        _sparse,
        _garbage,
        _trigger,
        _view,
        _hidden_column,
        _too_many,
        _nothing,
        _journal_naming_another_file,
    ],
)
def test_what_is_not_the_given_file_is_refused_in_words(tmp_path: Path, leave: Callable[[Path], None]) -> None:
    """Links, pipes, folders, giants, garbage, triggers, views: each is refused in one sentence, nothing is executed."""
    leave(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(inspect.Unreadable, match=r"^(ledger\.db|the table)"):
        looked_at(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_text_that_is_no_text_is_shown_escaped(tmp_path: Path) -> None:
    """An id with bad UTF-8 comes out as escaped text, not as an error."""
    made(tmp_path, "INSERT INTO receipts VALUES (CAST(x'ff41' AS TEXT), 'A', 'f')").close()
    assert looked_at(tmp_path).receipts == [("\\xffA", "A", "f")]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(st.data())
def test_a_damaged_file_gives_rows_or_words_and_nothing_else(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes overwritten anywhere in file or journal never raise anything but Unreadable."""
    if not (tmp_path / "pristine").exists():
        made(tmp_path, "INSERT INTO receipts VALUES ('north', 'A', 'f')").close()
        (tmp_path / "ledger.db").rename(tmp_path / "pristine")
    content = bytearray((tmp_path / "pristine").read_bytes())
    for _ in range(data.draw(st.integers(1, 12))):
        content[data.draw(st.integers(0, 400) | st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "ledger.db").write_bytes(content)
    beside = data.draw(st.sampled_from(["", "-journal", "-wal"]))
    if beside:
        (tmp_path / f"ledger.db{beside}").write_bytes(data.draw(st.binary(max_size=600)))
    try:
        looked_at(tmp_path)
    except inspect.Unreadable:
        pass
    for suffix in ("", "-journal", "-wal"):
        (tmp_path / f"ledger.db{suffix}").unlink(missing_ok=True)
    assert stat.S_ISDIR(os.stat(tmp_path).st_mode)
