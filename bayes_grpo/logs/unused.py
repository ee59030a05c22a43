"""Keys of a log that nothing was made of, each with the reason: what is dropped is said."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from bayes_grpo.logs.keyindex import OWN, KeyIndex, normal
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import GENERIC, Trainer

NO_NUMBER = "no number in it"
NO_SIGNAL = "no known signal"
OURS = "written by bayes-grpo"
EVALUATION = "of an evaluation, and not its mean reward"
SPREAD_OF_REWARDS = "spread or extremes of a reward"

_EVALUATION = re.compile(r"(?:^|[/_])(?:eval|val|valid|validation|test|dev|heldout|held_out)(?:[/_]|$)")
_SPREAD = re.compile(r"(?:reward|score).*(?:std|min|max|var|median|p\d\d)$|rewards?/.*/(?:std|min|max)$")
_COUNTS = re.compile(r"(?:^|[/_])(?:steps?|epoch|iteration|iter|_?timestamp|_?runtime|batch|episode|progress)$")


def unused_keys(
    table: Table, trainer: Trainer, keys: Mapping[str, str], read_otherwise: Iterable[str] = ()
) -> dict[str, str]:
    """Raw key → why it was not used, in the order of the log.

    Args:
        table: The log.
        trainer: Whose keys these are.
        keys: Canonical name → raw key, or a combination of raw keys in words.
        read_otherwise: Raw keys of which something else was made: single rewards, settings.
    """
    index, taken = KeyIndex(table), set(read_otherwise)
    said = [text for text in keys.values() if text]
    canonical = _canonical(index, trainer)
    out: dict[str, str] = {}
    for key in table.keys:
        if key in taken or any(key == text or _stands_in(key, text) for text in said):
            continue
        out[key] = _reason(table, key, keys, canonical.get(key))
    return out


def _stands_in(key: str, text: str) -> bool:
    """Whether a combination in words names a key."""
    place = text.find(key)
    while place >= 0:
        before, after = text[:place], text[place + len(key) :]
        if (not before or before[-1] in " *") and (not after or after[0] in " ,"):
            return True
        place = text.find(key, place + 1)
    return False


def _canonical(index: KeyIndex, trainer: Trainer) -> dict[str, str]:
    """Raw key → the signal, reward or evaluation that it could be read as."""
    found: dict[str, str] = {}
    for known in (trainer, GENERIC):
        groups: dict[str, Collection[str]] = {**known.signals, "reward": known.reward, "eval_reward": known.evals}
        for name, patterns in groups.items():
            for matched in index.find(patterns, known.prefixes):
                for key in matched:
                    found.setdefault(key, name)
    return found


def _reason(table: Table, key: str, keys: Mapping[str, str], could_be: str | None) -> str:
    name = normal(key)
    if OWN in name:
        return OURS
    if not table.has_numbers(key):
        return NO_NUMBER
    if could_be is not None:
        return (
            f"read like {could_be}, for which {keys[could_be]!r} is used"
            if could_be in keys
            else (f"read like {could_be}, and says nothing here")
        )
    if _COUNTS.search(name):
        return "counts or times rows"
    if _SPREAD.search(name):
        return SPREAD_OF_REWARDS
    return EVALUATION if _EVALUATION.search(name) else NO_SIGNAL


def grouped_by_reason(unused: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason → keys, the most telling reason first."""
    groups: dict[str, list[str]] = {}
    for key, why in unused.items():
        groups.setdefault(why, []).append(key)
    last = (NO_SIGNAL, NO_NUMBER, OURS)
    return dict(sorted(groups.items(), key=lambda item: last.index(item[0]) if item[0] in last else -1))
