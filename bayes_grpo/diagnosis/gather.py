"""From runs to the evidence of every mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import percent
from bayes_grpo.diagnosis.classes import PROGRESS
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity, span_text, without_dust
from bayes_grpo.diagnosis.mode import Mode, all_modes
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends, trends_of
from bayes_grpo.logs.run import Run
from bayes_grpo.rollouts.decomposition import Decomposition


class RunEvidence(NamedTuple):
    """Everything gathered from a run.

    Attributes:
        trends: Trends of its signals.
        evidence: Name → evidence: progress and the modes, the four failures first.
    """

    trends: RunTrends
    evidence: dict[str, ModeEvidence]


def gather(run: Run, gain: Decomposition | None = None) -> RunEvidence | None:
    """Evidence of one run; None where it has too few rewards for a trend.

    Args:
        run: The run.
        gain: What its gain is made of by its rollouts.
    """
    return gather_all([run], gain)[0]


def gather_all(runs: Sequence[Run], gain: Decomposition | None = None) -> list[RunEvidence | None]:
    """Evidence of many runs, or of several cuts of one.

    Args:
        runs: The runs.
        gain: What the gain is made of by rollouts, the same for all.
    """
    modes = all_modes()
    signals = {name for mode in modes for name in mode.signals}
    trends = [trends_of(run, signals) for run in runs]
    return [None if t is None else _evidence(replace(t, gain=gain), modes) for t in trends]


def _evidence(trends: RunTrends, modes: Sequence[Mode]) -> RunEvidence:
    found = [_progress(trends), *(mode.evidence(trends) for mode in modes)]
    return RunEvidence(trends, {e.mode: e for e in found if e is not None})


def _progress(trends: RunTrends) -> ModeEvidence:
    """What all modes share: net change, late change and level of the reward."""
    trend = trends.reward
    late_start = trend.step[-1] - (trend.step[-1] - trend.step[0]) / 3.0
    name = "held-out reward" if trends.uses_eval else "train reward"
    quantities = (
        quantity("gain", trend.change(), "reward", f"change of the {name} over the log"),
        quantity("late_gain", trend.change(first=late_start), "reward", "change over the last third of the log"),
        quantity("level", trend.draws[:, -1], "reward", "where it stands"),
    )
    g, level = (without_dust(quantities[i].posterior) for i in (0, 2))
    p = float(np.mean(trend.change() > THRESHOLDS.noise_of_growth * trend.noise_sd))
    sentence = (
        f"the {name} changed by {span_text(g, '.3g')} to {level.median:.3g}; "
        f"{percent(p)} chance that the rise exceeds one row's noise"
    )
    used, missing = (("eval_reward",), ("reward",)) if trends.uses_eval else (("reward",), ())
    return ModeEvidence(PROGRESS, p, quantities, used, missing, sentence)
