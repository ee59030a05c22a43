"""What a reward function is about, by its name, which is all that a log or a record has."""

from __future__ import annotations

import re

_TASK = re.compile(
    r"correct|accura|\bacc\b|answer|solution|exact|solve|math|equation|pass|test|success|score|outcome", re.I
)
_FORM = re.compile(
    r"format|xml|tag|think|length|len\b|soft|strict|int\b|digit|style|finish|repet|structure|brevity", re.I
)


def is_form(name: str) -> bool:
    """Whether a function by its name rewards format, length or finishing, and nothing of the task."""
    return bool(_FORM.search(name)) and not _TASK.search(name)


def is_task(name: str) -> bool:
    """Whether it rewards the task, and nothing of the form."""
    return bool(_TASK.search(name)) and not _FORM.search(name)
