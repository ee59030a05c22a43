"""What an address is sent: chat services have forms of their own, known by the host; mail goes through a server."""

from __future__ import annotations

import json
import os
import smtplib
from email.message import EmailMessage
from urllib.parse import parse_qs, unquote, urlsplit

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.watching.result import Alarm

SERVER = "BAYES_GRPO_SMTP"
"""Variable with the mail server: ``smtp://host:port`` or ``smtps://user:password@host``; else this machine's."""
_DISCORD_LIMIT = 2000
"""Characters of a message there (https://discord.com/developers/docs/resources/webhook#execute-webhook)."""


def words_of_alarm(alarm: Alarm) -> str:
    """A finding as a message: run, finding, what to do."""
    action = f" Do now: {alarm.action}" if alarm.action else ""
    return f"{alarm.name}: {alarm.sentence}{action}"


def content_for(url: str, alarm: Alarm) -> bytes:
    """The JSON that an address takes: Slack's and Discord's own, else the whole finding with its text.

    Args:
        url: The address.
        alarm: The finding.
    """
    host, text = urlsplit(url).hostname or "", words_of_alarm(alarm)
    if host == "hooks.slack.com":  # https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return json.dumps({"text": escaped}).encode()
    if host in ("discord.com", "discordapp.com"):
        return json.dumps({"content": text[:_DISCORD_LIMIT], "allowed_mentions": {"parse": []}}).encode()
    return json.dumps(alarm.to_dict() | {"text": text}, allow_nan=False).encode()


def check_mail(address: str) -> str:
    """An address ``mailto:somebody@example.com`` that can be written to.

    Raises:
        SettingError: It is none, or the mail server of the environment is none.
    """
    name, at, host = _recipient(address).rpartition("@")
    if not (name and at and host) or any(c in address for c in " \r\n,;"):
        raise SettingError("--webhook: expected mailto:name@host, found another form; give one recipient")
    server = urlsplit(os.environ.get(SERVER, "smtp://localhost"))
    if server.scheme not in ("smtp", "smtps") or not server.hostname:
        raise SettingError(f"{SERVER}: expected smtp://host:port or smtps://user:password@host, found another form")
    return address


def mail(address: str, alarm: Alarm, limit: float) -> str:
    """Mails a finding.

    Args:
        address: ``mailto:name@host``, with ``?from=name@host`` where the sender is another.
        alarm: The finding.
        limit: Seconds that the server has for each answer.

    Returns:
        What went wrong; "" where nothing did.
    """
    server, to = urlsplit(os.environ.get(SERVER, "smtp://localhost")), _recipient(address)
    message = EmailMessage()
    message["Subject"] = plain(f"{alarm.name}: {alarm.finding}", 150)
    message["From"] = plain(parse_qs(urlsplit(address).query).get("from", [to])[0], 200)
    message["To"] = to
    message.set_content(words_of_alarm(alarm) + "\n\n" + "\n".join(f"- {x}" for x in alarm.remedies))
    kind = smtplib.SMTP_SSL if server.scheme == "smtps" else smtplib.SMTP
    try:
        with kind(server.hostname or "localhost", server.port or 0, timeout=limit) as connection:
            if server.scheme == "smtp" and connection.has_extn("starttls"):
                connection.starttls()
            if server.username:
                connection.login(unquote(server.username), unquote(server.password or ""))
            connection.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        return f"{type(error).__name__}: {plain(error, 200)}"
    return ""


def _recipient(address: str) -> str:
    return unquote(urlsplit(address).path)
