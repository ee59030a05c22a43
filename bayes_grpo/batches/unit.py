"""A unit of a batch: the analysis of one log, one row of the table; computed by a worker process."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.analysis.analyze import AnalysisSettings, analyze
from bayes_grpo.analysis.result import Analysis
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.intervals import QUANTILES, Interval
from bayes_grpo.common.results import json_safe
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.fitting.result import model_hash
from bayes_grpo.fitting.summary import Summary
from bayes_grpo.forecasting.fits import FORECAST_REGIMES
from bayes_grpo.forecasting.summary import ForecastSummary
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.signals.path import SignalPath

_QUANTILES = tuple(f"{100 * q:g}" for q in QUANTILES)
BATCH_TASKS: Mapping[str, str] = {"fit": "fit", "forecast": "forecast", "diagnose": "diagnosis"}
"""Task on a log → the part of an analysis that does it."""
UNFORESEEN = "unforeseen"
"""Key of a row whose error is no user's, so that the next call tries it again."""

BatchRow = dict[str, Any]
"""Column → value, ready for JSON."""


@dataclass(frozen=True, eq=False)
class Log:
    """One log of a batch, with the place from which a worker reads it: a path, or the run that the caller gave.

    ``fingerprint`` is a hash of rows, signals and settings, whatever the file is called. Logs of a similar number of
    ``rows`` share compiled programs. ``training`` is which of several in the file it is; ``error`` says why it is none.
    """

    name: str
    source: str
    place: Path | Run
    log_hash: str = ""
    fingerprint: str = ""
    rows: int = 0
    error: str = ""
    training: str = ""


@dataclass(frozen=True, eq=False)
class BatchUnit:
    """One row of the table: a log, parts of an analysis, their settings with the batch's seed, and how it is read."""

    log: Log
    parts: tuple[str, ...]
    settings: AnalysisSettings
    read: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Identifies finished work: content of the log, parts, settings, version of the package."""
        s = self.settings
        names = [s.regime if "fit" in self.parts else None, *(FORECAST_REGIMES if "forecast" in self.parts else ())]
        options = {
            "content": self.log.fingerprint,
            "parts": sorted(self.parts),
            "regimes": [[name, model_hash(get_regime(name))] for name in names if name],
            "until": s.horizon if "forecast" in self.parts else None,
            "signal": s.signal if names[0] or names[1:] else "",
            "sampler": None if s.sampler is None else asdict(s.sampler),
            "seed": s.seed,
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


def read_of(log: Log, read: Mapping[str, Any]) -> Run:
    """The run of a log, read with these keyword arguments of `read_log` where it is not in memory."""
    if isinstance(log.place, Run):
        return log.place
    chosen = {"run": log.training} if log.training else {}
    return read_log(log.place, **{**read, **chosen})


def work(unit: BatchUnit) -> BatchRow:
    """The row of a unit. A part that failed leaves its columns empty and its reason in the row.

    The numbers are those of `bayes_grpo.fit`, `forecast` and `diagnose` with the seed in the row, which depends on the
    batch's seed and the log's bytes alone.
    """
    begin = time.perf_counter()
    row = BatchRow()
    try:
        run = read_of(unit.log, unit.read)
        seed = seed_of(unit.settings.seed, "log", run.log_hash)
        row = {"log_hash": run.log_hash, "seed": seed}
        row |= _columns(analyze(run, unit.parts, settings=replace(unit.settings, seed=seed)), unit.parts)
    except BayesGrpoError as error:
        row["error"] = plain(error, 1000)
    return json_safe(row | {"seconds": time.perf_counter() - begin})


def _columns(found: Analysis, parts: tuple[str, ...]) -> BatchRow:
    """Results of an analysis by column."""
    row = BatchRow()
    errors = {name: part for name in parts if (part := getattr(found, name)).value is None}
    if found.diagnosis.value is not None:
        row |= _diagnosis(found.diagnosis.value)
    if found.status is not None:
        status = found.status
        row |= {"status": status.status, "p_status": status.probability, "reason": plain(status.headline, 500)}
        row |= {"to_do": plain(status.action.sentence, 500)}
    if found.fit.value is not None:
        row |= _fit(found.fit.value.summary)
    if found.forecast.value is not None:
        row |= _forecast(found.forecast.value.summary)
    if errors:
        row["error"] = plain("; ".join(f"{name}: {part.reason}" for name, part in errors.items()), 1000)
        row[UNFORESEEN] = any(not isinstance(part.error, BayesGrpoError) for part in errors.values())
    return row


def _diagnosis(found: Diagnosis) -> BatchRow:
    about = found.about
    row: BatchRow = {"rows": about.rows, "first_step": about.first_step, "last_step": about.last_step}
    row |= {"diagnosis": plain(found.sentence, 1000), "failing": found.failing}
    if found.paths is not None:
        row |= _levels("reward", found.paths.reward)
        if found.paths.held_out is not None:
            row |= _levels("eval_reward", found.paths.held_out)
    return row | {f"p_{name}": p for name, p in found.probability.items()}


def _levels(name: str, path: SignalPath) -> BatchRow:
    """First, last and best level of a reward, without the noise of its rows, and the step of the best."""
    return {f"{name}_{word}": value for word, value in path.display_levels._asdict().items()}


def _fit(summary: Summary) -> BatchRow:
    worst = summary.convergence.worst
    about = summary.about
    row: BatchRow = {
        "fit": plain(summary.verdict, 1000),
        "signal": about.signal,
        "fit_rows": about.rows,
        "converged": summary.convergence.passed,
        "rhat": worst.rhat,
        "ess": min(worst.ess_bulk, worst.ess_tail),
        "r2": summary.r2,
    }
    row |= {f"p_{name}": p for name, p in summary.probabilities.items()}
    for line in summary.rows:
        row |= _quantiles(line.name, line.posterior)
    return row


def _forecast(summary: ForecastSummary) -> BatchRow:
    row: BatchRow = {
        "forecast": plain(summary.sentence, 1000),
        "signal": summary.about.signal,
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


def _quantiles(name: str, values: Interval) -> BatchRow:
    ends = (values.low, values.median, values.high)
    return {f"{name}_{share}": value for share, value in zip(_QUANTILES, ends, strict=True)}
