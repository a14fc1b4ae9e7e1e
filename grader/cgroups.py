"""A control group around a judge's sandboxes, where this machine lets us make one: a cap on memory and processes.

It is a second wall. Without it each process in a sandbox is still capped by itself, and student code starts none.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MEMORY_BYTES_MAX = 1024 * 1024 * 1024
PROCESSES_MAX = 64
ROOT = Path("/sys/fs/cgroup")
_NAME = re.compile(r"redelivery-(\d+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Folders of one group, one for each controller (version 1) or one for all (version 2)."""

    folders: tuple[Path, ...]

    def join(self) -> None:
        """Put the calling process, and so whatever it starts, into the group."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def close(self) -> None:
        """Take the group away; one that still holds a process is left for the next start to remove."""
        for folder in self.folders:
            _remove(folder)


def make(root: Path = ROOT) -> Group | None:
    """A group for this process's sandboxes; None where the machine does not let us. Removes those of dead judges."""
    caps = {"memory": (("memory.limit_in_bytes", MEMORY_BYTES_MAX),), "pids": (("pids.max", PROCESSES_MAX),)}
    made: list[Path] = []
    try:
        if (root / "cgroup.controllers").is_file():
            folder = _below(root, "")
            made.append(folder)
            (folder / "memory.max").write_text(str(MEMORY_BYTES_MAX))
            (folder / "pids.max").write_text(str(PROCESSES_MAX))
        else:
            for controller, limits in caps.items():
                folder = _below(root / controller, controller)
                made.append(folder)
                for name, value in limits:
                    (folder / name).write_text(str(value))
    except OSError:
        for folder in made:
            _remove(folder)
        return None
    return Group(folders=tuple(made))


def _below(root: Path, controller: str) -> Path:
    """A new group below that of this process. Raises OSError."""
    parent = root / _own(controller).lstrip("/")
    if not parent.is_dir():
        parent = root
    for old in parent.iterdir():
        match = _NAME.match(old.name)
        if match and not Path(f"/proc/{match[1]}").exists():
            _remove(old)
    folder = parent / f"redelivery-{os.getpid()}"
    folder.mkdir()
    return folder


def _own(controller: str) -> str:
    """The path of this process's group for the controller ("" for version 2)."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path
    return "/"


def _remove(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass
