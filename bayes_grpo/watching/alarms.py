"""When a failure is told: probable enough, for long enough, and not told before.

A finding has to be as probable as asked at three looks: with all rows, and with the last ones left out, up to the share
for which it has to last. So the rule is one of the log alone: it does not depend on how often one looks, and a watch
that is started late or anew finds the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.history import probabilities_after
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.logs.run import Run
from bayes_grpo.watching.result import Alarm, Watching

LEAST_LASTING = 2
"""Rows for which a finding has to last at least."""


def earlier(rows: int, lasting: float) -> tuple[int, ...]:
    """Numbers of rows at which a finding has to have been there, the latest first.

    Args:
        rows: Rows so far.
        lasting: Share of them for which it has to last; 0 for none.
    """
    if lasting == 0.0:
        return ()
    back = max(LEAST_LASTING, math.ceil(lasting * rows))
    return rows - back // 2, rows - back


def alarms_of(run: Run, diagnosis: Diagnosis, watching: Watching, sounded: Collection[str] = ()) -> tuple[Alarm, ...]:
    """Findings of a run that were not told before.

    Args:
        run: The run.
        diagnosis: Its diagnosis, by all rows.
        watching: How probable a finding has to be, and for how long.
        sounded: Failures that were told before.
    """
    rows = int(np.isfinite(run.reward if run.has_reward else run.eval_reward).sum())
    if rows < watching.least_rows or diagnosis.top.status == "done":  # a solved task leaves groups without spread
        return ()
    first = diagnosis.top.finding
    new = [mode for mode in diagnosis.alarming(watching.alarm) if mode not in sounded]
    new.sort(key=lambda mode: mode != first)
    alarms = [_alarm(mode, diagnosis, rows, watching.alarm) for mode in new]
    for before in earlier(rows, watching.lasting):
        if not alarms:
            return ()
        then = probabilities_after(run, before).alarming(watching.alarm)
        alarms = [alarm for alarm in alarms if alarm.finding in then]
    return tuple(alarms)


def _alarm(mode: str, diagnosis: Diagnosis, rows: int, level: float) -> Alarm:
    onset = diagnosis.onsets.get(mode)
    p = diagnosis.probability[mode]
    text = f"{label_of(mode)} with probability {probability_text(p)} at step {diagnosis.about.last_step:g}"
    if p < level:
        text += f" (something fails with {probability_text(diagnosis.failing)}, and this is the most probable)"
    if onset is not None:
        i = onset.step
        text += f", since about step {i.median:.0f} [{i.low:.0f}, {i.high:.0f}] ({i.level:.0%})"
    because = diagnosis.evidence.get(mode, "")
    top = diagnosis.top  # one thing to do now, whatever else was found
    return Alarm(
        finding=mode,
        probability=p,
        step=diagnosis.about.last_step,
        rows=rows,
        since=None if onset is None else onset.step,
        sentence=plain(f"{text[:1].upper()}{text[1:]}{': ' if because else ''}{because}. Do now: {top.action}", 1200),
        remedies=tuple(plain(x, 500) for x in diagnosis.remedies.get(mode, ())),
        name=plain(diagnosis.about.name),
        status=top.status,
        action=plain(top.action, 500),
    )
