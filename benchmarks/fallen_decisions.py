"""Decisions on runs of the laboratory that have collapsed, or do so later: regret with and without events.

    python -m benchmarks.fallen_decisions --lab FOLDER ... [--each 40] [--keep]

Each run is seen up to a random 20 to 90% of its log, with random costs, as in `benchmarks.forecast.decision_problems`.
"Without events" is the recommendation from laws, level and hazards alone; "with events" holds paths within what
fallen runs regain and counts with the checkpoint from before. Regret is what the best stopping step from there on
would have been worth minus what the recommended one was, in units of the value of one unit of reward; with a
checkpoint to be had, that from before is among the things to choose, worth its true reward. Runs are told apart by
what they had lost when they were seen.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.decision.decide import decide
from bayes_grpo.decision.result import Decision
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_ensemble
from bayes_grpo.forecasting.forecast import forecast_of_regimes
from bayes_grpo.forecasting.inputs import inputs_of_run
from bayes_grpo.logs.reading import read_log
from bayes_grpo.rows.schedule import future_grid
from benchmarks.common import keep, say
from benchmarks.lab.truth import smoothed

POINTS = ImportanceSettings(effective=1000.0, rounds=12, draws=500)
FAMILIES = ("collapse", "explosion", "broken_reward", "unstable", "oscillation")
WAYS = ("without events", "with events")


def judged(place: Path, seed: int) -> dict[str, Any] | None:
    """One decision on one run; None where it cannot be forecast.

    Args:
        place: Folder of a run of the deep laboratory.
        seed: Seed of where it is seen and of the costs.
    """
    run = read_log(place)
    rng = np.random.default_rng(seed)
    logged = np.interp(np.arange(run.step[-1]) + 0.5, run.step - 0.5 * run.window, run.reward)
    true = smoothed(logged)
    true = np.append(true, true[-1])
    now = int(run.step[np.searchsorted(run.step, rng.uniform(0.2, 0.9) * (len(true) - 1))])
    reach = float(run.settings.reward_high.value or 1.0)
    cost = float(np.exp(rng.uniform(np.log(0.01), np.log(0.5)))) / len(true)
    end = len(true) - 1
    if end - now < 3:
        return None
    try:
        inputs = inputs_of_run(run.until(now))
        fitted = fit_ensemble(
            inputs.table, FORECAST_REGIMES, reward=inputs.reward, seed=0, settings=POINTS, strict=False
        )
        asked = future_grid(inputs.table, end, inputs.ahead)
        plain = forecast_of_regimes(replace(inputs, fallen=None), fitted, asked, draws=1000)
        events = forecast_of_regimes(inputs, fitted, asked, draws=1000)
    except BayesGrpoError:
        return None
    net = (true[now:] - true[now]) / reach - cost * np.arange(len(true) - now)
    back = 0.0 if inputs.fallen is None else float(true[int(inputs.fallen.saved_step)] - true[now]) / reach
    row: dict[str, Any] = {"fallen": inputs.fallen is not None, "loses": bool(true[now:].min() < 0.5 * true[now])}
    for name, found in zip(WAYS, (plain, events), strict=True):
        stopping = decide(found, cost_per_step=cost, value_per_reward=1.0 / reach)
        worth = _worth(stopping, net, now)
        row[name] = float(net.max() - worth)
        taken = max(back, 0.0) if stopping.back is not None else worth
        row[f"{name}, checkpoint to be had"] = float(max(net.max(), back) - taken)
    return row


def _worth(s: Decision, net: np.ndarray, now: int) -> float:
    """True net value of what is recommended."""
    return float(net[int(np.clip(round(s.recommended) - now, 0, len(net) - 1))])


def means(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean regrets with the standard error of their difference."""
    out: dict[str, Any] = {"decisions": len(rows)}
    if not rows:
        return out
    for tail in ("", ", checkpoint to be had"):
        a, b = (np.array([r[name + tail] for r in rows]) for name in WAYS)
        out[f"{WAYS[0]}{tail}"], out[f"{WAYS[1]}{tail}"] = float(a.mean()), float(b.mean())
        out[f"difference{tail}"] = [float((b - a).mean()), float((b - a).std() / np.sqrt(len(a)))]
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, nargs="+", required=True)
    parser.add_argument("--most", type=int, default=36, help="runs")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    places = sorted(p.parent for folder in asked.lab for p in folder.glob("*/truth.json"))
    chosen = [p for p in places if p.name.startswith(FAMILIES)]
    order = np.random.default_rng(0).permutation(len(chosen))[: asked.most]
    rows = [row for i in order for row in [judged(chosen[i], int(i))] if row is not None]
    result = {
        "fallen when seen": means([r for r in rows if r["fallen"]]),
        "falls later": means([r for r in rows if not r["fallen"] and r["loses"]]),
        "neither": means([r for r in rows if not r["fallen"] and not r["loses"]]),
    }
    say(str(result))
    if asked.keep:
        keep("fallen_decisions", result)


if __name__ == "__main__":
    main()
