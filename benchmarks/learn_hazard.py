"""Learns how often events come that no law of the reward knows, and writes the package's numbers.

    python -m benchmarks.learn_hazard RUNS ... --lab FOLDER ... [--test FOLDER ...] [--every 4] [--jobs 1]
                                      [--cache DIR] [--out hazard.json]

RUNS are folders with the logs in csv/ and an index.csv with the columns run_id and repo; --lab and --test are folders
of laboratory runs as `benchmarks.diagnosis_lab` writes them. A log is looked at after 30, 50 and 70% of its rows. The
forecasts of one repository count as `MOST` at most, and the laboratory's as those of one repository; the runs of
--test teach nothing. What is printed of a repository was learned without it. Rates with signs are shipped where their
nested log score is better than that of the base rates alone by `WORTH` standard errors.

With --every N the forecast of every Nth public log is scored with and without events.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from bayes_grpo import read_log
from bayes_grpo.backtesting.backtest import BACKTEST_CARE, MIN_ROWS, ORIGINS
from bayes_grpo.backtesting.origins import Laws, origin_of, predicted, with_hazard
from bayes_grpo.backtesting.scores import covered, crps, log_score
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.files import written_whole
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.forecasting.basis import MIN_FORECAST_ROWS
from bayes_grpo.forecasting.events import COLLAPSE, EVENTS, Courses, event_of, standing_of
from bayes_grpo.forecasting.fits import FORECAST_REGIMES
from bayes_grpo.forecasting.hazard import BEYOND, SIGNS, Hazard, Rate, signs_of
from bayes_grpo.forecasting.priors import forecast_priors
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep, say
from benchmarks.diagnosis_lab import lab_logs

TARGET = Path(__file__).parents[1] / "bayes_grpo" / "forecasting" / "hazard.json"
MOST = 15.0
"""Forecasts of a repository count as this many at most: five logs at three origins."""
LABORATORY = "laboratory"
BASE_MEDIAN, BASE_SD = 0.05, 1.5
"""Prior of a rate: lognormal with this median, in 1 / rows seen, and this standard deviation of its log."""
WEIGHT_SD = 0.5
"""Prior standard deviation of what a standard deviation of a sign does to the log rate."""
WORTH = 1.0
"""Standard errors by which signs have to be better than base rates."""
BINS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Borders of stated probabilities in the table of reliability."""
QUANTILES = 11


class Case(NamedTuple):
    """An origin of a log, and what came.

    Attributes:
        repo: Repository; `LABORATORY` for laboratory runs.
        log: Name of the run.
        origin: Share of the rows that was seen.
        ahead: Rows to come over rows seen.
        signs: `bayes_grpo.forecasting.hazard.signs_of`.
        possible: Events that could meet it.
        event: The one that did, or "".
        size: Its size.
    """

    repo: str
    log: str
    origin: float
    ahead: float
    signs: dict[str, float]
    possible: tuple[str, ...]
    event: str
    size: float


def cases_of(repo: str, log: str, run: Run) -> list[Case]:
    """Cases of one log; none where it is too short or has no usable reward."""
    try:
        whole = rows_of(run)
    except BayesGrpoError:
        return []
    out = []
    for origin in ORIGINS:
        n = round(origin * len(whole.y))
        if len(whole.y) < MIN_ROWS or n < MIN_FORECAST_ROWS - 2:
            continue
        until = run.until(float(whole.step[n - 1]))
        try:
            past = rows_of(until, "reward" if whole.signal == "reward" else "eval")
        except BayesGrpoError:
            continue  # a reward that has not moved yet
        reward = reward_range(past, dict(run.settings.items()))
        standing = standing_of(past.y, reward)
        event, size = event_of(standing, whole.y[n:])
        signs = signs_of(past, reward, until)
        ahead = float(np.count_nonzero(whole.rate[n:] > 0.0)) / n
        out.append(Case(repo, log, origin, ahead, signs, tuple(standing.scale), event, size))
    return out


def learn_hazard(
    cases: Sequence[Case], signs: Sequence[str] = (), provenance: Mapping[str, Any] | None = None
) -> Hazard:
    """The most probable numbers.

    Args:
        cases: Origins of many logs.
        signs: Signs that the rates depend on, of `SIGNS`.
        provenance: What is said of where they come from.
    """
    count = Counter(c.repo for c in cases)
    weight = {repo: min(1.0, MOST / n) for repo, n in count.items()}
    rates = {}
    for event in EVENTS:
        own = [c for c in cases if event in c.possible and c.ahead > 0.0]
        if any(c.event == event for c in own):
            rates[event] = _rate(event, own, np.array([weight[c.repo] for c in own]), signs)
    return Hazard(rates, dict(provenance or {}))


def _rate(event: str, cases: Sequence[Case], weight: np.ndarray, signs: Sequence[str]) -> Rate:
    values = np.array([[c.signs[name] for name in signs] for c in cases]).reshape(len(cases), len(signs))
    told = np.isfinite(values)
    seen = np.maximum(told.sum(axis=0), 1)
    centre = np.where(told, values, 0.0).sum(axis=0) / seen
    scale = np.sqrt(np.where(told, (values - centre) ** 2, 0.0).sum(axis=0) / seen)
    scale = np.where(scale > 1e-6, scale, 1.0)  # a sign that never varies says nothing
    z = np.clip(np.where(told, (values - centre) / scale, 0.0), -BEYOND, BEYOND)
    came = np.array([c.event == event for c in cases])
    ahead = np.array([c.ahead for c in cases])

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        hazard = np.exp(numbers[0] + z @ numbers[1:]) * ahead
        log_likelihood = np.where(came, np.log(-np.expm1(-hazard)), -hazard)
        slope = np.where(came, hazard / np.expm1(np.minimum(hazard, 500.0)), -hazard) * weight
        away = np.concatenate([[(numbers[0] - np.log(BASE_MEDIAN)) / BASE_SD], numbers[1:] / WEIGHT_SD])
        scale = np.concatenate([[BASE_SD], np.full(len(signs), WEIGHT_SD)])
        value = -float(weight @ log_likelihood) + 0.5 * float(away @ away)
        return value, -np.concatenate([[slope.sum()], slope @ z]) + away / scale

    start = np.concatenate([[np.log(BASE_MEDIAN)], np.zeros(len(signs))])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-12.0, 3.0)] + [(-3.0, 3.0)] * len(signs)).x
    sizes = np.array([c.size for c in cases])[came]
    order = np.argsort(sizes)
    share = np.cumsum(weight[came][order])
    quantiles = np.interp(
        np.linspace(0.0, 1.0, QUANTILES), (share - 0.5 * weight[came][order]) / share[-1], sizes[order]
    )
    names = [dict(zip(signs, np.round(x, 6).tolist(), strict=True)) for x in (found[1:], centre, scale)]
    return Rate(round(float(found[0]), 6), *names, np.round(quantiles, 4))


def chances(hazard: Hazard, case: Case) -> dict[str, float]:
    """Event → probability that it comes, and comes first, as a forecast would say."""
    rates = {name: hazard.rates[name].of(case.signs) for name in case.possible if name in hazard.rates}
    total = sum(rates.values())
    either = -np.expm1(-total * case.ahead)
    return {name: float(either * rate / total) for name, rate in rates.items()}


def nested(cases: Sequence[Case], signs: Sequence[str]) -> list[dict[str, float]]:
    """Probabilities of every case by numbers learned without its repository."""
    by_repo = {repo: learn_hazard([c for c in cases if c.repo != repo], signs) for repo in {c.repo for c in cases}}
    return [chances(by_repo[c.repo], c) for c in cases]


class Said(NamedTuple):
    """A probability that was stated of one event, and what came."""

    case: Case
    event: str
    probability: float
    weight: float

    @property
    def came(self) -> bool:
        """Whether the event came."""
        return self.case.event == self.event

    @property
    def log_score(self) -> float:
        """Log of the probability of what came, negative."""
        return float(np.log(self.probability if self.came else 1.0 - self.probability))


def said(cases: Sequence[Case], stated: Sequence[Mapping[str, float]]) -> list[Said]:
    """All statements, with the weight of their repositories."""
    count = Counter(c.repo for c in cases)
    return [
        Said(case, event, float(np.clip(p, 1e-9, 1.0 - 1e-9)), min(1.0, MOST / count[case.repo]))
        for case, of in zip(cases, stated, strict=True)
        for event, p in of.items()
    ]


def reliability(statements: Sequence[Said]) -> list[dict[str, float]]:
    """Stated probability beside frequency, by bins of the former; repositories count alike."""
    out = []
    for low, high in pairwise(BINS):
        own = [s for s in statements if low <= s.probability < high]
        if own:
            weight = np.array([s.weight for s in own])
            mean = [float(weight @ [float(v) for v in x] / weight.sum())
                    for x in ([s.probability for s in own], [s.came for s in own])]  # fmt: skip
            out.append({"from": low, "to": high, "cases": len(own), "events": sum(s.came for s in own),
                        "stated": mean[0], "frequency": mean[1]})  # fmt: skip
    return out


def compared(signs: Sequence[Said], base: Sequence[Said]) -> dict[str, float]:
    """Log score of rates with signs against base rates: mean gain, and its standard error over repositories."""
    weight = np.array([s.weight for s in base])
    gain = weight * np.array([a.log_score - b.log_score for a, b in zip(signs, base, strict=True)])
    repos = np.array([s.case.repo for s in base])
    sums = np.array([gain[repos == r].sum() for r in np.unique(repos)])
    se = float(np.sqrt(np.sum((sums - sums.mean()) ** 2)))
    mean = [float(weight @ [s.log_score for s in x] / weight.sum()) for x in (signs, base)]
    return {"signs": mean[0], "base": mean[1], "gain": mean[0] - mean[1], "se": se / float(weight.sum())}


def judged(cases: Sequence[Case], given: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Prints and returns how good probabilities were.

    Args:
        cases: Origins.
        given: "base" and "signs" → event → probability of every case.
    """
    both = {kind: said(cases, stated) for kind, stated in given.items()}
    out: dict[str, Any] = {}
    for event in EVENTS:
        own = {kind: [s for s in x if s.event == event] for kind, x in both.items()}
        if not own["base"]:
            continue
        score = compared(own["signs"], own["base"])
        events = sum(s.came for s in own["base"])
        print(f"\n{event}: {events} events in {len(own['base'])} forecasts that it can meet; log score "
              f"{score['signs']:.4f} with signs, {score['base']:.4f} by base rates, gain {score['gain']:+.4f} "
              f"± {score['se']:.4f}")  # fmt: skip
        out[event] = {"events": events, "forecasts": len(own["base"]), "log_score": score}
        for kind, x in own.items():
            table = reliability(x)
            out[event][kind] = table
            for line in table:
                print(f"  {kind:5s} stated {line['from']:.2f} to {line['to']:.2f}: mean {line['stated']:.3f}, came "
                      f"{line['frequency']:.3f} ({line['events']} of {line['cases']})")  # fmt: skip
    met = [s for s in both["base"] if s.came and s.event == COLLAPSE]
    before = {(s.case.log, s.case.origin): s.probability for s in both["signs"] if s.came and s.event == COLLAPSE}
    out["collapses"] = [
        {"log": s.case.log, "origin": s.case.origin, "base": s.probability,
         "signs": before[s.case.log, s.case.origin]} for s in met
    ]  # fmt: skip
    return out


def public_cases(folders: Sequence[Path]) -> tuple[list[Case], dict[str, tuple[str, Path]]]:
    """Cases of public logs, and log → its repository and file."""
    cases, files = [], {}
    for folder in folders:
        with (folder / "index.csv").open(encoding="utf-8") as file:
            repos = {row["run_id"]: row["repo"] for row in csv.DictReader(file)}
        for path in sorted((folder / "csv").glob("*.csv")):
            found = cases_of(repos.get(path.stem, path.stem), path.stem, read_log(path))
            cases += found
            if found:
                files[path.stem] = (repos.get(path.stem, path.stem), path)
    return cases, files


def lab_cases(folders: Sequence[Path]) -> list[Case]:
    """Cases of laboratory runs; an event at or after the truth's onset or without one, as any log shows it."""
    return [c for x in lab_logs(folders) for c in cases_of(LABORATORY, x.name, x.run)]


def drawn(path: Path, cache: Path) -> list[Path]:
    """Averaged paths of the forecasts of one log, before events, in files: they take nearly all of the time."""
    warnings.simplefilter("ignore")
    cache.mkdir(parents=True, exist_ok=True)
    files, done = [cache / f"{path.stem}-{share:g}.npz" for share in ORIGINS], cache / f"{path.stem}.done"
    if not done.exists():
        run = read_log(path)
        whole, laws = rows_of(run), Laws(FORECAST_REGIMES, forecast_priors, BACKTEST_CARE, True)
        for share, file in zip(ORIGINS, files, strict=True):
            try:
                found = predicted(origin_of(run, whole, share), laws, seed_of(0, "origin", share), lambda _: None)
            except BayesGrpoError:
                continue
            np.savez(file, **{k: np.asarray(x, np.float32) for k, x in found.average._asdict().items()})
        done.touch()
        say(path.stem)
    return [file for file in files if file.exists()]


def effect(
    kept: Mapping[str, Sequence[Path]],
    files: Mapping[str, tuple[str, Path]],
    cases: Sequence[Case],
    signs: Sequence[str],
) -> dict[str, Any]:
    """Prints and returns what events do to forecasts, by numbers learned without their repositories.

    Args:
        kept: Log → files of `drawn`.
        files: Log → its repository and file.
        cases: What is learned from.
        signs: Signs that the rates depend on.
    """
    learned = {r: learn_hazard([c for c in cases if c.repo != r], signs) for r in {files[log][0] for log in kept}}
    rows: list[list[float]] = []
    for log, parts in kept.items():
        repo, path = files[log]
        run = read_log(path)
        whole = rows_of(run)
        for part in parts:
            share = float(part.stem.rpartition("-")[2])
            with np.load(part) as stored:
                average = Courses(*(stored[k].astype(float) for k in Courses._fields))
            origin = origin_of(run, whole, share)
            seed = seed_of(seed_of(0, "origin", share), "events")
            one = []
            for y in (average.rows, with_hazard(origin, average, learned[repo], seed)):
                one += [float(np.mean(crps(y, origin.y))) / origin.scale, float(np.mean(covered(y, origin.y))),
                        float(np.mean(log_score(y, origin.y)))]  # fmt: skip
            rows.append([share, *one])
    table = np.array(rows)
    out: dict[str, Any] = {"logs": len(kept), "forecasts": len(table)}
    print(f"\n{len(kept)} logs, {len(table)} forecasts        CRPS without, with    coverage           log score")
    for name, own in {"all": table} | {f"origin {o:.0%}": table[table[:, 0] == o] for o in ORIGINS}.items():
        mean = own.mean(axis=0)[1:]
        out[name] = {"crps": mean[[0, 3]].tolist(), "coverage": mean[[1, 4]].tolist(),
                     "log_score": mean[[2, 5]].tolist()}  # fmt: skip
        print(f"  {name:20s} {mean[0]:.4f} {mean[3]:.4f} ({mean[3] - mean[0]:+.4f})   {mean[1]:.3f} {mean[4]:.3f}   "
              f"{mean[2]:.3f} {mean[5]:.3f}")  # fmt: skip
    out["crps_change"] = float((table[:, 4] - table[:, 1]).mean())
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--lab", type=Path, nargs="*", default=[])
    parser.add_argument("--test", type=Path, nargs="*", default=[])
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=TARGET)
    asked = parser.parse_args()
    if asked.every and asked.cache is None:
        parser.error("--every needs --cache, a folder for the paths of the forecasts")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    public, files = public_cases(asked.runs)
    cases = public + lab_cases(asked.lab)
    print(f"{len(cases)} forecasts of {len({c.log for c in cases})} logs of {len({c.repo for c in cases})} repositories; "
          f"events {dict(Counter(c.event for c in cases if c.event))}, "
          f"of them in public logs {dict(Counter(c.event for c in public if c.event))}")  # fmt: skip
    stated = {"base": nested(cases, ()), "signs": nested(cases, SIGNS)}
    print("\nnested, public logs and laboratory")
    result: dict[str, Any] = {
        "forecasts": len(cases),
        "logs": len({c.log for c in cases}),
        "nested": judged(cases, stated),
    }
    print("\nnested, public logs alone")
    result["public"] = judged(public, {k: x[: len(public)] for k, x in stated.items()})
    for line in result["public"]["collapses"]:
        print(f"  {line['log']} at {line['origin']:.0%}: P(collapse) {line['base']:.3f} by base rates, "
              f"{line['signs']:.3f} with signs")  # fmt: skip
    if asked.test:
        print("\nlaboratory runs that taught nothing")
        test = lab_cases(asked.test)
        given = {kind: [chances(learned, c) for c in test] for kind, learned in
                 (("base", learn_hazard(cases)), ("signs", learn_hazard(cases, SIGNS)))}  # fmt: skip
        result["test"] = judged(test, given)
        for kind in given:
            p = [x[kind] for x in result["test"]["collapses"]]
            print(f"  P(collapse) before {len(p)} collapses, {kind}: quartiles "
                  f"{np.round(np.quantile(p, [0.25, 0.5, 0.75]), 3).tolist()}")  # fmt: skip
    scores = [result["public"][e]["log_score"] for e in EVENTS if e in result["public"]]
    pays = all(s["gain"] > WORTH * s["se"] for s in scores)
    signs = SIGNS if pays else ()
    result["signs_pay"] = pays
    about = {
        "made by": "benchmarks/learn_hazard.py",
        "repositories": len({c.repo for c in public}),
        "logs": len({c.log for c in public}),
        "laboratory runs": len({c.log for c in cases}) - len({c.log for c in public}),
        "forecasts": len(cases),
    }
    hazard = learn_hazard(cases, signs, about)
    if asked.every:
        chosen = list(files)[:: asked.every]
        with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
            kept = dict(zip(chosen, pool.map(drawn, [files[x][1] for x in chosen], [asked.cache] * len(chosen)),
                            strict=True))  # fmt: skip
        result["effect"] = effect(kept, files, cases, signs)
    with written_whole(asked.out) as temporary:
        temporary.write_text(json.dumps(hazard.to_dict(), indent=1) + "\n", encoding="utf-8")
    print(json.dumps(hazard.to_dict(), indent=1))
    if asked.out == TARGET and asked.every:
        keep("learn_hazard", result)


if __name__ == "__main__":
    main()
