"""Reference runs that are found and not named: whether a family's runs count, and runs of other tasks do not.

    python -m benchmarks.nearby FOLDER ... --index INDEX.csv ... --cache DIR

A folder holds one log a run as CSV, many repositories together; an index names repository and task of each. Every log
is seen after half of its rows, with three sets of other runs. Family and strangers are the runs that `NearbyRuns`
finds in the log's folder: those whose task has a word in common with the log's, and the others. Strangers of any name
are up to eight runs of the same kind (`kind_of`) from other repositories, of tasks without a common word: names do not
matter where output directories lie in one folder. Of each set the result is how often runs get paths of a forecast at
all, how often they are taken to share the order of the data, and the CRPS of the later rows over that of the mean of
the last rows alone, paths mixed as in a forecast. A set of fewer than two runs that extend beyond the rows seen does
not count: a forecast makes nothing of it.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.backtesting import crps
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.forecasting.references import share_of_paths
from bayes_grpo.references.gather import NearbyRuns, gather_references, kind_of
from bayes_grpo.references.transfer import read_jointly
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep
from benchmarks.families import cached
from benchmarks.forecast.reference_runs import Log, logs_of
from benchmarks.forecast.rivals import mean_of_last

DRAWS, LEAST, STRANGERS = 800, 16, 8


def case(log: Log, others: Sequence[Log]) -> dict[str, Any]:
    """What other runs show of the second half of a run; empty where they show nothing."""
    if len(others) < 2:
        return {}
    n, t = len(log.table.y) // 2, log.table
    run = log.run.until(float(t.step[n - 1]))
    past = rows_of(run, "reward" if t.signal == "reward" else "eval")
    known = read_jointly(past, gather_references(run, past, [x.run for x in others]))
    told = known.transfer_forecast(t.step[n:], t.window[n:])
    if told is None:
        return {}
    share, y = share_of_paths(told, searched=True), t.y[n:]
    alone = mean_of_last(past.step, past.y, t.step[n:]).draws(DRAWS)
    rows, count = alone.copy(), round(share * DRAWS)
    if count:
        reward, rng = reward_range(past.y, dict(log.run.settings.items())), np.random.default_rng(0)
        rows[:count] = told.paths(count, rng)[1]
        clipped = round(reward.share * count) if reward.known else 0
        rows[:clipped] = np.clip(rows[:clipped], reward.low, reward.high)
    return {
        "repo": log.repo,
        "share": share,
        "order": known.order is not None,
        "crps": float(crps(rows, y).mean()) / t.scale,
        "alone": float(crps(alone, y).mean()) / t.scale,
    }


def sets_of(log: Log, logs: Sequence[Log]) -> dict[str, list[Log]]:
    """Family, strangers, and strangers of any name."""
    near = {x.source for x in NearbyRuns(log.run.source).matching(log.run)}
    strange = [x for x in logs if not _words(x.task) & _words(log.task)]
    elsewhere = [x for x in strange if x.repo != log.repo and x.table.signal == log.table.signal]
    alike = [x for x in elsewhere if kind_of(x.run) == kind_of(log.run)]
    order = np.random.default_rng(seed_of(0, log.run.name)).permutation(len(alike))
    return {
        "family": [x for x in logs if x.run.source in near and x not in strange],
        "strangers": [x for x in strange if x.run.source in near],
        "any_name": [alike[i] for i in order[:STRANGERS]],
    }


def _words(task: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]{4,}", task.lower().replace("_", " ")))


def summary(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How often runs count, and what that brings or costs."""
    mean = {k: float(np.mean([c[k] for c in cases])) for k in ("share", "order", "crps", "alone")}
    counted = float(np.mean([c["share"] > 0.0 for c in cases]))
    return mean | {"runs": len(cases), "counted": counted, "ratio": mean["crps"] / mean["alone"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="take one log in so many")
    options = parser.parse_args()
    logs = logs_of(options.folders, options.index)
    found: dict[str, list[dict[str, Any]]] = {}
    for log in logs[:: options.every]:
        if len(log.table.y) < LEAST:
            continue
        for name, some in sets_of(log, logs).items():
            try:
                one = cached(options.cache, f"{log.run.name}.{name}", lambda a=(log, some): case(*a))
            except BayesGrpoError as error:
                print(f"left out: {log.run.name}: {error}", flush=True)
                continue
            if "share" in one:
                found.setdefault(name, []).append(one)
                print(name, log.run.name, json.dumps(one), flush=True)
    result = {name: summary(some) for name, some in found.items()}
    keep("nearby", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
