"""An update as entries of a trainer's own log, under keys that our readers know to be ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.status import SEVERITY
from bayes_grpo.logs.keyindex import OWN
from bayes_grpo.watching.result import Alarm, Update

SAID = f"{OWN}said"
"""Key of what is said in words."""
_ALARM = f"{OWN}alarm/"
_STEP = f"{OWN}step"


def entries_of(update: Update, alarms: Iterable[Alarm] = ()) -> dict[str, float]:
    """Numbers of an update, all finite: ``bayes_grpo/reward_now``, ``bayes_grpo/p/reward_hacking`` and others.

    ``bayes_grpo/status`` is how the run stands, one number to put an alert on: 0 fine, done or unclear, 1 watch, 2
    failing, 3 failed (`bayes_grpo.diagnosis.status`); ``bayes_grpo/p/failing`` is the probability that something fails.
    An interval is its median under its name, its ends under ``…_low`` and ``…_high``. Beside what an update holds there
    is ``bayes_grpo/stop_now``, 1 where no step more is expected to pay, where costs and values were given, and
    ``bayes_grpo/best_checkpoint``, the step of the one to take, where checkpoints are kept.

    Args:
        update: The update.
        alarms: Findings that are new to the log.
    """
    found: dict[str, float] = {"step": update.step, "rows": update.rows, "seconds": update.seconds}
    found |= {f"p/{name}": p for name, p in update.probability.items()}
    if update.probability:
        found["p/failing"] = update.failing
    if update.top is not None:
        found["status"] = float(SEVERITY[update.top.status])
    found |= {f"alarm/{alarm.finding}": alarm.probability for alarm in alarms}
    if (ahead := update.outlook) is not None:
        found |= (
            _ends("reward_now", ahead.now) | _ends("reward_at_horizon", ahead.at_horizon) | _ends("gain", ahead.gain)
        )
        found |= {"horizon": ahead.until, "gain_threshold": ahead.threshold}
        found |= {name: getattr(ahead, name) for name in ("p_gain", "p_peaked", "p_collapse", "p_takeoff")}
        if ahead.stop is not None:
            found |= {"stop_at": ahead.stop, "stop_now": float(stops_now(update))}
        if ahead.take is not None:
            found["best_checkpoint"] = ahead.take
    return {OWN + name: float(value) for name, value in found.items() if math.isfinite(value)}


def stops_now(update: Update) -> bool:
    """Whether an update advises to stop at once."""
    stop = None if update.outlook is None else update.outlook.stop
    return stop is not None and stop <= update.step


def sounded_in(history: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Failure → step of the update that told it, from the rows of a log that we wrote into."""
    found: dict[str, float] = {}
    for row in history:
        for key in row:
            if key.startswith(_ALARM):
                found.setdefault(key.removeprefix(_ALARM), float(row.get(_STEP, row.get("step", 0.0))))
    return found


def _ends(name: str, values: Interval) -> dict[str, float]:
    return {name: values.median, f"{name}_low": values.low, f"{name}_high": values.high}
