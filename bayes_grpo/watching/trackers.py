"""Alarms as alerts of a tracker, by its own client: W&B (`wandb.Run.alert`) and Trackio (`trackio.alert`).

The run that is open in this process gets the alert. Without one, a run of its own is opened in the project that the
tracker's environment variables name (``WANDB_PROJECT``, ``TRACKIO_PROJECT``), else in ``bayes-grpo``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bayes_grpo.common.errors import MissingExtraError, SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.status import ALARMING
from bayes_grpo.watching.result import Alarm

_LONGEST = 1000
"""Characters of an alert."""
_PROJECT = "bayes-grpo"


def tracker_alert(name: str) -> Callable[[Alarm], str]:
    """Function that raises an alarm as an alert of one of `TRACKERS` and returns the problem, "" without one.

    Raises:
        SettingError: There is no such tracker.
        MissingExtraError: Its client is not installed.
    """
    if name not in TRACKERS:
        raise SettingError(f"alert: expected {' or '.join(TRACKERS)}, found {plain(name, 40)!r}")
    try:
        client = import_module(name)
    except ImportError:
        raise MissingExtraError(
            f"alert {name} needs {name}, which is not installed; install bayes-grpo[{name}]"
        ) from None

    def raised(alarm: Alarm) -> str:
        try:
            TRACKERS[name](client, alarm)
        except Exception as error:  # a tracker may fail in any way, and the watch goes on
            return f"the alert of {name} failed: {type(error).__name__}: {plain(error, 200)}"
        return ""

    return raised


def _content(client: Any, alarm: Alarm) -> dict[str, Any]:
    level = client.AlertLevel.ERROR if alarm.status in ALARMING else client.AlertLevel.WARN
    title = f"{plain(alarm.name, 60)}: {label_of(alarm.finding)}"
    return {"title": title, "text": alarm.sentence[:_LONGEST], "level": level}


def _wandb(client: Any, alarm: Alarm) -> None:
    run = client.run
    if run is None:
        project = os.environ.get("WANDB_PROJECT", _PROJECT)
        run = client.init(project=project, job_type="watch", name=f"watch {alarm.name}")
    run.alert(**_content(client, alarm))


def _trackio(client: Any, alarm: Alarm) -> None:
    try:
        client.alert(**_content(client, alarm))
    except RuntimeError:  # no run is open
        client.init(project=os.environ.get("TRACKIO_PROJECT", _PROJECT), name=f"watch {alarm.name}", embed=False)
        client.alert(**_content(client, alarm))


TRACKERS: dict[str, Callable[[Any, Alarm], None]] = {"wandb": _wandb, "trackio": _trackio}
"""Tracker → what raises an alarm by its client."""
