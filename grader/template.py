"""The first process inside the sandbox: it never imports student code, forks the workers and kills them for real.

It serves one control socket: mount a fresh scratch with the two given files in it, fork a worker, kill a worker with a
SIGKILL from outside. It runs inside on the standard library alone.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
from typing import Any

from grader import compiled, confined, worker

_COMPILED_BYTES_MAX, _COMPILE_S = 2_000_000, 2.0
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from grader.template import main; main(sys.argv[1:])"
"""What the interpreter is given with -c; the first argument is the folder that holds the package `grader`."""
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NEWNS, _NOSUID_NODEV_NOEXEC, _DETACH, _SET_DUMPABLE = 0x00020000, 2 | 4 | 8, 2, 4
_GIVEN = (
    "student",
    *(f"student.lab.{name}" for name in ("errors", "store", "effects", "lease_queue", "worker", "drill")),
)
_USUAL = ("contextlib", "collections", "dataclasses", "typing", "enum")
"""Loaded once before any fork: the given code, and what students' files usually import. A fork pays for each."""
_FOR_TESTS = ("grader.outcomes", "tempfile")
"""Loaded before the first worker that runs the student's own tests."""


class Template:
    """Serves the control socket until it closes. `isolated` is false in a student's own practice run."""

    def __init__(self, control: socket.socket, *, isolated: bool) -> None:
        self.control = control
        self.isolated = isolated
        self.confinement: confined.Confinement | None = None
        self.mounted = False
        self.pristine: dict[str, bytes] = {}
        self.kept: dict[str, bytes] = {}
        self.compiled: dict[str, bytes] | None = None

    def serve(self) -> None:
        """Say hello, then answer one request at a time."""
        if self.isolated:
            self.confinement = confined.Confinement(self.control.recv(65536))
            confined.check(confined.LIBC.unshare(_NEWNS), "unshare")
            confined.LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        preload()
        self._say({"hello": list(sys.version_info[:3])})
        while True:
            data, fds, _, _ = socket.recv_fds(self.control, 65536, 4)
            if not data:
                return
            message = json.loads(data)
            try:
                if message["do"] == "scratch":
                    self._scratch(message)
                elif message["do"] == "keep":
                    self.kept = _files()
                    self._say({"ok": True})
                elif message["do"] == "spawn":
                    self._say({"pid": self._spawn(message, list(fds))})
                else:
                    self._say({"status": _kill(message["pid"])})
            except OSError as problem:
                self._say({"fault": str(problem)})
            for fd in fds:
                os.close(fd)

    def _scratch(self, limits: dict[str, Any]) -> None:
        if not self.isolated:
            _empty(confined.SCRATCH)
        else:
            place = confined.SCRATCH.encode()
            if self.mounted:
                confined.check(confined.LIBC.umount2(place, _DETACH), "umount")
                self.mounted = False
            options = f"size={limits['bytes']},nr_inodes={limits['inodes']},mode=0700".encode()
            confined.check(confined.LIBC.mount(b"tmpfs", place, b"tmpfs", _NOSUID_NODEV_NOEXEC, options), "mount")
            self.mounted = True
        self.pristine = self.pristine or _made()
        for name, data in (self.kept if limits["kept"] else self.pristine).items():
            with open(os.path.join(confined.SCRATCH, name), "wb") as file:
                file.write(data)
        folder = os.open(confined.SCRATCH, os.O_RDONLY | os.O_DIRECTORY)
        self._say({"ok": True}, [folder])
        os.close(folder)

    def _spawn(self, options: dict[str, Any], fds: list[int]) -> int:
        if options["tests"]:
            for name in _FOR_TESTS:
                importlib.import_module(name)
        if self.compiled is None:
            self.compiled = self._compile()
        pid = os.fork()
        if pid:
            return pid
        try:
            self.control.close()
            os.chdir(confined.SCRATCH)
            os.dup2(fds[1], 1)
            os.dup2(fds[1], 2)
            os.close(fds[1])
            if options["fresh"]:  # another interpreter, so another hash seed
                os.set_inheritable(fds[0], True)
                line = [sys.executable, "-I", "-S", "-B", "-c", START, _ROOT, "worker", str(fds[0])]
                program = self.confinement.program if self.confinement is not None else b""
                os.execv(sys.executable, [*line, program.hex(), json.dumps(options)])
            worker.run(fds[0], self.confinement, options, self.compiled)
        except BaseException:  # nothing of a worker may ever run on as a second template
            pass
        finally:
            os._exit(70)

    def _compile(self) -> dict[str, bytes]:
        """Student module -> its code, compiled once for all workers, by a confined process that never runs it.

        What does not compile there, or not in time, is left to the import in the worker, which says what is wrong.
        """
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self.control.close()
                compiled.compile_into(write, self.confinement)
            finally:
                os._exit(0)
        os.close(write)
        data = b""
        while len(data) <= _COMPILED_BYTES_MAX and select.select([read], [], [], _COMPILE_S)[0]:
            more = os.read(read, 1 << 20)
            if not more:
                break
            data += more
        os.close(read)
        _kill(pid)
        return compiled.compiled_from(data[:_COMPILED_BYTES_MAX])

    def _say(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        socket.send_fds(self.control, [json.dumps(message).encode()], fds or [])


def preload() -> None:
    """Import the given code and the usual modules, so that a fork costs no imports."""
    sys.path.insert(0, confined.WORKSPACE)
    for name in (*_GIVEN, *_USUAL):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is loaded now is never looked at again, so forks share its pages


def _made() -> dict[str, bytes]:
    """The two files as the given code creates them, before any worker has run."""
    store = importlib.import_module("student.lab.store")
    queue = importlib.import_module("student.lab.lease_queue")
    store.create(os.path.join(confined.SCRATCH, "ledger.db"))
    queue.LeaseQueue(os.path.join(confined.SCRATCH, "queue.db")).create()
    return _files()


def _files() -> dict[str, bytes]:
    found = {}
    for name in ("ledger.db", "queue.db"):
        with open(os.path.join(confined.SCRATCH, name), "rb") as file:
            found[name] = file.read()
    return found


def _empty(folder: str) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _kill(pid: int) -> int:
    try:
        os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]
    except (ChildProcessError, ProcessLookupError):
        return -1


def main(arguments: list[str]) -> None:
    """`template FD isolated|practice`, or, in a fresh interpreter, `worker FD FILTER OPTIONS`."""
    if arguments[0] == "template":
        Template(socket.socket(fileno=int(arguments[1])), isolated=arguments[2] == "isolated").serve()
    else:
        preload()
        program = bytes.fromhex(arguments[2])
        worker.run(int(arguments[1]), confined.Confinement(program) if program else None, json.loads(arguments[3]))
