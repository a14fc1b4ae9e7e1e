"""What we write to disk: whole files or none, and the same bytes for the same facts."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from rubric.visible import visible


def write(path: Path, content: bytes) -> None:
    """Write a file whole or leave the old one: temporary name, synced, renamed. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def plain(value: Any) -> Any:
    """Records as plain JSON values: fractions as text ("4/3"), foreign text made visible, nothing volatile added."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, str):
        return visible(value, lines=True)
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {plain(name): plain(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    return value


def json_bytes(value: Any) -> bytes:
    """The value as JSON, ASCII only and sorted, so that equal values give equal bytes."""
    return (json.dumps(plain(value), indent=1, sort_keys=True, allow_nan=False) + "\n").encode("ascii")
