"""Laws of the reward curve, one file each."""

from __future__ import annotations

from bayes_grpo.errors import SettingError
from bayes_grpo.regimes.base import Parameter, Prior, Regime, linear, resolve_priors, sampled
from bayes_grpo.regimes.bernoulli import Bernoulli
from bayes_grpo.regimes.entropy import Entropy
from bayes_grpo.regimes.exponential import Exponential
from bayes_grpo.regimes.flat import Flat
from bayes_grpo.regimes.hold import Hold
from bayes_grpo.regimes.logistic import Logistic
from bayes_grpo.regimes.oscillator import Oscillator
from bayes_grpo.regimes.reduction import Reduction
from bayes_grpo.regimes.rows import Rows, RowTable, rows_of
from bayes_grpo.regimes.sigmoid import Sigmoid

REGIMES: dict[str, Regime] = {
    r.name: r
    for r in (
        Oscillator(),
        Exponential(),
        Reduction(),
        Hold(),
        Flat(),
        Bernoulli(),
        Logistic(),
        Sigmoid(),
        Entropy(),
    )
}

__all__ = [
    "REGIMES",
    "Bernoulli",
    "Entropy",
    "Exponential",
    "Flat",
    "Hold",
    "Logistic",
    "Oscillator",
    "Parameter",
    "Prior",
    "Reduction",
    "Regime",
    "RowTable",
    "Rows",
    "Sigmoid",
    "get_regime",
    "linear",
    "resolve_priors",
    "rows_of",
    "sampled",
]


def get_regime(name: str) -> Regime:
    """The regime of that name.

    Raises:
        SettingError: There is none; the message lists the names.
    """
    if name not in REGIMES:
        raise SettingError(f"regime: expected one of {', '.join(REGIMES)}, found {name!r}")
    return REGIMES[name]
