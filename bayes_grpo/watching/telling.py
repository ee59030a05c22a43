"""Telling somebody of a finding: a command of the user's, or an address that takes JSON. A failure is a note."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.common.unfinished import undone_at_an_end
from bayes_grpo.watching.result import Alarm
from bayes_grpo.watching.services import check_mail, content_for, mail

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
    """An address that can be told: http, https, or mailto.

    Raises:
        SettingError: It is none.
    """
    if url.startswith("mailto:"):
        return check_mail(url)
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


def post(url: str, alarm: Alarm, limit: float = LIMIT) -> str:
    """Posts a finding in the form that the address takes (`bayes_grpo.watching.services`), or mails it.

    Args:
        url: The address, http, https or mailto. It may hold a secret: no message names more of it than the host.
        alarm: The finding.
        limit: Seconds in all.

    Returns:
        What went wrong; "" where nothing did.
    """
    mailed = url.startswith("mailto:")
    host = "mail server" if mailed else urlsplit(url).hostname
    send = mail if mailed else _posted
    found: list[str] = []
    # Some servers let bytes drip, each within the limit of a socket; nobody waits longer than for the thread.
    thread = threading.Thread(target=lambda: found.append(send(url, alarm, limit)), daemon=True)
    thread.start()
    thread.join(limit)
    problem = found[0] if found else f"no answer within {limit:g} s"
    return f"the {'' if mailed else 'webhook at '}{plain(host, 80)} failed: {problem}" if problem else ""


def _posted(url: str, alarm: Alarm, limit: float) -> str:
    request = urllib.request.Request(
        url,
        content_for(url, alarm),
        {"Content-Type": "application/json"},
        method="POST",
    )
    opener = urllib.request.OpenerDirector()  # neither files nor ftp, and no redirects to where nobody asked for
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    try:
        with opener.open(request, timeout=limit):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"it answered {error.code}"
    except Exception as error:  # whatever a server may do to a client
        return f"{type(error).__name__}: {plain(getattr(error, 'reason', error), 200)}"


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
