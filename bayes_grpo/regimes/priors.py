"""Default priors of a regime for a log, with the user's in their place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bayes_grpo.common.errors import PriorError
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import UNIT, Parameter, Prior
from bayes_grpo.rows.table import RowTable


def resolve_priors(regime: Regime, table: RowTable, overrides: Mapping[str, Any] | None = None) -> dict[str, Prior]:
    """Default priors of a regime for a log, with the user's overrides in their place.

    Args:
        regime: The regime.
        table: Rows of the log, for their scale and length.
        overrides: Parameter name → `Prior`, or a pair (median, spread), or a mapping with these keys.

    Returns:
        Parameter name → prior, in the order of the regime's parameters.

    Raises:
        PriorError: An override names no parameter of the regime or has impossible numbers.
    """
    known = {p.name: p for p in regime.parameters}
    priors = {p.name: p.default(table) for p in regime.parameters}
    for name, given in (overrides or {}).items():
        if name not in known:
            raise PriorError(
                f"prior for {name!r}: regime {regime.name!r} has no such parameter; it has {', '.join(known)}"
            )
        priors[name] = _checked(known[name], given)
    return priors


def _checked(parameter: Parameter, given: Any) -> Prior:
    where = f"prior for {parameter.name!r}"
    try:
        if isinstance(given, Prior):
            median, spread = given.median, given.spread
        elif isinstance(given, Mapping):
            median, spread = given["median"], given["spread"]
        else:
            median, spread = given
        prior = Prior(float(median), float(spread))
    except (KeyError, TypeError, ValueError) as error:
        raise PriorError(f"{where}: expected a median and a spread (two numbers), found {given!r}") from error
    if not (math.isfinite(prior.median) and math.isfinite(prior.spread) and prior.spread > 0):
        raise PriorError(f"{where}: expected a finite median and a spread above 0, found {given!r}")
    if parameter.transform is UNIT and not 0 < prior.median < 1:
        raise PriorError(f"{where}: {parameter.name} lies between 0 and 1; its median must too, found {given!r}")
    if parameter.transform.positive and prior.median <= 0:
        raise PriorError(f"{where}: {parameter.name} is positive; its median must be too, found {given!r}")
    return prior
