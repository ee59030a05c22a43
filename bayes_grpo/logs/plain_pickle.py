"""Plain values out of a pickle from an untrusted file: nothing is imported and nothing of the file's choice is called.

Python's own `pickle.Unpickler` builds the values. Whatever class or function the pickle names is `Unbuilt`, which keeps
the arguments of a call and the attributes that were to go in, so that a saved object can be read without its class.

That alone is not safe. A dozen bytes can ask for a memo of gigabytes; a code of ``copyreg`` leads to a class that the
process has loaded, past every name; and the hash of tuples that hold each other twice, sixty times over, never ends. So
the instructions are looked through first, without being carried out.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

MAX_BYTES = 1_000_000
"""Length of a pickle of settings; real ones have about ten thousand bytes."""

MAX_OPCODES = 20_000
"""Keys of a dictionary are compared with each other where a file wants it so: a second for as many as these build."""

MAX_TUPLES = 1_000
"""The hash of nested tuples takes a stack as deep as they are."""

MAX_SHARED = 12
"""Tuples taken from the memo; each may double the time of a hash."""

_LITERALS = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "NONE", "NEWTRUE", "NEWFALSE"),
    )
)
_TUPLES = frozenset(("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"))
_EMPTY = frozenset(("EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_DICT", "EMPTY_SET"))
_CALLS = frozenset(("GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ", "PERSID", "BINPERSID"))
_MAKING = _LITERALS | _TUPLES | _EMPTY | _CALLS | {"LIST", "DICT", "FROZENSET"}
"""Instructions that put a new value on the stack."""
_PUT = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))
_GET = frozenset(("GET", "BINGET", "LONG_BINGET"))
_FILLING = frozenset(("APPEND", "APPENDS", "ADDITEMS", "SETITEM", "SETITEMS", "BUILD"))
_FRAMING = frozenset(("PROTO", "FRAME"))
_KNOWN = _MAKING | _PUT | _GET | _FILLING | _FRAMING | {"MARK", "POP", "POP_MARK", "STOP"}


class _Sealed(type):
    """A class that a pickle cannot change."""

    def __setattr__(cls, name: str, value: Any) -> None:
        raise ValueError("a pickle that changes a class")


class Unbuilt(metaclass=_Sealed):
    """What a pickle would have imported, or built by a call.

    Attributes:
        args: Arguments of the call; empty for a class or a function itself.
        state: Attributes that the pickle gives it.
    """

    __slots__ = ("args", "state")

    args: tuple[Any, ...]
    state: dict[str, Any]

    def __new__(cls, *args: Any, **_: Any) -> Unbuilt:
        """A call of whatever it stands for."""
        made = object.__new__(cls)
        made.args, made.state = args, {}
        return made

    def __call__(self, *args: Any, **_: Any) -> Unbuilt:
        """A call of what a call has returned."""
        return Unbuilt(*args)

    def __setstate__(self, state: Any) -> None:
        """Takes attributes: a dictionary, or a pair of those and the slots."""
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.state.update(part)

    def append(self, _: Any) -> None:
        """An item of a class that is a list, left out."""

    def extend(self, _: Any) -> None:
        """Items of a class that is a list, left out."""

    def add(self, _: Any) -> None:
        """An item of a class that is a set, left out."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """An item of a class that is a dictionary, left out."""


class _Inert(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return Unbuilt

    def persistent_load(self, pid: Any, /) -> Any:
        return Unbuilt()


def plain_values(data: bytes) -> Any:
    """The value that a pickle holds, built of plain values and `Unbuilt`.

    Args:
        data: The pickle.

    Raises:
        ValueError: It is too long, broken, or asks for something that settings do not need.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    try:
        _check(data)
        return _Inert(io.BytesIO(data), encoding="latin-1").load()
    except ValueError:
        raise
    except Exception as error:  # unpickling may raise whatever the values' own operations do
        raise ValueError(f"a broken pickle ({type(error).__name__})") from None


def _check(data: bytes) -> None:
    """Looks through the instructions.

    `pickletools` compares lengths with the bytes that are there. A value enters the memo right after it was made, as
    every pickler does it, so that it is known which entries are tuples.

    Raises:
        ValueError: There are too many, or one is unknown here.
    """
    last, tuples, shared = "", 0, 0
    in_memo: dict[int, bool] = {}  # place → whether a tuple lies there
    argument: Any
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if count >= MAX_OPCODES:
            raise ValueError(f"more than {MAX_OPCODES} instructions")
        if name not in _KNOWN:
            raise ValueError(f"the instruction {name}")
        tuples += name in _TUPLES
        if name in _PUT:
            place = len(in_memo) if argument is None else int(argument)
            if place > MAX_OPCODES or last not in _MAKING:
                raise ValueError("a memo that no pickler writes")
            in_memo[place] = last in _TUPLES
        elif name in _GET:
            shared += in_memo.get(int(argument), False)
        if tuples > MAX_TUPLES or shared > MAX_SHARED:
            raise ValueError("too many tuples, or tuples in too many places")
        if name not in _FRAMING:
            last = name
