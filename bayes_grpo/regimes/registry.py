"""Which regimes there are: those of this package, and those of other installed packages.

Another package brings a regime by an entry point of the group `bayes_grpo.regimes`, whose name is that of the regime
and whose object is a subclass of `Regime` or an instance
(https://packaging.python.org/en/latest/specifications/entry-points/):

    [project.entry-points."bayes_grpo.regimes"]
    linear = "my_package:Linear"
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points

from bayes_grpo.common.errors import RegimeWarning, SettingError
from bayes_grpo.common.imports import module_names, modules_in
from bayes_grpo.regimes import built_in
from bayes_grpo.regimes.base import Regime

GROUP = "bayes_grpo.regimes"
"""Entry-point group of regimes."""


@cache
def installed_regimes() -> Mapping[str, Regime]:
    """Regimes of other packages by name; one that cannot be used is named in a `RegimeWarning` and left out."""
    found: dict[str, Regime] = {}
    for entry in entry_points(group=GROUP):
        where = f"regime {entry.name!r} of {entry.value}"
        try:
            loaded = entry.load()
            regime = loaded() if isinstance(loaded, type) else loaded
        except Exception as error:  # anything may go wrong in somebody else's code
            warnings.warn(f"{where} was left out: it cannot be loaded ({error})", RegimeWarning, stacklevel=2)
            continue
        if not isinstance(regime, Regime) or regime.name != entry.name:
            reason = f"expected a Regime named {entry.name!r}, found {regime!r}"
        elif entry.name in module_names(built_in) or entry.name in found:
            reason = "another regime has that name"
        else:
            found[entry.name] = regime
            continue
        warnings.warn(f"{where} was left out: {reason}", RegimeWarning, stacklevel=2)
    return found


class Registry(Mapping[str, Regime]):
    """Every regime by its name; a module and other packages are imported on first use."""

    def __getitem__(self, name: str) -> Regime:
        return modules_in(built_in, name)[0].REGIME if name in module_names(built_in) else installed_regimes()[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*module_names(built_in), *installed_regimes()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


REGIMES = Registry()
"""Every regime by its name."""


def get_regime(name: str | Regime) -> Regime:
    """The regime of that name; one that is given as it is, is returned as it is.

    Raises:
        SettingError: There is none; the message lists the names.

    Examples:
        >>> [p.name for p in get_regime("flat").parameters]
        ['fluctuation_time', 'observation_sd', 'fluctuation_sd', 'fixed_point']
    """
    if isinstance(name, Regime):
        return name
    if name not in REGIMES:
        raise SettingError(f"expected one of {', '.join(REGIMES)}, found {name!r}", parameter="regime")
    return REGIMES[name]
