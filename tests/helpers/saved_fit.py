"""A saved fit that nobody has sampled: the groups, shapes and attributes of one, with drawn numbers, in no time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_grpo.fitting.file import _GROUPS, _VARIABLES
from bayes_grpo.fitting.result import FORMAT, model_hash
from bayes_grpo.regimes import REGIMES

CHAINS, DRAWS, ROWS = 2, 6, 8


def saved_tree(regime: str = "exponential", seed: int = 0) -> xr.DataTree:
    """The content of such a file."""
    rng, law = np.random.default_rng(seed), REGIMES[regime]
    sizes = {"chain": CHAINS, "draw": DRAWS, "step": ROWS}
    groups = {}
    for name, dims in _GROUPS.items():
        variables = _VARIABLES.get(name, [p.name for p in law.parameters])
        shape = [sizes[d] for d in dims]
        values = {v: (dims, 0.1 + rng.random(shape)) for v in variables}
        coords = {d: np.arange(1.0, 1.0 + sizes[d]) for d in dims}
        groups[name] = xr.Dataset(values, coords)
    tree = xr.DataTree.from_dict(groups)
    check = {"rhat": 1.0, "ess_bulk": 900.0, "ess_tail": 900.0}
    tree.attrs.update(
        {
            "bayes_grpo_format": FORMAT,
            "bayes_grpo_version": "0.1.0",
            "regime": regime,
            "model_hash": model_hash(law),
            **dict.fromkeys(("signal", "run_name", "source", "log_hash", "mass_note"), "reward"),
            "momentum_convention": "ema",
            **dict.fromkeys(("mass", "momentum", "refresh_interval", "reference_learning_rate", "start"), 0.5),
            **dict.fromkeys(("window_start", "rate_ended"), float("nan")),
            "window_reason": "",
            "seed": 0,
            "from_rest": 1,
            "sampler": "{}",
            "priors": json.dumps({p.name: {"median": 1.0, "spread": 0.5} for p in law.parameters}),
            "settings": json.dumps({"group_size": {"value": 8, "provenance": "user", "note": ""}}),
            "notes": "[]",
            "convergence": json.dumps(
                {
                    "passed": True,
                    "reasons": [],
                    "parameters": {p.name: check for p in law.parameters},
                    "divergences": 0,
                    "ebfmi": 1.0,
                    "mean_steps": 7.0,
                    "retried": False,
                }
            ),
        }
    )
    return tree


def save(tree: xr.DataTree, path: Path) -> Path:
    """Writes such a content as it stands, whatever is wrong with it."""
    tree.to_netcdf(path, engine="h5netcdf")
    return path


def with_groups(tree: xr.DataTree, **changed: xr.Dataset | None) -> xr.DataTree:
    """The same with other groups; without one where that is None."""
    groups = {name: child.dataset for name, child in tree.children.items()} | changed
    made = xr.DataTree.from_dict({name: group for name, group in groups.items() if group is not None})
    made.attrs = dict(tree.attrs)
    return made


def with_attribute(tree: xr.DataTree, name: str, value: Any) -> xr.DataTree:
    """The same with another value of an attribute; without it where that is None."""
    tree = tree.copy()
    tree.attrs = {k: v for k, v in tree.attrs.items() if k != name} | ({} if value is None else {name: value})
    return tree
