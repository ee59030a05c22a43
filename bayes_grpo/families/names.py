"""Settings that names of files state: ``lr5e5``, ``lr_1e-6``, ``g8``, ``beta0.04``, ``lora_rank_16``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.logs.options import CONFIG_KEYS

_WORDS = {word: name for name, words in CONFIG_KEYS.items() for word in words if "steps" not in word} | {
    "g": "group_size", "beta": "kl_weight", "kl": "kl_weight", "epsilon": "clip_range", "eps": "clip_range",
    "clip": "clip_range", "mu": "epochs", "epochs": "epochs", "rank": "lora_rank", "lora_rank": "lora_rank",
    "lora_r": "lora_rank", "lora_alpha": "lora_alpha", "temperature": "temperature", "temp": "temperature",
}  # fmt: skip
"""Word in a name → setting. A word alone, such as that of a model, is none."""
_SETTING = re.compile(
    rf"(?<![a-z])({'|'.join(sorted(_WORDS, key=len, reverse=True))})[_\-= ]?"
    r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![a-z\d]|\.\d)",
    re.IGNORECASE,
)
SEED = re.compile(r"(?<![a-z])(seed|run|rep|repeat|repetition|s)[\W_]?\d+(?![.\w])", re.IGNORECASE)
"""Part of a name that numbers repetitions; any other number may be a setting."""


@dataclass(frozen=True)
class NamedSetting(Result):
    """A setting that names of files state.

    Attributes:
        setting: Its name.
        values: Name of a run → the value that it states.
        others: Number of runs that state none.
        assumed: Value of these, the geometric mean of the known ones; None where all runs have one.
    """

    setting: str
    values: Mapping[str, float]
    others: int
    assumed: float | None

    provenance = "file name"
    also_in_json = ("provenance",)

    @property
    def sentence(self) -> str:
        """Which values the names state."""
        return f"{self.setting} {', '.join(f'{x:g}' for x in sorted(set(self.values.values())))}"


def settings_in_name(name: str) -> dict[str, float]:
    """Settings that the name of a run states.

    Args:
        name: The name.
    """
    out = {}
    for word, number in _SETTING.findall(name):
        setting, value = _WORDS[word.lower()], float(number)
        if setting == "learning_rate" and value >= 1.0:  # a sign is often left out of a file's name
            value = float(number.lower().replace("e", "e-"))
        if value > 0.0:
            out[setting] = value
    return out


def named_setting(setting: str, names: Sequence[str], known: Sequence[float | None]) -> NamedSetting | None:
    """What names state of a setting; None where no name does, or none of two values.

    Args:
        setting: The setting.
        names: Names of the runs.
        known: Value of each by name, log, configuration and user; None where none is known.
    """
    values = {plain(n, 80): x for n, x in zip(names, known, strict=True)
              if x is not None and settings_in_name(n).get(setting) == x}  # fmt: skip
    given = sorted({x for x in known if x is not None})
    if not values or len(given) < 2:
        return None
    others = sum(x is None for x in known)
    return NamedSetting(setting, values, others, float(np.exp(np.mean(np.log(given)))) if others else None)
