"""Plain values out of a pickle from an untrusted file: its opcodes are walked, nothing is imported and nothing called.

A pickle is a program for a small stack machine. This one knows the instructions that build numbers, text and
containers. Where the program names a class or asks for a call, an `Unbuilt` is put in the place of the result; it
keeps the arguments and the attributes that were to go into it, so that a saved object can be read without its class.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

MAX_BYTES = 1_000_000
"""Length of a pickle of settings; real ones have about ten thousand bytes."""

MAX_OPCODES = 100_000

_MARK = object()
_IGNORED = frozenset({"PROTO", "FRAME"})
_LITERAL = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_CONSTANT: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_DICT": dict, "EMPTY_SET": list}


class Unbuilt:
    """What a pickle would have imported or built by a call.

    Attributes:
        args: Arguments of the call; empty for a class or a function itself.
        state: Attributes that the pickle gives it.
    """

    __slots__ = ("args", "state")

    def __init__(self, args: tuple[Any, ...] = ()) -> None:
        self.args = args
        self.state: dict[str, Any] = {}


def plain(data: bytes) -> Any:
    """The value that a pickle holds, built of plain values and `Unbuilt`; sets are lists.

    Args:
        data: The pickle.

    Raises:
        ValueError: It is too long, broken, or asks for something that settings do not need.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if count >= MAX_OPCODES:
                raise ValueError(f"more than {MAX_OPCODES} instructions")
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
    except (IndexError, KeyError, TypeError, OverflowError, MemoryError, RecursionError, AttributeError) as error:
        raise ValueError(f"a broken pickle ({type(error).__name__})") from None
    raise ValueError("a pickle without an end")


class _Machine:
    """Stack and memo of the machine that a pickle is a program for."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        """The value on top, taken off.

        Raises:
            ValueError: A mark lies there, or nothing.
        """
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("a broken pickle (nothing to take)")
        return self._stack.pop()

    def step(self, name: str, argument: Any) -> None:
        """Carries out one instruction.

        Raises:
            ValueError: The instruction is unknown here.
        """
        if name in _LITERAL:
            self._stack.append(argument)
        elif name in _CONSTANT:
            self._stack.append(_CONSTANT[name])
        elif name in _EMPTY:
            self._stack.append(_EMPTY[name]())
        elif name in _STEPS:
            _STEPS[name](self, argument)
        elif name not in _IGNORED:
            raise ValueError(f"the instruction {name}")

    def _mark(self, _: Any) -> None:
        self._stack.append(_MARK)

    def _drop(self, _: Any) -> None:
        self._stack.pop()

    def _double(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    def _put(self, index: Any) -> None:
        self._memo[int(index)] = self._stack[-1]

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _get(self, index: Any) -> None:
        self._stack.append(self._memo[int(index)])

    def _since_mark(self) -> list[Any]:
        position = len(self._stack) - 1
        while self._stack[position] is not _MARK:
            position -= 1
            if position < 0:
                raise ValueError("a broken pickle (no mark)")
        items = self._stack[position + 1 :]
        del self._stack[position:]
        return items

    def _tuple(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self._stack.append(tuple(reversed(items)))

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(items)
        elif not isinstance(target, Unbuilt):
            raise ValueError("a broken pickle (nothing to put into)")

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, dict):
            target.update((k, v) for k, v in zip(items[::2], items[1::2], strict=True) if isinstance(k, str))
        elif not isinstance(target, Unbuilt):
            raise ValueError("a broken pickle (nothing to put into)")

    def _dict(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append({})
        self._set(items)

    def _unbuilt(self, count: int) -> None:
        """Takes what a class or a call would have taken; its last value is the arguments where it is a tuple."""
        taken = [self.pop() for _ in range(count)]
        args = next((value for value in taken if isinstance(value, tuple)), ())
        self._stack.append(Unbuilt(args))

    def _build(self, _: Any) -> None:
        state = self.pop()
        target = self._stack[-1]
        parts = state if isinstance(state, tuple) else (state,)  # (attributes, slots)
        if isinstance(target, Unbuilt):
            for part in parts:
                if isinstance(part, dict):
                    target.state.update(part)


_STEPS: dict[str, Callable[[_Machine, Any], object]] = {
    "MARK": _Machine._mark,
    "POP": _Machine._drop,
    "POP_MARK": lambda m, _: m._since_mark(),
    "DUP": _Machine._double,
    "PUT": _Machine._put,
    "BINPUT": _Machine._put,
    "LONG_BINPUT": _Machine._put,
    "MEMOIZE": _Machine._memoize,
    "GET": _Machine._get,
    "BINGET": _Machine._get,
    "LONG_BINGET": _Machine._get,
    "TUPLE": lambda m, _: m._stack.append(tuple(m._since_mark())),
    "TUPLE1": lambda m, _: m._tuple(1),
    "TUPLE2": lambda m, _: m._tuple(2),
    "TUPLE3": lambda m, _: m._tuple(3),
    "LIST": lambda m, _: m._stack.append(m._since_mark()),
    "FROZENSET": lambda m, _: m._stack.append(m._since_mark()),
    "DICT": _Machine._dict,
    "APPEND": lambda m, _: m._append([m.pop()]),
    "APPENDS": lambda m, _: m._append(m._since_mark()),
    "ADDITEMS": lambda m, _: m._append(m._since_mark()),
    "SETITEM": lambda m, _: m._set([m.pop(), m.pop()][::-1]),
    "SETITEMS": lambda m, _: m._set(m._since_mark()),
    "GLOBAL": lambda m, _: m._unbuilt(0),
    "STACK_GLOBAL": lambda m, _: m._unbuilt(2),
    "REDUCE": lambda m, _: m._unbuilt(2),
    "NEWOBJ": lambda m, _: m._unbuilt(2),
    "NEWOBJ_EX": lambda m, _: m._unbuilt(3),
    "INST": lambda m, _: m._stack.append(Unbuilt(tuple(m._since_mark()))),
    "OBJ": lambda m, _: m._stack.append(Unbuilt(tuple(m._since_mark()[1:]))),
    "PERSID": lambda m, _: m._unbuilt(0),
    "BINPERSID": lambda m, _: m._unbuilt(1),
    "BUILD": _Machine._build,
}
"""Instruction → what it does to the machine."""
