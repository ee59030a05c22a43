"""A unit of a fleet: one log, one task, one row of the table; computed by a worker process."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.results import json_safe
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.fitting.fit import fit
from bayes_grpo.fitting.result import model_hash
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.summary import summarize
from bayes_grpo.forecasting.forecast import forecast
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime

_QUANTILES = tuple(f"{100 * q:g}" for q in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))

FleetRow = dict[str, Any]
"""Column → value, ready for JSON."""


@dataclass(frozen=True, eq=False)
class Log:
    """One log of a fleet.

    Attributes:
        name: Short name.
        source: Path, or the source of a run.
        place: Path from which a worker reads it, or the run that the caller gave.
        log_hash: Hash of its bytes; "" where it cannot be read.
        fingerprint: Hash of rows, signals and settings, whatever the file is called.
        rows: Number of training rows; logs of similar length share compiled programs.
        error: Why it cannot be read.
    """

    name: str
    source: str
    place: Path | Run
    log_hash: str = ""
    fingerprint: str = ""
    rows: int = 0
    error: str = ""


@dataclass(frozen=True, eq=False)
class FleetUnit:
    """One row of the table: a task to do with a log.

    Attributes:
        log: The log.
        task: "fit", "forecast" or "diagnose"; "read" where the log cannot be read, so that there is nothing to do.
        regimes: The regime to fit, the regimes to average over, none for a diagnosis.
        until: Horizon of a forecast, optimizer step; None for the planned length, or 1.5 times the last step.
        signal: "auto", "reward" or "eval".
        sampler: Sampler settings; each task's own if None.
        seed: Seed of the fleet.
        read: Keyword arguments of `read_log`.
    """

    log: Log
    task: str
    regimes: tuple[Regime, ...] = ()
    until: float | None = None
    signal: str = "auto"
    sampler: SamplerSettings | None = None
    seed: int = 0
    read: Mapping[str, Any] = field(default_factory=dict)

    @property
    def regime(self) -> str:
        """Name of the fitted regime; "" for other tasks."""
        return self.regimes[0].name if self.task == "fit" else ""

    @cached_property
    def key(self) -> str:
        """Identifies finished work: content of the log, task, options, version of the package."""
        options = {
            "content": self.log.fingerprint,
            "task": self.task,
            "regimes": [[regime.name, model_hash(regime)] for regime in self.regimes],
            "until": self.until if self.task == "forecast" else None,
            "signal": "" if self.task == "diagnose" else self.signal,
            "sampler": None if self.sampler is None or self.task == "diagnose" else asdict(self.sampler),
            "seed": self.seed,
            "version": version("bayes-grpo"),
        }
        return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


def fingerprint(run: Run) -> str:
    """Hash of all that the numbers of a run depend on: rows, signals and settings."""
    digest = hashlib.sha256()
    signals = [x for name in sorted(run.signals) for x in (name, run.signals[name])]
    for part in (run.step, run.reward, run.window, run.eval_step, run.eval_reward, *signals):
        digest.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes())
        digest.update(b"|")
    digest.update(repr([(name, s.value, str(s.provenance)) for name, s in run.settings.items()]).encode())
    return digest.hexdigest()


def work(unit: FleetUnit) -> FleetRow:
    """The row of a unit. An error that a user can mend is a row too.

    The numbers are those of `bayes_grpo.fit`, `forecast` and `diagnose` with the seed in the row, which depends on the
    fleet's seed and the log's bytes alone.
    """
    begin, row, place = time.perf_counter(), FleetRow(), unit.log.place
    try:
        run = place if isinstance(place, Run) else read_log(place, **unit.read)
        seed = seed_of(unit.seed, "log", run.log_hash)
        row = {"log_hash": run.log_hash, "seed": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BayesGrpoWarning)  # the row says the same
            row |= FLEET_TASKS[unit.task](run, unit, seed)
    except BayesGrpoError as error:
        row["error"] = plain(error, 1000)
    return json_safe(row | {"seconds": time.perf_counter() - begin})


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
