"""Before anyone is graded the sandbox proves itself: honest code works in it, and what must be closed is closed.

The probe is a submission of ours that tries to get out, in the same sandbox, over the same wire. It reports what it
got done; only "nothing" lets grading begin.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from grader import assemble, inspect, sandbox
from grader.child import Kind
from grader.session import Session

SLOT = 3_999
_EVENT = {"tenant": "north", "event_id": "probe", "amount_cents": 1}
_SOURCE = b"""
import ctypes
import os
import socket
import struct


def apply_event(db, event, effect):
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO receipts VALUES (?, ?, ?)", (event["tenant"], event["event_id"], "probe"))
    effect(db, event)
    db.execute("COMMIT")
    return "applied"


def _network():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM):
        pass


def _fork():
    if os.fork() == 0:
        os._exit(0)


def _program():
    os.posix_spawn("/opt/python/bin/python3", ["python3", "-c", "pass"], {})


def _namespace():
    if ctypes.CDLL(None).unshare(0x10000000):
        raise OSError


def _capabilities():
    held = ctypes.create_string_buffer(24)
    ctypes.CDLL(None).capget(ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0)), held)
    if not any(held.raw):
        raise OSError


def _write(path):
    def attempt():
        with open(path, "w"):
            pass

    return attempt


def _see(path):
    def attempt():
        os.stat(path)

    return attempt


def _environment():
    if set(os.environ) <= {"LC_ALL", "TMPDIR", "HOME", "PWD", "LD_BIND_NOW", "LD_LIBRARY_PATH"}:
        raise OSError


ATTEMPTS = {
    "open a network socket": _network,
    "start another process": _fork,
    "start a program": _program,
    "make a user namespace": _namespace,
    "keep a capability": _capabilities,
    "read the environment": _environment,
    "write beside its scratch": _write("/probe"),
    "change its own files": _write("/sub/student/ledger.py"),
    "see /proc": _see("/proc/self"),
    "see /etc": _see("/etc/passwd"),
    "see /root": _see("/root"),
    "see /home": _see("/home"),
}


def validate(event):
    done = []
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()
        except OSError:
            continue
        done.append(name)
    return [len(ATTEMPTS), done]
"""


def prove(stage: sandbox.Stage) -> None:
    """Raises sandbox.Unavailable, with what to look at, unless the sandbox holds on this machine."""
    files = {f"student/{name}": data for name, data in assemble.given().items()} | {"student/ledger.py": _SOURCE}
    session = Session(functools.partial(sandbox.start, stage, files, slot=SLOT - os.getpid() % 100))
    try:
        _works(session)
        session.fresh_scratch()
        answer = session.spawn().call(
            "call", {"module": "ledger", "function": "validate", "args": [{}]}, _write, "probe"
        )
    finally:
        session.close()
    value = answer.value if answer.kind is Kind.RETURNED else None
    if not isinstance(value, list) or len(value) != 2:
        raise sandbox.Unavailable(f"the sandbox's probe did not come back ({answer.kind}: {answer.text[:100]})")
    if value[1]:
        done = ", ".join(str(name) for name in value[1])
        raise sandbox.Unavailable(f"the sandbox is not tight, so nothing is graded: a submission could {done}")


def _works(session: Session) -> None:
    """Honest code is applied, and the trusted side sees it in the file."""
    folder = session.fresh_scratch()
    answer = session.spawn().call("apply", {"event": _EVENT}, _write, "probe")
    counts = inspect.ledger(folder, session.schema("ledger.db")).counts if answer.value == "applied" else None
    if counts != (1, 1, 0):
        said = f"{answer.kind}, {answer.error} {answer.text[:100]}".strip()
        raise sandbox.Unavailable(f"honest code does not work in the sandbox of this machine ({said})")


def _write(name: str, detail: dict[str, Any]) -> dict[str, Any]:
    return {"write": "credit"} if name == "effect" else {}
