"""The filter against a dense multivariate normal, derivatives against finite differences, scan against scan."""

from functools import lru_cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.dynamics import associative, kalman
from bayes_grpo.dynamics.kalman import smooth
from bayes_grpo.regimes.built_in.exponential import Exponential
from bayes_grpo.regimes.built_in.flat import Flat
from bayes_grpo.regimes.built_in.logistic import Logistic
from bayes_grpo.regimes.built_in.oscillator import Oscillator
from bayes_grpo.regimes.built_in.reduction import Reduction
from bayes_grpo.regimes.built_in.sigmoid import Sigmoid
from bayes_grpo.rows.padding import Rows, padded
from bayes_grpo.rows.series import Optimizer, Series
from tests.helpers.reference import dense_log_density, oscillator_moments, stretches
from tests.helpers.selection import few

pytestmark = pytest.mark.usefixtures("double_precision")
REGIMES = [Oscillator(), Exponential(), Reduction(), Sigmoid(), Logistic(), Flat()]
LEVELS = {"fixed_point": (0.6, 0.5), "initial_reward": (0.2, 0.4)}
ZETAS = [0.05, 0.3, 1 - 1e-8, 1.0, 1 + 1e-8, 3.0, 50.0, 0.0, -0.1, -1.0, -1.5]


def make_rows(kind: str) -> Rows:
    """Rows of a kind of windows, gaps, rates and weights."""
    return padded(made := make_series(kind), len(made.y))


def make_series(kind: str) -> Series:
    """The same, not yet on their way into a program."""
    rng = np.random.default_rng(0)
    n = 40
    step, window, rate, weight = np.arange(1.0, n + 1), np.ones(n), np.ones(n), np.ones(n)
    if kind in ("windows", "schedule", "everything"):
        step, window = 10.0 * step, np.full(n, 10.0)
    if kind in ("irregular", "everything"):
        step = np.cumsum(rng.integers(1, 9, n) * rng.choice([0.5, 1.0, 2.0], n)) + 10.0
        window = np.minimum(window, np.diff(step, prepend=step[0] - window[0]))
    if kind == "instant":
        step, window = np.cumsum(rng.integers(1, 9, n)).astype(float), np.zeros(n)
    if kind == "mixed":
        step = np.cumsum(rng.integers(2, 9, n)).astype(float)
        window = rng.choice([0.0, 1.0, 2.0], n)
    if kind in ("schedule", "everything"):
        rate = np.linspace(1.0, 0.0, n)
    if kind in ("weights", "everything"):
        weight = rng.uniform(0.2, 3.0, n)
    y = 0.2 + 0.4 * (1 - np.exp(-step / 60)) + 0.05 * rng.standard_normal(n)
    if kind in ("missing", "everything"):
        y[rng.choice(n, 9, replace=False)] = np.nan
    return series_with(y, step, window, rate, weight)


def series_with(y, step, window, rate, weight, start: float | None = None) -> Series:
    """Rows from rest at these steps; they begin with the first window if not before."""
    optimizer = Optimizer(0.9, "ema", 1.0, given=True)
    start = float(step[0] - window[0]) if start is None else start
    return Series("reward", step, y, window, start, rate, weight, float("nan"), True, optimizer)


def rows_with(y, *fields, **more) -> Rows:
    """The same, padded to their own number."""
    return padded(series_with(y, *fields, **more), len(y))


@lru_cache
def program(what):
    """``what(state space, y)`` of rows, damping ratio and frequency; compiled once for all rows of one structure."""
    return jax.jit(lambda rows, zeta, omega: what(space_of(zeta, omega, rows), jnp.asarray(rows.y)))


def compiled(what, kind: str):
    """``what(state space, y)`` as a compiled function of damping ratio and frequency."""
    return partial(program(what), make_rows(kind))


def frequency(zeta: float, kind: str) -> float:
    """A dense normal loses its digits where an unstable law grows by many e-folds; one shows as much."""
    return 0.7 / float(make_rows(kind).length) / abs(zeta) if zeta < 0 else 0.05


def space_of(zeta, omega, rows: Rows):
    """State space with exactly this damping ratio and frequency (no prior coordinate in between)."""
    return oscillator_space(jnp.sqrt(1 + 4 * zeta**2) / omega, zeta, 0.05, 0.03, rows)


def oscillator_space(response_time, zeta, noise, fluctuation, rows: Rows, levels=None):
    """State space of an oscillator with these parameters."""
    names = [p.name for p in Oscillator().sampled]
    values = dict(zip(names, map(jnp.asarray, (response_time, zeta, noise, fluctuation)), strict=True))
    return Oscillator().state_space(values, levels or LEVELS, rows)


def dense(zeta: float, omega: float, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table, levels = make_series(kind), (LEVELS["fixed_point"], LEVELS["initial_reward"])
    mean, cov = oscillator_moments(zeta, omega, 0.03, stretches(table), *levels)
    return table.y, mean, cov + np.diag(0.05**2 / table.weight)


KINDS = ["plain", "windows", "irregular", "instant", "mixed", "schedule", "weights", "missing", "everything"]
DIFFERENT = ("plain", "instant", "mixed")
"""Kinds that are no part of "everything"."""
REGIONS = (0.05, 1.0, 50.0, -1.0)
"""Under-damped, critical, over-damped and unstable; the values beside the borders are thorough."""


@pytest.mark.parametrize(
    ("zeta", "kind"),
    few(
        product(ZETAS, KINDS),
        *((zeta, "everything") for zeta in REGIONS),
        *((zeta, kind) for zeta in (0.05, -1.0) for kind in DIFFERENT),
    ),
)
def test_filter_equals_dense_normal(zeta, kind):
    omega = frequency(zeta, kind)
    found = float(compiled(kalman.log_likelihood, kind)(zeta, omega))
    expected = dense_log_density(*dense(zeta, omega, kind))
    assert found == pytest.approx(expected, rel=1e-9)


# Each kind is a program of its own; those behind a mark are parts of "everything", or take no part of its columns.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind",
    [
        *few((*DIFFERENT, "everything"), "everything"),
        *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS if k not in (*DIFFERENT, "everything")),
    ],
)
@pytest.mark.parametrize("zeta", REGIONS)
def test_associative_scan_equals_sequential_scan(zeta, kind):
    omega = frequency(zeta, kind)
    sequential = float(compiled(kalman.sequential_log_likelihood, kind)(zeta, omega))
    assert float(compiled(associative.log_likelihood, kind)(zeta, omega)) == pytest.approx(sequential, rel=1e-9)


@pytest.mark.thorough
def test_associative_scan_has_no_batched_dots():
    # XLA's compiler for NVIDIA GPUs aborted the process on the gradient of these (jaxlib 0.11.2).
    y = jnp.asarray(make_rows("plain").y)
    gradient = jax.grad(lambda w: associative.log_likelihood(space_of(1.0, w, make_rows("plain")), y))
    assert "dot_general" not in str(jax.make_jaxpr(gradient)(0.05))


@pytest.mark.parametrize("regime", few(REGIMES, Logistic()), ids=lambda r: r.name)
def test_the_density_that_stops_behind_the_last_row_is_the_plain_one(regime):
    """The density, chunk by chunk, of all rows and of the first 50."""
    rows = falling_rows(96)
    y, seen = jnp.asarray(rows.y), jnp.asarray(np.where(np.arange(96) < 50, rows.y, np.nan))

    @jax.jit
    def both():
        space = regime.state_space(typical(regime), LEVELS, rows)
        return (
            [kalman.log_likelihood(space, known) for known in (y, seen)],
            [kalman.filter_rows(space, known).log_likelihood for known in (y, seen)],
        )

    np.testing.assert_allclose(*both(), rtol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["plain", "everything"])
def test_derivatives_of_the_pass_back_are_those_of_the_pass_forth(kind):
    """By the parameters and by the values, at several dampings; a missing value has no derivative."""
    rows = make_rows(kind)

    def density(of):
        return lambda p, y: of(space_of(p[0], p[1], rows), y)

    back = jax.jit(jax.grad(density(kalman.log_likelihood), (0, 1)))
    forth = jax.jit(jax.jacfwd(density(lambda space, y: kalman.filter_rows(space, y).log_likelihood), (0, 1)))
    for zeta in (0.05, 1.0, 50.0, -1.0):
        at = jnp.array([zeta, frequency(zeta, kind)]), jnp.asarray(rows.y)
        for found, expected in zip(back(*at), forth(*at), strict=True):
            np.testing.assert_allclose(found, np.nan_to_num(expected), rtol=1e-7, atol=1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize("sd", [1e-4, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("regime", REGIMES, ids=lambda r: r.name)
def test_single_precision_loses_digits_and_not_the_density(regime, sd):
    """Rates, weights and all scales of the rewards: finite, and within a thousandth of a nat a row."""
    rows, values = falling_rows(96), typical(regime)
    for name in ("observation_sd", "fluctuation_sd"):
        values[name] = values[name] * sd / 0.05
    levels = {k: (m * sd / 0.05, s * sd / 0.05) for k, (m, s) in LEVELS.items()}
    rows = rows._replace(y=rows.y * sd / 0.05, start_speed=rows.start_speed * sd / 0.05)

    compiled = jax.jit(lambda *given: kalman.log_likelihood(regime.state_space(*given), given[2].y))

    def density(kind):
        return float(compiled(*jax.tree.map(lambda x: jnp.asarray(x, kind), (values, levels, rows))))

    expected = density(np.float64)
    with jax.enable_x64(False):
        found = density(np.float32)
    assert found == pytest.approx(expected, abs=0.1)


def falling_rows(n: int, missing: int = 7) -> Rows:
    """Rows one step apart under a falling learning rate, the last ones missing; weights differ."""
    rng = np.random.default_rng(2)
    step = np.arange(1.0, n + 1)
    y = 0.2 + 0.4 * (1 - np.exp(-step / 30)) + 0.05 * rng.standard_normal(n)
    y[n - missing :] = np.nan
    rows = rows_with(y, step, np.ones(n), np.linspace(1.0, 0.01, n), rng.uniform(0.5, 2.0, n))
    return rows._replace(start_speed=np.asarray(0.01), refresh=np.asarray(4.0))


def typical(regime) -> dict:
    """Parameters near those of `falling_rows`."""
    known = {"exponent": 1.5, "observation_sd": 0.05, "fluctuation_sd": 0.03, "damping_ratio": 1.2}
    known |= {"lag_exposure": 0.4, "initial_success": 0.3}
    return {p.name: jnp.asarray(known.get(p.name, 20.0)) for p in regime.sampled}


@pytest.mark.parametrize("kind", few(["plain", "missing", "everything"], "everything"))
@pytest.mark.parametrize("zeta", few([0.3, 1.0, 3.0, -0.5], 0.3, -0.5))
def test_smoother_and_leave_one_out_equal_dense_conditionals(zeta, kind):
    omega = frequency(zeta, kind)
    y, mean, cov = dense(zeta, omega, kind)
    smoothed = compiled(smooth, kind)(zeta, omega)
    present = np.isfinite(y)
    precision = np.linalg.inv(cov[np.ix_(present, present)])
    pull = precision @ (y - mean)[present]
    var = 1 / np.diag(precision)
    np.testing.assert_allclose(smoothed.loo_mean[present], y[present] - pull * var, rtol=1e-8)
    np.testing.assert_allclose(smoothed.loo_var[present], var, rtol=1e-8)
    expected = -0.5 * (np.log(2 * np.pi * var) + pull**2 * var)
    np.testing.assert_allclose(smoothed.loo_log_density[present], expected, rtol=1e-8, atol=1e-8)
    assert np.isnan(np.asarray(smoothed.loo_log_density)[~present]).all()
    latent = cov - np.diag(0.05**2 / make_series(kind).weight)
    cross = latent[:, present]
    np.testing.assert_allclose(smoothed.latent_mean, mean + cross @ pull, rtol=1e-8)
    np.testing.assert_allclose(
        smoothed.latent_var, np.diag(latent - cross @ precision @ cross.T), rtol=1e-6, atol=1e-12
    )


@lru_cache
def derivatives():
    """Compiled value, gradient and Hessian of the density in (response time, ζ, log noise, log fluctuation)."""
    rows = make_rows("everything")

    def density(p):
        space = oscillator_space(p[0], p[1], jnp.exp(p[2]), jnp.exp(p[3]), rows)
        return kalman.log_likelihood(space, jnp.asarray(rows.y))

    return jax.jit(density), jax.jit(jax.grad(density)), jax.jit(jax.hessian(density))


@pytest.mark.thorough
@pytest.mark.parametrize("zeta", [0.3, 1 - 1e-8, 1.0, 1 + 1e-8, 3.0, 0.0, -0.5])
def test_gradient_and_hessian_equal_finite_differences(zeta):
    value, gradient, hessian = derivatives()
    at = jnp.array([40.0, zeta, -3.0, -3.5])
    h = np.array([1e-3, 1e-5, 1e-5, 1e-5])
    shifts = np.diag(h)
    numeric = [(value(at + s) - value(at - s)) / (2 * s.sum()) for s in shifts]
    np.testing.assert_allclose(gradient(at), numeric, rtol=2e-6, atol=1e-6)
    numeric = np.stack([(gradient(at + s) - gradient(at - s)) / (2 * s.sum()) for s in shifts])
    np.testing.assert_allclose(hessian(at), numeric, rtol=1e-5, atol=1e-5)
