"""Kinds of numbers by the name of their file: "reward_curve.json" with the columns mean, min and max."""

from __future__ import annotations

import re
from dataclasses import replace

from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.formats import Parsed
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import names_reward

_OF_REWARDS = re.compile(r"(?:^|_)rewards?(?:$|_)")
_OF_OTHERS = re.compile(r"eval|valid|(?:^|_)(?:val|test|dev|heldout|held_out|model|loss|std|time)(?:$|_)")
"""Words in the name of a file whose numbers are not those of the train reward."""
_STATISTICS = {"mean": "mean", "avg": "mean", "average": "mean", "std": "std", "min": "min", "max": "max"}
"""Column → what it is of the rewards."""


def is_of_rewards(stem: str) -> bool:
    """True if the name of a file, without its ending, calls its numbers train rewards."""
    name = re.sub(r"\W", "_", normal(stem))
    return _OF_REWARDS.search(name) is not None and _OF_OTHERS.search(name) is None


def with_rewards_of_name(found: Parsed, stem: str) -> Parsed:
    """Rows with a mean and other statistics, named for rewards where only the name of the file, ``stem``, says so."""
    if not is_of_rewards(stem) or names_reward(found.table.keys):
        return found
    of = {key: _STATISTICS[normal(key)] for key in found.table.keys if normal(key) in _STATISTICS}
    if [*of.values()].count("mean") != 1:
        return found
    renamed = found.table.renamed([f"reward/{of[key]}" if key in of else key for key in found.table.keys])
    are = "is" if len(of) == 1 else "are"
    note = f"the file {clean(stem)!r} is named for rewards: {listed(of)} {are} read as theirs"
    return replace(found, table=renamed).noted(note)
