"""What follows from a stiffness: margins, onsets, the largest settings, its course."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.reduction import critical_gain, frozen_policy_onset, hold_map, onset_of_oscillation
from bayes_grpo.probing.course import stiffness_course
from bayes_grpo.probing.estimate import Measured, Probe
from bayes_grpo.probing.predict import limits_of
from tests.helpers.shown import text_of

MEASURED = Measured(10.0, 1.0, 7.0, 9.5, 10.5)


def made(stiffness: Measured = MEASURED, **more) -> Probe:
    fixed = {"optimizer": "sgd", "late_share": 1.0, "parts": 8, "gradients": 40.0, "residual": 0.0}
    return Probe(stiffest=stiffness, **(fixed | more))


@pytest.mark.parametrize(("momentum", "interval"), [(0.0, 1), (0.5, 4), (0.9, 16)])
def test_the_largest_settings_are_stable_with_the_stated_probability(momentum, interval):
    threshold = critical_gain(momentum, interval, "hold")
    at = limits_of(made(), threshold / 10.0, momentum, interval)
    assert at.p_stable == pytest.approx(0.5)
    assert at.margin.median == pytest.approx(1.0)
    assert limits_of(made(), at.largest_learning_rate, momentum, interval).p_stable == pytest.approx(0.95)
    k = limits_of(made(), 0.2 * threshold / 10.0, momentum, interval).largest_refresh_interval
    assert k > interval
    assert limits_of(made(), 0.2 * threshold / 10.0, momentum, k).p_stable >= 0.95
    assert limits_of(made(), 0.2 * threshold / 10.0, momentum, k + 1).p_stable < 0.95


def test_adams_average_and_the_share_that_is_late():
    adam = made(optimizer="adam", late_share=0.25)
    found = limits_of(adam, 0.02, 0.9, 4)
    assert found.convention == "ema"
    assert found.margin.median == pytest.approx(critical_gain(0.9, 4, "hold", 0.25) / (0.1 * 0.02 * 10.0))
    assert found.margin.low < found.margin.median < found.margin.high
    with pytest.raises(SettingError, match="Adam's metric"):
        limits_of(adam, 0.02, convention="heavy_ball")
    for rate, refresh in ((0.0, 1.0), (1.0, 0.5)):
        with pytest.raises(SettingError, match="expected"):
            limits_of(adam, rate, 0.9, refresh)


@pytest.mark.parametrize(("momentum", "interval"), [(0.0, 1), (0.5, 1), (0.9, 1), (0.0, 4), (0.9, 4)])
def test_onset_under_a_frozen_policy(momentum, interval):
    """Below it both modes are real and positive, above it one is not; where nothing is late it is the known one."""
    onset, free = frozen_policy_onset(momentum, interval), float(onset_of_oscillation(momentum))
    late = 1.0 if interval == 1 else 0.0
    assert frozen_policy_onset(momentum, interval, late) == pytest.approx(free, rel=1e-6)
    assert frozen_policy_onset(momentum, interval, 0.3) <= critical_gain(momentum, interval, "hold", 0.3)
    below, above = (
        np.asarray(np.linalg.eigvals(hold_map(g * onset, momentum, interval)), complex) for g in (0.99, 1.01)
    )
    assert all(x.real > -1e-9 and abs(x.imag) < 1e-9 for x in below)
    assert any(x.real < -1e-9 or abs(x.imag) > 1e-9 for x in above)


def test_a_long_cycle_that_grows_past_all_numbers_is_unstable():
    """Where little is late the threshold is near that without lag, however long the policy is held."""
    assert critical_gain(0.9, 4096, "hold", 1e-4) == pytest.approx(3.8, rel=1e-3)
    few_late = limits_of(made(optimizer="adam", late_share=0.01), 1e-4, 0.9, 4)
    assert few_late.largest_refresh_interval >= 4


def test_nothing_felt_and_nothing_stable():
    """A batch that feels nothing stiff says little of what there is."""
    unfelt = made(Measured(0.5, 0.4, 7.0, 0.1, 0.9))
    assert "indistinguishable from 0" in unfelt.sentence
    with pytest.raises(SettingError, match="probe a larger batch"):
        limits_of(unfelt, 1.0)
    assert limits_of(made(), 100.0).largest_refresh_interval == 0
    assert "at no refresh interval" in " ".join(text_of(limits_of(made(), 100.0)).split())


def test_trajectory_of_a_sharpening_run():
    """Forecast with a 90% interval that covers: random walks with drift whose last step is left out."""
    rng, hits, probes = np.random.default_rng(0), [], []
    for _ in range(400):
        logs = np.cumsum(0.01 * 25 + 0.02 * math.sqrt(25) * rng.standard_normal(9))
        probes = [made(replace(MEASURED, mean=float(np.exp(x))), step=25.0 * i) for i, x in enumerate(logs[:8])]
        ahead = stiffness_course(probes).at(200.0)
        hits.append(ahead.low <= math.exp(logs[8]) <= ahead.high)
    assert 0.85 <= np.mean(hits) <= 0.95
    course = stiffness_course(probes)
    assert course.at(400.0).high / course.at(400.0).low > course.at(200.0).high / course.at(200.0).low
    with pytest.raises(SettingError, match="at least 4 probes"):
        stiffness_course(probes[:3])
    with pytest.raises(SettingError, match="from 175 on"):
        course.at(10.0)
