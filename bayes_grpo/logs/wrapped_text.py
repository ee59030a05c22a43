"""Console text that a logger keeps as the message of each record: Docker, Kubernetes, loguru, Kaggle, cloud logs.

Only where no record has metrics of its own are the messages read, as the text that they were.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bayes_grpo.common.text import counted
from bayes_grpo.logs.formats import Source
from bayes_grpo.logs.lines import names_reward
from bayes_grpo.logs.table import to_float

_MESSAGE = re.compile(r'"(?:@?message|msg|log|text|line|event|data|textPayload)"\s*:\s*"|\[\s*"')
"""A message in a record, or in a list of such alone."""
_METRIC_KEY = re.compile(r'"[^"\\\n]{0,60}(?:reward|score|loss)[^"\\\n]{0,60}"\s*:\s*[-\d\[{]', re.IGNORECASE)
"""A metric that is a key of a record, not one within the text of a message."""
_MESSAGES = ("message", "@message", "msg", "textpayload", "log", "line", "text", "event", "data")
_TIMES = ("time", "timestamp", "@timestamp", "ts", "asctime", "date", "receivetimestamp")
_OF_LOGGERS = frozenset((
    *_TIMES, "level", "levelname", "severity", "stream", "stream_name", "logger", "lineno", "source", "insertid",
    "ingestiontime", "record", "host", "pod", "container", "process", "labels",
))  # fmt: skip
"""Keys of which a record of a logger has one beside its message."""
_LEAST_LISTED = 2
_MAX_DEPTH = 3


def unwrapped(source: Source) -> tuple[Source, str] | None:
    """The console text in the messages of a file of records, and a note on it; None where a file has no such."""
    head = source.head.lstrip()
    if head[:1] not in "{[":
        texts = _of_delimited(source.text) if _is_export(head) else []
    elif '"cell_type"' in head or _METRIC_KEY.search(head) or not _MESSAGE.search(head):
        return None
    else:
        texts = _of_records(_records(source.text))
    if not texts or not names_reward(texts):
        return None
    whole = any(text.endswith("\n") for text in texts)
    text = "".join(texts) if whole else "\n".join((*texts, ""))
    name = source.path.with_suffix(".log")
    return replace(source, path=name, data=text.encode()), f"read from the messages of {counted(len(texts), 'record')}"


def _records(text: str) -> Sequence[Any]:
    """The records of JSON lines, or of the one list in a document; nothing where a text is neither."""
    with suppress(ValueError, RecursionError, MemoryError):
        return _only_list(json.loads(text))
    found = []
    for line in text.split("\n"):
        with suppress(ValueError, RecursionError, MemoryError):
            found.append(json.loads(line))
    return found


def _only_list(document: Any, depth: int = _MAX_DEPTH) -> Sequence[Any]:
    if isinstance(document, Mapping) and depth:
        lists = [found for value in document.values() if len(found := _only_list(value, depth - 1))]
        return lists[0] if len(lists) == 1 else []
    return document if isinstance(document, list) else []


def _of_records(records: Sequence[Any]) -> list[str]:
    """The messages in the order in which they were written; nothing where records are not those of a logger."""
    if len(records) >= _LEAST_LISTED and all(isinstance(x, str) for x in records):
        return [*records]
    rows = [{str(k).lower(): v for k, v in x.items()} for x in records if isinstance(x, Mapping)]
    rows = [row["jsonpayload"] | row if isinstance(row.get("jsonpayload"), dict) else row for row in rows]
    if not rows or 2 * len(rows) < len(records):
        return []
    key = next((name for name in _MESSAGES if isinstance(rows[0].get(name), str)), None)
    if key is None or (len(rows[0]) > 1 and _OF_LOGGERS.isdisjoint(rows[0])):
        return []
    return _in_order([row for row in rows if isinstance(row.get(key), str)], key)


def _in_order(rows: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """Messages, the oldest first, where an export has the newest first."""
    time = next((name for name in _TIMES if rows and name in rows[0]), None)
    texts = [row[key] for row in rows]
    ends = [rows[0].get(time), rows[-1].get(time)] if time else []
    numbers = [to_float(x) for x in ends]
    newest_first = ends and (numbers[0] > numbers[1] or (numbers[0] != numbers[0] and str(ends[0]) > str(ends[1])))
    return texts[::-1] if newest_first else texts


def _is_export(head: str) -> bool:
    """True if a text begins like a table with a column of messages, and none of metrics."""
    first = head.partition("\n")[0].lower()
    names = [name.strip(' "\r\ufeff') for name in first.split(",")]
    return len(first) < len(head) and any(x in _MESSAGES for x in names) and not _OF_LOGGERS.isdisjoint(names)


def _of_delimited(text: str) -> list[str]:
    """The messages of a table."""
    try:
        names, *rows = filter(None, csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return []
    plain = [name.strip().lower() for name in names]
    return [] if names_reward(plain) else _of_records([dict(zip(plain, row, strict=False)) for row in rows])
