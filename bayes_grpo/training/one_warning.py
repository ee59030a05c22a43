"""One warning about what broke beside a training, which goes on all the same."""

from __future__ import annotations

import contextlib
import warnings

from bayes_grpo.common.errors import BayesGrpoWarning

_DEPTH = 5
"""Frames up to who called the method that guards itself: this one, the guard, `contextlib`'s, the method."""


class OneWarning:
    """Warns at the first call and never again."""

    def __init__(self) -> None:
        self._said = False

    def say(self, text: str) -> None:
        """Warns, called in the guard of a method that may fail.

        Args:
            text: What broke.
        """
        if self._said:
            return
        self._said = True
        with contextlib.suppress(Warning):  # where warnings are errors, a training is to go on all the same
            warnings.warn(text, BayesGrpoWarning, stacklevel=_DEPTH)
