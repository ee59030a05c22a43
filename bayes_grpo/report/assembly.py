"""What pages of every kind are put together with: the look of pictures, guarded sections, the words, the last line."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.report.glossary import chosen
from bayes_grpo.report.page import Section
from bayes_grpo.report.sections.common import nothing
from bayes_grpo.report.svg import STYLE


@contextmanager
def making() -> Iterator[None]:
    """Pictures drawn inside have the look of a page, and no warning is given: the page says the same in its place.

    Both are settings of the whole process, so they are set once around all threads.
    """
    from matplotlib import rc_context

    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)
        yield


def guarded(make: Callable[[], Section], key: str, title: str, question: str) -> Section:
    """A section, or the reason why it could not be drawn: one of them must not cost the others."""
    try:
        return make()
    except Exception as error:
        return nothing(key, title, question, f"Could not be drawn: {type(error).__name__}: {error}")


def glossary_of(sections: tuple[Section, ...]) -> dict[str, str]:
    """The words that sections use."""
    explained = {k: v for s in sections for k, v in s.explained.items()}
    used = [term for s in sections if not s.missing for term in s.used]
    return chosen([*used, "probability"], explained)


def made_line(seed: int, seconds: float) -> str:
    """The line at the end of a page."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return f"bayes-grpo {version('bayes-grpo')}, {when}, seed {seed}; {seconds:.0f} seconds of work."
