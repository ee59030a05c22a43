"""One unit of a fleet's work: one log, one task, one row of the table. What a worker process does."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.fitting.fit import fit
from bayes_grpo.fitting.result import model_hash
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.summary import summarize
from bayes_grpo.fleets.survey import fingerprint
from bayes_grpo.forecasting.forecast import forecast
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime

_QUANTILES = tuple(f"{100 * q:g}" for q in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))

FleetRow = dict[str, Any]
"""Column → value, ready for JSON."""


@dataclass(frozen=True, eq=False)
class FleetUnit:
    """What is to be done.

    Attributes:
        place: Where the log lies, or the run.
        task: "fit", "forecast" or "diagnose".
        regimes: The law to fit, the laws to average over, none for a diagnosis.
        until: Horizon of a forecast, optimizer step; None for the planned length, or half as far again as the log.
        signal: "auto", "reward" or "eval".
        sampler: Length and care of the sampling; None for each task's own.
        seed: Seed of the fleet.
        read: Keyword arguments of `read_log`.
    """

    place: Path | Run
    task: str
    regimes: tuple[Regime, ...] = ()
    until: float | None = None
    signal: str = "auto"
    sampler: SamplerSettings | None = None
    seed: int = 0
    read: Mapping[str, Any] = field(default_factory=dict)

    @property
    def regime(self) -> str:
        """Name of the law that is fitted; "" where the row is of no single one."""
        return self.regimes[0].name if self.task == "fit" else ""

    def key(self, content: str) -> str:
        """What tells finished work apart: content of the log, task, options, version of the package.

        Args:
            content: Fingerprint of the log.
        """
        options = {
            "content": content,
            "task": self.task,
            "regimes": [[regime.name, model_hash(regime)] for regime in self.regimes],
            "until": self.until if self.task == "forecast" else None,
            "signal": "" if self.task == "diagnose" else self.signal,
            "sampler": None if self.sampler is None or self.task == "diagnose" else asdict(self.sampler),
            "seed": self.seed,
            "version": version("bayes-grpo"),
        }
        return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


class Done(NamedTuple):
    """A finished unit.

    Attributes:
        key: Its key; "" where it may go otherwise next time, so that it is not to be kept.
        row: Columns of the table, without the log's name and place.
    """

    key: str
    row: FleetRow


def work(unit: FleetUnit) -> Done:
    """Does a unit. An error that a user can mend is a row too.

    The numbers are those of `bayes_grpo.fit`, `forecast` and `diagnose` with the seed in the row, which depends on the
    fleet's seed and the log's bytes alone.
    """
    begin = time.perf_counter()
    key, row = "", {}
    try:
        run = unit.place if isinstance(unit.place, Run) else read_log(unit.place, **unit.read)
        key = unit.key(fingerprint(run))
        seed = seed_of(unit.seed, "log", run.log_hash)
        row = {"log_hash": run.log_hash, "seed": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BayesGrpoWarning)  # the row says the same
            row |= FLEET_TASKS[unit.task](run, unit, seed)
    except BayesGrpoError as error:
        row["error"] = plain(error, 1000)
    return Done(key, json_safe(row | {"seconds": time.perf_counter() - begin}))


def _fit(run: Run, unit: FleetUnit, seed: int) -> FleetRow:
    summary = summarize(fit(run, unit.regimes[0], signal=unit.signal, seed=seed, sampler=unit.sampler))
    worst = summary.convergence.worst
    row: FleetRow = _about(summary.about) | {
        "verdict": plain(summary.verdict, 1000),
        "converged": summary.convergence.passed,
        "rhat": worst.rhat,
        "ess": min(worst.ess_bulk, worst.ess_tail),
        "r2": summary.r2,
    }
    row |= {f"p_{name}": p for name, p in summary.probabilities.items()}
    for line in summary.rows:
        row |= _quantiles(line.name, line.posterior)
    return row


def _forecast(run: Run, unit: FleetUnit, seed: int) -> FleetRow:
    found = forecast(run, unit.until, signal=unit.signal, regimes=unit.regimes, seed=seed, sampler=unit.sampler)
    summary = summarize_forecast(found)
    row: FleetRow = _about(summary.about) | {
        "verdict": plain(summary.sentence, 1000),
        "until": summary.until,
        "until_from": summary.until_from,
        "p_gain": summary.p_gain,
        "p_peaked": summary.p_peaked,
        "gain_threshold": summary.threshold,
        "notes": plain("; ".join((*summary.assumed, *summary.notes)), 1000),
    }
    for name in ("now", "at_horizon"):
        row |= _quantiles(name, getattr(summary, name))
    return row | _quantiles("gain", summary.remaining_gain)


def _diagnose(run: Run, unit: FleetUnit, seed: int) -> FleetRow:
    found = diagnose(run)
    about = found.about
    row: FleetRow = {"rows": about.rows, "first_step": about.first_step, "last_step": about.last_step}
    row |= {"verdict": plain(found.sentence, 1000)}
    row |= {"status": found.top.status, "p_status": found.top.probability, "to_do": plain(found.top.action, 500)}
    return row | {"failing": found.failing} | {f"p_{name}": p for name, p in found.probability.items()}


FLEET_TASKS: Mapping[str, Callable[[Run, FleetUnit, int], FleetRow]] = {
    "fit": _fit,
    "forecast": _forecast,
    "diagnose": _diagnose,
}
"""What can be done with a log, by name."""


def _about(about: Any) -> FleetRow:
    return {name: getattr(about, name) for name in ("signal", "rows", "first_step", "last_step")}


def _quantiles(name: str, values: Interval) -> FleetRow:
    ends = (values.low, values.median, values.high)
    return {f"{name}_{share}": value for share, value in zip(_QUANTILES, ends, strict=True)}
