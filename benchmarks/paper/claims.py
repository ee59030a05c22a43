"""The questions: which runs are asked what of a setting, and which laws they bear out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from bayes_grpo.rows.known_noise import NEAREST_RATE, scatter
from bayes_grpo.rows.series import is_share
from benchmarks.lab.groups import group_drift_factor
from benchmarks.paper import PAPER_R2
from benchmarks.paper.fits import said_of
from benchmarks.paper.pooled import OF_LEVELS, OF_LOGARITHMS, Evidence, PooledPriors
from benchmarks.paper.runs import PaperRun, places_of

Found = Mapping[str, Mapping[str, Any]]
"""Run → what it says, as `benchmarks.paper.read_all` keeps it."""


class Question(NamedTuple):
    """A question about an exponent.

    Attributes:
        name: Quantity and setting.
        quantity: The quantity.
        setting: The setting.
        evidence: What the runs say.
        priors: Priors of the pooled model.
        predicted: What the paper expects; NaN for nothing.
        asked: Runs that could have said something.
        authors: Names of the authors by their number in the evidence.
        runs: Names of the runs.
    """

    name: str
    quantity: str
    setting: str
    evidence: Evidence
    priors: PooledPriors
    predicted: float
    asked: int
    authors: tuple[str, ...]
    runs: tuple[str, ...]


QUANTITIES = ("rate", "plateau", "trajectory", "fluctuation", "scatter")
"""Response rate; fixed point over its own size; latent reward at the last common step over its own size; variance of
the fluctuation after measurement; variance of rows about any smooth course, measurement included."""
PREDICTED = {
    ("rate", "group_size"): 0.0,
    ("plateau", "group_size"): 0.0,
    ("trajectory", "group_size"): 0.0,
    ("fluctuation", "group_size"): -1.0,
    ("rate", "learning_rate"): 1.0,
    ("plateau", "learning_rate"): 0.0,
    ("fluctuation", "learning_rate"): 1.0,
    ("rate", "refresh"): 0.0,
    ("plateau", "refresh"): 0.0,
    ("rate", "model_size"): -0.3,
    ("fluctuation", "prompts_per_step"): -1.0,
}
"""To leading order; the size exponent is that of the predecessor, reported at second hand."""


def question_of(
    runs: Sequence[PaperRun], found: Found, quantity: str, setting: str, finite: bool = False
) -> Question | None:
    """What the runs say of the exponent of a quantity in a setting; None where fewer than three say anything.

    Args:
        runs: All runs.
        found: What each says.
        quantity: One of `QUANTITIES`.
        setting: The setting.
        finite: Whether to take out the factor by which a finite group drifts more slowly under advantages over its own
            standard deviation, at the run's mean success: rates are divided by it, fluctuations multiplied.
    """
    by_name = {r.name: r for r in runs}
    places = places_of(runs, setting)
    cells: dict[str, list[Any]] = {}
    for p in places:
        cells.setdefault(p.cell, []).append(p)
    rows: list[tuple[float, float, float, str, str, str, str]] = []
    for cell, some in cells.items():
        own = []
        last = min(by_name[p.name].table.step[-1] for p in some)
        size = _size([found[p.name]["reading"] for p in some], last)
        for p in some:
            told = _told(by_name[p.name], found[p.name], quantity, last, size)
            if told is not None:
                shift = _finite(by_name[p.name], p.value, quantity) if finite else 0.0
                own.append((told[0] + shift, told[1], math.log(p.value), cell, p.family, p.author, p.name))
        if len({x[2] for x in own}) > 1:
            rows += own
    if len(rows) < 3:
        return None
    value, error, x = (np.array([r[i] for r in rows]) for i in range(3))
    numbers = [sorted({str(r[i]) for r in rows}) for i in (3, 4, 5)]
    cell, family, author = (
        np.array([known.index(str(r[i])) for r in rows]) for i, known in zip((3, 4, 5), numbers, strict=True)
    )
    x = x - np.array([x[cell == c].mean() for c in cell])
    priors = OF_LEVELS if quantity in ("plateau", "trajectory") else OF_LOGARITHMS
    return Question(
        f"{quantity} on {setting}" + (", finite groups" if finite else ""),
        quantity,
        setting,
        Evidence(value, error, x, cell, family, author),
        priors,
        PREDICTED.get((quantity, setting), math.nan),
        len(places),
        tuple(numbers[2]),
        tuple(r[6] for r in rows),
    )


def _size(readings: Sequence[Mapping[str, Any]], last: float) -> float:
    """Size of the reward in a cell at its last common step: its mean where rewards are positive, else their range."""
    at = [_reading(r, last)[0] for r in readings if r]
    if not at:
        return math.nan
    lowest = min(min(r["latent"]) for r in readings if r)
    if lowest >= 0.0 and np.mean(at) > 0.0:
        return float(np.mean(at))
    return float(np.ptp(np.concatenate([r["latent"] for r in readings if r])))


def _reading(reading: Mapping[str, Any], step: float) -> tuple[float, float]:
    place = int(np.argmin(np.abs(np.array(reading["step"]) - step)))
    return reading["latent"][place], reading["error"][place]


def _told(
    run: PaperRun, found: Mapping[str, Any], quantity: str, last: float, size: float
) -> tuple[float, float] | None:
    """Value and error of a quantity of a run."""
    if quantity == "trajectory":
        if not found["reading"] or not size > 0:
            return None
        value, error = _reading(found["reading"], last)
        return value / size, max(error / size, 1e-3)
    if quantity == "scatter":
        variance = np.ones(len(run.table.y)) if run.table.noise is None else run.table.noise
        sd, error = scatter(run.table.y, variance)
        return (2.0 * math.log(sd), 2.0 * error) if sd > 1e-9 else None
    if quantity == "fluctuation":
        said = said_of(found["laws"], "fluctuation_sd") if run.table.level is not None else None
        return None if said is None else (2.0 * said.value, 2.0 * said.error)
    said = said_of(found["reading"], {"rate": "rate", "plateau": "fixed_point"}[quantity])
    if said is None or (quantity == "plateau" and not size > 0):
        return None
    return (said.value, said.error) if quantity == "rate" else (said.value / size, said.error / size)


def _finite(run: PaperRun, group: float, quantity: str) -> float:
    """Logarithm by which a quantity is moved to that of infinite groups."""
    if not is_share(run.table.y) or group < 2 or quantity not in ("rate", "fluctuation"):
        return 0.0
    p = float(np.clip(run.table.y.mean(), NEAREST_RATE, 1.0 - NEAREST_RATE))
    drift = math.log(float(group_drift_factor(p, round(group), 1)))
    return -drift if quantity == "rate" else drift


def measured_alone(runs: Sequence[PaperRun]) -> dict[str, float]:
    """Exponent of a row's variance in the group size that measurement alone gives, cell by cell, at G of the runs.

    Completions of one prompt are alike: the variance of a row falls as (1 + (G − 1)ρ)/G, more slowly than 1/G.
    """
    slopes = []
    cells: dict[str, list[tuple[float, float]]] = {}
    for p in places_of(runs, "group_size"):
        table = next(r.table for r in runs if r.name == p.name)
        if table.level is not None:
            cells.setdefault(p.cell, []).append((math.log(p.value), 2.0 * math.log(table.level.sd)))
    for some in cells.values():
        x, y = np.array(some).T
        if len(set(x.tolist())) > 1:
            slopes.append(float(np.polyfit(x, y, 1)[0]))
    return {"cells": len(slopes), "median": float(np.median(slopes)) if slopes else math.nan}


def explained(runs: Sequence[PaperRun], found: Found) -> dict[str, Any]:
    """R² of every law against the most that any law could have: the share of the rows' variance that is no measurement.

    Of laws of one run the one of the highest evidence is `best`. Where less than `READABLE` of the variance is not
    measurement, a share of it is no number to speak of.
    """
    names = sorted({law for f in found.values() for law in f["laws"]["laws"]})
    out: dict[str, Any] = {"runs": len(runs), "authors": len({r.author for r in runs}), "by_law": {}}
    rows = []
    for r in runs:
        f = found[r.name]["laws"]
        if not f["laws"] or "measured" not in f:
            continue
        best = max(f["laws"], key=lambda n: f["laws"][n]["evidence"])
        ceiling = f["measured"][1]
        rows.append(
            {
                "name": r.name,
                "author": r.author,
                "label": r.words["outcome_label"] or "unknown",
                "collapsed": f["collapsed"],
                "best": best,
                "r2": {n: x["r2"] for n, x in f["laws"].items()} | {"best": f["laws"][best]["r2"]},
                "ceiling": ceiling,
                "ceiling_low": f["measured"][0],
                "ceiling_high": f["measured"][2],
                "stated": f.get("stated"),
            }
        )
    authors = np.array([r["author"] for r in rows])
    ceiling = np.array([r["ceiling"] for r in rows])
    readable = ceiling > READABLE
    out["counted"] = len(rows)
    out["ceiling"] = {
        "median": float(np.median(ceiling)),
        "could_reach": int(np.sum([r["ceiling_high"] >= PAPER_R2 for r in rows])),
        "surely_reach": int(np.sum([r["ceiling_low"] >= PAPER_R2 for r in rows])),
        "readable": int(readable.sum()),
        "stated_runs": sum(r["stated"] is not None for r in rows),
        "stated_could_reach": sum(r["stated"] is not None and r["stated"][2] >= PAPER_R2 for r in rows),
    }
    for law in ("best", *names):
        r2 = np.array([r["r2"].get(law, np.nan) for r in rows])
        share = np.where(readable, r2 / np.maximum(ceiling, READABLE), np.nan)
        out["by_law"][law] = {
            "runs": int(np.isfinite(r2).sum()),
            "reached": int(np.sum(r2 >= PAPER_R2)),
            "median_r2": float(np.nanmedian(r2)),
            "share": by_authors(share, authors),
            "share_reached": float(np.mean(share[np.isfinite(share)] >= PAPER_R2)),
            "share_reached_runs": int(np.nansum(share >= PAPER_R2)),
        }
    best = np.array([r["r2"]["best"] for r in rows])
    share = np.where(readable, best / np.maximum(ceiling, READABLE), np.nan)
    far = readable & (share < FAR)
    out["missed"] = {
        "runs": int(far.sum()),
        "by_label": {
            label: {
                "missed": int(np.sum(far & (np.array([r["label"] for r in rows]) == label))),
                "readable": int(np.sum(readable & (np.array([r["label"] for r in rows]) == label))),
            }
            for label in sorted({r["label"] for r in rows})
        },
        "collapsed": int(np.sum(far & np.array([r["collapsed"] for r in rows]))),
        "collapsed_readable": int(np.sum(readable & np.array([r["collapsed"] for r in rows]))),
    }
    out["left_out_author"] = left_out(lambda kept: float(np.nanmedian(share[kept])), authors)
    out["points"] = [
        [r["name"], r["ceiling"], r["r2"]["best"], r["best"], r["label"], r["ceiling_low"], r["ceiling_high"]]
        for r in rows
    ]
    return out


READABLE = 0.2
"""Share of the variance that has to be more than measurement where a share of it is asked for."""
FAR = 0.8
"""A law that explains less than this share of what can be explained misses."""


def by_authors(values: np.ndarray, authors: np.ndarray, tries: int = 1000) -> dict[str, float]:
    """Median of values, and its 90% interval where authors are drawn anew with all of their runs."""
    rng, names = np.random.default_rng(0), sorted(set(authors.tolist()))
    own = {a: values[(authors == a) & np.isfinite(values)] for a in names}
    drawn = [np.concatenate([own[a] for a in rng.choice(names, len(names))]) for _ in range(tries)]
    low, high = np.quantile([np.median(d) for d in drawn if len(d)], [0.05, 0.95])
    return {"low": float(low), "median": float(np.nanmedian(values)), "high": float(high)}


def left_out(value: Any, authors: np.ndarray) -> dict[str, Any]:
    """The lowest and the highest value with one author left out, and who carries it furthest."""
    whole = value(np.ones(len(authors), bool))
    each = {a: value(authors != a) for a in sorted(set(authors.tolist()))}
    far = max(each, key=lambda a: abs(each[a] - whole))
    return {"low": min(each.values()), "high": max(each.values()), "whole": whole, "who": far, "without": each[far]}


KINDS = {
    "at once": ("exponential",),
    "inertia": ("oscillator",),
    "success": ("bernoulli", "logistic"),
    "another shape": ("sigmoid",),
}
"""Kinds of curves that move → their laws, each of the same weight within its kind. `success` is the slow start of
p(1 − p); the power-law sigmoid fits curves with and without a slow start and explains neither."""


def slow_starts(runs: Sequence[PaperRun], found: Found, draws: int = 4000) -> dict[str, Any]:
    """Which share of the runs that move is of which kind: a population of laws, by their marginal likelihoods.

    A run moves where its best law is clearly before none. Shares have a flat Dirichlet prior, and are drawn by Gibbs
    sampling of each run's kind: among the three kinds that the paper and its rivals explain, and with the sigmoid
    beside them. Authors are left out in turn.
    """
    kept = [r for r in runs if r.table.from_rest and "flat" in found[r.name]["laws"]["laws"]]
    scores = {r.name: kind_scores(found[r.name]["laws"]["laws"]) for r in kept}
    flat = {r.name: found[r.name]["laws"]["laws"]["flat"]["evidence"] for r in kept}
    moving = [r for r in kept if scores[r.name].max() - flat[r.name] > CLEAR]
    score, authors = np.array([scores[r.name] for r in moving]), np.array([r.author for r in moving])
    at_once, inertia, success = score[:, :3].T
    slow = np.maximum(inertia, success) - at_once
    out: dict[str, Any] = {
        "runs": len(kept),
        "moving": len(moving),
        "authors": len(set(authors.tolist())),
        "clear": int(np.sum(slow > CLEAR)),
        "clear_against": int(np.sum(slow < -CLEAR)),
        "success_before_inertia": int(np.sum((slow > CLEAR) & (success - inertia > CLEAR))),
        "inertia_before_success": int(np.sum((slow > CLEAR) & (inertia - success > CLEAR))),
        "sigmoid_before_all": int(np.sum(score[:, 3] - score[:, :3].max(axis=1) > CLEAR)),
        "three": shares_of(score[:, :3], draws),
        "four": shares_of(score, draws),
    }
    each = {a: shares_of(score[authors != a, :3], draws // 2) for a in sorted(set(authors.tolist()))}
    far = min(each, key=lambda a: each[a]["p_success_before_inertia"])
    out["left_out_author"] = {
        "who": far,
        "p_success_before_inertia": each[far]["p_success_before_inertia"],
        "slow_low": min(x["slow"]["median"] for x in each.values()),
        "slow_high": max(x["slow"]["median"] for x in each.values()),
    }
    gains = {
        r.name: found[r.name]["laws"]["laws"]["exponential"]["evidence"] - b["no_warmup"]
        for r in moving
        if (b := found[r.name]["beside"]).get("no_warmup") is not None
    }
    gain = np.array(list(gains.values()))
    out["warm_up"] = {
        "runs": len(gain),
        "authors": len({r.author for r in moving if r.name in gains}),
        "for": int(np.sum(gain > CLEAR)),
        "against": int(np.sum(gain < -CLEAR)),
        "sum": float(gain.sum()),
    }
    return out


def kind_scores(laws: Mapping[str, Any]) -> np.ndarray:
    """Log marginal likelihood of every kind, shape (kinds,)."""
    out = np.full(len(KINDS), -np.inf)
    for j, names in enumerate(KINDS.values()):
        own = [laws[n]["evidence"] for n in names if n in laws]
        if own:
            out[j] = np.logaddexp.reduce(own) - math.log(len(own))
    return out


def shares_of(score: np.ndarray, draws: int) -> dict[str, Any]:
    """Shares of kinds, that of slow starts, and P(success explains more runs than inertia)."""
    share, names = _population(score, draws), list(KINDS)
    return {
        "shares": {names[j]: _interval(share[:, j]) for j in range(share.shape[1])},
        "slow": _interval(share[:, 1] + share[:, 2]),
        "p_success_before_inertia": float(np.mean(share[:, 2] > share[:, 1])),
    }


CLEAR = math.log(10.0)
"""Logarithm of a Bayes factor that counts as clear."""


def _population(score: np.ndarray, draws: int) -> np.ndarray:
    """Shares of kinds, shape (draws, kinds)."""
    rng, k = np.random.default_rng(0), score.shape[1]
    share, out = np.full(k, 1.0 / k), []
    like = np.exp(score - score.max(axis=1, keepdims=True))
    for _ in range(draws + 200):
        p = like * share
        edges = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)
        kind = np.minimum((edges < rng.uniform(size=(len(p), 1))).sum(axis=1), k - 1)
        share = rng.dirichlet(1.0 + np.bincount(kind, minlength=k))
        out.append(share)
    return np.array(out[200:])


def _interval(x: np.ndarray) -> dict[str, float]:
    low, median, high = np.quantile(x, [0.05, 0.5, 0.95])
    return {"low": float(low), "median": float(median), "high": float(high)}


def transfer_of(runs: Sequence[PaperRun], found: Found) -> tuple[Evidence, tuple[str, ...], dict[str, int]]:
    """Logarithm of the held-out rate over that of the train reward, by run; authors, and how many could say it."""
    rows, asked = [], 0
    for r in runs:
        held_out = found[r.name]["beside"].get("held_out")
        if held_out is None:
            continue
        asked += 1
        one = said_of(held_out, "rate")
        two = said_of(found[r.name]["laws"], "rate")
        if one is not None and two is not None and (held_out["grows"] or 0.0) > CLEAR:
            rows.append((one.value - two.value, math.hypot(one.error, two.error), r.author))
    authors = sorted({x[2] for x in rows})
    n = len(rows)
    author = np.array([authors.index(x[2]) for x in rows], int)
    e = Evidence(
        np.array([x[0] for x in rows]), np.array([x[1] for x in rows]), np.ones(n), np.full(n, -1), author, author
    )
    columns = [r.run.keys.get("eval_reward", "") for r in runs if r.run.has_eval]
    several = sum(c.startswith("mean of ") for c in columns)
    return e, tuple(authors), {"any": len(columns), "several": several, "with_held_out": asked, "growing": n}


def margins(runs: Sequence[PaperRun], found: Found) -> dict[str, Any]:
    """Outcome of runs against optimizer steps per rollout, and against the paper's margin, e-fold time over these.

    The e-fold time is that of the run of fewest steps per rollout in the same cell: that of the same run would be
    circular.
    """
    by_name = {r.name: r for r in runs}
    cells: dict[str, list[Any]] = {}
    for p in places_of(runs, "refresh"):
        cells.setdefault(p.cell, []).append(p)
    out: list[dict[str, Any]] = []
    for some in cells.values():
        low = min(some, key=lambda p: p.value)
        said = said_of(found[low.name]["reading"], "rate")
        for p in some:
            if p.value > low.value:
                margin = None if said is None else math.exp(-said.value) * low.value / p.value
                out.append(
                    {
                        "run": p.name,
                        "author": p.author,
                        "refresh": p.value,
                        "margin": margin,
                        "failed": by_name[p.name].failed,
                    }
                )
    known = [x for x in out if x["margin"] is not None]
    fresh = [by_name[n] for n in {min(s, key=lambda p: p.value).name for s in cells.values()}]
    return {
        "runs": len(out),
        "authors": len({x["author"] for x in out}),
        "failed": sum(x["failed"] for x in out),
        "failed_of_fresh": sum(r.failed for r in fresh),
        "fresh": len(fresh),
        "with_margin": len(known),
        "smallest_margin": min((x["margin"] for x in known), default=math.nan),
        "beyond": sum(x["margin"] < 1.0 for x in known),
        "failed_inside": sum(x["failed"] for x in known if x["margin"] >= 1.0),
        "near": _outcome([x for x in known if x["margin"] < NEAR]),
        "far": _outcome([x for x in known if x["margin"] >= NEAR]),
        "each": out,
    }


NEAR = 3.0
"""A margin below this is near the rule's threshold."""


def _outcome(some: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Runs, how many failed, and the probability of failing with its 90% interval, from a flat prior."""
    failed = sum(x["failed"] for x in some)
    low, median, high = beta(1 + failed, 1 + len(some) - failed).ppf([0.05, 0.5, 0.95])
    return {
        "runs": len(some),
        "failed": failed,
        "authors": len({x["author"] for x in some}),
        "low": float(low),
        "median": float(median),
        "high": float(high),
    }
