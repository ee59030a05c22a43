"""Decisions replayed on public logs with held-out rewards: value kept and steps saved.

    python -m benchmarks.forecast.decisions_public INDEX ... --cache FOLDER [--keep]

Each log is seen up to 30% of its rows, then after every tenth. What a policy is worth is the trend of the held-out
reward by all of its evaluations, those to come included; a checkpoint is kept at each evaluation, and its score is the
held-out reward that was logged. The whole run costs as much as 0.01, 0.05 and 0.1 of reward. Patience stops when
10 rows have brought no new best train reward; it and "end" take the checkpoint of the best score. Repositories count
alike. The trend is made of the scores by which checkpoints are chosen, and by a smoother akin to ours: that favours us
where the choice at the end is compared, not where stops are.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.path import fit_path
from benchmarks.common import keep, say
from benchmarks.forecast.decision_problems import Problem, forecasts_of
from benchmarks.forecast.decisions import ours, rules, taken
from benchmarks.index import logs_in

LEAST_EVALS, LEAST_ROWS, SEEN = 5, 20, 0.3
COSTS = (0.01, 0.05, 0.1)
"""Costs of the whole run, reward."""


def logs_of(indices: Sequence[Path]) -> Iterator[tuple[str, Run]]:
    """Repository and run of the logs with enough evaluations."""
    for run, row in logs_in(indices):
        if min(len(run.eval_step) - LEAST_EVALS, np.isfinite(run.reward).sum() - LEAST_ROWS) >= 0:
            yield row["repo"], run


def problem_of(run: Run, cost: float) -> Problem | None:
    """A decision on a public log; None where its held-out trend does not move or its steps are no whole ones."""
    trend = fit_path(run.eval_step, run.eval_reward, seed=1)
    end = int(max(run.step[-1], run.eval_step[-1]))
    if trend is None or np.any(run.step != np.round(run.step)) or end > 200_000:
        return None
    true = np.interp(np.arange(end + 1), trend.step, trend.mean)
    score = np.full(end + 1, np.nan)
    kept = run.eval_step[run.eval_step > 0].astype(int)
    score[run.eval_step.astype(int)] = run.eval_reward
    now = int(run.step[int(SEEN * len(run.step))])
    if np.ptp(true) < 1e-6 or not (kept <= now).any():
        return None
    return Problem(run.name, run, true, now, cost / end, 1.0, 1.0, kept, score, f"public-{run.name}")


def replayed(problem: Problem, cache: Path) -> Mapping[str, tuple[float, float]]:
    """Rule → what its checkpoint lacks to the best of all, reward, and the share of the plan that it saved."""
    stops, _ = ours(problem, list(forecasts_of(problem, cache)))
    thumb, top = rules(problem), problem.true[problem.kept].max()

    def outcome(stop: float, step: int) -> tuple[float, float]:
        return float(top - problem.true[step]) / problem.reach, 1.0 - problem.place(stop) / problem.end

    found = {"ours": outcome(s := stops["every tenth"], taken(problem, s))}
    for name in ("end", "patience", "patience from the start", "80% of the plan"):
        found[name] = outcome(thumb[name], problem.best_scored(thumb[name]))
    found["end, our choice"] = outcome(problem.end, taken(problem, problem.end))
    return found


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("indices", type=Path, nargs="+")
    parser.add_argument("--cache", type=Path, required=True, help="Folder of forecasts, filled where they are missing.")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    found: dict[float, list[tuple[str, Mapping[str, tuple[float, float]]]]] = {cost: [] for cost in COSTS}
    for repository, run in logs_of(options.indices):
        problem = problem_of(run, 1.0)
        if problem is None:
            continue
        say(f"{repository}: {run.name}, {len(run.step)} rows, {len(run.eval_step)} evaluations")
        for cost in COSTS:
            found[cost].append((repository, replayed(replace(problem, cost=cost / problem.end), options.cache)))
    names = [r for r, _ in found[COSTS[0]]]
    weight = np.array([1.0 / names.count(r) for r in names])
    result: dict[str, object] = {"logs": len(names), "repositories": len(set(names))}
    print(f"{len(names)} logs of {len(set(names))} repositories")
    for cost, records in found.items():
        line = {}
        for name in records[0][1]:
            lacks, saved = np.average([r[name] for _, r in records], axis=0, weights=weight)
            line[name] = {"lacks": float(lacks), "saved": float(saved), "net": float(-lacks - cost * (1.0 - saved))}
            print(f"  cost {cost:.2f} {name:26s} lacks {lacks:.4f}, saves {saved:.2f} of the plan")
        result[f"cost {cost:.0%}"] = line
    if options.keep:
        keep("decisions_public", result)


if __name__ == "__main__":
    main()
