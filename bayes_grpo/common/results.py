"""What all results share: a short text and a picture where they are shown, a dictionary for JSON."""

from __future__ import annotations

import reprlib
from dataclasses import fields
from importlib import import_module
from operator import attrgetter
from types import EllipsisType
from typing import Any, ClassVar

from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.common.text import plain

type Listing = tuple[str | EllipsisType | tuple[str, Any], ...]
"""What a dictionary holds, in order. An entry is

- the name of a field or property, or a path such as ``"about.run"``, kept under its last name;
- ``"posterior.*"``: the fields of a named tuple, in its place;
- a pair: a key, and the name, path, number or further listing that stands under it;
- ``...``: all fields that the listing does not name, in the order of their declaration.
"""


_LONGEST = 200
"""Characters of a sentence in a short text; of a value a tenth."""


class Shown:
    """Base of what sessions and notebooks show: one line in place of all numbers, and in a notebook a document."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Keeps `dataclass` from writing a text of a hundred thousand numbers: it leaves alone what a class has."""
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            cls.__repr__ = Shown.__repr__

    def __repr__(self) -> str:
        """Its class and sentence, on one line; without a sentence, its fields, shortened."""
        said = headline_of(self)
        if not said:
            short = reprlib.Repr(maxstring=_LONGEST // 5, maxother=_LONGEST // 5, maxlevel=2)
            said = ", ".join(f"{f.name}={short.repr(getattr(self, f.name))}" for f in fields(self))  # pyright: ignore[reportArgumentType]
        return f"<{type(self).__name__}: {plain(said, _LONGEST)}>"

    def _repr_html_(self) -> str:
        """Answer, table and figure for a notebook."""
        shown: str = import_module("bayes_grpo.views.notebook").html_of_result(self)
        return shown


def headline_of(result: object) -> str:
    """The one sentence of a result; "" where it has none."""
    top = getattr(result, "top", None)
    for holder, name in ((top, "sentence"), (result, "sentence"), (result, "verdict")):
        said = getattr(holder, name, "")
        if isinstance(said, str) and said:
            return said
    return ""


class Result(Shown):
    """Base of results, which are frozen dataclasses.

    Attributes:
        in_json: What stands in the dictionary, in order: by default the fields. A property, such as the sentence,
            stands there only where it is named.
        not_in_json: Fields that ``...`` leaves out, such as what only pictures need.
    """

    in_json: ClassVar[Listing] = (...,)
    not_in_json: ClassVar[tuple[str, ...]] = ()

    def contents(self) -> dict[str, Any]:
        """What `in_json` lists, values as they are."""
        return _picked(self, self.in_json, self.not_in_json)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary; numbers that are not finite become None."""
        return json_safe(self.contents())


def _picked(result: Any, listing: Listing, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The entries of a listing, looked up in a result."""
    out: dict[str, Any] = {}
    for entry in listing:
        if isinstance(entry, EllipsisType):
            named = _named(listing) | set(without)
            out |= {f.name: getattr(result, f.name) for f in fields(result) if f.name not in named}
            continue
        key, what = entry if isinstance(entry, tuple) else (entry.rpartition(".")[2], entry)
        if key == "*":
            out |= attrgetter(what.removesuffix(".*"))(result)._asdict()
        elif isinstance(what, tuple):
            out[key] = _picked(result, what)
        else:
            out[key] = attrgetter(what)(result) if isinstance(what, str) else what
    return out


def _named(listing: Listing) -> set[str]:
    """Fields and properties of a result that a listing names."""
    named: set[str] = set()
    for entry in listing:
        what = entry[1] if isinstance(entry, tuple) else entry
        if isinstance(what, tuple):
            named |= _named(what)
        elif isinstance(what, str):
            named.add(what.partition(".")[0])
    return named
