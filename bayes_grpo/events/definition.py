"""An event in words; its module says it in numbers."""

from __future__ import annotations

from typing import NamedTuple


class Definition(NamedTuple):
    """An event in words.

    Attributes:
        name: Its name.
        reader: Who asks for it: `bayes_grpo.events.borders.DIAGNOSIS`, `TRUTH` or `FORECAST`.
        mode: The mode of a diagnosis whose evidence it is; "" where it is shared, or of another reader.
        holds: When it holds, with its borders.
    """

    name: str
    reader: str
    mode: str
    holds: str
