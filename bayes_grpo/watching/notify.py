"""Sending alarms: to a command of the user, or to a webhook. An error is a note, and the alarm is sent again later."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.files import undone_at_an_end
from bayes_grpo.common.text import plain
from bayes_grpo.watching.result import Alarm

LIMIT = 30.0
"""Seconds that a command or a webhook has."""
PREFIX = "BAYES_GRPO_"
"""Beginning of the names of a command's environment variables."""
TRIES = 8
"""Times that an alarm is sent by one channel before it is given up."""
FIRST_RETRY, LONGEST_PAUSE = 30.0, 3600.0
"""Seconds until the second try, which double from one to the next, and at most."""
_DISCORD_LIMIT = 2000
"""Characters of a message there (https://discord.com/developers/docs/resources/webhook#execute-webhook)."""
Channel = Callable[[Alarm], str]
"""Sends an alarm; returns the problem, "" without one."""


def channels_of(on_alarm: str | None, webhook: str | None) -> list[Channel]:
    """Channels for alarms.

    Args:
        on_alarm: A command, split into words as by a shell; no shell runs it.
        webhook: An address, http or https.

    Raises:
        SettingError: The command or the address is impossible.
    """
    found: list[Channel] = []
    if on_alarm is not None:
        words = words_of(on_alarm)
        found.append(lambda alarm: run_command(words, alarm))
    if webhook is not None:
        url = checked_url(webhook)
        found.append(lambda alarm: post(url, alarm))
    return found


class RetryQueue:
    """Alarms that are to be sent, each by every channel.

    Args:
        channels: The channels.
        clock: Seconds, for tests.
    """

    def __init__(self, channels: Sequence[Channel], clock: Callable[[], float] = time.monotonic) -> None:
        self._channels, self._clock = tuple(channels), clock
        self._waiting: list[tuple[float, int, Channel, Alarm]] = []

    @property
    def waiting(self) -> int:
        """How many are still to be sent."""
        return len(self._waiting)

    def add(self, alarms: Sequence[Alarm]) -> None:
        """Adds alarms, due at once."""
        now = self._clock()
        self._waiting += [(now, 0, channel, alarm) for alarm in alarms for channel in self._channels]

    def send(self) -> list[str]:
        """Sends what is due; returns the problems."""
        waiting, self._waiting, problems = self._waiting, [], []
        for due, tries, channel, alarm in waiting:
            if due > self._clock():
                self._waiting.append((due, tries, channel, alarm))
            elif problem := channel(alarm):
                problems.append(problem)
                if tries + 1 < TRIES:
                    pause = min(FIRST_RETRY * 2.0**tries, LONGEST_PAUSE)
                    self._waiting.append((self._clock() + pause, tries + 1, channel, alarm))
        return problems


def words_of(command: str) -> list[str]:
    """A command as words, as a shell would split them; no shell runs it.

    Raises:
        SettingError: It has no words, or a quote that does not end.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SettingError(f"--on-alarm: expected a command, found {command!r} ({error}); correct it") from None
    if not words:
        raise SettingError("--on-alarm: expected a command, found nothing; give a program and its arguments")
    return words


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
        raise SettingError("--webhook: expected an address that begins with http:// or https:// and names a host")
    return url


def run_command(words: list[str], alarm: Alarm, limit: float = LIMIT) -> str:
    """Runs a command with the alarm as JSON on standard input and in environment variables.

    Args:
        words: Program and arguments.
        alarm: The alarm.
        limit: Seconds until the command and its children are killed.

    Returns:
        The problem; "" without one.
    """
    values = {"FINDING": alarm.finding, "PROBABILITY": f"{alarm.probability:.4f}", "STEP": f"{alarm.step:g}"}
    values |= {"RUN": alarm.name, "SENTENCE": alarm.sentence}
    variables = {f"{PREFIX}{k}": v.replace("\0", " ") for k, v in values.items()}
    name = plain(words[0], 80)
    try:
        child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **variables},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"the command {name} could not be started: {plain(error)}"

    def kill() -> None:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)

    try:
        with undone_at_an_end(kill):
            _, err = child.communicate(json.dumps(alarm.to_dict(), allow_nan=False).encode(), timeout=limit)
    except BaseException as error:  # Ctrl-C, too, leaves nothing behind
        kill()
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=5.0)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"the command {name} was killed after {limit:g} s"
    if child.returncode:
        text = plain(err.decode(errors="replace").strip()[-200:])
        return f"the command {name} ended with {child.returncode}{': ' if text else ''}{text}"
    return ""


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
