"""Where a child in the sandbox is, and how it gives up its rights. Standard library only."""

from __future__ import annotations

import ctypes
import os
import struct

SCRATCH = os.environ.get("SCRATCH", "/scratch")
WORKSPACE = os.environ.get("WORKSPACE", "/sub")
EDITABLE = ("conflict", "ledger", "retry", "review")
LIBC = ctypes.CDLL(None, use_errno=True)
_SET_SECCOMP, _FILTER, _SET_NO_NEW_PRIVS, SET_PDEATHSIG = 22, 2, 38, 1


def confine(program: bytes) -> None:
    """Give up every right and set the tighter filter. Raises OSError; then no student code is run."""
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    check(LIBC.capset(ctypes.create_string_buffer(header), ctypes.create_string_buffer(nothing)), "capset")
    check(LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    code = ctypes.create_string_buffer(program, len(program))
    pointed = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    check(LIBC.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(pointed), 0, 0), "seccomp")


def check(result: int, what: str) -> None:
    """Raise OSError with the reason of the system unless the result is 0."""
    if result != 0:
        raise OSError(ctypes.get_errno(), what)
