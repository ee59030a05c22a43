"""Whether a diagnosis contradicts itself, its forecast's rows or its watch, on public logs cut at many places.

    python -m benchmarks.status.contradictions FOLDER ... [--cuts 20] [--keep]

A folder holds index.csv (column run_id) and csv/. Every log is cut at evenly spaced numbers of rows. Each check below
looks at records and draws alone. Beside them: how far "now" of the diagnosis lies from that of fit, forecast and watch,
in standard deviations of one row.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.forecasting.inputs import inputs_of_run
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.run_paths import fit_reward, may_be_counted
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.result import Watching
from benchmarks.common import keep, say, side_by_side
from benchmarks.index import rows_in

CUTS = 20
LEAST = 3
_LIKELY = 0.5
_CLEAR = 0.8
_RISES = ("rising", "risen", "holding", "at_rest")
_FALLS = ("lost_reward", "component_fell", "evaluation_fell", "falls_early", "signal_fell", "scheduled_weight")


def findings(found: Finding) -> Iterator[Finding]:
    """A finding and all that belong to it."""
    yield found
    for part in found.parts:
        yield from findings(part)


def actions(d: Diagnosis) -> tuple[Action, ...]:
    """Everything that the status advises."""
    return (d.status.action, *d.status.actions)


def goes_on_after_a_fall(d: Diagnosis, run: Run) -> bool:
    """ "Go on" on a reward that lies a tenth below its best, by more than four draws of five."""
    return d.paths is not None and d.status.action.goes_on and float(d.paths.reward.fell()[:, -1].mean()) > _CLEAR


def calm_with_a_failure(d: Diagnosis, run: Run) -> bool:
    """ "Fine" or "done" beside a failure that is more probable than not."""
    return d.status.status in ("fine", "done") and max(d.probability.get(m, 0.0) for m in MODES) >= _LIKELY


def alarm_without_a_probability(d: Diagnosis, run: Run) -> bool:
    """An alarm whose finding is less probable than not."""
    return d.status.alarming and not d.status.finding.probability >= _LIKELY


def alarm_that_goes_on(d: Diagnosis, run: Run) -> bool:
    """An alarm with the advice to go on."""
    return d.status.alarming and d.status.action.goes_on


def step_outside_the_log(d: Diagnosis, run: Run) -> bool:
    """An onset or a checkpoint that is no step of the log."""
    steps = run.step if not len(run.eval_step) else np.concatenate([run.step, run.eval_step])
    low, high = float(steps.min()), float(steps.max())
    found = [x.step.median for x in findings(d.status.finding) if x.step is not None]
    kinds = ("go_back", "take_checkpoint")
    found += [x.step for x in actions(d) if x.step is not None and x.kind in kinds]
    return any(not low - 1.0 <= x <= high + 1.0 for x in found)


def checkpoint_after_the_onset(d: Diagnosis, run: Run) -> bool:
    """The advice to go back behind a failure to a step at which it was under way."""
    onset = d.status.finding.step
    back = [x.step for x in actions(d) if x.kind == "go_back" and x.step is not None]
    return onset is not None and any(x > onset.high for x in back)


def words_against_numbers(d: Diagnosis, run: Run) -> bool:
    """A rise from a higher level to a lower one, or a fall from a lower level to a higher one."""
    for x in findings(d.status.finding):
        n: Mapping[str, float] = x.numbers
        if x.kind in ("rising", "risen") and n["now"] < n["start"]:
            return True
        if x.kind in _FALLS and "best" in n and n["now"] > n["best"]:
            return True
        if x.kind == "signal_grew" and n["late"] < n["early"]:
            return True
    return False


def higher_rate_after_a_fall(d: Diagnosis, run: Run) -> bool:
    """A higher learning rate for a run with signs of instability, or one that fell."""
    raised = any(x.setting == "learning_rate" and (x.factor or 0.0) > 1.0 for x in actions(d))
    if not raised or d.paths is None:
        return False
    return d.failing >= _LIKELY or float(d.paths.reward.fell()[:, -1].mean()) >= _LIKELY


def level_that_is_not_now(d: Diagnosis, run: Run) -> bool:
    """A level of the finding more than half a row's noise off the level that the paths state."""
    found = d.status.finding
    if d.paths is None or found.kind not in _RISES:
        return False
    now = float(np.median(d.paths.reward.now))
    return abs(found.numbers["now"] - now) > 0.5 * max(d.paths.reward.noise, 1e-9)


def watch_against_diagnosis(d: Diagnosis, run: Run) -> bool:
    """An alarm of a watch where the diagnosis says that all is fine."""
    return bool(alarms_of(run, d, Watching())) and d.status.status in ("fine", "done")


CHECKS: tuple[Callable[[Diagnosis, Run], bool], ...] = (
    goes_on_after_a_fall, calm_with_a_failure, alarm_without_a_probability, alarm_that_goes_on, step_outside_the_log,
    checkpoint_after_the_onset, words_against_numbers, higher_rate_after_a_fall, level_that_is_not_now,
    watch_against_diagnosis,
)  # fmt: skip


class Cut(NamedTuple):
    """A log after so many rows: the checks that fail, and how far two levels "now" differ, in noise of a row."""

    name: str
    rows: int
    failed: tuple[str, ...]
    apart: float


def apart(d: Diagnosis, run: Run) -> float:
    """Distance of "now" of the diagnosis from that of a forecast, in noise of a row; NaN where there is no forecast."""
    if d.paths is None:
        return np.nan
    try:
        given = inputs_of_run(run)
    except BayesGrpoError:
        return np.nan
    ends = RewardRange(given.reward.low, given.reward.high)
    evaluation = given.table.signal == "eval_reward"
    counted = may_be_counted(given.settings)
    path = fit_reward(Logged.of(given.table.step, given.table.y), ends, evaluation, given.table.expected, counted)
    if path is None or evaluation != d.paths.uses_eval:
        return np.nan
    return abs(float(np.median(path.now)) - float(np.median(d.paths.reward.now))) / max(d.paths.reward.noise, 1e-9)


def cuts_of(row: Mapping[str, str], cuts: int) -> list[Cut]:
    """All cuts of one log."""
    warnings.simplefilter("ignore")
    try:
        run = read_log(row["path"])
    except BayesGrpoError as error:
        say(f"{row['run_id']}: {error}")
        return []
    step, _ = run.rewards
    found = []
    for n in np.unique(np.linspace(min(LEAST, len(step)), len(step), cuts).astype(int)):
        part = run if n == len(step) else run.until(float(step[n - 1]))
        d = diagnose(part)
        failed = tuple(check.__name__ for check in CHECKS if check(d, part))
        found.append(Cut(row["run_id"], int(n), failed, apart(d, part)))
    say(row["run_id"])
    return found


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--cuts", type=int, default=CUTS)
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    options = parser.parse_args()
    rows = rows_in(options.folders)
    every = [x for log in side_by_side(partial(cuts_of, cuts=options.cuts), rows) for x in log]
    count = Counter(name for x in every for name in x.failed)
    distance = np.array([x.apart for x in every])
    distance = distance[np.isfinite(distance)]
    result: dict[str, Any] = {
        "logs": len({x.name for x in every}),
        "cuts": len(every),
        "contradictions": {check.__name__: count[check.__name__] for check in CHECKS},
        "now: cuts compared": len(distance),
        "now: largest difference, noise of a row": round(float(distance.max(initial=0.0)), 4),
    }
    for x in every:
        if x.failed or x.apart > 0.1:
            print(f"{x.name} at {x.rows} rows: {', '.join(x.failed)} {x.apart:.2g}")
    for name, value in result.items():
        print(f"{name}: {value}")
    if options.keep:
        keep("contradictions", result)


if __name__ == "__main__":
    main()
