"""The reduction against published tables, direct iteration and independent numerics."""

import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics import reduction

# Critical gain in units of the published rule, for K_ref 1, 2, 8, 32.
THRESHOLDS = {
    (0.0, "delay"): (1.000, 1.236, 1.476, 1.546),
    (0.0, "hold"): (2.000, 2.000, 2.000, 2.000),
    (0.5, "delay"): (1.000, 1.123, 1.361, 1.504),
    (0.5, "hold"): (6.000, 5.000, 2.660, 2.133),
    (0.9, "delay"): (1.000, 1.025, 1.115, 1.300),
    (0.9, "hold"): (38.0, 4.222, 2.709, 4.070),
}


def iterate(gain, mu, interval, model, exposure, n_steps):
    """The recurrence itself, step by step, without any matrix."""
    x = [1.0, 1.0]
    for t in range(n_steps):
        age = t % interval if model == "hold" else interval
        late = x[max(len(x) - 1 - age, 0)]
        x.append(x[-1] + mu * (x[-1] - x[-2]) - gain * (exposure * late + (1 - exposure) * x[-1]))
    return np.array(x)


@pytest.mark.parametrize(("case", "expected"), THRESHOLDS.items())
def test_critical_gain_reproduces_the_table(case, expected):
    mu, model = case
    found = [reduction.critical_gain(mu, s, model) * s / (1 - mu) for s in (1, 2, 8, 32)]
    np.testing.assert_allclose(found, expected, rtol=6e-4)


@pytest.mark.parametrize("exposure", [1.0, 0.4])
@pytest.mark.parametrize("model", ["hold", "delay"])
@pytest.mark.parametrize(("mu", "interval"), [(0.0, 3), (0.5, 1), (0.8, 6)])
def test_the_recurrence_decays_below_and_grows_above_the_critical_gain(mu, interval, model, exposure):
    critical = reduction.critical_gain(mu, interval, model, exposure)
    below = np.abs(iterate(0.97 * critical, mu, interval, model, exposure, 3000))
    above = np.abs(iterate(1.03 * critical, mu, interval, model, exposure, 3000))
    assert below[-200:].max() < 0.1 * below[:200].max()
    assert above[-200:].max() > 10 * above[:200].max()


@pytest.mark.parametrize("mu", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("interval", [1, 2, 5, 16])
def test_the_rule_is_never_optimistic_and_exact_for_a_delay_of_one(mu, interval):
    rule = float(reduction.published_threshold(mu, interval))
    delay = reduction.critical_gain(mu, interval, "delay")
    assert delay >= rule * (1 - 1e-9)
    assert reduction.critical_gain(mu, interval, "hold") > 1.9 * rule
    if interval == 1:
        assert delay == pytest.approx(rule, rel=1e-9)


@pytest.mark.parametrize("model", ["hold", "delay"])
def test_without_exposure_the_lag_does_not_matter(model):
    assert reduction.critical_gain(0.7, 9, model, 0.0) == pytest.approx(2 * 1.7, rel=1e-9)


@pytest.mark.parametrize("mu", [0.1, 0.5, 0.9])
def test_modes_turn_complex_at_the_onset(mu):
    onset = float(reduction.onset_of_oscillation(mu))
    below, above = (np.linalg.eigvals(reduction.hold_map(onset * f, mu, 1)) for f in (0.999, 1.001))
    assert np.abs(np.imag(below)).max() < 1e-12
    assert np.abs(np.imag(above)).max() > 1e-6


def test_continuum_mass_puts_the_onset_where_the_discrete_map_has_it():
    mu = 0.9
    m = reduction.oscillator_coefficients(1e-3, mu).mass
    # c² = 4 m k with c = 1 − μ.
    assert (1 - mu) ** 2 / (4 * m) == pytest.approx(2.632e-3, rel=1e-3)
    assert float(reduction.onset_of_oscillation(mu)) == pytest.approx(2.633e-3, rel=2e-4)


def test_coefficients_in_closed_form_and_the_ema_convention():
    m, c, k = reduction.oscillator_coefficients(0.05, 0.8, lag=2.0)
    assert (m, c, k) == pytest.approx((0.9 + 0.1, 0.2 - 0.1, 0.05))
    assert reduction.effective_learning_rate(0.1, 0.8, "heavy_ball") == 0.1
    assert reduction.effective_learning_rate(0.1, 0.8, "ema") == pytest.approx(0.02)
    # c > 0 under EMA reads η K K_ref < 1, whatever β.
    edge = reduction.oscillator_coefficients(reduction.effective_learning_rate(0.25, 0.63, "ema"), 0.63, lag=4.0)
    assert edge.damping == pytest.approx(0.0, abs=1e-12)


def test_refresh_interval_of_trl_and_mean_lag_of_each_model():
    assert reduction.mean_lag(5) == 2.0
    assert reduction.trl_refresh_interval(8, 2, 4) == 4.0
    assert reduction.trl_refresh_interval(1, 1, 8) == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reduction.onset_of_oscillation(1.0), "momentum"),
        (lambda: reduction.published_threshold(0.9, 0), "refresh_interval"),
        (lambda: reduction.critical_gain(0.9, 0, "hold"), "refresh_interval"),
        (lambda: reduction.spectral_radius(0.1, 0.9, 1.5, "hold"), "refresh interval"),  # pyright: ignore[reportArgumentType]
        (lambda: reduction.spectral_radius(0.1, 0.9, 2, "late"), "lag model"),  # pyright: ignore[reportArgumentType]
        (lambda: reduction.critical_gain(0.9, 2, "hold", 1.5), "lag exposure"),
        (lambda: reduction.effective_learning_rate(0.1, 0.9, "adam"), "heavy_ball or ema"),  # pyright: ignore[reportArgumentType]
        (lambda: reduction.trl_refresh_interval(0), "refresh interval"),
    ],
)
def test_bad_settings_are_named(call, words):
    with pytest.raises(SettingError, match=words):
        call()
