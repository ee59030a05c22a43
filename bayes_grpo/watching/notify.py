"""Telling somebody of a finding: a command of the user's, or an address that takes JSON. A failure is a note."""

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
from bayes_grpo.common.text import plain
from bayes_grpo.common.unfinished import undone_at_an_end
from bayes_grpo.watching.result import Alarm

LIMIT = 30.0
"""Seconds that a command or an address has."""
PREFIX = "BAYES_GRPO_"
"""Before the names of the environment variables of a command."""


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
    """Runs a command with the finding as JSON on standard input, and in environment variables.

    Args:
        words: Program and arguments.
        alarm: The finding.
        limit: Seconds until the command and what it has started are killed.

    Returns:
        What went wrong; "" where nothing did.
    """
    told = {"FINDING": alarm.finding, "PROBABILITY": f"{alarm.probability:.4f}", "STEP": f"{alarm.step:g}"}
    told |= {"RUN": alarm.name, "SENTENCE": alarm.sentence}
    variables = {f"{PREFIX}{k}": v.replace("\0", " ") for k, v in told.items()}
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
    try:
        with undone_at_an_end(lambda: _killed(child)):
            _, err = child.communicate(_content(alarm), timeout=limit)
    except subprocess.TimeoutExpired:
        _end(child)
        return f"the command {name} was killed after {limit:g} s"
    except BaseException:  # Ctrl-C, too, leaves nothing behind
        _end(child)
        raise
    if child.returncode:
        said = plain(err.decode(errors="replace").strip()[-200:])
        return f"the command {name} ended with {child.returncode}{': ' if said else ''}{said}"
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


def _content(alarm: Alarm) -> bytes:
    return json.dumps(alarm.to_dict(), allow_nan=False).encode()


def _killed(child: subprocess.Popen[bytes]) -> None:
    """Kills a command and what it has started."""
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kills a command and what it has started, and waits for its end."""
    _killed(child)
    with suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=5.0)


_DISCORD_LIMIT = 2000
"""Characters of a message there (https://discord.com/developers/docs/resources/webhook#execute-webhook)."""


def message_of(alarm: Alarm) -> str:
    """An alarm as a message; its sentence says what to do."""
    return f"{alarm.name}: {alarm.sentence}"


def content_for(url: str, alarm: Alarm) -> bytes:
    """The JSON that an address takes: Slack's and Discord's own, else the whole finding with its text.

    Args:
        url: The address.
        alarm: The finding.
    """
    host, text = urlsplit(url).hostname or "", message_of(alarm)
    if host == "hooks.slack.com":  # https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return json.dumps({"text": escaped}).encode()
    if host in ("discord.com", "discordapp.com"):
        return json.dumps({"content": text[:_DISCORD_LIMIT], "allowed_mentions": {"parse": []}}).encode()
    return json.dumps(alarm.to_dict() | {"text": text}, allow_nan=False).encode()


Channel = Callable[[Alarm], str]
"""Tells somebody of a finding; what went wrong, "" where nothing did."""
TRIES = 8
"""Times that somebody is told of a finding before it is given up."""
FIRST_RETRY, LONGEST_PAUSE = 30.0, 3600.0
"""Seconds until the second try, which double from one to the next, and at most."""


class RetryQueue:
    """Who is still to be told of what.

    Args:
        channels: Who is told of every finding.
        clock: Seconds, for tests.
    """

    def __init__(self, channels: Sequence[Channel], clock: Callable[[], float] = time.monotonic) -> None:
        self._channels, self._clock = tuple(channels), clock
        self._waiting: list[tuple[float, int, Channel, Alarm]] = []

    @property
    def waiting(self) -> int:
        """How many tellings are still to be made."""
        return len(self._waiting)

    def add(self, alarms: Sequence[Alarm]) -> None:
        """Puts new findings down for everybody, due at once."""
        now = self._clock()
        self._waiting += [(now, 0, channel, alarm) for alarm in alarms for channel in self._channels]

    def send(self) -> list[str]:
        """Tells what is due; notes on what went wrong."""
        notes, later = [], []
        for due, tries, channel, alarm in self._waiting:
            if due > self._clock():
                later.append((due, tries, channel, alarm))
                continue
            note = channel(alarm)
            if not note:
                continue
            notes.append(note)
            if tries + 1 < TRIES:
                wait = min(FIRST_RETRY * 2.0**tries, LONGEST_PAUSE)
                later.append((self._clock() + wait, tries + 1, channel, alarm))
        self._waiting = later
        return notes
