"""How far an answer can be trusted: other priors, authors and families left out, and families whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayes_grpo.fitting.draws import smoothed_at
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Settings
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.calibration.comparison import simulated_run
from benchmarks.paper import LEAST
from benchmarks.paper.claims import CLEAR, KINDS, Question, kind_scores, shares_of
from benchmarks.paper.fits import kept, law_on, numbers_of, said_of
from benchmarks.paper.pooled import (
    OF_LEVELS,
    OF_LOGARITHMS,
    Evidence,
    PooledPriors,
    by_chains,
    by_grid,
    grids,
)

WIDER = {"half": 0.5, "twice": 2.0}
SURE = 0.95
KNOWN = (-1.0, -0.3, 0.0, 0.3, 1.0)
"""Exponents that simulated families have; of levels a fifth of them."""
REPLICATIONS = 200
TIMES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
"""Times as many runs for which it is asked whether they would settle a question."""


def verdict(told: dict[str, float]) -> str:
    """What is said of an exponent."""
    if told["p_none"] >= SURE:
        return "none"
    directed = max(told["p_positive"], 1.0 - told["p_positive"]) >= SURE
    if directed and told["p_none"] <= 1.0 - SURE:
        return "positive" if told["p_positive"] > 0.5 else "negative"
    return "cannot tell"


def answer(q: Question) -> dict[str, Any]:
    """What the runs say, by the grid; and by chains, with the checks of these."""
    found = by_grid(q.evidence, q.priors).told()
    draws, convergence = by_chains(q.evidence, q.priors)
    low, high = np.quantile(draws["exponent"], [0.05, 0.95])
    prior = q.priors.exponent
    return found | {
        "verdict": verdict(found),
        "predicted": q.predicted,
        "inside": bool(found["low"] <= q.predicted <= found["high"]) if math.isfinite(q.predicted) else None,
        "runs": len(q.runs),
        "asked": q.asked,
        "authors": len(q.authors),
        "families": len(set(q.evidence.family.tolist())),
        "names": list(q.runs),
        "contraction": 1.0 - found["sd"] ** 2 / prior**2,
        "chains": {
            "low": float(low),
            "high": float(high),
            "rhat": convergence.worst.rhat,
            "ess": convergence.worst.ess_bulk,
            "bfmi": convergence.ebfmi,
            "divergences": convergence.divergences,
            "passed": convergence.passed,
            "apart": float(max(abs(low - found["low"]), abs(high - found["high"])) / found["sd"]),
        },
    }


def robust(q: Question) -> dict[str, Any]:
    """The same under other priors, and with every author and every family left out; who carries the verdict."""
    e = q.evidence
    whole = verdict(by_grid(e, q.priors).told())
    out: dict[str, Any] = {"verdict": whole, "priors": {}, "without_author": {}, "without_family": {}}
    for name, factor in WIDER.items():
        told = by_grid(e, q.priors.times(factor)).told()
        out["priors"][name] = told | {"verdict": verdict(told)}
    for place, author in enumerate(q.authors):
        out["without_author"][author] = _without(q, e.author != place)
    for place in sorted(set(e.family.tolist())):
        out["without_family"][str(place)] = _without(q, e.family != place)
    carried = [a for a, t in out["without_author"].items() if t["verdict"] != whole]
    out["carried_by"] = carried
    out["stands"] = not carried
    out["stands_without_family"] = all(t["verdict"] == whole for t in out["without_family"].values())
    medians = [t["median"] for t in out["without_author"].values() if "median" in t]
    out["median_low"], out["median_high"] = (min(medians), max(medians)) if medians else (float("nan"), float("nan"))
    out["prior_moves"] = any(p["verdict"] != whole for p in out["priors"].values())
    return out


def _without(q: Question, kept_: np.ndarray) -> dict[str, Any]:
    """What is said by some of the runs; "nothing left" where no two of them differ in the setting alone."""
    e = q.evidence.where(kept_)
    fine = np.array([len(set(e.x[e.cell == c].tolist())) > 1 or c < 0 for c in e.cell], bool)
    e = e.where(fine)
    if not len(e.x):
        return {"verdict": "nothing left"}
    told = by_grid(e, q.priors).told()
    return {k: told[k] for k in ("low", "median", "high", "p_none")} | {"verdict": verdict(told)}


def coverage(q: Question, rng: np.random.Generator) -> dict[str, Any]:
    """How often the interval holds a known exponent, for the very runs of a question: their errors, what they share.

    What authors, families and runs differ by is drawn from the priors.
    """
    e, scale = q.evidence, 0.2 if q.priors == OF_LEVELS else 1.0
    inside, settled = [], []
    for known in KNOWN:
        sets = [_drawn(e, scale * known, q.priors, rng) for _ in range(REPLICATIONS // len(KNOWN))]
        for m in grids(sets, e, q.priors):
            inside.append(0.05 <= m.below(scale * known) <= 0.95)
            if known == 0.0:
                settled.append(m.below(LEAST) - m.below(-LEAST) >= SURE)
    return {"inside": float(np.mean(inside)), "replications": len(inside), "power_none": float(np.mean(settled))}


def _drawn(
    e: Evidence, exponent: float, priors: PooledPriors, rng: np.random.Generator, varied: bool = True
) -> np.ndarray:
    """Values of the runs of a design; ``varied`` as the priors have it, or not at all."""
    scales = np.abs(rng.standard_normal(3)) * np.array(priors[1:]) * varied
    slope = exponent + scales[0] * rng.standard_normal(e.author.max() + 1)[e.author]
    slope = slope + scales[1] * rng.standard_normal(e.family.max() + 1)[e.family]
    level = rng.standard_normal(max(e.cell.max() + 1, 1))[e.cell] * (e.cell >= 0)
    return level + slope * e.x + np.sqrt(e.error**2 + scales[2] ** 2) * rng.standard_normal(len(e.x))


def would_settle(q: Question, rng: np.random.Generator, tries: int = 16) -> dict[str, Any]:
    """Times as many authors with such runs at which it is as likely as not to be said that there is none, if so it is.

    Drawn from the design again and again without differences between authors or runs: the least that it takes.
    """
    e, n = q.evidence, len(q.evidence.x)
    for times in TIMES:
        sets = [np.stack([_drawn(e, 0.0, q.priors, rng, varied=False) for _ in range(times)]) for _ in range(tries)]
        p = np.array([m.below(LEAST) - m.below(-LEAST) for m in grids(sets, e, q.priors)])
        if np.mean(p >= SURE) >= 0.5:
            return {"times": times, "runs": times * n, "authors": times * len(q.authors), "found": True}
    return {"times": None, "found": False}


FAMILIES, EACH, ROWS = 4, 3, 60
TIMED = ("rate", "plateau", "fluctuation")


def end_to_end(cache: Path, count: int) -> dict[str, Any]:
    """Families of logs with known exponents: drawn, read as the public logs are, pooled; how often intervals hold.

    Two authors with two families each of three runs at group sizes of 4, 8 and 16.
    """
    cases = [kept(cache / "known", f"{i:03d}", lambda i=i: _known(i)) for i in range(count)]
    out: dict[str, Any] = {"replications": count, "runs": FAMILIES * EACH}
    every = []
    for name in TIMED:
        inside, away = [], []
        for c in cases:
            own = [r for r in c["runs"] if name in r]
            cells = {r["family"] for r in own if len({o["x"] for o in own if o["family"] == r["family"]}) > 1}
            own = [r for r in own if r["family"] in cells]
            if len(own) < 3:
                continue
            family = np.array([r["family"] for r in own])
            x = np.array([r["x"] for r in own])
            x = x - np.array([x[family == f].mean() for f in family])
            value, error = (np.array([r[name][k] for r in own]) for k in (0, 1))
            e = Evidence(value, error, x, family, family, family // 2)
            m = by_grid(e, OF_LEVELS if name == "plateau" else OF_LOGARITHMS)
            inside.append(0.05 <= m.below(c["truth"][name]) <= 0.95)
            away.append(m.quantile(0.5) - c["truth"][name])
        out[name] = {"inside": float(np.mean(inside)), "number": len(inside), "bias": float(np.mean(away))}
        every += inside
    return out | {"inside": float(np.mean(every)), "number": len(every)}


def _known(number: int) -> dict[str, Any]:
    """One replication: the truth, and what every run says."""
    rng = np.random.default_rng([41, number])
    truth = {"rate": 0.5 * rng.standard_normal(), "plateau": 0.1 * rng.standard_normal()}
    truth["fluctuation"] = -1.0 + 0.5 * rng.standard_normal()
    apart = {
        name: np.abs(rng.standard_normal(3)) * np.array((OF_LEVELS if name == "plateau" else OF_LOGARITHMS)[1:])
        for name in truth
    }
    of_author = {name: apart[name][0] * rng.standard_normal(2) for name in truth}
    runs = []
    for family in range(FAMILIES):
        slope = {n: truth[n] + of_author[n][family // 2] + apart[n][1] * rng.standard_normal() for n in truth}
        level = {"rate": -math.log(ROWS / 6.0) + 0.3 * rng.standard_normal(), "plateau": rng.uniform(0.45, 0.7)}
        level["fluctuation"] = 2.0 * math.log(0.03) + 0.4 * rng.standard_normal()
        for g in (4.0, 8.0, 16.0):
            x = math.log(g / 8.0)
            at = {n: slope[n] * x + apart[n][2] * rng.standard_normal() for n in truth}
            time, plateau = math.exp(-(level["rate"] + at["rate"])), level["plateau"] * (1.0 + at["plateau"])
            numbers = (time, 0.05 * (8.0 / g) ** 0.35, math.exp(0.5 * (level["fluctuation"] + at["fluctuation"])))
            run = draw_run(f"{family} G{g:g}", ROWS, (*numbers, plateau, 0.2), rng)
            own: dict[str, Any] = {"family": family, "x": math.log(g)}
            law = law_on("exponential", rows_of(run))
            found = {} if law is None else {"numbers": numbers_of(smoothed_at(law, 0))}
            for name, key, factor in (
                ("rate", "rate", 1.0),
                ("plateau", "fixed_point", 1.0 / level["plateau"]),
                ("fluctuation", "fluctuation_sd", 2.0),
            ):
                said = said_of(found, key)
                if said is not None:
                    own[name] = [factor * said.value, factor * said.error]
            runs.append(own)
    return {"truth": truth, "runs": runs}


def draw_run(name: str, length: int, numbers: tuple[float, ...], rng: np.random.Generator) -> Run:
    """A run of the exponential law; numbers are time, measurement noise, fluctuation, plateau and start."""
    blank = run_of(name, np.arange(1.0, length + 1.0), np.linspace(0.0, 1.0, length))
    law = get_regime("exponential")
    names = ("relaxation_time", "observation_sd", "fluctuation_sd", "fixed_point", "initial_reward")
    with jax.enable_x64(True):
        drawn = law.distribution(dict(zip(names, numbers, strict=True)), padded(rows_of(blank)))
        y = np.asarray(drawn.sample(jax.random.key(int(rng.integers(2**31)))))[:length]
    return run_of(name, blank.step, y)


def run_of(name: str, step: np.ndarray, y: np.ndarray) -> Run:
    """A run with these rows."""
    return Run(
        name=name,
        source=name,
        format="simulated",
        log_hash=name,
        step=step,
        reward=y,
        window=np.ones(len(step)),
        signals={},
        eval_step=np.zeros(0),
        eval_reward=np.zeros(0),
        settings=Settings(),
    )


STARTS = {"exponential": "at once", "oscillator": "inertia", "bernoulli": "success", "logistic": "success"}
"""Laws that runs are drawn from → the kind that they are of."""
OF_EACH, LONG = 16, 100


def known_starts(cache: Path) -> dict[str, Any]:
    """Which share of runs whose law is known is said to begin slowly, and by what.

    It is said as `slow_starts` says it of public runs. Runs are drawn from the laws with the noise and the gains of
    real logs. `mixed` has a third of them of each kind.
    """
    laws = [law for names in KINDS.values() for law in names]

    def read(law: str, i: int) -> dict[str, Any]:
        table = rows_of(simulated_run(law, i, LONG))
        found = {name: law_on(name, table) for name in ("flat", *laws)}
        return {name: {"evidence": f.log_evidence} for name, f in found.items() if f is not None}

    scores: dict[str, list[np.ndarray]] = {}
    for law, kind in STARTS.items():
        for i in range(OF_EACH if kind != "success" else OF_EACH // 2):
            told = kept(cache / "starts", f"{law}_{i}", lambda law=law, i=i: read(law, i))
            score = kind_scores(told)
            if "flat" in told and score.max() - told["flat"]["evidence"] > CLEAR:
                scores.setdefault(kind, []).append(score[:3])
    every = {**scores, "mixed": [s for some in scores.values() for s in some]}
    return {
        kind: {"runs": len(some), **shares_of(np.array(some), 2000), "clear": _clear(np.array(some))}
        for kind, some in every.items()
    }


def _clear(score: np.ndarray) -> dict[str, int]:
    """Runs that clearly begin slowly, and of these those that speak clearly for one kind of it."""
    at_once, inertia, success = score.T
    slow = np.maximum(inertia, success) - at_once > CLEAR
    return {
        "slow": int(slow.sum()),
        "at_once": int(np.sum(np.maximum(inertia, success) - at_once < -CLEAR)),
        "success_before_inertia": int(np.sum(slow & (success - inertia > CLEAR))),
        "inertia_before_success": int(np.sum(slow & (inertia - success > CLEAR))),
    }


def all_checks(questions: Sequence[Question], cache: Path, count: int) -> dict[str, Any]:
    """Everything that is checked of the questions."""
    rng = np.random.default_rng(3)
    each = {q.name: robust(q) for q in questions}
    held = {q.name: coverage(q, rng) for q in questions}
    return {
        "each": each,
        "coverage": {
            "each": held,
            "inside": float(np.mean([h["inside"] for h in held.values()])),
            "lowest": min(h["inside"] for h in held.values()),
            "highest": max(h["inside"] for h in held.values()),
            "replications": sum(h["replications"] for h in held.values()),
        },
        "settle": {q.name: would_settle(q, rng) for q in questions},
        "known": end_to_end(cache, count),
        "starts": known_starts(cache),
        "standing": sum(x["stands"] for x in each.values()),
        "standing_without_family": sum(x["stands_without_family"] for x in each.values()),
        "moved_by_prior": sum(x["prior_moves"] for x in each.values()),
        "questions": len(each),
    }
