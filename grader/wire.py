"""The wire between the trusted side and a sandbox: length-prefixed JSON, bounded and strict. Standard library only.

Both ends use this file; inside the sandbox it shares a process with student code, so whatever arrives from there is a
claim: `read_frame` accepts plain JSON of a bounded size and nothing else, and `decode` gives back exact plain types.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

FRAME_BYTES_MAX = 64 * 1024
TEXT_CHARS_MAX = 4_000
DEPTH_MAX = 12
ITEMS_MAX = 2_000
INT_BITS_MAX = 256
_HEAD = struct.Struct(">I")


class WireError(Exception):
    """The other end broke the protocol: too long, not JSON, a duplicate key, the wrong shape."""


class Other:
    """Stands for a value that is no plain JSON type; equal to nothing. `name` is the claimed type name."""

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:
        return "a value of another type"


def pack(message: dict[str, Any]) -> bytes:
    """One frame: four bytes of length, then JSON in ASCII. Raises WireError past the limit."""
    body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(body) > FRAME_BYTES_MAX:
        raise WireError("frame too long")
    return _HEAD.pack(len(body)) + body


def frame_length(head: bytes) -> int:
    """Body length in bytes from the four-byte head. Raises WireError past the limit."""
    (length,) = _HEAD.unpack(head)
    if not 2 <= length <= FRAME_BYTES_MAX:
        raise WireError("frame too long")
    return int(length)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise WireError("duplicate key")
    return made


def _refuse(_: str) -> Any:
    raise WireError("number that JSON does not have")


def unpack(body: bytes) -> dict[str, Any]:
    """The message in a frame's body: an object with unique keys. Raises WireError for anything else."""
    try:
        message = json.loads(body.decode("ascii"), object_pairs_hook=_pairs, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise WireError("not JSON") from error
    if type(message) is not dict:
        raise WireError("not an object")
    return message


def encode(value: Any, depth: int = 0) -> Any:
    """JSON form of a value. Exact plain types keep their type; anything else becomes a named stranger."""
    kind = type(value)
    if depth > DEPTH_MAX:
        return {"$": "other", "v": "too deep"}
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() <= INT_BITS_MAX else {"$": "other", "v": "huge int"}
    if kind is str:
        return value if len(value) <= TEXT_CHARS_MAX else {"$": "other", "v": "huge str"}
    if kind is float:
        return {"$": "float", "v": repr(value)}
    if kind in (list, tuple):
        if len(value) > ITEMS_MAX:
            return {"$": "other", "v": "huge " + kind.__name__}
        items = [encode(item, depth + 1) for item in value]
        return items if kind is list else {"$": "tuple", "v": items}
    if kind is dict:
        if len(value) > ITEMS_MAX:
            return {"$": "other", "v": "huge dict"}
        return {"$": "dict", "v": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    return {"$": "other", "v": type_name(kind)}


def type_name(kind: type) -> str:
    """A class name as it was given, never one that student code computes."""
    name = type.__dict__["__name__"].__get__(kind)
    return name[:60] if type(name) is str else "?"


def decode(form: Any, depth: int = 0) -> Any:
    """The value of a JSON form. Raises WireError where `encode` cannot have made it."""
    if depth > DEPTH_MAX * 2:
        raise WireError("too deep")
    if type(form) in (int, bool, str) or form is None:
        return form
    if type(form) is list:
        return [decode(item, depth + 1) for item in form]
    if type(form) is not dict or set(form) != {"$", "v"}:
        raise WireError("unknown form")
    tag, inner = form["$"], form["v"]
    if tag == "float" and type(inner) is str and len(inner) < 40:
        try:
            return float(inner)
        except ValueError as error:
            raise WireError("not a float") from error
    if tag == "tuple" and type(inner) is list:
        return tuple(decode(item, depth + 1) for item in inner)
    if tag == "dict" and type(inner) is list:
        return _dict(inner, depth)
    if tag == "other" and type(inner) is str:
        return Other(inner[:60])
    raise WireError("unknown form")


def _dict(inner: list[Any], depth: int) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for pair in inner:
        if type(pair) is not list or len(pair) != 2:
            raise WireError("unknown form")
        key = decode(pair[0], depth + 1)
        try:
            made[key] = decode(pair[1], depth + 1)
        except TypeError as error:
            raise WireError("key that cannot be one") from error
    return made


def same(left: Any, right: Any) -> bool:
    """Equal in value and in exact type, all the way down: True is not 1, 30000.0 is not 30000, a tuple is no list."""
    if type(left) is not type(right):
        return False
    if type(left) in (list, tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if type(left) is dict:
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if type(left) is float and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)
