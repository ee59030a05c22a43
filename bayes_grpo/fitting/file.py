"""Saving a fit to NetCDF and loading it again, which is reading a stranger's file.

Before an array is read, the file is checked as HDF5: it may claim arrays larger than any memory, arrays whose bytes
lie in another file, or groups that contain themselves. Checksums of arrays and attributes then show whether it is what
`save_fit` wrote.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import FitFileError
from bayes_grpo.common.files import atomic_write
from bayes_grpo.common.text import clean
from bayes_grpo.fitting.result import FORMAT, Fit, model_hash
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
    write_tree(fit.data, path)


def write_tree(tree: DataTree, path: str | Path) -> None:
    """Writes the DataTree of a fit, with its checksum."""
    encoded = tree.copy()
    group = encoded["sample_stats"].dataset
    encoded["sample_stats"].dataset = group.assign(diverging=group["diverging"].astype("int8"))
    encoded.attrs = dict(encoded.attrs) | {"checksum": _checksum(encoded)}
    with atomic_write(path) as temporary:
        encoded.to_netcdf(temporary, engine="h5netcdf", encoding=_encoding(encoded))


def _encoding(tree: DataTree) -> dict[str, dict[str, dict[str, Any]]]:
    """Compression with checksums; single precision where no printed number follows from it."""
    packed = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "fletcher32": True}
    out = {
        node.path: {str(name): dict(packed) for name, x in node.dataset.variables.items() if x.ndim}
        for node in tree.subtree
    }
    for group, name in (("log_likelihood", "y"), ("trajectories", "latent"), ("trajectories", "rows")):
        out[f"/{group}"][name]["dtype"] = "float32"
    return out


def _checksum(tree: DataTree) -> str:
    """Checksum of groups, dimensions and attributes; arrays have their own in the file."""
    variables, words = [], []
    for node in tree.subtree:
        words += [(node.path, str(k), str(v)) for k, v in node.attrs.items() if k != "checksum"]
        for name, x in node.dataset.variables.items():
            variables.append((node.path, str(name), x.dims, x.shape, x.dtype.kind))
            words += [(node.path, str(name), str(k), str(v)) for k, v in x.attrs.items()]
    return hashlib.sha256(repr((sorted(variables), sorted(words))).encode()).hexdigest()


def load_fit(path: str | Path, regime: Regime | None = None) -> Fit:
    """Reads a fit that `save_fit` wrote, or its tree that ArviZ did (``fit.to_datatree().to_netcdf(path)``).

    Args:
        path: The NetCDF file.
        regime: The regime of the fit, for one that neither this package nor an installed one has under its name.

    Returns:
        The fit, fully in memory.

    Raises:
        FitFileError: No such file, not a fit of this package, or one of another model or layout version.
    """
    where = Path(path)
    if not where.is_file():
        raise FitFileError(f"{where}: no such file; a fit is written by `bayes-grpo fit LOG --out {where.name}`")
    try:
        tree = _tree_in(where)
        fit = Fit.of_tree(tree, _regime_of(tree, regime))
        _ = fit.about, fit.as_draws  # a stranger can write a checksum too
        return fit
    except FitFileError as error:
        raise FitFileError(f"{where}: {error}; fit the log again") from None
    except Exception as error:  # h5netcdf raises many kinds for files that are not NetCDF
        words = f"expected a NetCDF file written by bayes-grpo, found none ({clean(error, 160)})"
        raise FitFileError(f"{where}: {words}; fit the log again") from error


def _tree_in(path: Path) -> DataTree:
    """The content of a file, in memory."""
    import xarray as xr

    _check(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about files that are refused anyway
        with xr.open_datatree(path, engine="h5netcdf", decode_times=False, decode_timedelta=False) as opened:
            return opened.load()


def _regime_of(tree: DataTree, given: Regime | None) -> Regime:
    """The regime of a file's content; raises `FitFileError` where the content is not as `save_fit` writes it."""
    attrs = tree.attrs
    by = clean(attrs.get("bayes_grpo_version"))
    found = attrs.get("bayes_grpo_format")
    name = attrs.get("regime", "")
    if found is None:
        raise FitFileError("a NetCDF file, but not a fit of bayes-grpo (no bayes_grpo_format attribute)")
    if not isinstance(found, int | np.integer) or found != FORMAT:
        raise FitFileError(
            f"its layout is version {clean(found)} (bayes-grpo {by}), this bayes-grpo reads version {FORMAT}"
        )
    if not isinstance(name, str):
        raise FitFileError(f"expected the name of a regime, found {clean(name)}")
    regime = REGIMES.get(name) if given is None else given
    if regime is None:
        raise FitFileError(
            f"a fit of regime {clean(name)!r}, which this bayes-grpo does not have (there are {', '.join(REGIMES)}); "
            "install the package that brings it, or hand the regime to load_fit"
        )
    if regime.name != name:
        raise FitFileError(f"expected a fit of regime {regime.name!r}, found one of {clean(name)!r}")
    if attrs.get("model_hash") != model_hash(regime):
        raise FitFileError(
            f"its {name} has other parameters than the regime of that name here (written by version {by}); hand the "
            "regime to load_fit"
        )
    # A tree that xarray or ArviZ saved has none; what is in it is checked group by group in any case.
    if "checksum" in attrs and attrs["checksum"] != _checksum(tree):
        raise FitFileError("expected a fit as bayes-grpo wrote it, found a changed one")
    levels = tuple(str(attrs["sampled_levels"]).split())
    if not set(levels) <= {p.name for p in regime.parameters}:
        raise FitFileError("expected names of parameters in the attribute sampled_levels, found others")
    return regime if levels == regime.sampled_levels else replace(regime, sampled_levels=levels)


_EXPANDED = 300
"""Bytes of arrays for each byte of a file, at most; draws are noise, which does not compress."""
_CHEAP = 64_000_000
_DEPTH, _OBJECTS = 3, 1_000


def _check(path: Path) -> None:
    """Raises `FitFileError` for a file that claims what no fit has, before its arrays are read."""
    import h5py

    with h5py.File(path, "r") as file:
        claimed = sum(math.prod(x.shape or ()) * x.dtype.itemsize for x in _objects(file, h5py))
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
