"""What a fit's DataTree keeps besides draws: rows, priors, the run's settings and convergence, written and read.

Numbers are variables, words are attributes of what they belong to, so that ArviZ and xarray show both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from bayes_grpo.fitting.sampling.convergence import Convergence, ParameterCheck
from bayes_grpo.logs.settings import Settings
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.series import NoiseLevel, Optimizer, Series

if TYPE_CHECKING:
    from xarray import Dataset, DataTree


def dataset(variables: Mapping[str, Any], attributes: Mapping[str, Any] | None = None, **coords: Any) -> Dataset:
    """A group's content; xarray takes a sixth of a second to import."""
    import xarray as xr

    return xr.Dataset(variables, coords, attributes)


def priors_to_group(priors: Mapping[str, Prior], sampled_levels: Iterable[str]) -> Dataset:
    """Median of each parameter; of a prior that is not normal in its coordinate the quantiles (`Prior.quantiles`)."""
    known = {}
    for name, p in priors.items():
        words = {"median": p.median, "spread": p.spread, "distribution": p.name}
        known[name] = ((), p.median, words) if p.quantiles is None else ("normal_score", np.asarray(p.quantiles), words)
    return dataset(known, {"sampled_levels": " ".join(sampled_levels)})


def priors_of_group(group: Dataset) -> dict[str, Prior]:
    """The priors again."""
    found = {}
    for name, x in group.data_vars.items():
        quantiles = tuple(x.to_numpy().tolist()) if x.ndim else None
        found[str(name)] = Prior(
            float(x.attrs["median"]), float(x.attrs["spread"]), quantiles, str(x.attrs["distribution"])
        )
    return found


def settings_to_group(settings: Settings) -> Dataset:
    """A number for each setting that is known; NaN where it is a word, its attribute ``value``."""
    known = {}
    for name, s in settings.items():
        if s.value is not None:
            number = isinstance(s.value, int | float)
            words = {"provenance": s.provenance.value, "note": s.note} | ({} if number else {"value": str(s.value)})
            known[name] = ((), s.value if number else math.nan, words)
    return dataset(known)


def settings_of_group(group: Dataset) -> dict[str, dict[str, Any]]:
    """Setting → its value, provenance and note."""
    return {
        str(name): {"value": x.attrs.get("value", x.item())} | {k: str(x.attrs[k]) for k in ("provenance", "note")}
        for name, x in group.data_vars.items()
    }


def convergence_to_groups(found: Convergence) -> dict[str, Dataset]:
    """R-hat, bulk and tail ESS of each parameter in a group each, as ArviZ's functions of these names return them."""
    whole = {"divergences": found.divergences, "ebfmi": found.ebfmi, "retried": int(found.retried)}
    names = ParameterCheck.__annotations__
    checks = {x: dataset({k: ((), getattr(c, x)) for k, c in found.parameters.items()}) for x in names}
    return {"convergence": dataset(whole)} | {f"convergence/{x}": group for x, group in checks.items()}


def convergence_of_groups(tree: DataTree) -> Convergence:
    """The checks again."""
    parts = {name: tree.children[name].dataset for name in ParameterCheck.__annotations__}
    names = [str(x) for x in parts["rhat"].data_vars]
    return Convergence(
        parameters={k: ParameterCheck(**{name: float(x[k]) for name, x in parts.items()}) for k in names},
        divergences=int(tree.dataset["divergences"]),
        ebfmi=float(tree.dataset["ebfmi"]),
        retried=bool(tree.dataset["retried"]),
    )


_COLUMNS = ("window", "rate", "weight", "noise")
"""Fields of `Series` that stand among `constant_data`, each after ``row_``."""
_FACTS = {"signal": str, "start": float, "reference_rate": float, "from_rest": int}
"""Fields of `Series` that hold for all rows."""


def rows_to_groups(rows: Series) -> dict[str, Dataset]:
    """Columns of the rows as `constant_data`; what holds for all of them as `series`; the noise that the log states."""
    columns = {"step": rows.step, "gap": rows.gap()} | {name: getattr(rows, name) for name in _COLUMNS}
    facts = {name: kind(getattr(rows, name)) for name, kind in _FACTS.items()}
    optimizer = rows.optimizer._replace(given=int(rows.optimizer.given))
    variables = {f"row_{k}": ("step", v) for k, v in columns.items() if v is not None}
    return {
        "constant_data": dataset(variables, step=rows.step),
        "series": dataset({}, facts | optimizer._asdict()),
        "noise_level": dataset({}, {} if rows.level is None else rows.level._asdict()),
    }


def rows_of_groups(tree: DataTree, notes: tuple[str, ...]) -> Series:
    """The same rows as `bayes_grpo.rows.rows_of.rows_of` gave when the fit was made."""
    observed, constant, facts = tree["observed_data"].dataset, tree["constant_data"].dataset, tree["series"].attrs
    known = tree["noise_level"].attrs
    level = {name: kind(known[name]) for name, kind in get_type_hints(NoiseLevel).items() if known}
    optimizer = {name: kind(facts[name]) for name, kind in get_type_hints(Optimizer).items()}
    columns: dict[str, Any] = {k: constant[f"row_{k}"].to_numpy() for k in _COLUMNS if f"row_{k}" in constant}
    columns |= {name: kind(facts[name]) for name, kind in (_FACTS | {"from_rest": bool}).items()}
    return Series(
        step=observed["step"].to_numpy(),
        y=observed["y"].to_numpy(),
        optimizer=Optimizer(**optimizer),
        notes=notes,
        level=NoiseLevel(**level) if level else None,
        **columns,
    )
