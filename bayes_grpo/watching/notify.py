"""Where alarms go: a webhook, and alerts of a tracker by its own client. An error is a note; the alarm is sent again.

The tracker's run that is open in this process gets the alert. Without one, a run of its own is opened in the project
that the tracker's environment variables name (``WANDB_PROJECT``, ``TRACKIO_PROJECT``), else in ``bayes-grpo``.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from bayes_grpo.common.errors import MissingExtraError, SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.status import ALARMING
from bayes_grpo.diagnosis.wording import label_of
from bayes_grpo.watching.result import Alarm

LIMIT = 30.0
"""Seconds that a webhook has to answer."""
TRIES = 8
"""Times that an alarm is sent before it is given up."""
FIRST_RETRY, LONGEST_PAUSE = 30.0, 3600.0
"""Seconds until the second try, which double from one to the next, and at most."""
_DISCORD_LIMIT = 2000
"""Characters of a message there (https://discord.com/developers/docs/resources/webhook#execute-webhook)."""


class RetryQueue:
    """Alarms that are to be posted to a webhook, or raised as alerts of a tracker.

    Args:
        webhook: Its address, http or https; None to post nothing.
        clock: Seconds, for tests.
        alert: Tracker whose alert they raise, "wandb" or "trackio"; None for none.

    Raises:
        SettingError: The address is impossible, or there is no such tracker.
        MissingExtraError: The tracker's client is not installed.
    """

    def __init__(
        self, webhook: str | None, clock: Callable[[], float] = time.monotonic, alert: str | None = None
    ) -> None:
        self._clock = clock
        self._ways: list[Callable[[Alarm], str]] = []
        if webhook is not None:
            url = checked_url(webhook)
            self._ways.append(lambda alarm: post(url, alarm))
        if alert is not None:
            self._ways.append(tracker_alert(alert))
        self._waiting: list[tuple[float, int, Alarm, Callable[[Alarm], str]]] = []

    @property
    def waiting(self) -> int:
        """How many are still to be sent."""
        return len(self._waiting)

    def add(self, alarms: Sequence[Alarm]) -> None:
        """Adds alarms, due at once."""
        self._waiting += [(self._clock(), 0, alarm, way) for alarm in alarms for way in self._ways]

    def send(self) -> list[str]:
        """Sends what is due; returns the problems."""
        waiting = self._waiting
        self._waiting = []
        problems = []
        for due, tries, alarm, way in waiting:
            if due > self._clock():
                self._waiting.append((due, tries, alarm, way))
            elif problem := way(alarm):
                problems.append(problem)
                if tries + 1 < TRIES:
                    pause = min(FIRST_RETRY * 2.0**tries, LONGEST_PAUSE)
                    self._waiting.append((self._clock() + pause, tries + 1, alarm, way))
        return problems


def checked_url(url: str) -> str:
    """The address of a webhook; an error where it is none."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port  # noqa: B018  (raises where it is none)
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise SettingError(
            "expected an address that begins with http:// or https:// and names a host", parameter="webhook"
        )
    return url


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it could lead anywhere."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Follows none."""


def post(url: str, alarm: Alarm, limit: float = LIMIT) -> str:
    """Posts an alarm as JSON; returns the problem, which names no more than the host, or "" without one."""
    request = urllib.request.Request(url, content_for(url, alarm), {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=limit):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        problem = f"it answered {error.code}"
    except Exception as error:  # a server may break any rule of HTTP
        problem = f"{type(error).__name__}: {plain(getattr(error, 'reason', error), 200)}"
    return f"the webhook at {plain(urlsplit(url).hostname, 80)} failed: {problem}"


def content_for(url: str, alarm: Alarm) -> bytes:
    """The JSON that a webhook takes: Slack's and Discord's own forms, else the whole alarm with its text."""
    host = urlsplit(url).hostname or ""
    text = f"{alarm.name}: {alarm.sentence}"
    if host == "hooks.slack.com":  # https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return json.dumps({"text": escaped}).encode()
    if host in ("discord.com", "discordapp.com"):
        return json.dumps({"content": text[:_DISCORD_LIMIT], "allowed_mentions": {"parse": []}}).encode()
    return json.dumps(alarm.to_dict() | {"text": text}, allow_nan=False).encode()


_LONGEST = 1000
"""Characters of an alert."""
_PROJECT = "bayes-grpo"


def tracker_alert(name: str) -> Callable[[Alarm], str]:
    """Function that raises an alarm as an alert of one of `TRACKERS` and returns the problem, "" without one."""
    if name not in TRACKERS:
        raise SettingError(f"expected {' or '.join(TRACKERS)}, found {plain(name, 40)!r}", parameter="alert")
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
