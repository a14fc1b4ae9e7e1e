"""A running sandbox: how it is watched, how it is ended, and what is wrong when it did not start."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True, kw_only=True)
class Box:
    """A running sandbox: the control socket of its template and the process that holds it."""

    control: socket.socket
    process: subprocess.Popen[bytes]
    folder: Path | None = None
    info: int | None = None
    _first: int | None = None

    def watch(self) -> None:
        """Get hold of the sandbox's first process, once it runs; when that is gone, so is everything inside."""
        if self.info is not None and self._first is None:
            try:
                self._first = os.pidfd_open(int(json.loads(os.read(self.info, 4096))["child-pid"]))
            except (OSError, ValueError, KeyError):
                pass

    def end(self) -> None:
        """Kill it and wait until the last process inside is gone."""
        if self._first is not None:
            try:
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            except OSError:
                pass
            select.select([self._first], [], [], 10)
            os.close(self._first)
            self._first = None
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        self.control.close()
        if self.info is not None:
            os.close(self.info)
            self.info = None
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def complaint(self) -> str:
        """Why the sandbox did not start, and what to do about it on this machine."""
        assert self.process.stderr is not None
        try:
            code: int | None = self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            return "bubblewrap hangs: it was started and never got as far as the worker; try another bwrap"
        os.set_blocking(self.process.stderr.fileno(), False)
        said = (self.process.stderr.read(2000) or b"").decode("ascii", "backslashreplace").strip()
        last = said.splitlines()[-1][:200] if said else f"it ended with code {code} and said nothing"
        for sign, cure in _CURES:
            if sign in said:
                return f"{cure} ({last})"
        return f"the sandbox did not start: {last}"


_CURES = (
    ("Unknown option", "bubblewrap is too old: 0.8 or newer is needed"),
    (
        "uid map",
        "unprivileged user namespaces are forbidden: on Ubuntu, sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("namespace", "no user namespaces here: sysctl user.max_user_namespaces, or grade outside the container"),
    ("failed to execute", "bubblewrap is missing, or the user that the grader drops to may not run it"),
    ("No module named", "the interpreter inside the sandbox does not find its own library"),
)
