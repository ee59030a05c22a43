"""Learns how often events come that no law of the reward knows, and writes the package's numbers.

    python -m benchmarks.lab.learners.hazard RUNS ... --lab FOLDER ... [--test FOLDER ...] [--every 4]
                                                    [--jobs 1] [--cache DIR] [--out hazard.json]

RUNS are folders with the logs in csv/ and an index.csv with the columns run_id and repo; --lab and --test are folders
of laboratory runs as `lab_logs` writes them. A log is looked at after 30, 50 and 70% of its rows. The forecasts of one
repository count as `MOST` at most, and the laboratory's as those of one repository; the runs of --test teach nothing.
What is printed of a repository was learned without it. What is written are base rates; whether rates that depend on
signs of the rows before would say more is printed beside them.

With --every N the forecast of every Nth public log is scored with and without events, and those of logs that collapsed
are asked how probable a reward as low as what came was.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from bayes_grpo import forecasting
from bayes_grpo.backtesting import ORIGINS, covered, crps, log_score
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.files import written_whole
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.forecasting.events import COLLAPSE, HAZARDS, EventRates, Rate, RewardPaths, chances
from bayes_grpo.logs.reading import read_log
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep, say
from benchmarks.forecast.backtest_parts import Origin, origin_of, predicted, with_hazard
from benchmarks.lab.learners.hazard_cases import HAZARD_SIGNS, Case, events_counted, lab_cases, public_cases
from benchmarks.lab.learners.hazard_scores import judged

_BEYOND = 3.0
"""Standard deviations of what was learned from, beyond which a sign is held."""
WORTH = 2.0
"""Standard errors by which signs have to be better than base rates to be told to pay."""

_TARGET = Path(forecasting.__file__).with_name("event_rates.json")
BASE_MEDIAN, BASE_SD = 0.05, 1.5
"""Prior of a rate: lognormal with this median, in 1 / rows seen, and this standard deviation of its log."""
_WEIGHT_SD = 0.5
"""Prior standard deviation of what a standard deviation of a sign does to the log rate."""
PAIRS = 4000
"""Pairs of paths whose distance is averaged in an energy score."""
QUANTILES = 11


class Signed(NamedTuple):
    """Rate of an event that depends on signs.

    Attributes:
        base: Log rate at average signs, in 1 / rows seen.
        weight: Change of the log rate by a standard deviation of each sign, shape (signs,).
        centre: Mean of the signs in what it was learned from.
        scale: Their standard deviation.
        signs: Their names.
    """

    base: float
    weight: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    signs: tuple[str, ...]

    def of(self, signs: Mapping[str, float]) -> float:
        """Rate of a log; signs that it does not tell count as average."""
        z = (np.array([signs[name] for name in self.signs]) - self.centre) / self.scale
        return float(np.exp(self.base + self.weight @ np.clip(np.nan_to_num(z), -_BEYOND, _BEYOND)))


def learn_rates(cases: Sequence[Case], signs: Sequence[str] = ()) -> dict[str, Signed]:
    """The most probable rates of all events that ever came.

    Args:
        cases: Origins of many logs.
        signs: Signs that the rates depend on, of `HAZARD_SIGNS`.
    """
    weight, rates = events_counted(cases), {}
    for event in HAZARDS:
        own = [i for i, c in enumerate(cases) if event in c.possible and c.ahead > 0.0]
        if any(cases[i].event == event for i in own):
            rates[event] = _rate(event, [cases[i] for i in own], weight[own], signs)
    return rates


def learn_hazard(cases: Sequence[Case], provenance: Mapping[str, Any] | None = None) -> EventRates:
    """Base rates and sizes, as the package takes them."""
    weight, rates = events_counted(cases), {}
    for event, rate in learn_rates(cases).items():
        own = [i for i, c in enumerate(cases) if c.event == event]
        sizes, of = np.array([cases[i].size for i in own]), weight[own]
        order = np.argsort(sizes)
        share = (np.cumsum(of[order]) - 0.5 * of[order]) / of.sum()
        quantiles = np.interp(np.linspace(0.0, 1.0, QUANTILES), share, sizes[order])
        rates[event] = Rate(round(rate.of({}), 6), np.round(quantiles, 4))
    return EventRates(rates, dict(provenance or {}))


def content_of(rates: EventRates) -> dict[str, Any]:
    """The numbers as the package's file holds them; `EventRates.from_dict` reads them."""
    numbers = {name: {"rate": x.rate, "sizes": x.sizes.tolist()} for name, x in rates.rates.items()}
    return {"provenance": dict(rates.provenance), "rates": numbers}


def _rate(event: str, cases: Sequence[Case], weight: np.ndarray, signs: Sequence[str]) -> Signed:
    values = np.array([[c.signs[name] for name in signs] for c in cases]).reshape(len(cases), len(signs))
    told = np.isfinite(values)
    seen = np.maximum(told.sum(axis=0), 1)
    centre = np.where(told, values, 0.0).sum(axis=0) / seen
    scale = np.sqrt(np.where(told, (values - centre) ** 2, 0.0).sum(axis=0) / seen)
    scale = np.where(scale > 1e-6, scale, 1.0)  # a sign that never varies says nothing
    z = np.clip(np.where(told, (values - centre) / scale, 0.0), -_BEYOND, _BEYOND)
    came = np.array([c.event == event for c in cases])
    ahead = np.array([c.ahead for c in cases])

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        hazard = np.exp(numbers[0] + z @ numbers[1:]) * ahead
        log_likelihood = np.where(came, np.log(-np.expm1(-hazard)), -hazard)
        slope = np.where(came, hazard / np.expm1(np.minimum(hazard, 500.0)), -hazard) * weight
        away = np.concatenate([[(numbers[0] - np.log(BASE_MEDIAN)) / BASE_SD], numbers[1:] / _WEIGHT_SD])
        scale = np.concatenate([[BASE_SD], np.full(len(signs), _WEIGHT_SD)])
        value = -float(weight @ log_likelihood) + 0.5 * float(away @ away)
        return value, -np.concatenate([[slope.sum()], slope @ z]) + away / scale

    start = np.concatenate([[np.log(BASE_MEDIAN)], np.zeros(len(signs))])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-12.0, 3.0)] + [(-3.0, 3.0)] * len(signs)).x
    return Signed(float(found[0]), found[1:], centre, scale, tuple(signs))


def stated(rates: Mapping[str, Signed], case: Case) -> dict[str, float]:
    """Event → probability that it comes, and comes first, as a forecast would say."""
    return chances({name: rates[name].of(case.signs) for name in case.possible if name in rates}, case.ahead)


def nested(cases: Sequence[Case], signs: Sequence[str]) -> list[dict[str, float]]:
    """Probabilities of every case by numbers learned without its repository."""
    by_repo = {repo: learn_rates([c for c in cases if c.repo != repo], signs) for repo in {c.repo for c in cases}}
    return [stated(by_repo[c.repo], c) for c in cases]


def drawn_rates(path: Path, cache: Path) -> list[Path]:
    """Averaged paths of the forecasts of one log, before events, in files: they take nearly all of the time."""
    warnings.simplefilter("ignore")
    cache.mkdir(parents=True, exist_ok=True)
    files, done = [cache / f"{path.stem}-{share:g}.npz" for share in ORIGINS], cache / f"{path.stem}.done"
    if not done.exists():
        run = read_log(path)
        whole = rows_of(run)
        for share, file in zip(ORIGINS, files, strict=True):
            try:
                found = predicted(origin_of(run, whole, share), seed_of(0, "origin", share))
            except BayesGrpoError:
                continue
            latent, trend, rows = (x.astype(np.float32) for x in found.average)
            np.savez(file, latent=latent, trend=trend, rows=rows)
        done.touch()
        say(path.stem)
    return [file for file in files if file.exists()]


class Pair(NamedTuple):
    """Predictive draws of the rows after an origin, shape (draws, h), without and with events, and what came."""

    log: str
    origin: Origin
    without: np.ndarray
    having: np.ndarray


def pairs(
    kept: Mapping[str, Sequence[Path]], files: Mapping[str, tuple[str, Path]], cases: Sequence[Case]
) -> list[Pair]:
    """Forecasts without and with events, by numbers learned without their repositories.

    Args:
        kept: Log → files of `drawn_rates`.
        files: Log → its repository and file.
        cases: What is learned from.
    """
    learned = {r: learn_hazard([c for c in cases if c.repo != r]) for r in {files[log][0] for log in kept}}
    out = []
    for log, parts in kept.items():
        repo, path = files[log]
        run = read_log(path)
        whole = rows_of(run)
        for part in parts:
            share = float(part.stem.rpartition("-")[2])
            with np.load(part) as stored:
                average = RewardPaths(*(stored[k].astype(float) for k in RewardPaths._fields))
            origin = origin_of(run, whole, share)
            seed = seed_of(seed_of(0, "origin", share), "events")
            out.append(Pair(log, origin, average.rows, with_hazard(origin, average, learned[repo], seed)))
    return out


def effect(found: Sequence[Pair]) -> dict[str, Any]:
    """Prints and returns what events do to forecasts."""
    rows = []
    for x in found:
        y, scale, both = x.origin.y, x.origin.scale, (x.without, x.having)
        rows.append([
            [float(np.mean(crps(d, y))) / scale for d in both],
            [energy(d, y) / scale for d in both],
            [float(np.mean(covered(d, y))) for d in both],
            [float(np.mean(log_score(d, y))) + float(np.log(scale)) for d in both],
        ])  # fmt: skip
    table, origin = np.array(rows), np.array([x.origin.share for x in found])
    out: dict[str, Any] = {"logs": len({x.log for x in found}), "forecasts": len(table)}
    print(f"\n{out['logs']} logs, {len(table)} forecasts, without events and with them")
    groups = {"all": table} | {f"origin_{100 * o:.0f}": table[origin == o] for o in ORIGINS}
    for name, own in groups.items():
        mean = own.mean(axis=0)
        out[name] = dict(zip(("crps", "energy", "coverage", "log_score"), mean.tolist(), strict=True))
        print(f"  {name:10s} " + "   ".join(f"{k} {a:.4f} {b:.4f}" for k, (a, b) in out[name].items()))
    change = table[:, 0, 1] - table[:, 0, 0]
    out |= {"crps_change": float(change.mean()), "crps_change_se": float(change.std() / np.sqrt(len(change)))}
    print(f"  change of the mean CRPS {out['crps_change']:+.4f} ± {out['crps_change_se']:.4f}")
    return out


def energy(draws: np.ndarray, y: np.ndarray) -> float:
    """Energy score of whole paths, in the unit of ``y``; smaller is better. Of one row it is the CRPS.

    E‖X − y‖ − E‖X − X'‖/2 with the root mean square over rows as norm (Gneiting and Raftery 2007,
    https://doi.org/10.1198/016214506000001437): unlike the rows' own scores it sees whether they belong together. The
    second mean is over `PAIRS` pairs of different paths.

    Args:
        draws: Predictive paths, shape (m, h).
        y: What was observed, shape (h,).
    """
    rng = np.random.default_rng(0)
    i, shift = rng.integers(len(draws), size=PAIRS), rng.integers(1, len(draws), size=PAIRS)

    def length(difference: np.ndarray) -> float:
        return float(np.sqrt(np.mean(difference**2, axis=1)).mean())

    return length(draws - y) - 0.5 * length(draws[i] - draws[(i + shift) % len(draws)])


def lowest(found: Sequence[Pair], collapsed: Collection[tuple[str, float]]) -> list[dict[str, Any]]:
    """Prints and returns, of logs that collapsed, the probability of rewards as low as the last tenth of their rows."""
    out = []
    for x in found:
        if (x.log, x.origin.share) in collapsed:
            y = x.origin.y
            last = slice(-max(3, len(y) // 10), None)
            below = [np.mean(d < y, axis=0) + 0.5 * np.mean(d == y, axis=0) for d in (x.without, x.having)]
            before, after = (float(np.median(b[last])) for b in below)
            out.append({"log": x.log, "origin": x.origin.share, "without": before, "with": after})
            print(f"  {x.log} at {x.origin.share:.0%}: P(as low as what came) {before:.3f} without events, {after:.3f} "
                  "with them")  # fmt: skip
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--lab", type=Path, nargs="*", default=[])
    parser.add_argument("--test", type=Path, nargs="*", default=[])
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=_TARGET)
    asked = parser.parse_args()
    if asked.every and asked.cache is None:
        parser.error("--every needs --cache, a folder for the paths of the forecasts")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    public, files = public_cases(asked.runs)
    cases = public + lab_cases(asked.lab)
    print(f"{len(cases)} forecasts of {len({c.log for c in cases})} logs of {len({c.repo for c in cases})} "
          f"repositories; events {dict(Counter(c.event for c in cases if c.event))}, "
          f"of them in public logs {dict(Counter(c.event for c in public if c.event))}")  # fmt: skip
    told = {"base": nested(cases, ()), "signs": nested(cases, HAZARD_SIGNS)}
    print("\nnested, public logs and laboratory")
    result: dict[str, Any] = {"forecasts": len(cases), "logs": len({c.log for c in cases})}
    result["all"] = judged(cases, told)
    print("\nnested, public logs alone")
    result["public"] = judged(public, {k: x[: len(public)] for k, x in told.items()})
    for line in result["public"]["before_collapses"]:
        print(f"  {line['log']} at {line['origin']:.0%}: P(collapse) {line['base']:.3f} by base rates, "
              f"{line['signs']:.3f} with signs")  # fmt: skip
    if asked.test:
        print("\nlaboratory runs that taught nothing")
        test = lab_cases(asked.test)
        rates = {"base": learn_rates(cases), "signs": learn_rates(cases, HAZARD_SIGNS)}
        result["test"] = judged(test, {kind: [stated(x, c) for c in test] for kind, x in rates.items()})
    # Single laboratory runs tell nobody anything: quartiles do.
    for part in ("all", "test"):
        if part in result:
            before = result[part].pop("before_collapses")
            result[part]["before_collapses"] = {
                kind: np.round(np.quantile([x[kind] for x in before], [0.25, 0.5, 0.75]), 4).tolist() for kind in told
            }
            print(f"P(collapse) before collapses, quartiles, {part}: {result[part]['before_collapses']}")
    scores = {e: result["public"][e]["log_score"] for e in HAZARDS if e in result["public"]}
    result["signs_pay"] = {e: x["gain"] > WORTH * x["se"] for e, x in scores.items()}
    about = {
        "made by": "benchmarks/lab/learners/hazard.py",
        "repositories": len({c.repo for c in public}),
        "logs": len({c.log for c in public}),
        "laboratory runs": len({c.log for c in cases}) - len({c.log for c in public}),
        "forecasts": len(cases),
    }
    hazard = learn_hazard(cases, about)
    if asked.every:
        sample = list(files)[:: asked.every]
        collapsed = {(c.log, c.origin) for c in public if c.event == COLLAPSE}
        chosen = list(dict.fromkeys([*sample, *sorted(log for log, _ in collapsed)]))
        with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
            parts = pool.map(drawn_rates, [files[x][1] for x in chosen], [asked.cache] * len(chosen))
            kept = dict(zip(chosen, parts, strict=True))
        found = pairs(kept, files, cases)
        result["effect"] = effect([x for x in found if x.log in sample])
        result["lowest"] = lowest(found, collapsed)
    with written_whole(asked.out) as temporary:
        temporary.write_text(json.dumps(content_of(hazard), indent=1) + "\n", encoding="utf-8")
    print(json.dumps(content_of(hazard), indent=1))
    if asked.out == _TARGET and asked.every:
        keep("learn_hazard", result)


if __name__ == "__main__":
    main()
