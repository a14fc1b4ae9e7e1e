"""Given: the ledger's file, one SQLite database.

Connections are in autocommit mode: every statement commits by itself unless YOU open a transaction with
`BEGIN IMMEDIATE` and end it with `COMMIT` or `ROLLBACK`. `with db:` alone opens none.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from os import PathLike
from typing import Any

TABLES = (
    """CREATE TABLE IF NOT EXISTS receipts (
        tenant TEXT NOT NULL, event_id TEXT NOT NULL, fingerprint TEXT NOT NULL, PRIMARY KEY (tenant, event_id))""",
    # No uniqueness here: an effect that happens twice must be able to show.
    "CREATE TABLE IF NOT EXISTS effects (tenant TEXT NOT NULL, event_id TEXT NOT NULL, detail TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS totals (tenant TEXT PRIMARY KEY NOT NULL, total_cents INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS rejections (
        rejection_id INTEGER PRIMARY KEY, body TEXT NOT NULL, reason TEXT NOT NULL, times_seen INTEGER NOT NULL,
        UNIQUE (body, reason))""",
    """CREATE TABLE IF NOT EXISTS decisions (
        decision_id INTEGER PRIMARY KEY, rejection_id INTEGER NOT NULL, reviewer TEXT NOT NULL,
        decision TEXT NOT NULL, note TEXT NOT NULL)""",
)


def connect(path: str | PathLike[str], timeout: float = 5.0) -> sqlite3.Connection:
    """Open the ledger in autocommit mode. `timeout`: seconds to wait for another connection's lock."""
    return sqlite3.connect(path, timeout=timeout, isolation_level=None)


def create(path: str | PathLike[str]) -> None:
    """Make the five tables where they are missing."""
    with closing(connect(path)) as db:
        for table in TABLES:
            db.execute(table)


def inspect(path: str | PathLike[str]) -> dict[str, Any]:
    """What is committed, seen through a fresh connection: number of rows in each table, and the totals in cents.

    Never ask the connection that did the work: it also sees what it has not committed yet.
    """
    with closing(connect(path)) as db:
        found: dict[str, Any] = {
            table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("receipts", "effects", "rejections", "decisions")
        }
        found["totals"] = dict(db.execute("SELECT tenant, total_cents FROM totals ORDER BY tenant"))
        return found
