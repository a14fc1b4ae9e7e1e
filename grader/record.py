"""What a run leaves on disk: files that are whole or not there, and a ledger of which submission has which result."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FILE = "run.db"
FORMAT_VERSION = 1
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d|gradebook|class|run|work)(\..*)?")


class RecordError(Exception):
    """The run folder cannot be used; the text is one sentence for the instructor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One recorded result. `engine` is the digest of the grader, `report` the sha256 of report.json (or empty)."""

    key: str
    folder: str
    digest: str
    seed: int
    engine: str
    status: str
    reason: str | None
    report: str


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: temporary name, synced, renamed. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: object) -> None:
    """JSON with a final newline, ASCII only: foreign text cannot break the file. Raises OSError."""
    write(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode("ascii"))


class Ledger:
    """Results by key in `run.db`. Only one run at a time may hold it; raises RecordError when that is not us."""

    def __init__(self, folder: Path) -> None:
        try:
            self._db = sqlite3.connect(folder / FILE, timeout=0.2, isolation_level=None)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, folder TEXT NOT NULL UNIQUE, digest TEXT "
                "NOT NULL, seed TEXT NOT NULL, engine TEXT NOT NULL, status TEXT NOT NULL, reason TEXT, "
                "report TEXT NOT NULL)"
            )
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('format_version', ?)", (str(FORMAT_VERSION),))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            text = (
                "is being graded by another process" if "locked" in str(error) else f"has a ledger that fails: {error}"
            )
            raise RecordError(f"The run folder {folder} {text}.") from error

    def close(self) -> None:
        self._db.close()

    def seed(self, wanted: int | None, fresh: int) -> int:
        """The seed of this run: the wanted one, else that of the run's first time, else a fresh one."""
        row = self._db.execute("SELECT value FROM meta WHERE name = 'seed'").fetchone()
        seed = wanted if wanted is not None else int(row[0]) if row else fresh
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('seed', ?)", (str(seed),))
        return seed

    def get(self, key: str) -> Result | None:
        row = self._db.execute(
            "SELECT folder, digest, seed, engine, status, reason, report FROM results WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        folder, digest, seed, engine, status, reason, report = row
        return Result(
            key=key,
            folder=folder,
            digest=digest,
            seed=int(seed),
            engine=engine,
            status=status,
            reason=reason,
            report=report,
        )

    def put(self, result: Result) -> None:
        """Record one result, in one transaction; an earlier one of the same key is replaced."""
        row = (result.key, result.folder, result.digest, str(result.seed), result.engine, result.status)
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(
            "INSERT OR REPLACE INTO results VALUES (?,?,?,?,?,?,?,?)", (*row, result.reason, result.report)
        )
        self._db.execute("COMMIT")

    def folders(self, keys: Iterable[str]) -> dict[str, str]:
        """A folder name for each key: safe on every file system, never shared, the same on every run."""
        known = dict(self._db.execute("SELECT key, folder FROM results"))
        taken = {folder.casefold() for folder in known.values()}
        names = {}
        for key in keys:
            if key not in known:
                known[key] = folder_name(key, taken)
                taken.add(known[key].casefold())
            names[key] = known[key]
        return names


def folder_name(key: str, taken: Iterable[str] = ()) -> str:
    """A file name for a key; one that had to be changed, or is taken (case apart), carries a piece of its sha256."""
    safe = re.sub(r"[^A-Za-z0-9._@+-]+", "_", key)[:60].strip("._-") or "submission"
    if safe == key and not _RESERVED.fullmatch(safe) and safe.casefold() not in taken:
        return safe
    return f"{safe}-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
