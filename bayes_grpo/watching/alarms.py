"""When a failure raises an alarm: probable enough, for long enough, and not raised before.

A failure has to be probable enough by all rows, and by all but the last ones, up to the share for which it has to last.
The rule depends on the log alone, not on how often one looks: a watch that is started late raises the same alarms.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from bayes_grpo.common.intervals import percent
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.mode import probabilities_after
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.wording import label_of
from bayes_grpo.logs.run import Run
from bayes_grpo.watching.result import LASTING, LEAST_ALARM_ROWS, Alarm, Watching

_LEAST_LASTING = 2
"""Rows for which a finding has to last at least."""


def earlier(rows: int) -> tuple[int, int]:
    """Earlier numbers of rows at which a failure has to be probable too, the latest first."""
    back = max(_LEAST_LASTING, math.ceil(LASTING * rows))
    return rows - back // 2, rows - back


def alarms_of(run: Run, diagnosis: Diagnosis, watching: Watching, alarmed: Collection[str] = ()) -> tuple[Alarm, ...]:
    """Alarms of a run, given its diagnosis by all rows, for failures whose alarms were not raised before."""
    rows = len(run.rewards[0])
    if rows < LEAST_ALARM_ROWS or diagnosis.status.status == "done":  # a solved task leaves zero-variance groups
        return ()
    first = diagnosis.status.finding.mode
    new = [mode for mode in diagnosis.alarming(watching.alarm) if mode not in alarmed]
    new.sort(key=lambda mode: mode != first)
    alarms = [_alarm(mode, diagnosis, rows, watching.alarm) for mode in new]
    for before in earlier(rows):
        if not alarms:
            return ()
        then = probabilities_after(run, before).alarming(watching.alarm)
        alarms = [alarm for alarm in alarms if alarm.finding in then]
    return tuple(alarms)


def _alarm(mode: str, diagnosis: Diagnosis, rows: int, level: float) -> Alarm:
    onset = diagnosis.onsets.get(mode)
    p = diagnosis.probability[mode]
    status = diagnosis.status  # one thing to do now, whatever else was found
    text = f"{label_of(mode)} ({percent(p)}) at step {diagnosis.about.last_step:g}"
    if p < level:
        text += f", the most likely of the failures ({percent(diagnosis.failing)} that one is under way)"
    if onset is not None:
        i = onset.step
        text += f", since about step {i.median:.0f} [{i.low:.0f}, {i.high:.0f}] ({i.level:.0%})"
    if because := diagnosis.evidence.get(mode, ""):
        text += f": {because}"
    return Alarm(
        finding=mode,
        probability=p,
        step=diagnosis.about.last_step,
        rows=rows,
        since=None if onset is None else onset.step,
        sentence=plain(f"{text[:1].upper()}{text[1:]}. Do now: {status.action.sentence}", 1200),
        remedies=diagnosis.remedies.get(mode, ()),
        name=plain(diagnosis.about.name),
        status=status.status,
        action=status.action,
    )
