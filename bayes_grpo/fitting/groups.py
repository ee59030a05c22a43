"""Arrays with the names of their dimensions, in groups; as a DataTree and back.

xarray is imported where a tree is made: it brings pandas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from xarray import DataTree


class Variable(NamedTuple):
    """An array with the names of its dimensions, and words about it."""

    dims: tuple[str, ...]
    values: np.ndarray
    attrs: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Group:
    """Variables by name, labels along their dimensions, and attributes of all of them."""

    variables: Mapping[str, Variable] = field(default_factory=dict)
    coords: Mapping[str, np.ndarray] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        """Values of a variable or labels of a dimension."""
        return self.variables[name].values if name in self.variables else self.coords[name]

    def __contains__(self, name: object) -> bool:
        """True if there is such a variable."""
        return name in self.variables


def group(variables: Mapping[str, tuple[Any, ...]], attrs: Mapping[str, Any] | None = None, **coords: Any) -> Group:
    """A group of variables: name → dimensions (one or a tuple of them), values, and attributes where there are any."""
    made = {}
    for name, (dims, values, *words) in variables.items():
        named = (dims,) if isinstance(dims, str) else tuple(dims)
        made[name] = Variable(named, np.asarray(values), words[0] if words else {})
    return Group(made, {k: np.asarray(v) for k, v in coords.items()}, attrs or {})


def of_draws(values: Mapping[str, Any], *dims: str, **coords: Any) -> Group:
    """A group of variables that all have a chain and a draw before further dimensions."""
    variables = {name: (("chain", "draw", *dims), np.asarray(x)) for name, x in values.items()}
    chains, draws = next(iter(variables.values()))[1].shape[:2]
    return group(variables, chain=np.arange(chains), draw=np.arange(draws), **coords)


def tree_of(groups: Mapping[str, Group], attrs: Mapping[str, Any]) -> DataTree:
    """The groups as a DataTree, by their paths, with attributes of its root."""
    import xarray as xr

    all_groups = {"/": Group(attrs=attrs), **groups}
    return xr.DataTree.from_dict(
        {path: xr.Dataset(dict(x.variables), dict(x.coords), dict(x.attrs)) for path, x in all_groups.items()}
    )


def groups_in(tree: DataTree) -> dict[str, Group]:
    """The groups of a DataTree, by their paths."""
    found = {}
    for node in tree.descendants:
        data = node.to_dataset(inherit=False)
        variables = {str(k): (x.dims, x.to_numpy(), x.attrs) for k, x in data.data_vars.items()}
        coords = {str(k): x.to_numpy() for k, x in data.coords.items()}
        found[node.path.strip("/")] = group(variables, data.attrs, **coords)
    return found
