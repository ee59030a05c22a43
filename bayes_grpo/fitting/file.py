"""Saving a fit to NetCDF and loading it again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import FitFileError
from bayes_grpo.common.files import written_whole
from bayes_grpo.common.wording import clean
from bayes_grpo.fitting.result import FORMAT, Fit, model_hash
from bayes_grpo.fitting.untrusted import check_file, check_tree
from bayes_grpo.regimes import REGIMES
from bayes_grpo.regimes.base import Regime

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


_LARGE = ("leave_one_out", "posterior_predictive", "prior_predictive", "trajectories")


def _compressed(tree: DataTree) -> dict[str, dict[str, dict[str, Any]]]:
    """Compression of what has a number a draw and row; single precision where no printed number follows from it."""
    packed = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
    out = {f"/{group}": {str(name): dict(packed) for name in tree[group].dataset.data_vars} for group in _LARGE}
    for group, name in (("leave_one_out", "log_density"), ("trajectories", "latent"), ("trajectories", "rows")):
        out[f"/{group}"][name]["dtype"] = "float32"
    return out


def load_fit(path: str | Path, regime: Regime | None = None) -> Fit:
    """Reads a fit that `save_fit` wrote.

    Args:
        path: The NetCDF file.
        regime: The law of the fit, for one that neither this package nor an installed one has under its name.

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
