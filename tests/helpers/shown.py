"""A result as text, the way the command line prints it where there is no terminal."""

import io
from typing import Any

from rich.console import Console

from bayes_grpo.common.document import Document
from bayes_grpo.views.terminal import print_document
from bayes_grpo.views.view import view


def text_of(result: Any, width: int = 200, *, terminal: bool = False, details: bool = True, short: bool = False) -> str:
    """What is printed of a result or a document, with all details unless asked otherwise."""
    out = io.StringIO()
    document = result if isinstance(result, Document) else view(result)
    print_document(document, Console(file=out, width=width, force_terminal=terminal), details=details, short=short)
    return out.getvalue()
