"""The sandbox: what a submission may see and use, and how it is started and ended.

One sandbox a submission: bubblewrap with every namespace, prlimit, an unprivileged user id, and a system call filter.
The submission's files go in through descriptors, so no path of the grader's machine has to be readable in there.
`security.md` in docs says what stops whom. No sandbox, no grade: `Unavailable` says why and what to do.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from grader import filters, template
from grader.box import Box
from grader.stage import Stage, Unavailable, bubblewrap

__all__ = ["Box", "Stage", "Unavailable", "bubblewrap", "command", "practice", "start"]

HERE = Path(__file__).resolve().parent
SCRATCH_BYTES_MAX = 16 * 1024 * 1024
SCRATCH_FILES_MAX = 512
_UID_FIRST = 61_001
_LIMITS = ("--nproc=64", "--as=402653184", "--fsize=8388608", "--cpu=30", "--nofile=64", "--core=0", "--memlock=0")


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
        "LD_BIND_NOW",
        "1",
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
    inside = stage.inside | {f"/sub/{name}": data for name, data in files.items()}
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
