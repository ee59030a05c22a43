"""What all results share: a dictionary for JSON that each states only as far as it differs from its fields."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from types import EllipsisType
from typing import Any, ClassVar

from bayes_grpo.common.strict_json import json_safe

type Listing = tuple[str | EllipsisType | tuple[str, Any], ...]
"""What a dictionary holds, in order. An entry is

- the name of a field or property, or a path such as ``"about.run"``, kept under its last name;
- ``"posterior.*"``: the fields of a named tuple, in its place;
- a pair: a key, and the name, path, number or further listing that stands under it;
- ``...``: all fields that the listing does not name, in the order of their declaration.
"""


class Result:
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
