"""A result as text, the way the command line prints it where there is no terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from bayes_grpo.views.terminal import print_document
from bayes_grpo.views.view import view


def text_of(result: Any, width: int = 200, *, details: bool = True, short: bool = False) -> str:
    """What is printed of a result, with all details unless asked otherwise."""
    out = io.StringIO()
    print_document(view(result), Console(file=out, width=width), details=details, short=short)
    return out.getvalue()
