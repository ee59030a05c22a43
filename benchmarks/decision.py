"""Decision quality: regret of the recommended stop on simulated runs, beside rules that practitioners use.

    python benchmarks/decision.py [--runs 500] [--seed 0] [--jobs 2] [--laws NAME ...] [--scenarios NAME ...] [--once]
                                  [--prior weak|corpus] [--lab FOLDER ...] [--json OUT]

Runs are real GRPO updates of all scenarios of `bayes_grpo.simulate`, in turn, read from the logs that they write; their
true reward is known at every step. With folders of `laboratory.learners.lab_logs` as many runs of each family of the
deep laboratory take their turns too; what they are worth is told by the reward that they log, smoothed over a few
steps. Of each, the log is seen up to a random 20 to 60% of its planned length; what one unit of reward is worth and
what a step costs are random. Regret is what the best stopping step from there on would have been worth, chosen with the
true curve at hand, minus what the policy's was worth; in units of V, the value of one unit of reward, so that no run
counts more because its money was larger.

Policies: the recommendation, decided once (a fixed step, or a limit on the rows to come where that is worth more);
the best fixed step alone; the recommendation decided again every 10% of the run with the rows so far; stop at 80% of
the planned length; stop when 10 rows have brought no new best row, counted from the decision or from the start of the
log; run to the end; stop at once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from bayes_grpo import read_log
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.decision.decide import decide
from bayes_grpo.decision.result import Stopping
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.forecasting.fits import FORECAST_REGIMES
from bayes_grpo.forecasting.forecast import forecast
from bayes_grpo.forecasting.priors import priors_named
from bayes_grpo.forecasting.result import Forecast
from bayes_grpo.laboratory.truth import smoothed
from bayes_grpo.logs.run import Run
from bayes_grpo.simulate import SimulatedRun, scenario_names, simulate_scenario, write_runs
from benchmarks.common import keep

LOGGING_STEPS = 5
CHECK_EVERY = 0.1
PATIENCE = 10
SAMPLER = SamplerSettings(chains=4, warmup=200, draws=250)
OURS = ("recommended", "best fixed step", "decided every 10%")
RIVALS = ("80% of the plan", "patience 10", "patience 10 from start", "end")


@dataclass(frozen=True, eq=False)
class Problem:
    """One run with a decision to make.

    Attributes:
        scenario: Where it is from.
        run: Its whole log; policies see the rows up to their step only.
        true: True reward after each number of updates, shape (T + 1,).
        now: Last step of the log when the decision is made.
        cost: C, per step.
        value: V over ``reach``, per unit of reward.
        reach: Range of the reward, all of which is worth V.
    """

    scenario: str
    run: Run
    true: np.ndarray
    now: int
    cost: float
    value: float
    reach: float = 1.0

    @property
    def end(self) -> int:
        return len(self.true) - 1

    def net(self, stop: float) -> float:
        """True net value of stopping at a step."""
        s = int(min(max(round(stop), self.now), self.end))
        return self.value * (self.true[s] - self.true[self.now]) - self.cost * (s - self.now)

    def oracle(self) -> int:
        """The best stopping step."""
        return max(range(self.now, self.end + 1), key=self.net)


@lru_cache(maxsize=1)
def problems(count: int, seed: int, lab: tuple[Path, ...] = ()) -> list[Problem]:
    """Runs of all scenarios, and of all families of the laboratory, in turn, with random decisions."""
    names = scenario_names()
    families = _families(lab)
    each = -(-count // (len(names) + len(families)))
    out: list[Problem] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            runs = simulate_scenario(name, each, seed)
            paths = write_runs(runs, Path(folder) / name, logging_steps=LOGGING_STEPS)
            out += [_problem(run, read_log(path), seed) for run, path in zip(runs, paths, strict=True)]
    by_turn = [out[k * each + i] for i in range(each) for k in range(len(names))]
    deep = [places[i] for i in range(each) for places in families.values() if i < len(places)]
    found = [*by_turn, *(_deep_problem(place, seed) for place in deep)]
    turns = np.argsort([*(i / len(by_turn) for i in range(len(by_turn))), *(i / len(deep) for i in range(len(deep)))])
    return [found[i] for i in turns][:count]


def _families(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Family of the laboratory → folders of its runs."""
    found: dict[str, list[Path]] = {}
    for path in sorted(p.parent for folder in folders for p in folder.glob("*/truth.json")):
        found.setdefault(path.name.rsplit("-", 2)[0], []).append(path)
    return found


def _deep_problem(place: Path, seed: int) -> Problem:
    run = read_log(place)
    # Rows are means over their windows; between their middles the reward is taken to move straight.
    logged = np.interp(np.arange(run.step[-1]) + 0.5, run.step - 0.5 * run.window, run.reward)
    name = f"deep {place.name.rsplit('-', 2)[0]}"
    return _decision(name, run, smoothed(logged), [seed, crc32(place.name.encode())])


def _problem(simulated: SimulatedRun, run: Run, seed: int) -> Problem:
    true = np.asarray(simulated.trajectory.true_reward, float)
    return _decision(simulated.scenario, run, true, [seed, simulated.seed, simulated.index])


def _decision(scenario: str, run: Run, before: np.ndarray, seeds: list[int]) -> Problem:
    """A random decision on a run whose true reward before every update is known."""
    rng = np.random.default_rng(seeds)
    true = np.append(before, before[-1])  # what the last update brought is not recorded
    total = len(before)
    seen = rng.uniform(0.2, 0.6)
    now = int(run.step[np.searchsorted(run.step, seen * total)])
    value = float(np.exp(rng.uniform(np.log(100.0), np.log(10_000.0))))
    # The cost of the whole run is 1% to 50% of what one unit of reward is worth.
    share = float(np.exp(rng.uniform(np.log(0.01), np.log(0.5))))
    reach = float(run.settings.reward_high.value or 1.0)
    return Problem(scenario, run, true, now, share * value / total, value / reach, reach)


def forecast_of(run: Run, until: float, regimes: Sequence[str], prior: str, seed: int) -> Forecast:
    """The forecast that a user gets, by cheap fits of a few laws.

    Raises:
        BayesGrpoError: Too few rows, or no law can be fitted.
    """
    priors = priors_named(prior)
    return forecast(run, until, regimes=regimes, draws=1000, seed=seed, sampler=SAMPLER, priors=priors)


Decider = Callable[[Run, Problem], Stopping | None]


def decider(regimes: Sequence[str], prior: str, seed: int) -> Decider:
    def judge(seen: Run, problem: Problem) -> Stopping | None:
        try:
            ahead = forecast_of(seen, float(problem.end), regimes, prior, seed)
        except BayesGrpoError:
            return None  # too few rows, or a reward that never changes: nothing is expected to come
        return decide(ahead, cost_per_step=problem.cost, value_per_reward=problem.value).stopping

    return judge


def ours(problem: Problem, judge: Decider, again: bool) -> tuple[dict[str, float], Stopping | None]:
    """Stopping steps of our policies, and the first decision."""
    first = judge(problem.run.until(float(problem.now)), problem)
    if first is None:
        return dict.fromkeys(OURS if again else OURS[:2], float(problem.now)), None
    stops = {OURS[0]: followed(problem, first), OURS[1]: first.recommended}
    if again:
        stops[OURS[2]] = followed_again(problem, judge, first)
    return stops, first


def followed(problem: Problem, decided: Stopping, until: float = np.inf) -> float:
    """Where a recommendation stops the run, given the rows that come; infinity if not until a step."""
    limit = decided.limit
    if limit is None:
        return decided.recommended if decided.recommended <= until else np.inf
    step, reward = problem.run.step, problem.run.reward
    below = np.concatenate([[True], reward[:-1] < limit.reward]) if limit.rising else np.ones(len(reward), dtype=bool)
    there = step[(step > decided.now) & (reward >= limit.reward) & below]
    stop = min(float(there[0]) if len(there) else np.inf, limit.latest)
    return stop if stop <= until else np.inf


def followed_again(problem: Problem, judge: Decider, decided: Stopping | None) -> float:
    """Where a run stops whose recommendation is renewed at every check."""
    step = float(problem.now)
    while decided is not None and step < problem.end:
        later = problem.run.step[problem.run.step >= step + CHECK_EVERY * problem.end]
        check = float(later[0]) if len(later) else float(problem.end)
        stop = followed(problem, decided, until=check)
        if np.isfinite(stop) and stop < check:
            return stop
        step = check
        if step < problem.end:
            decided = judge(problem.run.until(step), problem)
    return step


def rivals(problem: Problem) -> dict[str, float]:
    """Stopping steps of the rules."""
    step, reward = problem.run.step, problem.run.reward
    return {
        "80% of the plan": max(0.8 * problem.end, problem.now),
        "patience 10": patience(step, reward, problem.now, counted_before=False),
        "patience 10 from start": patience(step, reward, problem.now, counted_before=True),
        "end": problem.end,
        "now": problem.now,
    }


def patience(step: np.ndarray, reward: np.ndarray, now: float, counted_before: bool) -> float:
    """The first step from ``now`` on at which `PATIENCE` rows have brought no new best row; the last one otherwise."""
    best, waited = -np.inf, 0
    for s, r in zip(step, reward, strict=True):
        if r > best:
            best, waited = r, 0
        elif s > now or counted_before:
            waited += 1
        if s >= now and waited >= PATIENCE:
            return float(s)
    return float(step[-1])


def evaluate(problem: Problem, judge: Decider, again: bool = True) -> dict[str, Any]:
    """Record of one run: regrets of all policies in units of V, and what the first decision claimed."""
    begun = time.perf_counter()
    stops, first = ours(problem, judge, again)
    stops |= rivals(problem)
    best = problem.oracle()
    worth = problem.value * problem.reach
    record: dict[str, Any] = {
        "scenario": problem.scenario,
        "left": (best - problem.now) / (problem.end - problem.now),
        "cost": problem.cost * problem.end / worth,
        "stops": stops,
        "regret": {name: (problem.net(best) - problem.net(s)) / worth for name, s in stops.items()},
        "seconds": time.perf_counter() - begun,
    }
    if first is not None:
        record["claimed"] = first.probability_pays
        record["paid"] = problem.net(first.pays_at) > 0
    return record


def one(
    i: int, count: int, seed: int, lab: tuple[Path, ...], regimes: Sequence[str], prior: str, again: bool
) -> dict[str, Any]:
    """`evaluate` of one run in a process of its own, which simulates all of them once: that is quick."""
    warnings.simplefilter("ignore", BayesGrpoWarning)
    return evaluate(problems(count, seed, lab)[i], decider(regimes, prior, seed), again)


def report(records: Sequence[dict[str, Any]], seed: int = 0) -> dict[str, float]:
    """Prints mean regrets with their bootstrap intervals; returns the mean regret of each policy."""
    left = np.array([r["left"] for r in records])
    print(
        f"{len(records)} runs; the best stop is now in {np.mean(left == 0):.0%}, the end in {np.mean(left == 1):.0%}, "
        f"between in the rest: quartiles of the remaining run {', '.join(f'{q:.2f}' for q in _quartiles(left))}"
    )
    names = list(records[0]["regret"])
    regret = {name: np.array([r["regret"][name] for r in records]) for name in names}
    rng = np.random.default_rng(seed)
    picks = rng.integers(len(records), size=(2000, len(records)))
    print(f"{'policy':24s} {'mean regret / V':>16s}  90% interval      median  worst 5%")
    for name in names:
        low, high = np.quantile(regret[name][picks].mean(axis=1), [0.05, 0.95])
        print(
            f"{name:24s} {regret[name].mean():16.4f}  [{low:.4f}, {high:.4f}]  {np.median(regret[name]):7.4f}  "
            f"{np.quantile(regret[name], 0.95):8.4f}"
        )
    means = {name: float(x.mean()) for name, x in regret.items()}
    best = min(RIVALS, key=means.__getitem__)
    for name in OURS:
        if name in means:
            ratios = regret[name][picks].mean(axis=1) / regret[best][picks].mean(axis=1)
            low, high = np.quantile(ratios, [0.05, 0.95])
            verdict = "met" if means[name] <= 0.5 * means[best] else "NOT MET"
            print(
                f"{name}: {means[name] / means[best]:.2f} of the best rule's ({best}) mean regret, 90% interval "
                f"[{low:.2f}, {high:.2f}] (aim: at most 0.5: {verdict})"
            )
    for scenario in sorted({r["scenario"] for r in records}):
        mine = [r for r in records if r["scenario"] == scenario]
        parts = [f"{name} {np.mean([r['regret'][name] for r in mine]):.3f}" for name in names]
        print(f"  {scenario:22s} {len(mine):3d}: {', '.join(parts)}")
    for c, p, count in came_true(records):
        print(f"  probability that continuing pays: claimed {c:.2f}, came true {p:.2f} ({count} runs)")
    return means


def came_true(records: Sequence[dict[str, Any]]) -> list[tuple[float, float, int]]:
    """Mean probability that continuing pays, how often it did, and runs, in four classes of that probability."""
    claimed = [(r["claimed"], r["paid"]) for r in records if "claimed" in r]
    out = []
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.001)):
        inside = [(c, p) for c, p in claimed if low <= c < high]
        if inside:
            c, p = np.mean(inside, axis=0)
            out.append((float(c), float(p), len(inside)))
    return out


def _quartiles(values: np.ndarray) -> np.ndarray:
    return np.quantile(values, [0.25, 0.5, 0.75])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--laws", nargs="*", default=list(FORECAST_REGIMES))
    parser.add_argument("--prior", choices=("weak", "corpus"), default="weak")
    parser.add_argument("--once", action="store_true", help="Leave out the policy that decides again.")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scenarios", nargs="*", default=list(scenario_names()))
    parser.add_argument("--lab", type=Path, nargs="*", default=[], help="Folders of laboratory.learners.lab_logs.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    begun = time.perf_counter()
    lab = tuple(options.lab)
    found = problems(options.runs, options.seed, lab)
    print(f"simulated in {time.perf_counter() - begun:.0f} s", flush=True)
    chosen = [i for i, p in enumerate(found) if p.scenario in options.scenarios or p.scenario.startswith("deep ")]
    same = (options.runs, options.seed, lab, options.laws, options.prior, not options.once)
    records: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for record in pool.map(one, chosen, *([x] * len(chosen) for x in same)):
            records.append(record)
            if len(records) % 25 == 0:
                print(f"{len(records)} of {len(chosen)} after {time.perf_counter() - begun:.0f} s", flush=True)
    means, pays = report(records, options.seed), came_true(records)
    usual = options.laws == list(FORECAST_REGIMES) and options.prior == "weak"
    if usual and options.scenarios == list(scenario_names()):
        by_class = {"claimed": [c for c, _, _ in pays], "came_true": [p for _, p, _ in pays]}
        by_scenario = {
            name: {k: float(np.mean([r["regret"][k] for r in records if r["scenario"] == name])) for k in means}
            for name in sorted({r["scenario"] for r in records})
        }
        result = {"runs": len(records), "regret": means, "pays": by_class, "scenarios": by_scenario}
        keep("decision" if options.once else "decision_checks", result)
    print(
        f"{time.perf_counter() - begun:.0f} s in all, {np.median([r['seconds'] for r in records]):.1f} s a run (median)"
    )
    if options.json:
        options.json.write_text(json.dumps(records, indent=1, default=float))


if __name__ == "__main__":
    main()
