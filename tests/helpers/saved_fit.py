"""A saved fit that was never sampled: the groups, shapes and attributes of one, with drawn numbers, in no time."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_grpo.fitting.file import write_tree
from bayes_grpo.fitting.groups import group
from bayes_grpo.fitting.result import FORMAT, Fit, model_hash
from bayes_grpo.fitting.sampling.nuts import Convergence, ParameterCheck
from bayes_grpo.fitting.window import FitWindow
from bayes_grpo.regimes import REGIMES, Prior
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import rising_run

SIZES = {"chain": 2, "draw": 6, "step": 8}
DRAWN, ROWS = ("chain", "draw"), ("chain", "draw", "step")
GROUPS = {
    "sample_stats": (DRAWN, ("energy", "lp", "n_steps", "diverging")),
    "log_likelihood": (ROWS, ("y",)),
    "trajectories": (ROWS, ("curve", "latent", "rows")),
    "observed_data": (("step",), ("y",)),
    "posterior_mean": (("step",), ("latent", "curve")),
    "constant_data": (("step",), ("row_window", "row_rate", "row_weight")),
}


def unsampled_fit(regime: str = "exponential", seed: int = 0) -> Fit:
    """Such a fit."""
    rng, law = np.random.default_rng(seed), REGIMES[regime]
    names = tuple(p.name for p in law.parameters)
    groups = {}
    for name, (dims, variables) in (GROUPS | dict.fromkeys(("posterior", "prior"), (DRAWN, names))).items():
        values = {v: (dims, 0.1 + rng.random([SIZES[d] for d in dims])) for v in variables}
        groups[name] = group(values, None, **{d: np.arange(1.0, 1.0 + SIZES[d]) for d in dims})
    run = rising_run(SIZES["step"])
    return Fit(
        groups=groups,
        regime=law,
        rows=rows_of(run),
        priors=dict.fromkeys(names, Prior(1.0, 0.5)),
        settings=dict(run.settings.items()),
        convergence=Convergence(dict.fromkeys(names, ParameterCheck(1.0, 900.0, 900.0)), 0, 1.0, False),
        window=FitWindow(),
        attrs={
            "bayes_grpo_format": FORMAT,
            "bayes_grpo_version": "0.1.0",
            "regime": regime,
            "model_hash": model_hash(law),
            **dict.fromkeys(("run_name", "source", "log_format", "log_hash"), "log"),
            "rate_ended": float("nan"),
            "sampled_levels": "",
            "seed": 0,
        },
    )


def saved_tree(regime: str = "exponential", seed: int = 0) -> xr.DataTree:
    """The content of such a file."""
    return unsampled_fit(regime, seed).data


def save(tree: xr.DataTree, path: Path) -> Path:
    """Writes such a content as a fit is written."""
    write_tree(tree, path)
    return path


def with_attribute(tree: xr.DataTree, name: str, value: Any) -> xr.DataTree:
    """The same with another value of an attribute; without it where that is None."""
    tree = tree.copy()
    kept = {k: v for k, v in tree.attrs.items() if k != name}
    tree.attrs = kept | ({} if value is None else {name: value})
    return tree
