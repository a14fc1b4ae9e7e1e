"""The wire carries plain values exactly, and refuses everything else in one way."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import wire

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_arrive_with_value_and_exact_type(value: object) -> None:
    """What is encoded, framed, unpacked and decoded is the same, types included."""
    body = wire.pack({"value": wire.encode(value)})[4:]
    assert wire.same(wire.decode(wire.unpack(body)["value"]), value)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    """Garbage in a frame never raises anything but WireError, nor does what it decodes to."""
    try:
        for form in wire.unpack(data).values():
            wire.decode(form)
    except wire.WireError:
        pass


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda i: st.lists(i) | st.dictionaries(st.sampled_from(["$", "v", "x"]), i),
    )
)
def test_any_json_form_decodes_or_is_a_wire_error(form: object) -> None:
    """Forms that `encode` cannot have made are refused."""
    try:
        wire.decode(form)
    except wire.WireError:
        pass


class EqualsEverything:
    """An object that claims to be equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Text(str):
    """A subclass of str, which is not str."""


@pytest.mark.parametrize("value", [EqualsEverything(), Text("applied"), {1, 2}, object, 1j, b"x", 10**100, "x" * 5000])
def test_what_is_no_plain_value_arrives_as_a_stranger_equal_to_nothing(value: object) -> None:
    """Objects of other types, giants and subclasses never compare equal to an expected value."""
    arrived = wire.decode(wire.unpack(wire.pack({"value": wire.encode(value)})[4:])["value"])
    assert isinstance(arrived, wire.Other)
    for expected in ("applied", 1, None, arrived):
        assert not wire.same(arrived, expected)


@pytest.mark.parametrize(
    ("left", "right"), [(True, 1), (30000.0, 30000), ((1,), [1]), ("1", 1), ([True], [1]), ({"a": 1.0}, {"a": 1})]
)
def test_equal_is_not_the_same(left: object, right: object) -> None:
    """Values that Python calls equal but that differ in type differ here."""
    assert not wire.same(left, right)


def test_nan_is_the_same_as_nan() -> None:
    """NaN can be expected."""
    assert wire.same(math.nan, float("nan"))


@pytest.mark.parametrize("head", [b"\0\0\0\0", b"\xff\xff\xff\xff", (wire.FRAME_BYTES_MAX + 1).to_bytes(4, "big")])
def test_a_frame_past_the_limit_is_refused_by_its_head(head: bytes) -> None:
    """A giant is refused before a byte of it is read."""
    with pytest.raises(wire.WireError):
        wire.frame_length(head)


@pytest.mark.parametrize(
    "body", [b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":Infinity}', b"[]", b"7", b'{"a":"\xff"}', b"[" * 3000]
)
def test_json_that_is_loose_is_refused(body: bytes) -> None:
    """Duplicate keys, NaN, bytes past ASCII, deep nesting and anything but an object are refused."""
    with pytest.raises(wire.WireError):
        wire.unpack(body)
