"""Posterior of the damping of a curve without a sampler: the oscillator's exact likelihood on a grid.

The law is the project's forced damped oscillator (`bayes_grpo.regimes.built_in.oscillator`); fixed point and start are
integrated out by the filter. The grid covers response time, damping ratio and both noises; its sum is the posterior.
A linear law can make the acceleration of a slow start only by being underdamped, so that "oscillates" asks for at
least a full period inside the log.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo.dynamics.kalman import log_likelihood
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.trend import Trend
from bayes_grpo.regimes.second_order import diffusion_of, second_order_space, unstable_damping
from bayes_grpo.rows.blocks import row_blocks
from bayes_grpo.rows.padding import Rows

DAMPING_ROWS = 128
"""Longer curves are averaged in blocks; finer than for a trend, because swings may be fast."""
_ZETA = (0.02, 0.06, 0.12, 0.2, 0.35, 0.6, 1.0, 1.6, 2.5, 4.0, 7.0)
_FOLDS = (0.5, 1.5, 3.0)  # growth over the log in e-folds, the unstable side
_TIMES = np.geomspace(0.008, 1.0, 10)  # response time over the log's length
_OBSERVATION = (0.4, 1.0)  # measurement noise over the rows' scatter about their smooth trend
_FLUCTUATION = (0.1, 0.5, 1.0)  # stationary fluctuation over the rows' spread


class Damping(NamedTuple):
    """What the grid says.

    Attributes:
        damping_ratio: Values of ζ on the grid, shape (n,).
        response_time: Values of the response time over the log's length, shape (n,).
        weight: Posterior weights, shape (n,), sum 1.
        unstable: P(c <= 0).
        swings_grow: P(c <= 0 with `BORDERS.growing_periods` or more inside the log): a slow start that accelerates
            looks unstable to a linear law, a growing swing has to turn.
        underdamped: P(ζ < 1).
        oscillates: P(ζ < `BORDERS.swing_damping` with `BORDERS.swing_periods` or more inside the log).
    """

    damping_ratio: np.ndarray
    response_time: np.ndarray
    weight: np.ndarray
    unstable: float
    swings_grow: float
    underdamped: float
    oscillates: float

    @property
    def swings(self) -> float:
        """Probability that the curve swings, or ever wider."""
        return 1.0 - (1.0 - self.oscillates) * (1.0 - self.swings_grow)


def damping_of(trend: Trend) -> Damping:
    """The damping of one trend."""
    return dampings_of([trend])[0]


def dampings_of(trends: list[Trend]) -> list[Damping]:
    """The damping of many trends with one compiled program, in batches of equal size."""
    if not trends:
        return []
    values, gaps, scales = map(np.stack, zip(*(_padded(c) for c in trends), strict=True))
    size = 1 if len(trends) == 1 else 32
    out = []
    with jax.enable_x64(True):
        for first in range(0, len(trends), size):
            part = slice(first, first + size)
            short = size - len(values[part])
            batch = [np.concatenate([a[part], np.repeat(a[:1], short, axis=0)]) for a in (values, gaps, scales)]
            log_weights = np.asarray(_log_weights(*map(jnp.asarray, batch)))
            out += [_summarised(w) for w in log_weights[: size - short]]
    return out


def _padded(trend: Trend) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in units of their spread and of the log's length, padded to `DAMPING_ROWS`; and the scatter of a row."""
    blocks = row_blocks(len(trend.raw), DAMPING_ROWS)
    step, rows = blocks.mean(trend.raw_step), blocks.mean(trend.raw)
    n = len(rows)
    length = step[-1] - step[0]
    spacing = length / (n - 1)
    gap = np.diff(step, prepend=step[0] - spacing) / (length + spacing)
    sd = max(float(rows.std()), 1e-12)
    value = (rows - rows.mean()) / sd
    # Scatter of differences, for white noise its sd by either measure. The median forgives jumps, but is 0 where most
    # rows are equal, as rewards of a few values are; what is left would then all be taken for a trend.
    change = np.diff(value)
    scatter = max(float(np.median(np.abs(change))) / 0.954, 0.5 * float(np.sqrt(np.mean(change**2) / 2.0)))
    scatter = float(np.clip(scatter, 0.02, 1.0))
    pad = DAMPING_ROWS - n
    return (
        np.concatenate([value, np.full(pad, np.nan)]),
        np.concatenate([gap, np.full(pad, 1.0 / n)]),
        np.array([scatter, 1.0 / n]),
    )


def _grid() -> tuple[np.ndarray, ...]:
    zeta = np.concatenate([_ZETA, np.full(len(_FOLDS), np.nan)])
    folds = np.concatenate([np.zeros(len(_ZETA)), _FOLDS])
    index = np.arange(len(zeta))
    i, t, o, f = (a.ravel() for a in np.meshgrid(index, _TIMES, _OBSERVATION, _FLUCTUATION, indexing="ij"))
    unstable = -unstable_damping(folds[i] * t)  # the log has length 1
    return np.where(folds[i] > 0, unstable, zeta[i]), t, o, f


@jax.jit
@partial(jax.vmap, in_axes=(0, 0, 0))
def _log_weights(y: Any, gap: Any, scale: Any) -> Any:
    """Log posterior weights on the grid, shape (grid,)."""
    zeta, time, observation, fluctuation = (jnp.asarray(a) for a in _grid())
    one = jnp.asarray(1.0)
    rows = Rows(
        y=y,
        window=None,
        gap=gap,
        rate=None,
        weight=None,
        start_speed=None,
        length=one,
        spacing=one,
        start=one,
        momentum=one,
        refresh=one,
    )
    linear = {"fixed_point": (0.0, 3.0), "initial_reward": (0.0, 3.0)}

    def one_law(z: Any, t: Any, o: Any, f: Any) -> Any:
        # Faster than the rows a law is an alias of slower ones.
        t = jnp.sqrt(t**2 + scale[1] ** 2)
        omega = jnp.sqrt(1.0 + 4.0 * z**2) / t
        values = {"observation_sd": o * scale[0] + 1e-3}
        space: StateSpace = second_order_space(
            2.0 * z * omega, omega**2, diffusion_of(f * scale[0], z, omega), values, linear, rows
        )
        return log_likelihood(space, y)

    # Damping ratios are a priori spread evenly on a logarithmic scale; the unstable side has a tenth of them.
    prior = jnp.where(zeta < 0, jnp.log(0.1 / len(_FOLDS)), jnp.log(0.9 / len(_ZETA)))
    found = jax.vmap(one_law)(zeta, time, observation, fluctuation)
    return jnp.where(jnp.isfinite(found), found, -jnp.inf) + prior


def _summarised(log_weight: np.ndarray) -> Damping:
    zeta, time, _, _ = _grid()
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    omega = np.sqrt(1.0 + 4.0 * zeta**2) / time
    periods = omega * np.sqrt(np.maximum(1.0 - zeta**2, 0.0)) / (2.0 * np.pi)
    return Damping(
        zeta,
        time,
        weight,
        float(weight[zeta < 0].sum()),
        float(weight[(zeta < 0) & (periods >= BORDERS.growing_periods)].sum()),
        float(weight[zeta < 1].sum()),
        float(weight[(zeta < BORDERS.swing_damping) & (periods >= BORDERS.swing_periods)].sum()),
    )
