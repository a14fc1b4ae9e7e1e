"""The student's files, compiled once for all workers of a submission. Standard library only."""

from __future__ import annotations

import marshal
import os
from importlib.machinery import ModuleSpec
from typing import Any

from grader.confined import EDITABLE, WORKSPACE, Confinement


def compile_into(pipe: int, confinement: Confinement | None) -> None:
    """Write the code of each student file into the pipe: name, length, bytes. Nothing of it is run here."""
    if confinement is not None:
        confinement.enter()
    folder = os.path.join(WORKSPACE, "student")
    for module in EDITABLE:
        path = os.path.join(folder, module + ".py")
        try:
            with open(path, "rb") as file:
                code = marshal.dumps(compile(file.read(), path, "exec", dont_inherit=True))
        except Exception:  # the import in the worker will say what is wrong with it
            continue
        with os.fdopen(os.dup(pipe), "wb") as out:
            out.write(f"{module} {len(code)}\n".encode() + code)


def compiled_from(data: bytes) -> dict[str, bytes]:
    """What `compile_into` wrote, name -> bytes, as far as it is whole. Not looked into."""
    found = {}
    while b"\n" in data[:60]:
        head, _, data = data.partition(b"\n")
        name, _, length = head.decode("ascii", "replace").partition(" ")
        if name not in EDITABLE or not length.isdecimal() or int(length) > len(data):
            break
        found[name], data = data[: int(length)], data[int(length) :]
    return found


class Finder:
    """Imports student files from their compiled code."""

    def __init__(self, compiled: dict[str, bytes]) -> None:
        self.compiled = compiled

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        if package != "student" or module not in self.compiled:
            return None
        spec = ModuleSpec(name, self, origin=os.path.join(WORKSPACE, "student", module + ".py"))  # type: ignore[arg-type]
        spec.has_location = True
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual module object."""

    def exec_module(self, module: Any) -> None:
        """Run the module's code, as the usual import does."""
        exec(marshal.loads(self.compiled[module.__name__.rpartition(".")[2]]), module.__dict__)
