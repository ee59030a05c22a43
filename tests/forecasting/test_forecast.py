"""A forecast: its paths against exact moments, its weights and its horizon, and what it says and refuses."""

import json
from dataclasses import replace
from functools import cache

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo import SamplerSettings
from bayes_grpo.backtesting import crps
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.dynamics.kalman import smooth
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.sampling.adaptive import WeightDiagnostics
from bayes_grpo.fitting.sampling.target import Target, target_of, values_of
from bayes_grpo.forecasting import fits
from bayes_grpo.forecasting.expected import horizon_of
from bayes_grpo.forecasting.fits import bounded, fit_ensemble, forecast_weights, prior_weights, trusted
from bayes_grpo.forecasting.forecast import ALONE, forecast
from bayes_grpo.forecasting.inputs import inputs_of_run
from bayes_grpo.forecasting.mixture import allot, predict, regime_paths
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Prior
from bayes_grpo.rows.padding import padded, shared
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import PLAN_OVER, FutureGrid, RemainingRate, future_grid, grid_at
from bayes_grpo.views.view import view
from tests.helpers.paths import not_none
from tests.helpers.runs import make_run, remaining, rising_run
from tests.helpers.selection import few
from tests.helpers.shown import text_of

CONSTANT = RemainingRate("constant", 40.0, 1.0, 0.0, np.inf, "")
FAST = SamplerSettings(num_chains=2, num_warmup=300, num_samples=400)


@cache
def alone(horizon=None, **options):
    """A forecast by the exponential alone of one run; made once."""
    return of_run(rising_run(), horizon, **options)


def of_run(run, horizon=None, **options):
    """A forecast by the exponential alone."""
    return forecast(run, horizon, regimes=("exponential",), sampler=FAST, **options)


def test_without_a_horizon_it_goes_half_as_far_again_and_says_so():
    found = summarize_forecast(alone(draws=200))
    assert (found.until, found.until_from) == (60.0, "1.5 times the last step")
    assert "Assumed: forecast to step 60, 1.5 times the last step" in text_of(found, details=False)
    given = summarize_forecast(alone(50, draws=200))
    assert (given.until, given.until_from) == (50.0, "given")
    planned = summarize_forecast(alone(schedule="linear", total_steps=90, draws=200))
    assert planned.until_from == "planned length"


def test_it_goes_no_further_than_the_learning_rate_leads():
    run = rising_run(schedule="logged")
    falls = replace(run, signals={"learning_rate": 1e-6 * (1.0 - run.step / 50.0)})
    found = summarize_forecast(of_run(falls, draws=200))
    assert found.until == pytest.approx(50.0, abs=1.0)  # rows average the rate over their step
    assert found.until_from == "end of the learning rate"


def test_now_later_and_the_gain_add_up_though_the_regime_sees_the_present_elsewhere():
    made = alone(draws=200)
    apart = replace(made, latent_now=made.latent_now - 0.05, latent=made.latent - 0.05, rows=made.rows - 0.05)
    for found in map(summarize_forecast, (made, apart)):
        assert found.at_horizon.median == pytest.approx(found.now.median + found.remaining_gain.median, abs=5e-3)
        assert found.now == summarize_forecast(made).now


def test_no_gain_is_larger_than_the_room_that_the_range_leaves():
    near = replace(of_run(rising_run(reward_low=0.0, reward_high=1.0), 60, draws=200), signal="reward")
    assert near.latent_now.size == 200
    low = replace(near, latent_now=np.full(200, 0.5), latent=np.full_like(near.latent, 0.9))
    now = summarize_forecast(low).now.median
    assert summarize_forecast(low).remaining_gain.high <= 1.0 - now + 1e-9


def test_arviz_sums_a_forecast_up_and_its_tree_has_ones_own_score():
    found = alone(draws=200)
    tree = found.to_datatree()
    assert set(az.summary(tree, kind="stats").index) == {"latent_now", "at_infinity", "final"}
    assert tree["posterior"].sizes == {"chain": 4, "draw": 50}
    assert float(az.rhat(tree["posterior"])["latent_now"]) < 1.1
    drawn = tree["posterior_predictive"]["y"].stack(path=("chain", "draw"), create_index=False)
    y = 0.6
    between = abs(drawn - drawn.rename(path="other")).mean(("path", "other"))
    own = abs(drawn - y).mean("path") - between / 2
    np.testing.assert_array_equal(own["step"], found.step)
    np.testing.assert_allclose(own, crps(found.rows, np.full(len(found.step), y)), atol=2e-3)


GUESS = "1.5 times the last step"
AS_FAR = "1.5 times as far as the rows reach"
REACHED = "the planned length being reached"


@pytest.mark.parametrize(
    ("planned", "last", "given", "until", "origin"),
    [
        (80.0, 40.0, {}, 80.0, "planned length"),
        (80.0, 40.0, {"horizon": 50.0}, 50.0, "given"),
        (None, 40.0, {}, 60.0, GUESS),
        (40.0, 40.0, {}, 60.0, f"{GUESS}, {REACHED}"),
        (150.0, 200.0, {}, 300.0, f"{GUESS}, {REACHED}"),
        (150.0, 200.0, {"first": 100.0}, 250.0, f"{AS_FAR}, {REACHED}"),
        (None, 3094.0, {"first": 3075.0}, 3104.0, AS_FAR),
        (None, 60.0, {"first": 3.0}, 90.0, GUESS),
        (None, 40.0, {"rate_ends": 50.2}, 51.0, "end of the learning rate"),
        # Over before these rows end, or later than it would go anyway.
        *((None, 40.0, {"rate_ends": ends}, 60.0, GUESS) for ends in (40.0, 30.0, 61.0)),
    ],
)
def test_a_horizon_says_where_it_comes_from(planned, last, given, until, origin):
    settings = {} if planned is None else {"total_steps": Setting(planned, Provenance.CONFIG)}
    assert horizon_of(settings, last, **given) == (until, origin)


def test_the_sentence_of_a_horizon_says_why_it_is_no_other():
    reached = {"total_steps": Setting(150.0, Provenance.CONFIG)}
    late = horizon_of(reached, 200.0, first=100.0)
    assert late.sentence == "forecast to step 250, 1.5 times as far as the rows reach (the planned length is reached)"
    assert horizon_of({}, 200.0, first=100.0).sentence.endswith("(they begin at a late step)")


def test_the_frame_has_a_row_a_step_with_rows_and_latent_reward():
    made = alone(draws=200)
    frame = made.to_frame()
    assert frame.index.tolist() == made.step.tolist()
    assert list(frame) == ["row_median", "row_low", "row_high", "latent_median", "latent_low", "latent_high"]
    assert frame["latent_median"].iloc[-1] == pytest.approx(np.median(made.latent[:, -1]))
    assert np.all(frame["row_high"] - frame["row_low"] > frame["latent_high"] - frame["latent_low"])


def test_a_horizon_that_no_row_supports_is_a_caution():
    run = rising_run(reward_low=0.0, reward_high=1.0)
    assert view(summarize_forecast(of_run(run, 60, draws=200))).unchecked == ""
    far = summarize_forecast(of_run(run, 1e9, draws=200))
    beyond = not_none(far.far)
    assert (beyond.until, beyond.length) == (1e9, 40.0)
    assert view(far).unchecked.startswith("Caution: the horizon, step 1e+09, is more than ten times the log's length")
    assert view(replace(far, notes=(beyond.sentence,), far=None)).unchecked == ""


@pytest.mark.parametrize("name", few(["exponential", "oscillator", "sigmoid", "flat"], "exponential"))
def test_paths_have_the_moments_of_the_exact_predictive(name):
    """Against the smoother, which gives exact means and variances of missing rows, for one parameter value."""
    regime, table = get_regime(name), rows_of(rising_run())
    future = FutureGrid(
        np.array([41.0, 43.0, 50.0, 70.0]), np.array([1.0, 1.0, 5.0, 0.0]), np.array([1.0, 0.8, 0.5, 0.2]), np.ones(4)
    )
    target = target_of(regime, table, arrays=shared(table))
    priors, prior = target.priors, target.numbers
    past = padded(table)
    rows = padded(table.extended(*future[:4]), len(table.y) + 4)._replace(length=past.length, spacing=past.spacing)
    levels = {p.name: (priors[p.name].median, priors[p.name].spread) for p in regime.marginalized}

    @jax.jit
    def smoothed(z):
        values = values_of(regime, z, prior, past)
        return values, smooth(regime.state_space(values, levels, rows), jnp.asarray(rows.y))

    with jax.enable_x64(True):
        values, exact = smoothed(np.full(len(regime.sampled), 0.3))
    mean, latent_var = np.asarray(exact.latent_mean)[-4:], np.asarray(exact.latent_var)[-4:]
    row_var = np.asarray(exact.loo_var)[-4:]
    count = 8000
    drawn = draws_of(target, {k: np.full(count, float(v)) for k, v in values.items()})
    found, _ = predict(drawn, np.arange(count), future, seed=3)
    error = np.sqrt(row_var / count)
    assert np.all(np.abs(found.latent.mean(0) - mean) < 5 * error)
    assert np.all(np.abs(found.rows.mean(0) - mean) < 5 * error)
    np.testing.assert_allclose(found.latent.var(0), latent_var, rtol=0.1)
    np.testing.assert_allclose(found.rows.var(0), row_var, rtol=0.1)


def draws_of(target: Target, values: dict[str, np.ndarray]) -> Draws:
    """Draws by their values alone, one chain."""
    fine = WeightDiagnostics(1000.0, 0.1, 0.0, 1.0, 1)
    size = len(next(iter(values.values())))
    return Draws(target, {k: v[None] for k, v in values.items()}, np.empty((1, size, 0)), fine)


def test_a_single_regime_is_followed_as_it_is():
    found = alone(100)
    assert found.latent.shape == found.rows.shape == (2000, len(found.step))
    assert found.step[-1] == 100
    assert np.all(np.diff(found.step) > 0)
    assert found.weights == {"exponential": 1.0}
    assert ALONE in found.notes
    # The truth is 0.8 with noise of 0.05 a row.
    low, high = np.quantile(found.rows[:, -1], [0.05, 0.95])
    assert low < 0.8 < high
    assert found.rows[:, -1].std() > found.latent[:, -1].std()
    np.testing.assert_array_equal(found.rows, of_run(rising_run(), 100).rows)
    summary = summarize_forecast(found)
    assert summary.at_horizon.low < 0.8 < summary.at_horizon.high
    assert "90%" in summary.sentence
    assert "at_horizon" in json.dumps(summary.to_dict(), allow_nan=False)


def test_a_curve_that_falls_and_never_rises_has_peaked():
    found = alone(80, draws=200)
    rise = np.linspace(0.0, 0.3, len(found.step))[None, :] * np.ones((200, 1))
    risen = replace(found, latent_now=np.full(200, 0.5), latent=0.5 + rise, trend=0.5 + rise)
    summary = summarize_forecast(risen, threshold=0.1)
    assert (summary.p_gain, summary.p_peaked) == (1.0, 0.0)
    assert summarize_forecast(replace(risen, trend=0.5 - rise), threshold=0.1).p_peaked == 1.0


def test_a_learning_rate_that_falls_to_zero_freezes_the_reward():
    decays = alone(120, schedule="linear", total_steps=60)
    after = decays.trend[:, decays.step > 60]
    np.testing.assert_allclose(after, after[:, :1] * np.ones_like(after), rtol=1e-6)
    constant = alone(120, schedule="constant")
    gap_decays = np.abs(decays.trend[:, -1] - decays.at_infinity)
    gap_constant = np.abs(constant.trend[:, -1] - constant.at_infinity)
    assert np.median(gap_decays) > 2 * np.median(gap_constant)


def test_a_known_range_holds():
    run = rising_run(reward_low=0.0, reward_high=0.85)
    found = of_run(run, 80)
    assert found.rows.max() <= 0.85
    assert found.at_infinity.max() <= 0.85
    assert any("0.85" in note for note in found.notes)
    assert alone(80).rows.max() > 0.85


def test_a_run_is_averaged_over_laws():
    found = forecast(rising_run(), horizon=60, regimes=("flat", "exponential"), sampler=FAST)
    assert set(found.weights) == {"flat", "exponential", "level"}
    assert abs(sum(found.weights.values()) - 1) < 1e-12
    assert found.weights["exponential"] > 0.5  # the curve has a trend
    counts = {k: int(np.sum(found.regime == k)) for k in found.weights}
    assert counts == allot(2000, found.weights)


@pytest.mark.thorough
def test_a_regime_that_did_not_converge_has_no_weight(monkeypatch):
    honest = fits.fast_posterior

    def lost(target, **options):
        found = honest(target, **options)
        return replace(found, usable=target.regime.name != "exponential", note="NOT CONVERGED.")

    monkeypatch.setattr(fits, "fast_posterior", lost)
    found = forecast(rising_run(), horizon=60, regimes=("flat", "exponential"), sampler=FAST, draws=200)
    assert found.not_converged == ("exponential",)
    assert set(found.weights) == {"flat"}
    assert "exponential left out: too few points fit these rows" in found.notes


def test_bad_input_is_said_in_a_sentence():
    with pytest.raises(SettingError, match=r"after the last logged one \(40\), found 30; the horizon lies in the past"):
        alone(30)
    with pytest.raises(SettingError, match="already reaches step 40, found a schedule of 20 steps"):
        alone(60, schedule="linear", total_steps=20)
    with pytest.raises(SettingError, match="say when it reaches 0"):
        alone(60, schedule="cosine")
    with pytest.raises(SettingError, match="one of constant, linear, cosine"):
        alone(60, schedule="warmup")
    with pytest.raises(FitError, match="at least 8 rows of reward, found 6"):
        forecast(rising_run(6), horizon=60)


def test_future_rows_keep_the_logs_spacing_and_window():
    table = rows_of(rising_run())
    ahead = future_grid(table, 60.0, CONSTANT)
    np.testing.assert_array_equal(ahead.step[ahead.of_forecast], np.arange(41.0, 61.0))
    assert ahead.step[0] == 40.0
    assert ahead.window[0] == 0.0
    np.testing.assert_array_equal(ahead.window[ahead.of_forecast], 1.0)
    assert future_grid(table, 10000.0, CONSTANT).forecast_rows == 96


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_a_logged_decay_is_continued(shape):
    step = np.arange(1.0, 61.0)
    done = step / 100.0
    rate = 1.0 - done if shape == "linear" else 0.5 * (1.0 + np.cos(np.pi * done))
    known = remaining(step, rate, "logged", total_steps=100.0)
    assert known.shape == shape
    at = np.array([70.0, 80.0, 100.0, 120.0])
    truth = np.clip(1 - at / 100, 0, 1) if shape == "linear" else 0.5 * (1 + np.cos(np.pi * np.clip(at / 100, 0, 1)))
    np.testing.assert_allclose(known.at(at), truth, atol=0.02)
    guessed = remaining(step, rate, "logged")
    assert guessed.shape == shape
    np.testing.assert_allclose(guessed.at(at), truth, atol=0.05)
    assert "read off" in guessed.assumed


def test_what_is_assumed_of_the_learning_rate_is_said():
    step = np.arange(1.0, 31.0)
    assert remaining(step, np.ones(30), "logged").shape == "constant"
    assert "last logged value" in remaining(step, np.ones(30), "logged").assumed
    assert remaining(step, np.ones(30), None).assumed
    assert remaining(step, np.ones(30), None, schedule="constant").assumed == ""
    default = remaining(step, 1 - step / 60, "linear", total_steps=60.0, given=False)
    assert "trainer's default" in default.assumed
    assert remaining(step, 1 - step / 60, "linear", 60.0).at(np.array([60.0])) == 0.0


def test_weights_lean_to_the_better_law_and_keep_a_share_for_a_trend():
    regimes = [get_regime(x) for x in ("flat", "exponential", "sigmoid")]
    prior, trending = prior_weights(regimes), {"flat": False, "exponential": True, "sigmoid": True}
    assert prior == pytest.approx({"flat": 0.3, "exponential": 0.35, "sigmoid": 0.35})
    weights = forecast_weights({"flat": 0.0, "exponential": 50.0, "sigmoid": 0.0}, prior, trending, shrinkage=0.3)
    assert weights["exponential"] == pytest.approx(0.7 + 0.3 * 0.5)
    assert weights["flat"] == pytest.approx(0.0, abs=1e-12)  # rows can refute it for good
    still = forecast_weights({"flat": 50.0, "exponential": 0.0, "sigmoid": 0.0}, prior, trending, shrinkage=0.3)
    assert still == pytest.approx({"flat": 0.7, "exponential": 0.15, "sigmoid": 0.15})
    same = forecast_weights(dict.fromkeys(prior, -3.0), prior, trending, shrinkage=0.0)
    assert same == pytest.approx(prior)
    assert prior_weights(regimes[1:]) == pytest.approx({"exponential": 0.5, "sigmoid": 0.5})


def test_a_regime_that_settles_outside_the_range_is_still_held_inside():
    regime, table = get_regime("exponential"), rows_of(rising_run())
    target = target_of(regime, table, {"fixed_point": (5.0, 0.01)}, arrays=shared(table))
    drawn = draws_of(target, {p.name: np.full(200, target.priors[p.name].median) for p in regime.parameters})
    future = grid_at(table, np.array([50.0]), CONSTANT)
    (latent, _, rows), fixed = regime_paths(drawn, future, 100, 0, RewardRange(0.0, 1.0), 1.0)
    assert latent.max() <= 1.0
    assert rows.max() <= 1.0
    assert np.all(fixed == 1.0)
    free = regime_paths(drawn, future, 100, 0, RewardRange(), 0.0)[1]
    assert free.min() > 4.0
    mostly = regime_paths(drawn, future, 100, 0, RewardRange(0.0, 1.0), 0.9)[1]
    assert np.sum(mostly > 4.0) == 10
    assert np.sum(mostly == 1.0) == 90


@pytest.mark.thorough
def test_a_regime_that_runs_away_is_not_followed():
    regime, table = get_regime("oscillator"), rows_of(rising_run())
    target = target_of(regime, table, arrays=shared(table))
    values = {p.name: np.full(200, target.priors[p.name].median) for p in regime.parameters}
    values["initial_reward"] = np.arange(200.0)
    values["response_time"] = np.full(200, 5.0)
    values["damping_ratio"] = np.where(np.arange(200) % 2, -0.8, 2.0)  # every second draw diverges
    drawn = draws_of(target, values)
    future = grid_at(table, np.array([60.0, 200.0]), CONSTANT)
    paths, _ = regime_paths(drawn, future, 50, 0, RewardRange(), 0.0)
    assert np.abs(paths.trend).max() < 20.0
    runaway = draws_of(target, {k: v[1::2] for k, v in values.items()})
    assert len(regime_paths(runaway, future, 50, 0, RewardRange(), 0.0)[1]) == 50  # there is nothing else to follow


def test_a_fast_posterior_that_cannot_be_trusted_leaves_its_weight_to_the_others():
    rows = rows_of(rising_run())
    fitted = fit_ensemble(rows, ("flat", "exponential", "oscillator"), strict=False)
    rough = replace(fitted.draws["oscillator"].diagnostics, pareto_k=2.0)
    draws = {**fitted.draws, "oscillator": replace(fitted.draws["oscillator"], diagnostics=rough)}
    rest = trusted(replace(fitted, draws=draws))
    assert rest.weights == fit_ensemble(rows, ("flat", "exponential"), strict=False).weights
    assert rest.notes == ("oscillator left out: too few points fit these rows",)
    assert trusted(rest) is rest


def test_a_range_weighs_a_law_by_how_much_of_it_lies_inside():
    prior, draws = Prior(0.5, 0.5), np.array([0.2, 0.6, 0.9, 1.4])
    stated = bounded(RewardRange(0.0, 1.0), prior, draws)
    before = 0.682689  # of a normal within one sd
    assert stated.share == pytest.approx(1.0)
    assert stated.log_factor == pytest.approx(np.log(3.5 / 5.0 / before), abs=1e-4)
    assumed = bounded(RewardRange(0.0, 1.0, share=0.9), prior, np.full(1000, 1.4))
    assert assumed.share < 0.01  # the rows deny it
    assert assumed.log_factor == pytest.approx(np.log(0.1), abs=0.02)
    half = bounded(RewardRange(high=0.5), prior, np.full(10_000, 0.1))
    assert half.log_factor == pytest.approx(np.log(2.0), abs=1e-3)
    assert bounded(RewardRange(), prior, draws) == (0.0, 0.0)


@pytest.mark.thorough
def test_a_law_draws_the_same_whichever_others_there_are():
    table = rows_of(rising_run())
    alone = fit_ensemble(table, ("exponential",), seed=3, sampler=FAST, strict=False)
    beside = fit_ensemble(table, ("flat", "exponential"), seed=3, sampler=FAST, strict=False)
    for name, draws in alone.draws["exponential"].values.items():
        np.testing.assert_array_equal(draws, beside.draws["exponential"].values[name])
    assert alone.log_evidence["exponential"] == beside.log_evidence["exponential"]
    other = fit_ensemble(table, ("exponential",), seed=4, sampler=FAST, strict=False)
    one, two = (x.draws["exponential"].flat("initial_reward") for x in (alone, other))
    assert not np.any(np.isin(two, one))


def test_a_stated_range_counts_in_the_weights():
    table, regimes = rows_of(rising_run()), ("flat", "exponential")
    free = fit_ensemble(table, regimes, sampler=FAST, strict=False)
    held = fit_ensemble(table, regimes, reward=RewardRange(0.0, 0.85), sampler=FAST, strict=False)
    for name in regimes:
        factor = held.bounded[name].log_factor
        assert held.log_evidence[name] - free.log_evidence[name] == pytest.approx(factor, abs=1e-6)
        assert abs(factor) > 0.01


def test_a_run_of_steps_from_0_has_no_step_left_after_its_last():
    run = make_run(np.arange(30.0), 0.2 + 0.02 * np.arange(30.0), reward_low=0.0, reward_high=1.0, total_steps=30)
    assert inputs_of_run(run).ahead.assumed == PLAN_OVER
    assert inputs_of_run(run.until(20.0)).settings["total_steps"].value == 29.0
