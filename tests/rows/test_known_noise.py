"""Measurement noise is predicted from what is logged beside the mean, as simulated completions have it."""

from typing import Any

import numpy as np
import pytest

from bayes_grpo.forecasting.inputs import inputs_of_run
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.known_noise import (
    BY_GROUPS,
    BY_LEVEL,
    BY_SPREAD,
    ROW_OVER_SPREAD,
    expected_noise,
    row_noise,
    scatter,
)
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import FutureGrid
from tests.helpers.claims import kept
from tests.helpers.paths import not_none
from tests.helpers.runs import make_run, steps

N, G, B, P, RHO = 400, 8, 16, 0.3, 0.4


def completions(seed: int = 0, n: int = N, again: bool = False) -> np.ndarray:
    """Rewards of 0 or 1 of n steps, shape (n, B, G): new prompts in every step, or the same ones again."""
    rng = np.random.default_rng(seed)
    a, b = P * (1 / RHO - 1), (1 - P) * (1 / RHO - 1)
    rates = rng.beta(a, b, size=(1 if again else n, B, 1))
    return (rng.uniform(size=(n, B, G)) < rates).astype(float)


def logged(rewards: np.ndarray, *signals: str, kind: str = "within", **settings: Any) -> Run:
    """A log of completions with some of what trainers write beside the mean."""
    known = {
        "frac_reward_zero_std": np.mean(np.ptp(rewards, axis=2) == 0, axis=1),
        "reward_std": rewards.std(axis=2, ddof=1).mean(axis=1)
        if kind == "within"
        else rewards.reshape(len(rewards), -1).std(axis=1, ddof=1),
    }
    return make_run(
        steps(len(rewards)),
        rewards.mean(axis=(1, 2)),
        signals={k: known[k] for k in signals},
        reward_std_kind=kind,
        **settings,
    )


BATCH: dict[str, Any] = {"group_size": float(G), "prompts_per_step": float(B)}
TRUE = np.sqrt(P * (1 - P) * (1 + (G - 1) * RHO) / (B * G))


@pytest.mark.parametrize("signals", [("frac_reward_zero_std",), ("reward_std",)])
def test_groups_say_how_alike_completions_are(signals):
    level = not_none(row_noise(logged(completions(), *signals, **BATCH), np.ones(N, bool))[1])
    assert level.evidence == BY_GROUPS.name
    assert level.sd == pytest.approx(TRUE, rel=0.06)
    assert level.design == pytest.approx(1 + (G - 1) * RHO, rel=0.1)
    assert abs(level.departure) <= level.expected_departure
    assert level.prior_spread == BY_GROUPS.spread


def test_without_groups_a_typical_likeness_stands_in():
    for run, evidence in (
        (logged(completions(), **BATCH), BY_LEVEL),
        (logged(3.0 * completions() - 1.0, "reward_std", kind="total", **BATCH), BY_SPREAD),
    ):
        level = not_none(row_noise(run, np.ones(N, bool))[1])
        assert level.evidence == evidence.name
        scale = 3.0 if evidence is BY_SPREAD else 1.0
        assert abs(np.log(level.sd / scale / TRUE)) < 2.0 * evidence.spread


def test_a_log_that_says_nothing_changes_nothing():
    plain = make_run(steps(40), np.random.default_rng(0).normal(2.0, 0.3, 40))
    assert row_noise(plain, np.ones(40, bool)) == (None, None)
    table = rows_of(plain)
    assert table.noise is None
    priors = resolve_priors(get_regime("flat"), table)
    assert (priors["observation_sd"].median, priors["observation_sd"].spread) == (0.5 * table.scale, 1.0)
    np.testing.assert_array_equal(table.precision, table.weight)


def test_prompts_that_come_back_are_a_departure_and_cost_certainty():
    table = rows_of(logged(completions(again=True), "frac_reward_zero_std", **BATCH))
    level = not_none(table.level)
    assert level.departure < -max(0.3, level.expected_departure)
    prior = resolve_priors(get_regime("flat"), table)["observation_sd"]
    assert prior.spread > 2.0 * BY_GROUPS.spread
    assert abs(level.departure) < 2.0 * prior.spread + level.expected_departure


def test_the_prior_is_the_prediction():
    table = rows_of(logged(completions(n=60), "frac_reward_zero_std", **BATCH))
    for name in ("flat", "oscillator", "exponential", "logistic"):
        prior = resolve_priors(get_regime(name), table)["observation_sd"]
        assert (prior.median, prior.spread) == (not_none(table.level).sd, not_none(table.level).prior_spread)


def test_noise_follows_the_level():
    p = np.linspace(0.05, 0.5, 200)
    y = np.random.default_rng(1).binomial(64, p) / 64
    table = rows_of(make_run(steps(200), y, **BATCH))
    wanted = p * (1 - p)
    np.testing.assert_allclose(not_none(table.noise), wanted / np.exp(np.log(wanted).mean()), rtol=0.25)
    later = FutureGrid(np.array([201.0, 202.0]), np.ones(2), np.ones(2), np.ones(2))
    longer = table.extended(*later[:4])
    np.testing.assert_array_equal(not_none(longer.noise)[-2:], not_none(table.noise)[-1])


def test_blocks_of_rows_measure_better():
    run = logged(completions(), "frac_reward_zero_std", **BATCH)
    whole, blocked = rows_of(run), rows_of(run, max_rows=100)
    assert not_none(blocked.level).sd == pytest.approx(0.5 * not_none(whole.level).sd)
    assert len(not_none(blocked.noise)) == 100


def test_scatter_of_noise_about_a_course():
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noise = np.exp(rng.normal(0, 0.3, 100))
        y = np.sin(steps(100) / 20.0) + 0.2 * np.sqrt(noise) * rng.standard_normal(100)
        found.append(scatter(y, noise))
    sds, errors = np.array(found).T
    assert np.exp(np.log(sds).mean()) == pytest.approx(0.2, rel=0.03)
    assert np.log(sds).std() == pytest.approx(errors[0], rel=0.3)


def test_a_forecast_takes_noise_as_even():
    run = logged(completions(n=60), "frac_reward_zero_std", **BATCH)
    table = inputs_of_run(run).table
    assert table.noise is None
    assert table.level == rows_of(run).level


def test_the_numbers_are_those_that_were_measured():
    learned = kept("known_noise")
    for evidence in (BY_GROUPS, BY_LEVEL, BY_SPREAD):
        assert evidence.spread == pytest.approx(learned[evidence.name]["spread"], abs=0.006)
        if evidence is not BY_GROUPS:
            assert evidence.correlation == pytest.approx(learned[evidence.name]["correlation"], abs=0.006)
    assert np.log(ROW_OVER_SPREAD) == pytest.approx(kept("few_rows")["table"]["spread"]["mean"], abs=0.03)


def test_a_batch_says_the_noise_of_few_rows_and_a_spread_its_least():
    """Of 200 short logs of one policy, the expected noise is theirs within what it says of itself."""
    runs = [logged(completions(seed, n=3), "reward_std", **BATCH) for seed in range(200)]
    found = [not_none(expected_noise(run)) for run in runs]
    assert abs(np.mean(np.log([x.sd / TRUE for x in found]))) < BY_LEVEL.spread
    assert not any(x.at_least for x in found)
    alone = not_none(expected_noise(logged(completions(n=3), "reward_std")))
    assert alone.at_least
    assert alone.sd == pytest.approx(ROW_OVER_SPREAD * np.sqrt(np.mean(runs[0].signals["reward_std"] ** 2)))
    assert expected_noise(logged(completions(n=3))) is None
    assert expected_noise(logged(np.zeros((3, B, G)), "reward_std")) is None
