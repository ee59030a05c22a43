"""Every run of a family as the family sees it: its parameters and its curve, drawn given the family's numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.draws import spread
from bayes_grpo.common.programs import over_draws
from bayes_grpo.dynamics.paths import mean_path
from bayes_grpo.families.evidence import Scale
from bayes_grpo.families.posterior import FamilyPosterior, Together, expected_at, weights_at
from bayes_grpo.fitting.sampling.target import PriorNumbers, Target, state_space_at, values_of_draws
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.prepared import prepare_rows
from bayes_grpo.rows.table import RowTable

_SHOWN = 400
"""Draws of the family at which runs are drawn."""
_CHUNK = 200


@dataclass(frozen=True, eq=False)
class RunDraws:
    """Draws of one run given the family.

    Attributes:
        u: Coordinates, shape (draws, p).
        values: Every parameter in its unit, the levels included, shape (draws,) each.
        curve: The unforced law at the rows, shape (draws, T).
    """

    u: np.ndarray
    values: dict[str, np.ndarray]
    curve: np.ndarray


def shrunk(together: Together, found: FamilyPosterior, seed: int) -> list[RunDraws]:
    """Draws of every run given the family's numbers.

    Args:
        together: The runs.
        found: The family.
        seed: Seed.
    """
    draws, rng = found.draws.flat(), np.random.default_rng(seed)
    picks = spread(len(draws.mean), _SHOWN)
    log_weight = weights_at(found.runs, draws, picks)
    expected, sd, p = expected_at(found.runs, draws)[picks], draws.spread[picks], found.runs.u.shape[-1]
    out = []
    for i, table in enumerate(together.tables):
        node = _drawn(log_weight[:, i], rng)
        at, width = np.asarray(found.runs.u)[i, node], np.asarray(found.runs.width)[i]
        u = drawn_between(at, width, expected[:, i, :p], sd[:, :p], rng)
        g, a = np.asarray(found.runs.slope)[i, node], np.asarray(found.runs.curve)[i, node]
        t = _levels(g, a, expected[:, i, p:], sd[:, p:], rng)
        out.append(run_draws(together.regime, table, u, t, together.scale))
    return out


def run_draws(regime: Regime, table: RowTable, u: np.ndarray, t: np.ndarray, scale: Scale) -> RunDraws:
    """Parameters and curve of a run.

    Args:
        regime: The law.
        table: Rows.
        u: Coordinates, shape (draws, p).
        t: Standardised levels, shape (draws, l).
        scale: Their origin and unit.
    """
    rows, size = prepare_rows(table, many=True), t.shape[-1]
    levels = scale.origin + scale.unit * t
    plain = PriorNumbers(np.zeros(u.shape[-1]), np.ones(u.shape[-1]), np.zeros(size), np.zeros(size))
    values = values_of_draws(Target(regime, rows, {}, plain), u)
    sampled = np.stack([values[p.name] for p in regime.sampled], axis=-1)
    with jax.enable_x64(True):
        curve = over_draws(_curve_program, (regime,), _CHUNK, (sampled, levels), rows.arrays)
    values |= {p.name: levels[:, j] for j, p in enumerate(regime.linear)}
    return RunDraws(u, values, curve[:, : len(table.y)])


def _drawn(log_weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A node of every draw by its weights, shape (draws,)."""
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    edges = np.cumsum(weight, axis=1)
    at = rng.uniform(size=(len(edges), 1)) * edges[:, -1:]
    return np.minimum((edges < at).sum(axis=1), edges.shape[1] - 1)


def drawn_between(
    at: np.ndarray, width: np.ndarray, mean: np.ndarray, sd: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Coordinates drawn given a node and the family, both normal, shape (draws, p)."""
    own = np.linalg.inv(width)
    return _normal(np.broadcast_to(own, (len(at), *own.shape)), at @ own, mean, sd, rng)


def _levels(
    slope: np.ndarray, curve: np.ndarray, mean: np.ndarray, sd: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Standardised levels drawn given the rows and the family, shape (draws, l)."""
    return _normal(curve, slope, mean, sd, rng)


def _normal(
    precision: np.ndarray, pull: np.ndarray, mean: np.ndarray, sd: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draws of exp(pull·t − ½ t·precision·t) N(t; mean, sd²), shape (draws, l)."""
    prior = np.einsum("dl,lm->dlm", sd**-2.0, np.eye(sd.shape[-1]))
    cov = np.linalg.inv(precision + prior)
    centre = np.einsum("dlm,dm->dl", cov, pull + mean / sd**2)
    values, vectors = np.linalg.eigh(cov)
    noise = np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(values.shape)
    return centre + np.einsum("dlm,dm->dl", vectors, noise)


def _curve_program(regime: Regime) -> Any:
    def one(draw: tuple[Array, Array], rows: Rows) -> Array:
        values, levels = draw
        space = state_space_at(regime, values, levels, jnp.zeros_like(levels), rows)
        start = jnp.stack([jnp.asarray(entry) for entry in space.initial_mean])
        return mean_path(space, start, rows.y.shape[0])

    return jax.vmap(one, in_axes=(0, None))
