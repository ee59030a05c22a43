"""Which rows of which run a result is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """Which rows of which run a result is about.

    Attributes:
        run: Name of the run.
        signal: "reward" or "eval_reward".
        rows: Number of rows.
        first_step: Step of the first row.
        last_step: Step of the last row.
        source: Where the run was read from; "" where a result does not keep it.
    """

    run: str
    signal: str
    rows: int
    first_step: float
    last_step: float
    source: str = ""

    @property
    def reward(self) -> str:
        """The signal in words."""
        return "reward" if self.signal == "reward" else "held-out reward"
