"""The JSON that a webhook takes: Slack's and Discord's own forms, known by the host, else the whole alarm."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from bayes_grpo.watching.result import Alarm

_DISCORD_LIMIT = 2000
"""Characters of a message there (https://discord.com/developers/docs/resources/webhook#execute-webhook)."""


def words_of_alarm(alarm: Alarm) -> str:
    """An alarm as a message; its sentence says what to do."""
    return f"{alarm.name}: {alarm.sentence}"


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
