"""The regimes by name: every module of `bayes_grpo.regimes.built_in` that has a ``REGIME``."""

from __future__ import annotations

from collections.abc import Mapping

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.imports import modules_in
from bayes_grpo.regimes import built_in
from bayes_grpo.regimes.base import Regime

REGIMES: Mapping[str, Regime] = {module.REGIME.name: module.REGIME for module in modules_in(built_in, "REGIME")}
"""Every regime by its name."""


def get_regime(name: str | Regime) -> Regime:
    """The regime of that name; one that is given as it is, is returned as it is.

    Raises:
        SettingError: There is none; the message lists the names.
    """
    if isinstance(name, Regime):
        return name
    if name not in REGIMES:
        raise SettingError(f"regime: expected one of {', '.join(REGIMES)}, found {name!r}")
    return REGIMES[name]
