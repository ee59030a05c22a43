"""Saving a fit to NetCDF and loading it again, which is reading a stranger's file.

Before anything is made of it, the file is looked at as HDF5, before a byte of its arrays is read: it may claim arrays
larger than any memory, arrays whose bytes lie in another file of the disk, or groups that hold themselves. Then the
tree: groups, shapes, types and numbers as `bayes_grpo.fitting.fit` writes them.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import FitFileError
from bayes_grpo.common.files import written_whole
from bayes_grpo.common.text import clean, listed
from bayes_grpo.fitting.result import FORMAT, Fit, model_hash
from bayes_grpo.regimes import REGIMES
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.priors import Prior

if TYPE_CHECKING:
    from xarray import DataTree


def save_fit(fit: Fit, path: str | Path) -> None:
    """Writes a fit to a NetCDF file that `load_fit` and ``arviz.from_netcdf`` read.

    Args:
        fit: The fit.
        path: Where to; an existing file is replaced only once the new one is whole.

    Raises:
        OutputError: The place cannot be written to.
    """
    encoded = fit.data.copy()
    group = encoded["sample_stats"].dataset
    encoded["sample_stats"].dataset = group.assign(diverging=group["diverging"].astype("int8"))
    with written_whole(path) as temporary:
        encoded.to_netcdf(temporary, engine="h5netcdf", encoding=_compressed(encoded))


_LARGE = ("log_likelihood", "posterior_predictive", "replicated_runs", "prior_predictive", "trajectories")


def _compressed(tree: DataTree) -> dict[str, dict[str, dict[str, Any]]]:
    """Compression of what has a number a draw and row; single precision where no printed number follows from it."""
    packed = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
    out = {f"/{group}": {str(name): dict(packed) for name in tree[group].dataset.data_vars} for group in _LARGE}
    for group, name in (("log_likelihood", "y"), ("trajectories", "latent"), ("trajectories", "rows")):
        out[f"/{group}"][name]["dtype"] = "float32"
    return out


def load_fit(path: str | Path, regime: Regime | None = None) -> Fit:
    """Reads a fit that `save_fit` wrote.

    Args:
        path: The NetCDF file.
        regime: The regime of the fit, for one that neither this package nor an installed one has under its name.

    Returns:
        The fit, fully in memory.

    Raises:
        FitFileError: No such file, not a fit of this package, or one of another model or layout version.
    """
    import xarray as xr

    where = Path(path)
    if not where.is_file():
        raise FitFileError(f"{where}: no such file; a fit is written by `bayes-grpo fit LOG --out {where.name}`")
    try:
        check_file(where)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that are refused below anyway
            with xr.open_datatree(where, engine="h5netcdf", decode_times=False, decode_timedelta=False) as opened:
                tree = opened.load()
    except FitFileError as error:
        raise FitFileError(f"{where}: {error}; fit the log again") from None
    except Exception as error:  # h5netcdf raises many kinds for files that are not NetCDF
        raise FitFileError(
            f"{where}: expected a NetCDF file written by bayes-grpo, found none ({clean(error, 160)})"
        ) from error
    attrs = tree.attrs
    found = attrs.get("bayes_grpo_format")
    if found is None:
        raise FitFileError(f"{where}: a NetCDF file, but not a fit of bayes-grpo (no bayes_grpo_format attribute)")
    if not isinstance(found, int | np.integer) or found != FORMAT:
        by = clean(attrs.get("bayes_grpo_version"))
        raise FitFileError(
            f"{where}: its layout is version {clean(found)} (bayes-grpo {by}), this bayes-grpo reads version {FORMAT}; "
            f"fit the log again"
        )
    name = attrs.get("regime", "")
    if not isinstance(name, str):
        raise FitFileError(f"{where}: expected the name of a regime, found {clean(name)}; fit the log again")
    found_regime = REGIMES.get(name) if regime is None else regime
    if found_regime is None:
        raise FitFileError(
            f"{where}: a fit of regime {clean(name)!r}, which neither this bayes-grpo nor an installed package has "
            f"(there are {', '.join(REGIMES)}); install the package that brings it, or hand the regime to load_fit"
        )
    if found_regime.name != name:
        raise FitFileError(f"{where}: expected a fit of regime {found_regime.name!r}, found one of {clean(name)!r}")
    if attrs.get("model_hash") != model_hash(found_regime):
        raise FitFileError(
            f"{where}: its {name} has other parameters than the regime of that name here (written by version "
            f"{clean(attrs.get('bayes_grpo_version'))}); fit the log again, or hand the regime to load_fit"
        )
    try:
        check_tree(tree, found_regime)
    except FitFileError as error:
        raise FitFileError(f"{where}: {error}; fit the log again") from None
    return Fit(tree, found_regime)


_EXPANDED = 300
"""Bytes of arrays for each byte of a file, at most; draws are noise, which does not compress."""
_CHEAP = 64_000_000
_DEPTH, _OBJECTS = 3, 1_000
_DRAWN = ("chain", "draw")
_GROUPS: dict[str, tuple[str, ...]] = {
    "posterior": _DRAWN,
    "prior": _DRAWN,
    "sample_stats": _DRAWN,
    "joint_log_prior": _DRAWN,
    "joint_log_likelihood": _DRAWN,
    "log_likelihood": (*_DRAWN, "step"),
    "posterior_predictive": (*_DRAWN, "step"),
    "replicated_runs": (*_DRAWN, "step"),
    "prior_predictive": (*_DRAWN, "step"),
    "trajectories": (*_DRAWN, "step"),
    "observed_data": ("step",),
    "constant_data": ("step",),
    "posterior_mean": ("step",),
}
"""Groups of a fit → dimensions of each of their variables."""
_VARIABLES = {
    "sample_stats": ("energy", "lp", "n_steps", "tree_depth", "acceptance_rate", "diverging"),
    "joint_log_likelihood": ("rows",),
    "log_likelihood": ("y",),
    "posterior_predictive": ("y",),
    "replicated_runs": ("y",),
    "prior_predictive": ("y",),
    "trajectories": ("curve", "latent", "rows"),
    "observed_data": ("y",),
    "constant_data": ("row_window", "row_gap", "row_rate", "row_weight"),
    "posterior_mean": ("latent", "curve"),
}
_TEXTS = (
    "signal",
    "run_name",
    "source",
    "log_hash",
    "momentum_convention",
    "mass_note",
    "bayes_grpo_version",
    "window_reason",
)
_NUMBERS = ("seed", "mass", "momentum", "refresh_interval", "start", "from_rest")
_MAY_BE_NAN = ("reference_learning_rate", "window_start", "rate_ended")
_JSON: dict[str, type] = {
    "sampler": dict,
    "priors": dict,
    "settings": dict,
    "notes": list,
    "convergence": dict,
}
_DATA = ("row_window", "row_weight")
_CHECKS = ("rhat", "ess_bulk", "ess_tail")


def check_file(path: Path) -> None:
    """Looks through a file before its arrays are read.

    Raises:
        FitFileError: It is no HDF5 file, or one that claims what no fit has.
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            claimed = sum(math.prod(x.shape or ()) * x.dtype.itemsize for x in _objects(file, h5py))
    except FitFileError:
        raise
    except Exception as error:  # whatever the library says of a broken file
        raise FitFileError(f"expected a NetCDF file written by bayes-grpo, found none ({clean(error, 160)})") from None
    if claimed > _EXPANDED * path.stat().st_size + _CHEAP:
        raise FitFileError(f"expected arrays about as large as the file, found claims of {claimed / 1e9:.3g} GB in it")


def _objects(group: Any, h5py: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Arrays of a group and of those in it, plain ones alone."""
    if len(group) > _OBJECTS or depth == 0:
        raise FitFileError("expected the groups of a fit, found very many, or one in another without end")
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise FitFileError(f"expected everything in the file itself, found a link under {clean(name)!r}")
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _objects(item, h5py, depth - 1)
        elif item.is_virtual or item.external or set(item._filters) - {"gzip", "shuffle", "fletcher32"}:
            raise FitFileError(f"expected everything in the file itself, found that {clean(name)!r} lies elsewhere")
        else:
            yield item


def check_tree(tree: DataTree, regime: Regime) -> None:
    """Looks at what a file holds, in memory, against what a fit of a regime holds.

    Raises:
        FitFileError: A group, variable or attribute is missing or of another type, shapes disagree, or draws that have
            to be finite are not.
    """
    missing = [name for name in _GROUPS if name not in tree.children]
    if missing:
        raise FitFileError(f"expected the groups of a fit, found none of {listed(missing)}")
    for name, dims in _GROUPS.items():
        _check_group(name, dims, tree[name].dataset, regime)
    drawn, rows = tree["posterior"].sizes, tree["observed_data"].sizes["step"]
    for name, dims in _GROUPS.items():
        sizes = tree[name].sizes
        as_posterior = name not in ("prior", "prior_predictive", "trajectories")
        if ("step" in dims and sizes["step"] != rows) or (
            "draw" in dims and as_posterior and (sizes["chain"], sizes["draw"]) != (drawn["chain"], drawn["draw"])
        ):
            raise FitFileError(
                f"expected {drawn['chain']} × {drawn['draw']} draws and {rows} rows, found others in {name}"
            )
    step = tree["observed_data"].dataset["step"].to_numpy()
    if step.dtype.kind not in "fiu" or rows < 2 or not np.isfinite(step).all() or (np.diff(step) <= 0).any():
        raise FitFileError("expected at least two increasing steps, found others")
    _check_attributes({str(k): v for k, v in tree.attrs.items()}, [p.name for p in regime.parameters])


def _check_group(name: str, dims: tuple[str, ...], found: Any, regime: Regime) -> None:
    parameters = [p.name for p in regime.parameters]
    wanted = _VARIABLES.get(name, parameters)
    absent = [x for x in wanted if x not in found.data_vars]
    if absent:
        raise FitFileError(f"expected {listed(wanted)} in {name}, found nothing under {listed(absent)}")
    for key, values in found.data_vars.items():
        if values.dims != dims or values.dtype.kind not in "fiub" or not values.size:
            raise FitFileError(
                f"expected numbers over {', '.join(dims)} in {name}, found {values.dtype} over "
                f"{listed(values.dims)} under {clean(key)}"
            )
        whole = key in _DATA or (key in parameters and name in ("posterior", "prior"))
        if whole and not np.isfinite(values.to_numpy()).all():
            raise FitFileError(f"expected finite numbers in {name}, found some that are not under {clean(key)}")


def _check_attributes(attrs: dict[str, Any], parameters: list[str]) -> None:
    for name in _TEXTS:
        if not isinstance(attrs.get(name), str):
            raise FitFileError(f"expected a text in the attribute {name}, found {_kind(attrs, name)}")
    for name in _NUMBERS:
        if not _is_number(attrs.get(name)):
            raise FitFileError(f"expected a finite number in the attribute {name}, found {_kind(attrs, name)}")
    for name in _MAY_BE_NAN:
        if not isinstance(attrs.get(name), int | float | np.number):
            raise FitFileError(f"expected a number in the attribute {name}, found {_kind(attrs, name)}")
    found = {name: _json(attrs, name, kind) for name, kind in _JSON.items()}
    if not all(isinstance(note, str) for note in found["notes"]):
        raise FitFileError("expected texts in the attribute notes, found other values")
    if not all(isinstance(v, dict) for v in found["settings"].values()):
        raise FitFileError("expected settings with their provenance in the attribute settings, found other values")
    try:
        known = {name: Prior(**found["priors"][name]) for name in parameters}
    except (TypeError, KeyError, ValueError):
        raise FitFileError(f"expected a prior of each of {listed(parameters)} in the attribute priors") from None
    if not all(_is_number(p.median) and _is_number(p.spread) and p.spread > 0 for p in known.values()):
        raise FitFileError("expected priors with a finite median and a spread above 0, found others")
    _check_convergence(found["convergence"])


def _check_convergence(found: dict[str, Any]) -> None:
    checks = found.get("parameters")
    numbers = all(isinstance(found.get(x), int | float) for x in ("divergences", "ebfmi", "mean_steps"))
    truths = all(isinstance(found.get(x), bool) for x in ("passed", "retried"))
    reasons = isinstance(found.get("reasons"), list) and all(isinstance(x, str) for x in found["reasons"])
    fields = {"passed", "reasons", "parameters", "divergences", "ebfmi", "mean_steps", "retried"}
    whole = isinstance(checks, dict) and bool(checks) and all(map(_is_check, checks.values()))
    if not (whole and set(found) == fields and numbers and truths and reasons):
        raise FitFileError("expected the sampler's checks in the attribute convergence, found other values")


def _is_check(found: Any) -> bool:
    whole = isinstance(found, dict) and set(found) == set(_CHECKS)
    return whole and all(isinstance(found[x], int | float) for x in _CHECKS)


def _json(attrs: dict[str, Any], name: str, kind: type) -> Any:
    try:
        value = json.loads(attrs[name])
    except (KeyError, TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise FitFileError(f"expected JSON in the attribute {name}, found {_kind(attrs, name)}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _kind(attrs: dict[str, Any], name: str) -> str:
    return clean(f"{type(attrs[name]).__name__} {attrs[name]!r}", 80) if name in attrs else "none"
