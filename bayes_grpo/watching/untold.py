"""Findings that somebody could not be told of: tried again, so that a service that is down for a while loses none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from bayes_grpo.watching.result import Alarm

Teller = Callable[[Alarm], str]
"""Tells somebody of a finding; what went wrong, "" where nothing did."""
TELLINGS = 8
"""Times that somebody is told of a finding before it is given up."""
FIRST, LONGEST = 30.0, 3600.0
"""Seconds until the second try, which double from one to the next, and at most."""


class Untold:
    """Who is still to be told of what.

    Args:
        tellers: Who is told of every finding.
        clock: Seconds, for tests.
    """

    def __init__(self, tellers: Sequence[Teller], clock: Callable[[], float] = time.monotonic) -> None:
        self._tellers, self._clock = tuple(tellers), clock
        self._waiting: list[tuple[float, int, Teller, Alarm]] = []

    @property
    def waiting(self) -> int:
        """How many tellings are still to be made."""
        return len(self._waiting)

    def add(self, alarms: Sequence[Alarm]) -> None:
        """Puts new findings down for everybody, due at once."""
        now = self._clock()
        self._waiting += [(now, 0, teller, alarm) for alarm in alarms for teller in self._tellers]

    def told(self) -> list[str]:
        """Tells what is due; notes on what went wrong."""
        notes, later = [], []
        for due, tries, teller, alarm in self._waiting:
            if due > self._clock():
                later.append((due, tries, teller, alarm))
                continue
            note = teller(alarm)
            if not note:
                continue
            notes.append(note)
            if tries + 1 < TELLINGS:
                wait = min(FIRST * 2.0**tries, LONGEST)
                later.append((self._clock() + wait, tries + 1, teller, alarm))
        self._waiting = later
        return notes
