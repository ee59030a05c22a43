"""A saved fit that was never sampled: the groups, shapes and attributes of one, with drawn numbers, in no time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_grpo.fitting.file import save_fit
from bayes_grpo.fitting.result import FORMAT, Fit, model_hash
from bayes_grpo.regimes import REGIMES

SIZES = {"chain": 2, "draw": 6, "step": 8}
DRAWN, ROWS = ("chain", "draw"), ("chain", "draw", "step")
GROUPS = {
    "sample_stats": (DRAWN, ("energy", "lp", "n_steps", "diverging")),
    "log_likelihood": (ROWS, ("y",)),
    "trajectories": (ROWS, ("curve", "latent", "rows")),
    "observed_data": (("step",), ("y",)),
    "constant_data": (("step",), ("row_window", "row_gap", "row_rate", "row_weight")),
    "posterior_mean": (("step",), ("latent", "curve")),
}


def saved_tree(regime: str = "exponential", seed: int = 0) -> xr.DataTree:
    """The content of such a file."""
    rng, law = np.random.default_rng(seed), REGIMES[regime]
    names = tuple(p.name for p in law.parameters)
    groups = {}
    for name, (dims, variables) in (GROUPS | dict.fromkeys(("posterior", "prior"), (DRAWN, names))).items():
        values = {v: (dims, 0.1 + rng.random([SIZES[d] for d in dims])) for v in variables}
        groups[name] = xr.Dataset(values, {d: np.arange(1.0, 1.0 + SIZES[d]) for d in dims})
    tree = xr.DataTree.from_dict(groups)
    check = {"rhat": 1.0, "ess_bulk": 900.0, "ess_tail": 900.0}
    convergence = {"passed": True, "reasons": [], "parameters": dict.fromkeys(names, check), "divergences": 0}
    tree.attrs.update(
        {
            "bayes_grpo_format": FORMAT,
            "bayes_grpo_version": "0.1.0",
            "regime": regime,
            "model_hash": model_hash(law),
            **dict.fromkeys(("signal", "run_name", "source", "log_hash"), "reward"),
            "momentum_convention": "ema",
            **dict.fromkeys(("momentum", "refresh_interval", "reference_learning_rate", "start"), 0.5),
            **dict.fromkeys(("window_start", "rate_ended"), float("nan")),
            "window_reason": "",
            "seed": 0,
            "from_rest": 1,
            "sampler": "{}",
            "priors": json.dumps({x: {"median": 1.0, "spread": 0.5} for x in names}),
            "settings": json.dumps({"group_size": {"value": 8, "provenance": "user", "note": ""}}),
            "notes": "[]",
            "sampled_levels": "[]",
            "convergence": json.dumps(convergence | {"ebfmi": 1.0, "retried": False}),
        }
    )
    return tree


def save(tree: xr.DataTree, path: Path) -> Path:
    """Writes such a content as a fit is written."""
    save_fit(Fit(tree, REGIMES["exponential"]), path)
    return path


def with_attribute(tree: xr.DataTree, name: str, value: Any) -> xr.DataTree:
    """The same with another value of an attribute; without it where that is None."""
    tree = tree.copy()
    tree.attrs = {k: v for k, v in tree.attrs.items() if k != name} | ({} if value is None else {name: value})
    return tree
