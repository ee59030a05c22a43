"""Errors and named warnings of the whole package.

Every message says what was expected, what was found, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Self


class Argument(NamedTuple):
    """An argument of a public function that would mend an error; the command line has a flag for it.

    Of a mapping the ``value`` of an ``entry``; without a value the text goes on with it.
    """

    parameter: str
    value: str = ""
    entry: str = ""

    def __str__(self) -> str:
        """As in a call: ``columns={"reward": "KEY"}``."""
        value = f'{{"{self.entry}": "{self.value}"}}' if self.entry else f'"{self.value}"'
        return f"{self.parameter}={value}" if self.value else self.parameter


MENDING = "\0"
"""Placeholder in the text of an error for the argument that mends it; texts of logs have no such character."""
_WRITTEN: ContextVar[Callable[[Argument], str]] = ContextVar("_WRITTEN", default=str)
"""How an argument is written: as in a call, or as a flag within the command line."""


@contextmanager
def arguments_written(shown: Callable[[Argument], str]) -> Iterator[None]:
    """Errors made within name the argument that would mend them in these words, also where one becomes a cell."""
    before = _WRITTEN.set(shown)
    try:
        yield
    finally:
        _WRITTEN.reset(before)


class BayesGrpoError(Exception):
    """Base class of every error that a user can mend.

    Attributes:
        parameter: The parameter of a public function whose value is wrong, which begins the text; "" where the input
            is at fault.
        message: The text without it.
        mended_by: The argument that would mend it, which stands in the text; None where the text names none.
    """

    def __init__(self, message: object = "", *, parameter: str = "", mended_by: Argument | None = None) -> None:
        """An error, of a parameter where one is named; ``message`` has `MENDING` where ``mended_by`` is to stand."""
        self._text = str(message)
        self.parameter = parameter
        self.mended_by = mended_by
        self.message = self.worded(_WRITTEN.get())
        super().__init__(f"{parameter}: {self.message}" if parameter else self.message)

    def worded(self, shown: Callable[[Argument], str]) -> str:
        """The message, the argument that would mend it in the words of a place where it is shown."""
        return self._text if self.mended_by is None else self._text.replace(MENDING, shown(self.mended_by))

    def at(self, place: str) -> Self:
        """The same error with a place before its text."""
        return type(self)(f"{place}: {self._text}", parameter=self.parameter, mended_by=self.mended_by)


class LogReadError(BayesGrpoError):
    """A log cannot be read, is not recognized, or holds no usable reward."""


class SettingError(BayesGrpoError, ValueError):
    """A setting, flag or sidecar value is outside its meaning."""


class PriorError(BayesGrpoError, ValueError):
    """A prior override names an unknown parameter or has impossible numbers."""


class FitError(BayesGrpoError):
    """A run cannot be fitted (too few rows, no spread, no such signal)."""


class NotConvergedError(FitError):
    """No sampler reached a regime's posterior, so that nothing can rest on it."""


class FitFileError(BayesGrpoError):
    """A saved fit cannot be read, or belongs to another model or version."""


class OutputError(BayesGrpoError):
    """A result cannot be written to the requested path."""


class MissingExtraError(BayesGrpoError, ImportError):
    """An optional dependency is absent; the message names the extra that brings it."""


class WorkerError(BayesGrpoError):
    """A worker process ended before its task did, or could not be started."""


class BayesGrpoWarning(UserWarning):
    """Base class of the named warnings for doubtful results."""


class ConvergenceWarning(BayesGrpoWarning):
    """The sampler did not pass its convergence checks, even after the retry."""


class RegimeWarning(BayesGrpoWarning):
    """A regime of another package cannot be used and was left out."""
