"""Fixed points of the expected update and the curvature there.

The curvature never looks at a reward curve: it is the slope of the exact expected update at its own zero, by
central finite differences in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo.dynamics.reduction import effective_learning_rate, spectral_radius
from bayes_grpo.simulate.objective import expected_batch, grpo_loss, log_policy, mean_reward
from bayes_grpo.simulate.policies import Environment, PromptSet
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import Trajectory

_DIFFERENCE = 1e-5  # central differences in float64: error of order 1e-10 from truncation and from rounding
_FLOW_STEPS, _FLOW_RATE = 2000, 0.5
_NEWTON_STEPS = 60
_ZERO_DRIFT = 1e-10
_FARTHEST = 200.0  # logits from where training ends; a reference policy may itself lie hundreds from zero


def expected_update(parameters: jax.Array, prompts: PromptSet, structure: Structure, numbers: Numbers) -> jax.Array:
    """Mean on-policy ascent direction per unit learning rate, before momentum, shape (parameters,).

    This is the drift whose zero is the fixed point and whose slope there is the curvature.
    """
    log_sampling = log_policy(prompts, parameters)
    mass, _ = expected_batch(prompts, log_sampling, structure, numbers)
    gradient, _ = jax.grad(grpo_loss, has_aux=True)(parameters, log_sampling, mass, prompts, numbers)
    return -gradient


@dataclass(frozen=True)
class FixedPoint:
    """A zero of the expected update and its linearisation.

    Attributes:
        parameters: θ*, shape (parameters,).
        reward: Mean training reward there.
        curvature: Decay rate K of the mode that carries most of the reward's way from the start, per unit
            learning rate and step (Adam: in preconditioned units).
        spectrum: Real parts of all decay rates, ascending; flat directions of a softmax give zeros.
        reward_share: Share of that mode in the reward's way, in (0, 1]; 1 means one mode says it all.
    """

    parameters: np.ndarray
    reward: float
    curvature: float
    spectrum: tuple[float, ...]
    reward_share: float


class _Linearised(NamedTuple):
    """The expected update around θ: its value, its Jacobian, and the mean reward with its gradient."""

    drift: jax.Array
    slope: jax.Array
    reward: jax.Array
    reward_gradient: jax.Array


def find_fixed_point(
    structure: Structure,
    numbers: Numbers,
    environment: Environment,
    start: np.ndarray | None = None,
    preconditioner: np.ndarray | None = None,
) -> FixedPoint | None:
    """Follows the expected update to its zero, polishes that by Newton steps and linearises there.

    Args:
        structure: Static settings; group size and advantage decide the expected update.
        numbers: Numeric settings of one run (scalars).
        environment: Prompts and start of one run.
        start: Where to begin, e.g. the end of a run; the environment's start if None.
        preconditioner: Scale of each parameter's update (Adam's 1/(√v̂ + ε)), shape (parameters,); ones if
            None.

    Returns:
        The fixed point, or None where none is found: without a KL penalty or an entropy bonus the drift only
        dies at certainty, and there is no stiffness to measure.
    """
    origin = np.asarray(environment.initial_parameters, dtype=np.float64)
    # Only what the expected update depends on, so that many runs share the compiled functions.
    kept = Structure(
        group_size=structure.group_size,
        advantage=structure.advantage,
        ddof=structure.ddof,
        update="infinite_group" if structure.update == "infinite_group" else "expected",
    )
    with jax.enable_x64(True):
        prompts = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), environment.train)
        scalars = Numbers(*(jnp.asarray(value, jnp.float64) for value in numbers))
        begin = jnp.asarray(origin if start is None else start, jnp.float64)
        near = np.asarray(_follow(kept, prompts, scalars, begin))
        found = _newton(lambda theta: jax.device_get(_linearise(kept, prompts, scalars, theta)), near)
    if found is None:
        return None
    theta, local = found
    scale = np.ones_like(origin) if preconditioner is None else preconditioner
    rates, modes = np.linalg.eig(-scale[:, None] * np.asarray(local.slope))
    gradient = np.asarray(local.reward_gradient)
    # How much of the reward's way from the start each mode carries, to first order; a start at the fixed
    # point is replaced by a small step along the reward's gradient.
    away = origin - theta if np.abs(origin - theta).max() > 1e-6 else gradient
    weight = np.abs((gradient @ modes) * np.linalg.lstsq(modes, away.astype(modes.dtype))[0])
    weight = np.where(rates.real > 1e-9 * np.abs(rates).max(), weight, 0.0)
    if not weight.sum() > 0:
        return None
    main = int(np.argmax(weight))
    return FixedPoint(
        parameters=theta,
        reward=float(local.reward),
        curvature=float(rates.real[main]),
        spectrum=tuple(float(rate) for rate in np.sort(rates.real)),
        reward_share=float(weight[main] / weight.sum()),
    )


class Linearized(NamedTuple):
    """A run near its fixed point.

    Attributes:
        point: The fixed point.
        gain: Peak g = η K, with the momentum convention's factor.
        growth_per_step: Spectral radius of the linearized run at peak learning rate; above 1 is unstable.
    """

    point: FixedPoint
    gain: float
    growth_per_step: float


def linearized(
    trajectory: Trajectory, structure: Structure, numbers: Numbers, environment: Environment
) -> Linearized | None:
    """One run (no leading axis, scalar settings) near its fixed point; None where none is found."""
    last = np.asarray(trajectory.parameters, dtype=np.float64)[-max(structure.n_steps // 4, 1) :].mean(axis=0)
    scale = None
    if structure.optimizer == "adam":  # its updates have the scale 1/(√v̂ + ε)
        unbiased = trajectory.final_second_moment / (1.0 - float(numbers.adam_beta2) ** structure.n_steps)
        scale = 1.0 / (np.sqrt(np.asarray(unbiased, dtype=np.float64)) + float(numbers.adam_epsilon))
    # A run that was thrown to certainty says nothing about where it was going: then the start does.
    point = find_fixed_point(structure, numbers, environment, last, scale) or find_fixed_point(
        structure, numbers, environment, None, scale
    )
    if point is None:
        return None
    mu, exposure = float(numbers.momentum), float(numbers.lag_exposure)
    gain = effective_learning_rate(float(numbers.learning_rate), mu, structure.momentum_convention) * point.curvature
    growth = spectral_radius(gain, mu, int(numbers.refresh_interval), structure.refresh, exposure)
    return Linearized(point, gain, growth)


def _newton(linearise: Callable[[np.ndarray], _Linearised], start: np.ndarray) -> tuple[np.ndarray, _Linearised] | None:
    """Attracting zero of the drift by Newton steps of at most one unit; None if they get to none.

    Least squares, because a softmax has flat directions along which nothing changes.
    """
    theta = start
    for _ in range(_NEWTON_STEPS):
        local = linearise(theta)
        drift, slope = np.asarray(local.drift), np.asarray(local.slope)
        if not (np.isfinite(drift).all() and np.isfinite(slope).all()):
            return None
        if np.abs(drift).max() < _ZERO_DRIFT:
            rates = np.real(np.linalg.eigvals(-slope))
            # Where a softmax is certain the drift dies without a restoring force: no fixed point to speak of.
            attracting = rates.max() > 1e-6 and rates.min() > -1e-7 * max(rates.max(), 1.0)
            return (theta, local) if attracting else None
        step = np.linalg.lstsq(slope, -drift, rcond=1e-9)[0]
        theta = theta + step * min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))
        if np.abs(theta - start).max() > _FARTHEST:
            return None
    return None


@partial(jax.jit, static_argnums=0)
def _linearise(structure: Structure, prompts: PromptSet, numbers: Numbers, theta: jax.Array) -> _Linearised:
    """Value and central-difference Jacobian of the expected update in one batch of evaluations."""
    n = theta.shape[0]
    shifts = _DIFFERENCE * jnp.eye(n, dtype=theta.dtype)
    points = theta + jnp.concatenate([jnp.zeros((1, n), theta.dtype), shifts, -shifts])
    value = jax.vmap(lambda point: expected_update(point, prompts, structure, numbers))(points)
    slope = (value[1 : n + 1] - value[n + 1 :]).T / (2.0 * _DIFFERENCE)
    return _Linearised(value[0], slope, *jax.value_and_grad(lambda at: mean_reward(prompts, at))(theta))


@partial(jax.jit, static_argnums=0)
def _follow(structure: Structure, prompts: PromptSet, numbers: Numbers, theta: jax.Array) -> jax.Array:
    """Gradient flow from ``theta``, so that Newton's steps start in the basin that training ends in."""

    def move(_: int, here: jax.Array) -> jax.Array:
        return here + _FLOW_RATE * expected_update(here, prompts, structure, numbers)

    return jax.lax.fori_loop(0, _FLOW_STEPS, move, theta)
