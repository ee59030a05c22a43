"""Pickles of strangers: plain values, placeholders or a ValueError, whatever the bytes are."""

import copyreg
import os
import pickle
import random
import struct
import sys
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_grpo.logs.plain_pickle import MAX_TUPLES, Unbuilt, plain_values

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ABSENT = "colorsys"  # a module that nothing here imports


class Call:
    """Pickled as a call that the file asks its reader to make."""

    def __init__(self, function, *args, state=None):
        self.call = (function, args) if state is None else (function, args, state)

    def __reduce__(self):
        return self.call


class Slotted:
    __slots__ = ("a",)


def quiet(data: bytes):
    """The value, or None where it is refused; anything else that is raised is a failure."""
    try:
        return plain_values(data)
    except ValueError:
        return None


@pytest.fixture
def nothing_runs(monkeypatch, tmp_path):
    """Every way in which the samples could act is watched."""
    acted: list[object] = []
    monkeypatch.setattr(os, "system", acted.append)
    monkeypatch.delitem(sys.modules, ABSENT, raising=False)
    yield acted
    assert not acted
    assert ABSENT not in sys.modules


def samples() -> list[bytes]:
    slotted = Slotted()
    slotted.a = 3
    values = [
        {"a": [1, 2.5, None, True, 2**80, "é"], "b": {"c": b"x", "d": (1, (2, 3))}, "e": {1, 2}},
        Call(os.system, "true"),
        Call(eval, "__import__('os').system('true')"),
        Call(getattr, Call(__import__, ABSENT), "rgb_to_hsv", state={"x": 1, "__class__": dict}),
        Call(Call, Call(os.system, "true"), state=(None, {"__setstate__": 1, "args": 2})),
        [slotted, slotted, range(3), complex(1, 2), Exception("x"), bytearray(b"abc")],
    ]
    return [pickle.dumps(value, protocol) for value in values for protocol in range(2, 6)]


@given(value=PLAIN, protocol=st.integers(3, 5))
@settings(max_examples=100, deadline=None)
def test_plain_values_come_back(value, protocol):
    assert plain_values(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("data", samples(), ids=range(24))
def test_nothing_is_imported_and_nothing_called(data, nothing_runs):
    assert plain_values(data) is not None


def test_a_module_by_name_stays_where_it_is(nothing_runs):
    for data in (f"c{ABSENT}\nrgb_to_hsv\n.", f"(I1\ni{ABSENT}\nrgb_to_hsv\n.", f"c{ABSENT}\nrgb_to_hsv\n)R."):
        assert plain_values(data.encode()) is Unbuilt or isinstance(plain_values(data.encode()), Unbuilt)


def test_what_would_have_been_built_keeps_its_arguments_and_attributes():
    found = plain_values(pickle.dumps(Call(os.system, "true", state={"x": [1]}), 2))
    assert (found.args, found.state) == (("true",), {"x": [1]})
    assert isinstance(plain_values(b"cos\nsystem\n(S'a'\ntR)R."), Unbuilt)  # a call of what a call returned
    assert isinstance(plain_values(b"Pid\n."), Unbuilt)


BUILD_ON_A_CLASS = b"cos\nsystem\n(N}(S'__call__'\nI1\nS'__setstate__'\nI2\nutb."


def test_a_class_is_not_changed():
    before = {name: getattr(Unbuilt, name) for name in ("__call__", "__setstate__", "__new__", "append")}
    with pytest.raises(ValueError, match="broken pickle"):
        plain_values(BUILD_ON_A_CLASS)
    with pytest.raises(ValueError, match="changes a class"):
        Unbuilt.args = 3  # pyright: ignore[reportAttributeAccessIssue]
    assert {name: getattr(Unbuilt, name) for name in before} == before


def test_a_code_of_copyreg_leads_to_no_class():
    copyreg.add_extension("os", "system", 77)
    try:
        with pytest.raises(ValueError, match="EXT1"):
            plain_values(b"\x80\x02\x82\x4d(S'true'\ntR.")
    finally:
        copyreg.remove_extension("os", "system", 77)


def nested(levels: int) -> bytes:
    """A dictionary whose key holds the same tuple twice, and that one again, and so on."""
    body = b"(I1\nI2\nt" + b"".join(b"q%c0h%c\x86" % (i, i) for i in range(levels))
    return b"}" + body.replace(b"0h", b"h") + b"I1\ns."


BOMBS = {
    "memo": b"Nr\xff\xff\xff\x7f.",
    "memo in words": b"Np999999999\n.",
    "long": b"\x8b\xff\xff\xff\x7f.",
    "bytes": b"\x8e" + b"\xff" * 7 + b"\x7f.",
    "bytearray": b"\x96" + struct.pack("<Q", 2**40) + b".",
    "text": b"\x8d" + struct.pack("<Q", 2**40) + b".",
    "frame": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7fN.",
    "digits": b"I" + b"9" * 100_000 + b"\n.",
    "a hash without end": nested(60),
    "a deep hash": b"}I1\n" + b"\x85" * (MAX_TUPLES + 1) + b"I1\ns.",
    "doubled": b"}I1\n" + b"2\x86" * 60 + b"I1\ns.",
    "persistent": b"(" * 900_000,
    "a memo moved": b"}I1\n" + b"\x85N0q\x00h\x00\x86" * 60 + b"I1\ns.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_at_once(name):
    begin = time.process_time()
    with pytest.raises(ValueError):  # noqa: PT011 (each by its own check)
        plain_values(BOMBS[name])
    assert time.process_time() - begin < 2


def test_deep_nesting_and_keys_that_collide_cost_a_second_at_most():
    begin = time.process_time()
    assert isinstance(plain_values(b"]" * 9_000 + b"a" * 8_999 + b"."), list)
    hold = b"".join(b"\x8a\x0a" + (k * (2**61 - 1)).to_bytes(10, "little", signed=True) + b"N" for k in range(1, 9_000))
    assert len(plain_values(b"\x80\x02}(" + hold + b"u.")) == 8_999
    tuples = b"}I1\n" + b"\x85" * (MAX_TUPLES - 1) + b"I1\ns."
    assert len(plain_values(tuples)) == 1
    assert time.process_time() - begin < 6


@pytest.mark.parametrize("part", range(4))
def test_mutated_pickles_are_a_value_or_a_value_error(part, nothing_runs):
    rng = random.Random(part)
    pool = [*samples(), BUILD_ON_A_CLASS, *(b for b in BOMBS.values() if len(b) < 1_000)]
    with warnings.catch_warnings(action="ignore"):  # escapes of text that no pickler writes
        for _ in range(1_000):
            data = bytearray(rng.choice(pool))
            for _ in range(rng.randint(1, 6)):
                at, kind = rng.randrange(len(data) + 1), rng.randrange(3)
                if kind == 0 and at < len(data):
                    data[at] = rng.randrange(256)
                elif kind == 1:
                    data[at:at] = rng.choice(b"()}]ltdusabRQe0h\x81\x85\x86\x93\x94q\x00").to_bytes()
                else:
                    other = rng.choice(pool)
                    data[at:at] = other[rng.randrange(len(other)) :][: rng.randrange(20)]
            quiet(bytes(data))


@given(data=st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_value_or_a_value_error(data):
    with warnings.catch_warnings(action="ignore"):
        quiet(data)
        quiet(b"\x80\x04" + data + b".")
