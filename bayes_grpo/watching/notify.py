"""Sending alarms to a webhook or a tracker. An error is a note, and the alarm is sent again later."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.watching.result import Alarm
from bayes_grpo.watching.trackers import tracker_alert

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
        waiting, self._waiting, problems = self._waiting, [], []
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
    """The address of a webhook, http or https.

    Raises:
        SettingError: It is none.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port  # noqa: B018  (raises where it is none)
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise SettingError("webhook: expected an address that begins with http:// or https:// and names a host")
    return url


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it could lead anywhere."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Follows none."""


def post(url: str, alarm: Alarm, limit: float = LIMIT) -> str:
    """Posts an alarm as JSON.

    Args:
        url: The address. It may hold a secret: messages name its host alone.
        alarm: The alarm.
        limit: Seconds that the server has to answer.

    Returns:
        The problem; "" without one.
    """
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


def message_of(alarm: Alarm) -> str:
    """An alarm as a message; its sentence says what to do."""
    return f"{alarm.name}: {alarm.sentence}"


def content_for(url: str, alarm: Alarm) -> bytes:
    """The JSON that a webhook takes: Slack's and Discord's own forms, else the whole alarm with its text."""
    host, text = urlsplit(url).hostname or "", message_of(alarm)
    if host == "hooks.slack.com":  # https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return json.dumps({"text": escaped}).encode()
    if host in ("discord.com", "discordapp.com"):
        return json.dumps({"content": text[:_DISCORD_LIMIT], "allowed_mentions": {"parse": []}}).encode()
    return json.dumps(alarm.to_dict() | {"text": text}, allow_nan=False).encode()
