"""Whether it matters that the priors under which laws are weighed look at the first and last of the same rows.

    python benchmarks/evidence_priors.py LOG...

The priors for forecasting centre the start of a law on the first rows and its plateau near the last ones
(`bayes_grpo.forecasting.priors`); its marginal likelihood, by which it is weighed, is computed on the same rows. Here
every log is forecast at 30%, 50% and 70% of its rows with the paths of those priors, weighed by the evidence under
three others whose levels look elsewhere: centred on the reward's range, on the first half of the rows alone, and on the
mean of all rows, give or take six of their standard deviations.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import read_log
from bayes_grpo.backtesting.backtest import Origin, origin_of
from bayes_grpo.backtesting.scores import crps, log_score
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.fits import FittedRegimes, fit_regimes, weighed
from bayes_grpo.forecasting.level import LEVEL_NAME, level_of, level_paths
from bayes_grpo.forecasting.paths import allot, regime_paths
from bayes_grpo.forecasting.pool import pooled
from bayes_grpo.forecasting.priors import PriorsFor, forecast_priors
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable
from benchmarks.common import keep

ORIGINS = (0.3, 0.5, 0.7)
DRAWS = 1000
LEVELS = ("fixed_point", "initial_reward")
POINTS = ImportanceSettings(effective=1000.0)


def with_levels(level_of_table: Callable[[Regime, RowTable], Mapping[str, Prior]]) -> PriorsFor:
    """Priors for forecasting with other ones of the levels."""

    def priors(regime: Regime, table: RowTable) -> dict[str, Prior]:
        names = {p.name for p in regime.parameters}
        other = {k: v for k, v in level_of_table(regime, table).items() if k in LEVELS and k in names}
        return forecast_priors(regime, table) | other

    return priors


def of_range(reward: RewardRange) -> PriorsFor:
    """Levels about the middle of the range; about the mean of the rows where nobody knows one."""
    if not math.isfinite(reward.high - reward.low):
        return of_mean(reward)
    at = Prior(0.5 * (reward.low + reward.high), 0.5 * (reward.high - reward.low))
    return with_levels(lambda *_: dict.fromkeys(LEVELS, at))


def of_mean(_: RewardRange) -> PriorsFor:
    """Levels about the mean of all rows, give or take six of their standard deviations."""
    return with_levels(lambda _, table: dict.fromkeys(LEVELS, Prior(table.centre, 6.0 * table.scale)))


def of_first_half(_: RewardRange) -> PriorsFor:
    """Levels as the first half of the rows suggests them."""

    def levels(regime: Regime, table: RowTable) -> Mapping[str, Prior]:
        n = len(table.y)
        columns = {f.name: getattr(table, f.name) for f in fields(table)}
        kept = {k: v[: max(n // 2, 4)] for k, v in columns.items() if isinstance(v, np.ndarray) and v.shape == (n,)}
        early = replace(table, **kept)
        if np.ptp(early.y) == 0.0:
            return {}
        own = {p.name: p.default(early) for p in regime.parameters if p.name in LEVELS}
        return own | forecast_priors(regime, early)

    return with_levels(levels)


KINDS: dict[str, Callable[[RewardRange], PriorsFor]] = {
    "shipped": lambda _: forecast_priors,
    "range": of_range,
    "first half": of_first_half,
    "wide": of_mean,
}


def scored(origin: Origin, seed: int) -> dict[str, dict[str, Any]]:
    """Kind of priors → weights, CRPS over the sd of the whole curve, log score; paths are those of the shipped ones."""
    rows, table, reward = origin.basis.rows, origin.basis.table, origin.basis.reward
    fits = {
        kind: fit_regimes(rows, reward=reward, priors=of(reward), seed=seed, settings=POINTS, strict=False)
        for kind, of in KINDS.items()
    }
    own = fits["shipped"]
    paths = {
        name: regime_paths(x, origin.future, DRAWS, seed_of(seed, "paths", name), reward, own.bounded[name].share)[2]
        for name, x in own.draws.items()
    }
    level = level_paths(level_of(table.y), len(origin.y), DRAWS, seed_of(seed, "paths", LEVEL_NAME), reward)
    paths[LEVEL_NAME] = level[2]

    def by(fitted: FittedRegimes) -> dict[str, Any]:
        found = pooled(True, table, weighed({k: fitted.draws[k] for k in own.draws}, reward), len(origin.y))
        weights = fitted.weights if found is None else found.weights
        parts = [
            paths[k][np.random.default_rng(seed_of(seed, "averaged", k)).choice(DRAWS, n, replace=False)]
            for k, n in allot(DRAWS, weights).items()
        ]
        drawn = np.concatenate(parts)
        return {
            "weights": weights,
            "crps": float(crps(drawn, origin.y).mean()) / origin.scale,
            "log_score": float(log_score(drawn, origin.y).mean()) + math.log(origin.scale),
        }

    return {kind: by(x) for kind, x in fits.items()}


def summary(found: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Mean scores of every kind, what they differ by from the shipped ones, and how far the weights move."""
    out: dict[str, Any] = {}
    for kind in KINDS:
        scores = {k: np.array([x[kind][k] for x in found]) for k in ("crps", "log_score")}
        gains = {k: v - np.array([x["shipped"][k] for x in found]) for k, v in scores.items()}
        moved = [
            0.5 * sum(abs(w - x["shipped"]["weights"].get(k, 0.0)) for k, w in x[kind]["weights"].items())
            for x in found
        ]
        out[kind] = {k: float(v.mean()) for k, v in scores.items()} | {
            f"{k}_{word}": float(value)
            for k, v in gains.items()
            for word, value in (("difference", v.mean()), ("difference_se", v.std() / math.sqrt(len(v))))
        }
        out[kind]["weight_moved"] = float(np.mean(moved))
    return out


def main() -> None:
    """Forecasts every log at every origin and prints what the priors change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    found, logs = [], set()
    for path in parser.parse_args().logs:
        for share in ORIGINS:
            try:
                run = read_log(path)
                origin = origin_of(run, rows_of(run), share)
                found.append(scored(origin, seed_of(0, path.stem, share)))
            except BayesGrpoError as error:
                print(f"{path.stem}, {share:.0%}: {error}")
                continue
            logs.add(path.stem)
            print(path.stem, f"{share:.0%}", {k: round(x["crps"], 4) for k, x in found[-1].items()}, flush=True)
    result = {"logs": len(logs), "forecasts": len(found), "kinds": summary(found)}
    for kind, x in result["kinds"].items():
        print(kind, {k: round(v, 4) for k, v in x.items()})
    keep("evidence_priors", result)


if __name__ == "__main__":
    main()
