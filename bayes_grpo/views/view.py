"""`view`: the document of a result.

A room of results has one module here, ``views/ROOM.py``, which registers one function for each class of result::

    @shows(Comparison)
    def comparison_document(result: Comparison) -> Document: ...

`view` finds it by the room of the class. A package of one's own registers its results in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bayes_grpo.views as rooms
from bayes_grpo.analysis.result import Part
from bayes_grpo.common.document import Document, Section, registered_document
from bayes_grpo.common.imports import module_names, modules_in


def view(result: Any) -> Document:
    """The document of a result.

    Args:
        result: What a function of this package returned, or a result of one's own whose view is registered.

    Raises:
        TypeError: Nothing shows such a thing.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s} for s in range(1, 21)])
        >>> view(run).answer
        'run: 20 rows, steps 1 to 20, 0 evaluations.'
    """
    for cls in type(result).__mro__:
        package, _, rest = cls.__module__.partition(".")
        room = rest.partition(".")[0]
        if package == "bayes_grpo" and room in module_names(rooms):
            modules_in(rooms, room)
    return registered_document(result)


def with_part(document: Document, title: str, part: Part[Any]) -> Document:
    """A document with a further part of the analysis: its answer after the reason, the rest under the details."""
    if part.value is None:
        return replace(document, sections=(*document.sections, Section(title, missing=part.reason)))
    found = view(part.value)
    why = f"{document.why} {found.answer}".strip()
    return replace(document, why=why, sections=(*document.sections, found.folded(title)))
