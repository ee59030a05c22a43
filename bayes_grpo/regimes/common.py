"""What the laws share: noises, levels, and the step of half the gain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.state_space import Entry, Matrix, Vector
from bayes_grpo.errors import FitError
from bayes_grpo.regimes.base import POSITIVE, REAL, Parameter, Prior
from bayes_grpo.regimes.rows import Rows, RowTable

NOISES: tuple[Parameter, ...] = (
    Parameter(
        "observation_sd",
        "reward",
        "measurement noise of a typical row (sampling of prompts and completions)",
        POSITIVE,
        lambda t: Prior(0.5 * t.scale, 1.0),
    ),
    Parameter(
        "fluctuation_sd",
        "reward",
        "stationary sd of the latent reward about the law (gradient noise)",
        POSITIVE,
        lambda t: Prior(0.2 * t.scale, 1.0),
    ),
)

LEVELS: tuple[Parameter, ...] = (
    Parameter(
        "fixed_point",
        "reward",
        "R*: where the reward would settle",
        REAL,
        lambda t: Prior(t.centre, 3.0 * t.scale),
        linear=True,
    ),
    Parameter(
        "initial_reward",
        "reward",
        "R₀: latent reward at the start of the log",
        REAL,
        lambda t: Prior(t.centre, 3.0 * t.scale),
        linear=True,
    ),
)


def response_prior(table: RowTable) -> Prior:
    """Prior of a law's time: a fifth of the log, within a few e-folds, and rarely below the spacing of the rows.

    A law faster than the rows cannot be told from white noise, and an oscillation faster than them only aliases.
    """
    return Prior(table.length / 5.0, min(1.0, math.log(max(len(table.y), 8) / 5.0) / 2.5))


def check_rows(table: RowTable, name: str, parameters: tuple[Parameter, ...]) -> None:
    """Raises `FitError` where there are fewer rows than a law's parameters and two more."""
    needed = len(parameters) + 2
    if len(table.y) < needed:
        raise FitError(
            f"regime {name}: needs at least {needed} rows (its {len(parameters)} parameters and two more), found "
            f"{len(table.y)}; log more often, wait for more steps, or fit the regime flat"
        )


def initial_levels(linear: Mapping[str, Any], speed_var: Entry | None = None) -> tuple[Vector, Matrix]:
    """Prior moments of the state before the first row.

    ``x`` is the initial reward minus the fixed point, so the two levels enter the state linearly.

    Args:
        linear: (mean, sd) of "fixed_point" and "initial_reward".
        speed_var: Variance of the initial velocity; 0 from rest, None for a law without velocity.

    Returns:
        Mean and covariance of (x, fixed point), or of (x, velocity, fixed point).
    """
    (fixed, fixed_sd), (start, start_sd) = linear["fixed_point"], linear["initial_reward"]
    x_var, fixed_var = start_sd**2 + fixed_sd**2, fixed_sd**2
    if speed_var is None:
        return (start - fixed, fixed), ((x_var, -fixed_var), (-fixed_var, fixed_var))
    return (start - fixed, 0.0, fixed), (
        (x_var, 0.0, -fixed_var),
        (0.0, speed_var, 0.0),
        (-fixed_var, 0.0, fixed_var),
    )


def measurement_var(values: Mapping[str, Array], rows: Rows) -> Entry:
    """Variance of the measurement noise of each row: fewer completions, more noise."""
    var = values["observation_sd"] ** 2
    return var if rows.weight is None else var / jnp.asarray(rows.weight)


def half_gain_time(zeta: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """Steps from rest until half of the way to the fixed point is done, first passage.

    Solved on the unforced law by bisection, vectorised over draws; NaN where a growing oscillation is too violent.

    Args:
        zeta: Damping ratios, any shape; any sign.
        omega: Natural frequencies, 1/step, same shape.

    Returns:
        Steps, same shape.
    """
    zeta, omega = np.broadcast_arrays(np.asarray(zeta, float), np.asarray(omega, float))
    # First passage lies before 1/ω₀ × (2ζ + 2): the undamped curve passes at π/3, the overdamped at 2ζ ln 2.
    low, high = np.zeros_like(zeta), 2.0 * np.maximum(zeta, 0.0) + 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        passed = _remaining(zeta, middle) < 0.5
        low, high = np.where(passed, low, middle), np.where(passed, middle, high)
    return high / omega


def _remaining(zeta: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Share of the way still to go after ``s`` = ω₀ t from rest, closed form on both sides of ζ = 1."""
    z = (zeta**2 - 1.0) * s**2
    root = np.sqrt(np.abs(z))
    near = np.abs(z) < 1e-8
    safe = np.where(near, 1.0, root)
    decay = np.exp(-zeta * s)
    # e^{-ζs} cosh(root) in the form that does not overflow where strongly overdamped.
    up, down = np.exp(np.minimum(-zeta * s + root, 700.0)), np.exp(-zeta * s - root)
    over = 0.5 * (up + down) + zeta * s * 0.5 * (up - down) / safe
    under = decay * (np.cos(root) + zeta * s * np.sin(root) / safe)
    critical = decay * (1.0 + z / 2.0 + zeta * s * (1.0 + z / 6.0))
    return np.where(near, critical, np.where(z > 0, over, under))
