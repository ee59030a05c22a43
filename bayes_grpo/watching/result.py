"""Options, results and memory of the looks at a running training; a trainer may import it without JAX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.results import Result
from bayes_grpo.decision.decide import StoppingCosts
from bayes_grpo.diagnosis.records import Action
from bayes_grpo.diagnosis.status import ModeProbabilities, Status
from bayes_grpo.forecasting.expected import Expected
from bayes_grpo.references.gather import NearbyRuns

if TYPE_CHECKING:
    from bayes_grpo.logs.run import Run

ALARM = 0.35
"""Probability of a failure from which on it is a finding, if it lasts.

With share and rows chosen on labeled public logs: of rules with at most 5% false alarms over whole lives one that
names most failures; a status needs more than a half to say that a run fails, an alarm asks for a look.
"""
LASTING = 0.05
"""Share of the rows for which it has to last."""
LEAST_ALARM_ROWS = 12
"""Fewer rewards than this raise no alarm."""


@dataclass(frozen=True, kw_only=True)
class Watching:
    """Settings of every look. Checked when it is made.

    Attributes:
        horizon: Horizon of the forecasts, optimizer step; by default the planned length, else half as far again.
        costs: Costs, values and gains behind the advice to stop; None for no advice.
        signal: "auto", "reward" (train) or "eval" (evaluations), for the forecast.
        alarm: Probability of a failure from which on it raises an alarm, if it lasts.
        forecasts: Whether to forecast; without, a look is a diagnosis.
        seed: Seed of all looks.
        reference_runs: Reference runs, other runs of the same task: files, folders, stores and patterns; or the runs
            near a log, read at the first look. The command line looks near the log unless it is given others.

    Raises:
        SettingError: An impossible number.
    """

    horizon: float | None = None
    costs: StoppingCosts | None = None
    signal: str = "auto"
    alarm: float = ALARM
    forecasts: bool = True
    seed: int = 0
    reference_runs: tuple[str, ...] | NearbyRuns = ()

    def __post_init__(self) -> None:
        if self.horizon is not None and not math.isfinite(self.horizon):
            raise SettingError(f"expected a finite optimizer step, found {self.horizon!r}", parameter="horizon")
        if not 0.0 < self.alarm < 1.0:
            raise SettingError(
                f"expected a probability strictly between 0 and 1, found {self.alarm!r}", parameter="alarm"
            )
        if self.signal not in ("auto", "reward", "eval"):
            raise SettingError(f"expected auto, reward or eval, found {self.signal!r}", parameter="signal")
        named = () if isinstance(self.reference_runs, NearbyRuns) else self.reference_runs
        if not (isinstance(named, tuple) and all(isinstance(x, str) for x in named)):
            raise SettingError(
                f"reference_runs: expected paths or patterns of runs as a tuple, found {self.reference_runs!r}"
            )


@dataclass(frozen=True, kw_only=True)
class Alarm(Result):
    """A failure, raised once.

    Attributes:
        finding: Name of the failure.
        probability: Probability that it is under way.
        step: Last step of the look that found it.
        rows: Rewards of that look.
        since: Step at which it began; None where the log does not date it.
        sentence: The alarm in words.
        remedies: What to do about it.
        name: Name of the run.
        status: Status of the run, a word of `diagnosis.status.MEANING`.
        action: The one thing to do now.
    """

    finding: str
    probability: float
    step: float
    rows: int
    since: Interval | None
    sentence: str
    remedies: tuple[Action, ...]
    name: str
    status: str = ""
    action: Action | None = None


@dataclass(frozen=True, kw_only=True)
class Outlook(Expected):
    """The forecast of a look.

    Attributes:
        stop: Recommended last step; None without costs.
        advice: The advice in words; "" without costs.
        take: Step of the best checkpoint so far; None without checkpoints or costs.
    """

    stop: float | None
    advice: str
    take: float | None = None


@dataclass(frozen=True, kw_only=True)
class Update(ModeProbabilities, Result):
    """One look at a run.

    Attributes:
        name: Name of the run.
        step: Last logged step.
        rows: Rewards so far.
        reward: The last of them.
        probability: Mode → probability that it is under way, whatever else is; empty where no diagnosis could be made.
        outlook: The forecast; None without one.
        alarms: Alarms that no earlier look raised.
        alarmed: Failure → last step of the look that raised its alarm, of all looks so far.
        notes: Errors and assumptions.
        seconds: Time of the look.
        status: Status and what to do; None without a diagnosis.
    """

    name: str
    step: float
    rows: int
    reward: float
    probability: Mapping[str, float]
    outlook: Outlook | None
    alarms: tuple[Alarm, ...]
    alarmed: Mapping[str, float]
    notes: tuple[str, ...]
    seconds: float
    status: Status | None = None

    also_in_json = ("sentence",)

    @property
    def sentence(self) -> str:
        """The look in words: status, alarms, forecast, advice."""
        parts = [] if self.status is None else [self.status.sentence]
        parts += [f"ALARM: {alarm.sentence}" for alarm in self.alarms]
        if self.outlook is not None:
            forecast = self.outlook.sentence
            parts += [f"{forecast[:1].upper()}{forecast[1:]}", self.outlook.advice]
        text = " ".join(x for x in parts if x)
        return f"Step {self.step:g}, {self.rows} rows. {text or 'No result yet.'}"

    @property
    def line(self) -> str:
        """The look in a short line: status, new alarms, what to do, forecast, advice."""
        status, o = self.status, self.outlook
        parts = ["No result yet."]
        if status is not None:
            parts = [f"{status.named}: {status.finding.lead}"]
            parts += [f"ALARM: {alarm.finding.replace('_', ' ')}." for alarm in self.alarms]
            parts.append(f"Do now: {status.action.sentence}")
        if o is not None:
            parts += [f"Underlying reward {o.reward_text(o.at_horizon)} at step {o.until:g}, {o.now.median:.3g} now."]
            parts.append(o.advice)
        return f"Step {self.step:g}, {self.rows} rows. {' '.join(x for x in parts if x)}"


class Memory(NamedTuple):
    """State from one look to the next. A file keeps `alarmed` and `first`; the rest saves time.

    Attributes:
        alarmed: Failure → last step of the look that raised its alarm.
        first: Step and value of the first reward, by which a new log is recognized; empty before the first look.
        length: Number of rows of the compiled programs of the last look; 0 before the first.
        references: The reference runs, which are read once; None before, or without any.
    """

    alarmed: Mapping[str, float] = {}
    first: tuple[float, ...] = ()
    length: int = 0
    references: tuple[Run, ...] | None = None
