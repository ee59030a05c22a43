"""Decision quality: what the recommended stop loses on simulated runs with checkpoints, beside rules.

    python -m benchmarks.forecast.decisions [--runs 500] [--seed 3] [--lab FOLDER ...] --cache FOLDER
                                             [--jobs 1] [--keep]

Runs and decisions are those of `benchmarks.forecast.decision_problems`: a log of any kind is seen up to a random
20 to 60% of its plan, with random costs, and a run is worth what its policy deserves. Regret is what the best stop in
hindsight would have been worth, less what a rule's was worth, in units of V, the value of the whole range of reward.

A stop takes one of the checkpoints, one every twentieth of the plan and that of the stop: rules take the one of the
best score; "our choice" is the one that the package names. Rules: stop at 80% of the plan; when 10 logged rows have
brought no new best row, counted from the decision or from the start of the log; at the end; at once; at the share of
the plan, of nineteen, that loses least over all these runs.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.decision.checkpoints import Checkpoints, Choice, checkpoint_rewards
from bayes_grpo.decision.decide import decide
from bayes_grpo.decision.result import Decision
from bayes_grpo.signals.path import fit_path
from benchmarks.common import keep, say, side_by_side
from benchmarks.forecast.decision_problems import KEPT_EVERY, PROMPTS, Problem, forecasts_of, problems

PATIENCE = 10
NEAR = 0.01
"""Share of the reward's range within which a checkpoint is as good as the best."""
SHARES = np.arange(0.1, 1.01, 0.05)
OURS = ("once", "every tenth")
NAMED = ("80% of the plan", "patience", "patience from the start", "end", "now", "best fixed share")
"""Rules of thumb."""


def checkpoints_at(problem: Problem, step: float) -> Checkpoints:
    """Checkpoints that are there at a step, each with its score, and when others come."""
    kept = problem.kept[problem.kept <= step].astype(float)
    at = np.unique([*kept.astype(int), problem.place(step)])
    score = problem.score[at]
    noise = np.nan if np.isnan(score).any() else score_noise(score, problem.reach)
    return Checkpoints(kept, KEPT_EVERY * problem.end, at.astype(float), score, noise)


def score_noise(score: np.ndarray, reach: float) -> float:
    """Standard deviation of a score that is the mean of `PROMPTS` completions, each of them right or wrong at worst."""
    share = np.clip(float(np.mean(score)) / reach, 0.02, 0.98)
    return float(reach * np.sqrt(share * (1.0 - share) / PROMPTS))


def judged(problem: Problem, look: Any) -> Decision | None:
    """The decision of a look; None where nothing can be said, so that nothing is expected to come."""
    if look.step is None:
        return None
    try:
        return decide(
            look,
            cost_per_step=problem.cost,
            value_per_reward=problem.value,
            checkpoints=checkpoints_at(problem, look.now),
        )
    except BayesGrpoError:
        return None


def named(problem: Problem, stop: float, scored: bool = True) -> Choice | None:
    """The checkpoint that the package names after a stop, by the rows so far, and the scores; None without rows."""
    at = float(problem.place(stop))
    seen = problem.run.until(at)
    trend = fit_path(seen.step, seen.reward, seed=1)
    if trend is None:
        return None
    given = checkpoints_at(problem, at)
    if not scored:
        given = given._replace(scored=np.empty(0), score=np.empty(0))
    lag = 0.5 * float(np.median(seen.window))
    return checkpoint_rewards(trend, given.checked(at), at, lag).choice(given)


def taken(problem: Problem, stop: float) -> int:
    """Its step; the last one where none is named."""
    choice = named(problem, stop)
    return problem.place(stop) if choice is None else int(choice.step)


def chosen(problem: Problem, stop: float) -> dict[str, tuple[float, float]]:
    """Way to choose → what the checkpoint lacks to the best, and by how much its score is too high; shares of reach."""
    there = problem.on_disk(stop)
    best, last = problem.best_scored(stop), problem.place(stop)
    ways = {"best score": (best, problem.score[best]), "last": (last, problem.score[last])}
    for name, scored in (("ours", True), ("ours, rows alone", False)):
        choice = named(problem, stop, scored)
        if choice is not None:
            ways[name] = (int(choice.step), choice.reward.median if scored else np.nan)
    top = problem.true[there].max()
    return {
        name: (float(top - problem.true[step]) / problem.reach, float(told - problem.true[step]) / problem.reach)
        for name, (step, told) in ways.items()
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


def rules(problem: Problem) -> dict[str, float]:
    """Stopping steps of the rules of thumb."""
    step, reward = problem.run.step, problem.run.reward
    return {
        "80% of the plan": max(0.8 * problem.end, problem.now),
        "patience": patience(step, reward, problem.now, counted_before=False),
        "patience from the start": patience(step, reward, problem.now, counted_before=True),
        "end": problem.end,
        "now": problem.now,
    }


def stop_of(decision: Decision) -> float:
    """The recommended stop of a decision at a cost."""
    return math.inf if decision.recommended is None else decision.recommended


def ours(problem: Problem, looks: Sequence[tuple[int, Any]]) -> tuple[dict[str, float], list[Decision]]:
    """Stopping steps of the package's recommendation, decided once and renewed at every look; and the decisions."""
    first = judged(problem, looks[0][1])
    if first is None:
        return dict.fromkeys(OURS, float(problem.now)), []
    made, stop = [first], None
    for i, (_, look) in enumerate(looks):
        found = first if i == 0 else judged(problem, look)
        if found is None:
            stop = float(looks[i][0])
            break
        made += [found] * (i > 0)
        following = looks[i + 1][0] if i + 1 < len(looks) else problem.end
        if stop_of(found) < following:
            stop = stop_of(found)
            break
    return {OURS[0]: stop_of(first), OURS[1]: float(problem.end) if stop is None else stop}, made


class Record(NamedTuple):
    """What became of one run."""

    scenario: str
    regret: dict[str, float]
    shares: np.ndarray
    claims: list[tuple[float, bool]]
    chosen: list[dict[str, tuple[float, float]]]


def evaluated(problem: Problem, looks: Sequence[tuple[int, Any]]) -> Record:
    """Regrets of all rules on one run, in units of V."""
    thumb, best = rules(problem), problem.best_net()
    stops, made = ours(problem, looks)
    worth = {name: problem.net(s) for name, s in (thumb | stops).items()}
    for name in (*OURS, "patience from the start"):
        stop = (thumb | stops)[name]
        worth[f"{name}, our choice"] = problem.net(stop, taken(problem, stop))
    regret = {name: (best - x) / problem.worth for name, x in worth.items()}
    claims = []
    for found in made[:1]:
        later = problem.net(found.pays_at, taken(problem, found.pays_at))
        claims.append((found.probability_pays, later > problem.net(problem.now, taken(problem, problem.now))))
    shares = np.array([(best - problem.net(s * problem.end)) / problem.worth for s in SHARES])
    return Record(problem.scenario, regret, shares, claims, [chosen(problem, s) for s in (problem.now, problem.end)])


def one(i: int, count: int, seed: int, lab: tuple[Path, ...], cache: Path) -> Record:
    """`evaluated` of one run in a process of its own."""
    warnings.simplefilter("ignore", BayesGrpoWarning)
    problem = problems(count, seed, lab)[i]
    return evaluated(problem, list(forecasts_of(problem, cache)))


def report(records: Sequence[Record], seed: int = 0) -> dict[str, Any]:
    """Mean regrets with bootstrap intervals, by scenario, and stated probabilities against what came true."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(len(records), size=(2000, len(records)))
    result: dict[str, Any] = {"runs": len(records)}
    regret = {name: np.array([r.regret[name] for r in records]) for name in records[0].regret}
    share = np.stack([r.shares for r in records])
    regret["best fixed share"] = share[:, int(np.argmin(share.mean(axis=0)))]
    result["restored"] = {name: float(x.mean()) for name, x in regret.items()}
    print(f"regret / V of {len(records)} runs")
    for name, x in sorted(regret.items(), key=lambda item: item[1].mean()):
        low, high = np.quantile(x[picks].mean(axis=1), [0.05, 0.95])
        print(f"  {name:38s} {x.mean():.4f} [{low:.4f}, {high:.4f}]  worst 5% {np.quantile(x, 0.95):.3f}")
    best = min(NAMED, key=lambda name: regret[name].mean())
    ratios: dict[str, Any] = {"best rule": best}
    for name in [k for k in regret if k.startswith(OURS) and regret[best].mean() > 0.0]:
        ratio = regret[name][picks].mean(axis=1) / np.maximum(regret[best][picks].mean(axis=1), 1e-12)
        low, high = np.quantile(ratio, [0.05, 0.95])
        ratios[name] = [float(regret[name].mean() / regret[best].mean()), float(low), float(high)]
        print(f"  {name}: {regret[name].mean() / regret[best].mean():.2f} [{low:.2f}, {high:.2f}] of {best}")
    result["restored ratios"] = ratios
    result["restored by scenario"] = {
        kind: {name: float(x[[r.scenario == kind for r in records]].mean()) for name, x in regret.items()}
        for kind in sorted({r.scenario for r in records})
    }
    for kind, line in result["restored by scenario"].items():
        shown = dict.fromkeys(["every tenth, our choice", best, "patience from the start", "end"])
        print(f"    {kind:24s} {', '.join(f'{name} {line[name]:.3f}' for name in shown)}")
    result["choice"] = choices(records)
    result["claims"] = came_true(records)
    for claimed, true, count in zip(*result["claims"].values(), strict=True):
        print(f"  probability that going on pays: claimed {claimed:.2f}, came true {true:.2f} ({count} runs)")
    return result


def choices(records: Sequence[Record]) -> dict[str, dict[str, dict[str, float]]]:
    """Kind of run → way to choose → how often it is as good as the best, what it lacks, how wrong its score is."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for kind in ("exact", "deep"):
        cases = [c for r in records if r.scenario.startswith("deep") == (kind == "deep") for c in r.chosen]
        out[kind] = {}
        for name in ("ours", "ours, rows alone", "best score", "last"):
            x = np.array([c[name] for c in cases if name in c])
            if not len(x):
                continue
            out[kind][name] = {
                "near": float(np.mean(x[:, 0] <= NEAR)),
                "lacks": float(x[:, 0].mean()),
                "bias": float(x[:, 1].mean()),
                "below": float(-x[:, 1].mean()),
                "error of bias": float(x[:, 1].std() / np.sqrt(len(x))),
            }
            words = ", ".join(f"{k} {v:.4f}" for k, v in out[kind][name].items())
            print(f"  choice, {kind} ({len(x)} stops), {name}: {words}")
    return out


def came_true(records: Sequence[Record]) -> Mapping[str, list[float]]:
    """Mean probability that going on pays, how often it did, and runs, in four classes of that probability."""
    claimed = np.array([c for r in records for c in r.claims], float).reshape(-1, 2)
    out: dict[str, list[float]] = {"claimed": [], "came_true": [], "count": []}
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.001)):
        inside = claimed[(claimed[:, 0] >= low) & (claimed[:, 0] < high)]
        if len(inside):
            for name, x in zip(out, (*inside.mean(axis=0), len(inside)), strict=True):
                out[name].append(float(x))
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--lab", type=Path, nargs="*", default=[], help="Folders of laboratory.learners.lab_logs.")
    parser.add_argument("--cache", type=Path, required=True, help="Folder of forecasts, filled where they are missing.")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    begun, lab = time.perf_counter(), tuple(options.lab)
    many = len(problems(options.runs, options.seed, lab))
    same = ([x] * many for x in (options.runs, options.seed, lab, options.cache))
    records: list[Record] = []
    for record in side_by_side(one, range(many), *same, jobs=options.jobs):
        records.append(record)
        if len(records) % 20 == 0:
            say(f"{len(records)} of {many} after {time.perf_counter() - begun:.0f} s")
    result = report(records, options.seed)
    if options.keep:
        keep("decisions", result)


if __name__ == "__main__":
    main()
