"""What every public run says by itself, computed once and kept: laws, explained variance, and numbers with errors.

Laws are weighed by the package's fast posterior, without chains where it cannot be trusted: such a law is left out of
that run. A number comes as a normal likelihood: the posterior in the coordinate in which its prior is normal, with the
prior divided out, so that a model of many runs does not count each run's prior as data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.files import atomic_write
from bayes_grpo.common.results import json_safe
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.fitting.draws import Draws, SmoothedDraws, fast_posterior, smoothed_at
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.fitting.summary import r_squared
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from bayes_grpo.signals.loss import rows_collapsed

LAWS = ("flat", "exponential", "oscillator", "bernoulli", "logistic", "sigmoid")
POINTS = ImportanceSettings(effective=1000.0, draws=400)
NOISES = ("fluctuation_sd", "observation_sd")
FEWEST_EVALUATIONS = 6
"""Held-out rewards that it takes to compare their time constant with that of the train reward."""
WARMS = 0.8
"""A run warms up where its learning rate begins below this share of its highest one."""
KNOWS = 0.1
"""Share of the prior's variance that rows have to take away before a run counts as saying anything of a number."""


class Said(NamedTuple):
    """A normal likelihood: what a run says of a number.

    Attributes:
        value: Where it is highest.
        error: Its standard deviation.
    """

    value: float
    error: float


def said(draws: np.ndarray, mean: float, sd: float) -> Said | None:
    """A posterior with its normal prior divided out; None where the rows say next to nothing.

    Args:
        draws: Posterior in the coordinate in which the prior is normal, shape (n,).
        mean: Of the prior.
        sd: Of the prior.
    """
    var = float(np.var(draws))
    if not np.isfinite(var) or var >= (1.0 - KNOWS) * sd**2 or var <= 0.0:
        return None
    precision = 1.0 / var - 1.0 / sd**2
    return Said(float((np.mean(draws) / var - mean / sd**2) / precision), float(precision**-0.5))


def law_on(name: str, table: Series, seed: int = 0) -> Draws | None:
    """A law's fast posterior; None where it cannot be put on the rows or not be trusted."""
    try:
        target = target_of(get_regime(name), table, arrays=shared(table))
        found = fast_posterior(target, seed=seed_of(seed, "paper", name), settings=POINTS, fallback=False)
    except BayesGrpoError:
        return None
    return found if found.usable else None


def numbers_of(smooth: SmoothedDraws, factor: float = 1.0) -> dict[str, list[float]]:
    """What a fit of the exponential law says of rate, levels and noises, logarithms where positive.

    Args:
        smooth: The fit.
        factor: What errors have to be multiplied by.
    """
    draws, prior = smooth.draws, smooth.draws.target.numbers
    found: dict[str, Said | None] = {}
    for i, p in enumerate(draws.regime.sampled):
        u = np.asarray(prior.location[i] + prior.scale[i] * draws.points[:, i])
        found[p.name] = said(u, float(prior.location[i]), float(prior.scale[i]))
    for j, p in enumerate(draws.regime.marginalized):
        found[p.name] = said(draws.flat(p.name), float(prior.marginalized_mean[j]), float(prior.marginalized_sd[j]))
    out = {name: [x.value, x.error * (1.0 if name in NOISES else factor)] for name, x in found.items() if x}
    return out


def laws_of(table: Series) -> dict[str, Any]:
    """Every law on the rows of a run, and the most that a law could explain.

    The ceiling is one less the share of the rows' variance that is measurement: as the log states it (`stated`, with
    the interval of its own error) and as the exponential law, or the flat one, measures it (`measured`).
    """
    out: dict[str, Any] = {"rows": len(table.y), "collapsed": bool(rows_collapsed(table.y)), "laws": {}}
    fitted: dict[str, SmoothedDraws] = {}
    for name in LAWS:
        found = law_on(name, table)
        if found is None:
            continue
        smooth = fitted[name] = smoothed_at(found, 0)
        out["laws"][name] = {
            "evidence": found.log_evidence,
            "r2": r_squared(table.y, smooth.curve_mean),
            "r2_latent": r_squared(table.y, smooth.latent_mean),
        }
    noise = float(np.mean(1.0 / table.precision)) / float(np.var(table.y))
    if table.level is not None:
        spread = np.array([1.645, 0.0, -1.645]) * table.level.spread
        out["stated"] = (1.0 - noise * (table.level.sd * np.exp(spread)) ** 2).tolist()
        out["departs"] = abs(table.level.departure) > table.level.expected_departure
        out["evidence"] = table.level.evidence
    shares, weights = [], []
    for name in ("exponential", "flat"):
        if name in fitted:
            shares.append(noise * fitted[name].draws.flat("observation_sd") ** 2)
            weights.append(out["laws"][name]["evidence"])
    if shares:
        weight = np.exp(np.array(weights) - max(weights))
        mixed = np.concatenate(
            [s[: max(1, round(400 * w / weight.sum()))] for s, w in zip(shares, weight, strict=True)]
        )
        out["measured"] = (1.0 - np.quantile(mixed, [0.95, 0.5, 0.05])).tolist()
    if "exponential" in fitted:
        out["numbers"] = numbers_of(fitted["exponential"])
    return out


def readings_of(table: Series, factor: float = 1.0) -> dict[str, Any]:
    """Latent reward at every row by the exponential and the flat law, each with the share of its evidence.

    Args:
        table: Rows, those without the effect of a shared order where there is one.
        factor: What errors have to be multiplied by.
    """
    even = table.evenly_noisy()
    found = [(f, smoothed_at(f, 0)) for name in ("exponential", "flat") if (f := law_on(name, even, 1)) is not None]
    if not found:
        return {}
    evidence = np.array([f.log_evidence for f, _ in found])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    mean = sum(w * s.latent_mean for w, (_, s) in zip(weight, found, strict=True))
    square = sum(
        w * (s.latent_var + (s.latent - mean) ** 2).mean((0, 1)) for w, (_, s) in zip(weight, found, strict=True)
    )
    out: dict[str, Any] = {
        "step": table.step.tolist(),
        "latent": np.asarray(mean).tolist(),
        "error": (factor * np.sqrt(np.asarray(square))).tolist(),
    }
    if found[0][0].regime.name == "exponential":
        out["numbers"] = numbers_of(found[0][1], factor)
    return out


def beside_of(run: Run, table: Series) -> dict[str, Any]:
    """The exponential law once more: on held-out rewards beside the train reward, and as if there were no warm-up.

    Args:
        run: The log.
        table: Rows of its train reward.
    """
    out: dict[str, Any] = {}
    if table.signal == "reward" and run.has_eval:
        try:
            held_out = rows_of(run, "eval", 512)
        except BayesGrpoError:
            held_out = None
        if held_out is not None and len(held_out.y) >= FEWEST_EVALUATIONS:
            found = law_on("exponential", held_out)
            level = law_on("flat", held_out)
            out["held_out"] = {
                "rows": len(held_out.y),
                "numbers": {} if found is None else numbers_of(smoothed_at(found, 0)),
                "grows": None if found is None or level is None else found.log_evidence - level.log_evidence,
            }
    if np.argmax(table.rate) > 0 and table.rate[0] < WARMS * table.rate.max():
        found = law_on("exponential", replace(table, rate=np.full_like(table.rate, table.rate.mean())))
        out["no_warmup"] = None if found is None else found.log_evidence
    return out


def kept(folder: Path, name: str, make: Any) -> Any:
    """What a file of the cache holds, made where there is none."""
    path = folder / f"{name}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        content = json_safe(make())
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def said_of(found: Mapping[str, Any], name: str) -> Said | None:
    """A number that was kept; `rate` is one over the relaxation time."""
    pair = (found.get("numbers") or {}).get("relaxation_time" if name == "rate" else name)
    return None if pair is None else Said(-pair[0] if name == "rate" else pair[0], pair[1])
