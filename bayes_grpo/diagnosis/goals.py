"""Second goals of a run: its accuracy and the rewards of its task, which a rise of the total is expected to share.

    since the goal's best level:  the reward rises by 5% of its range, and the goal falls by 2% of its own,
    or  the reward rises by 15% of its range, and a goal that is not near its highest shares less than a tenth of that

Both in the same draw; the best level is taken where the posterior mean is highest, as everywhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.logs.reward_parts import is_task
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.thresholds import THRESHOLDS


def goals_of(view: RunView) -> dict[str, SignalPath]:
    """Name → path of every goal that is not the total itself, nor the same in every row, as of one not measured."""
    total = view.reward.logged
    found = {name: path for name, path in view.paths.components.items() if is_task(name)}
    found |= {name: path for name, path in view.paths.signals.items() if name == "accuracy"}
    return {
        name: path
        for name, path in found.items()
        if not path.logged.constant
        and not (np.array_equal(path.logged.step, total.step) and np.allclose(path.logged.value, total.value))
    }


def parted_goal(view: RunView) -> Finding | None:
    """The goal that most surely does not share the rise of the reward; None where all do, almost."""
    found = (_parted(view, plain(name, 40), path) for name, path in goals_of(view).items())
    return max((x for x in found if x is not None), key=lambda x: x.probability, default=None)


def _parted(view: RunView, name: str, path: SignalPath) -> Finding | None:
    reward = view.reward
    best = path.best_block
    step = float(path.step[best])
    before = reward.at(np.array([step]))[:, 0]
    gain = (reward.now - before) / reward.span
    shared = (path.now - path.best) / path.span
    fell = (shared <= -THRESHOLDS.rises) & (gain > THRESHOLDS.material)
    near_top = path.unit == "share" and float(np.median(path.now)) > THRESHOLDS.solved
    stays = (gain > THRESHOLDS.parted) & (shared < THRESHOLDS.shared * gain) & (not near_top)
    p = float((fell | stays).mean())
    if p < 1.0 - THRESHOLDS.suspect:
        return None
    found = Finding.of(
        "goal_parts",
        name,
        train_start=reward.display_value(before),
        train_now=reward.display_value(reward.now),
        best=float(path.value[max(best + 1 - path.window, 0) : best + 1].mean()),
        now=float(path.value[-path.window :].mean()),
        fell=float((shared < 0.0).mean()),
        probability=p,
    )
    since = float(path.last_step[best])
    return replace(found, step=interval(since), at=view.run.step_name(round(since)))
