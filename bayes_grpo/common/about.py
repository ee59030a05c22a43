"""What a result is about: some rows of a run, or a whole log."""

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


@dataclass(frozen=True)
class AboutLog:
    """Which log a result is about, where it looks at all signals.

    Attributes:
        name: Name of the run.
        source: Where it was read from.
        format: What the log was read as.
        log_hash: Hash of its bytes.
        rows: Number of training rows.
        evaluations: Number of held-out rewards.
        first_step: First step of either.
        last_step: Last step of either.
        at: Step up to which the log was looked at, as if it were now; None for all of it.
        interval_level: Probability inside the intervals.
    """

    name: str
    source: str
    format: str
    log_hash: str
    rows: int
    evaluations: int
    first_step: float
    last_step: float
    at: float | None
    interval_level: float
