"""Runs inside the sandbox: a template that never imports student code, and the children that do. Standard library only.

The template serves one control socket: mount a fresh scratch, fork a child, kill a child with a real SIGKILL. A child
closes everything but its own wire, gives up its rights, sets the tighter system call filter, and only then imports the
student's files and serves calls. What a child says is a claim; the trusted side judges by the files in the scratch.
"""

import builtins
import ctypes
import importlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import struct
import sys
import time

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, ROOT)
import wire  # noqa: E402  (the folder is on the path only from here on)

SCRATCH = os.environ.get("SCRATCH", "/scratch")
WORKSPACE = os.environ.get("WORKSPACE", "/sub")
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NOSUID_NODEV_NOEXEC, _DETACH = 0x00020000, 2 | 4 | 8, 2
_SET_SECCOMP, _FILTER, _SET_NO_NEW_PRIVS, _SET_DUMPABLE, _SET_PDEATHSIG = 22, 2, 38, 4, 1


# --- the template ---------------------------------------------------------------------------------------------------


def template(control_fd, isolated):
    """Serve the control socket until it closes. `isolated` is false in a student's own practice run."""
    control = socket.socket(fileno=control_fd)
    child_filter = b""
    if isolated:
        child_filter = control.recv(65536)
        _check(_LIBC.unshare(_NEWNS), "unshare")
        _LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    _preload()
    pristine = {}
    _send(control, {"hello": list(sys.version_info[:3])})
    mounted = False
    while True:
        message, fds = _receive(control)
        if message is None:
            return
        if message["do"] == "scratch":
            if isolated:
                if mounted:
                    _check(_LIBC.umount2(SCRATCH.encode(), _DETACH), "umount")
                options = f"size={message['bytes']},nr_inodes={message['inodes']},mode=0700".encode()
                _check(_LIBC.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", _NOSUID_NODEV_NOEXEC, options), "mount")
                mounted = True
            else:
                _empty(SCRATCH)
            pristine = pristine or _pristine()
            for name, data in pristine.items():
                with open(os.path.join(SCRATCH, name), "wb") as file:
                    file.write(data)
            folder = os.open(SCRATCH, os.O_RDONLY | os.O_DIRECTORY)
            _send(control, {"ok": True}, [folder])
            os.close(folder)
        elif message["do"] == "spawn":
            _send(control, {"pid": _spawn(message, fds, control, child_filter)})
            for fd in fds:
                os.close(fd)
        elif message["do"] == "kill":
            try:
                os.kill(message["pid"], signal.SIGKILL)
                _, status = os.waitpid(message["pid"], 0)
            except (ChildProcessError, ProcessLookupError):
                status = -1
            _send(control, {"status": status})


def _preload():
    sys.path[0:0] = [WORKSPACE]
    for name in (
        "student",
        "student.lab",
        "student.lab.errors",
        "student.lab.store",
        "student.lab.effects",
        "student.lab.lease_queue",
        "student.lab.worker",
        "student.lab.drill",
        "hashlib",
        "tempfile",
        "datetime",
        "contextlib",
        "collections",
        "dataclasses",
        "typing",
        "enum",
    ):
        importlib.import_module(name)


def _pristine():
    """The two files as the given code creates them, name -> bytes; made before any child has run."""
    from student.lab import store
    from student.lab.lease_queue import LeaseQueue

    made = {}
    store.create(os.path.join(SCRATCH, "ledger.db"))
    LeaseQueue(os.path.join(SCRATCH, "queue.db")).create()
    for name in ("ledger.db", "queue.db"):
        with open(os.path.join(SCRATCH, name), "rb") as file:
            made[name] = file.read()
    return made


def _empty(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _spawn(message, fds, control, child_filter):
    pid = os.fork()
    if pid:
        return pid
    try:
        control.close()
        os.chdir(SCRATCH)
        os.dup2(fds[1], 1)
        os.dup2(fds[1], 2)
        os.close(fds[1])
        if message["fresh"]:  # another interpreter, so another hash seed
            os.set_inheritable(fds[0], True)
            os.execv(
                sys.executable,
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-B",
                    os.path.join(ROOT, "worker.py"),
                    "child",
                    str(fds[0]),
                    child_filter.hex(),
                    json.dumps(message),
                ],
            )
        child(fds[0], child_filter, message)
    except BaseException:  # nothing of a child may ever run on as a second template
        pass
    finally:
        os._exit(70)


def _send(control, message, fds=()):
    socket.send_fds(control, [json.dumps(message).encode()], list(fds))


def _receive(control):
    data, fds, _, _ = socket.recv_fds(control, 65536, 4)
    return (json.loads(data), fds) if data else (None, [])


def _check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


# --- a child --------------------------------------------------------------------------------------------------------


def confine(child_filter):
    """Give up every right and set the tighter filter. Raises OSError; then no student code is run."""
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    _check(_LIBC.capset(ctypes.create_string_buffer(header), ctypes.create_string_buffer(nothing)), "capset")
    _check(_LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    code = ctypes.create_string_buffer(child_filter, len(child_filter))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(child_filter) // 8, ctypes.addressof(code)))
    _check(_LIBC.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0), "seccomp")


def child(wire_fd, child_filter, options):
    """Serve calls on the wire until it closes or the template kills this process."""
    if child_filter:
        confine(child_filter)
    elif sys.platform.startswith("linux"):
        _LIBC.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    serving = Child(socket.socket(fileno=wire_fd), options)
    serving.send({"hello": True})
    serving.serve()
    os._exit(0)


class Child:
    """One worker process: the student's functions behind the wire, with callbacks for everything they call."""

    def __init__(self, connection, options):
        self.connection = connection
        self.options = options
        self.request = ""
        self.made = None  # the last exception that an effect or operation of ours raised
        self.database = None
        self.queue = None
        self.count = 0
        real_connect = sqlite3.connect

        def connect(*args, **kwargs):
            opened = real_connect(*args, **kwargs)
            if self.options.get("trace"):
                opened.set_trace_callback(self.statement)
            return opened

        sqlite3.connect = connect
        sqlite3.dbapi2.connect = connect
        time.sleep = lambda seconds: self.callback("sleep", {})

    # the wire
    def send(self, message):
        self.connection.sendall(wire.pack(message))

    def read(self):
        head = self._exactly(4)
        return wire.unpack(self._exactly(wire.frame_length(head)))

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.connection.recv(count - len(data))
            if not more:
                os._exit(0)
            data += more
        return data

    def callback(self, name, detail):
        self.send({"id": self.request, "callback": name, "detail": wire.encode(detail)})
        answer = self.read()
        return {key: wire.decode(form) for key, form in answer.items() if key != "id"}

    def statement(self, sql):
        self.count += 1
        self.callback("statement", {"number": self.count, "sql": sql[:500]})

    # serving
    def serve(self):
        while True:
            message = self.read()
            self.request = message["id"]
            arguments = {key: wire.decode(form) for key, form in message["args"].items()}
            try:
                reply = self.reply(getattr(self, "do_" + message["do"]), arguments)
            except wire.WireError:
                reply = {"kind": "raised", "error": "WireError", "mro": [], "text": ""}
            self.send({"id": self.request, "reply": reply})

    def reply(self, action, arguments):
        try:
            return {"kind": "returned", "value": wire.encode(action(**arguments))}
        except Unimportable as problem:
            return {"kind": "unimportable", **problem.facts}
        except BaseException as error:
            return {"kind": "raised", **self.described(error)}

    def described(self, error):
        kind = type(error)
        names = [wire._type_name(base) for base in type.__dict__["__mro__"].__get__(kind)][:12]
        try:
            text = str(error)
            text = text if type(text) is str else ""
        except BaseException:
            text = ""
        cause = getattr(error, "__cause__", None)
        attempts = getattr(error, "attempts", None)
        return {
            "error": names[0],
            "mro": names,
            "text": text[:200].encode("ascii", "backslashreplace").decode(),
            "attempts": attempts if type(attempts) is int and abs(attempts) < 10**6 else None,
            "same_error": error is self.made,
            "cause_is_last": cause is not None and cause is self.made,
        }

    def student(self, module, function):
        try:
            found = importlib.import_module("student." + module)
        except BaseException as error:
            facts = self.described(error)
            facts.update(
                module=module,
                missing=getattr(error, "name", None) if isinstance(error, ImportError) else None,
                line=getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None,
            )
            for key in ("missing", "line"):
                facts[key] = facts[key] if type(facts[key]) in (str, int) else None
            raise Unimportable(facts) from None
        return getattr(found, function)

    def db(self):
        if self.database is None:
            from student.lab import store

            self.database = store.connect(os.path.join(SCRATCH, "ledger.db"), timeout=self.options.get("timeout", 5.0))
        return self.database

    def opened_queue(self):
        if self.queue is None:
            from student.lab.lease_queue import LeaseQueue

            outer = self

            class Watched(LeaseQueue):
                def acknowledge(self, message, now):
                    outer.callback("acknowledge", {"now": now})
                    return super().acknowledge(message, now)

            self.queue = Watched(os.path.join(SCRATCH, "queue.db"))
        return self.queue

    # things of ours that student code calls
    def effect(self, db, event):
        answer = self.callback("effect", {"event": event, "in_transaction": bool(db.in_transaction)})
        if answer["write"] != "nothing":
            from student.lab import effects

            getattr(effects, answer["write"])(db, event)
        if answer.get("raise") is not None:
            raise self.exception(answer["raise"])

    def operation(self):
        answer = self.callback("operation", {})
        if answer.get("nested") is not None:
            return self.student("retry", "bounded_retry")(self.operation)
        if answer.get("raise") is not None:
            raise self.exception(answer["raise"])
        return answer.get("value")

    def exception(self, spec):
        self.made = self.built(spec)
        return self.made

    def built(self, spec):
        name, text = spec
        fresh = name.startswith("sub:")
        name = name.removeprefix("sub:")
        from student.lab import errors

        if name == "RetriesExhausted":
            return errors.RetriesExhausted(3)
        kind = getattr(errors, name, None) or getattr(builtins, name, None) or getattr(sqlite3, name.split(".")[-1])
        if fresh:
            kind = type("Fresh" + name, (kind,), {})
        return kind(text) if text else kind()

    # requests
    def do_imports(self, modules):
        for module in modules:
            self.student(module, "__name__")
        return "ok"

    def do_apply(self, event):
        return self.student("ledger", "apply_event")(self.db(), event, self.effect)

    def do_call(self, module, function, args):
        return self.student(module, function)(*[self.argument(value) for value in args])

    def argument(self, value):
        if type(value) is dict and set(value) == {"error", "text"}:
            return self.exception([value["error"], value["text"]])
        return value

    def do_retry(self, max_attempts):
        call = self.student("retry", "bounded_retry")
        return call(self.operation) if max_attempts is None else call(self.operation, max_attempts)

    def do_record(self, body, error):
        return self.student("review", "record_rejection")(self.db(), body, self.built(error))

    def do_decide(self, rejection_id, reviewer, decision, note):
        return self.student("review", "decide")(self.db(), rejection_id, reviewer, decision, note)

    def do_deliver(self, now, handled_at):
        handle = self.student("review", "handle_delivery")
        queue = self.opened_queue()
        message = queue.receive(now)
        return handle(self.db(), queue, message, handled_at, self.effect)

    def do_work(self, now):
        """The whole worker loop of the given code over both files."""
        self.student("review", "handle_delivery")
        from student.lab.worker import run_worker

        return run_worker(self.opened_queue(), self.db(), self.effect, now)

    def do_drill(self):
        for module in ("ledger", "review"):
            self.student(module, "__name__")
        import pathlib

        from student.lab.drill import queue_drill

        return queue_drill(pathlib.Path(SCRATCH))

    def do_case(self, case):
        for module in ("ledger", "review"):
            self.student(module, "__name__")
        import pathlib

        from student.lab.drill import run_case

        return run_case(pathlib.Path(SCRATCH), case)

    def do_begin_immediate(self):
        from student.lab import store

        other = store.connect(os.path.join(SCRATCH, "ledger.db"), timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        finally:
            other.close()
        return "ok"


class Unimportable(Exception):
    """A student's file could not be imported; `facts` says which and why."""

    def __init__(self, facts):
        super().__init__()
        self.facts = facts


def main(arguments):
    if arguments[0] == "template":
        template(int(arguments[1]), isolated=arguments[2] == "isolated")
    else:
        options = json.loads(arguments[3])
        _preload()
        child(int(arguments[1]), bytes.fromhex(arguments[2]), options)


if __name__ == "__main__":
    main(sys.argv[1:])
