"""The result of a fleet: its table, and what it says in one sentence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.results import Result
from bayes_grpo.fleets.table import records_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Fleet(Result):
    """Many logs in one table.

    Attributes:
        frame: One row a log, task and law, in the order in which logs and tasks were named.

            - ``log``, ``source``, ``log_hash``: which log; ``task``: "fit", "forecast", "diagnose", or "read" where the
              log cannot be read; ``regime``: the law of a fit, "" elsewhere; ``seed``: what `bayes_grpo.fit` and
              `forecast` need for the same numbers.
            - ``signal``, ``rows``, ``first_step``, ``last_step``: what was looked at. ``verdict``: the sentence.
            - fit: ``converged``, ``rhat`` (largest), ``ess`` (smallest), ``r2``, ``p_growth`` and others, and of every
              parameter and derived quantity ``name_5``, ``name_50``, ``name_95``, quantiles in percent.
            - forecast: ``until`` and ``until_from`` (horizon and where it comes from), ``now_5`` … ``at_horizon_5`` …
              ``gain_5`` … (reward now, at the horizon, and between the two), ``p_gain`` (that it exceeds
              ``gain_threshold``), ``p_peaked``, ``notes``.
            - diagnose: ``status``, how the run stands, with ``p_status``, and ``to_do``, the one thing to do
              (`bayes_grpo.diagnosis.status`); ``failing``, that something fails, and ``p_…``, the probability of each
              mode, whatever else is under way.
            - ``seconds`` of work; ``error``: why there are no numbers, "" where there are.
        resumed: Units of work that the journal had, from an earlier call.
        seconds: Duration of this call.
    """

    frame: pd.DataFrame
    resumed: int
    seconds: float

    in_json = (
        "sentence",
        ("interval_level", LEVEL),
        "logs",
        "errors",
        "resumed",
        "seconds",
        ("table", "records"),
    )

    @property
    def logs(self) -> int:
        """Number of logs, those that cannot be read included."""
        return len({(row["source"], row["log"]) for row in self.records})

    @property
    def errors(self) -> int:
        """Rows without numbers."""
        return sum(bool(row["error"]) for row in self.records)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Rows as dictionaries, ready for JSON; what is unknown is None."""
        return records_of(self.frame)

    def good(self, task: str) -> list[dict[str, Any]]:
        """Rows of a task with numbers."""
        return [row for row in self.records if row["task"] == task and not row["error"]]

    @property
    def sentence(self) -> str:
        """The fleet in words."""
        if not len(self.frame):
            return "no log was found."
        rows = f"{_counted(len(self.frame), 'row')}, {self.errors or 'none'} with an error"
        parts = [_counted(self.logs, "log"), rows + (f", {self.resumed} from the journal" if self.resumed else "")]
        if found := self.good("fit"):
            parts.append(f"{sum(row['converged'] for row in found)} of {_counted(len(found), 'fit')} converged")
        if found := self.good("forecast"):
            rising = sum(row["p_gain"] >= 0.8 for row in found)
            parts.append(f"{rising} of {_counted(len(found), 'run')} expected to rise (probability 0.8 or more)")
        if found := self.good("diagnose"):
            parts.append(", ".join(f"{n} {word}" for word, n in Counter(row["status"] for row in found).most_common()))
        return "; ".join(parts) + "."

    def to_frame(self) -> pd.DataFrame:
        """A copy of the table."""
        return self.frame.copy()


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
