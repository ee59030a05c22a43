"""Which rows of a run are fitted: those since the reward last broke, the same from the command line and from Python."""

from dataclasses import replace

import numpy as np
import pytest

import bayes_grpo as bg
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.fitting.window import FitWindow, fit_window, rows_to_fit
from bayes_grpo.signals.loss import last_lost
from bayes_grpo.signals.run_paths import reward_path
from tests.helpers.cases import dipped_then_collapsed
from tests.helpers.paths import not_none
from tests.helpers.runs import make_run, rising_run, steps


def collapsed(rows=50, lost=30):
    """A reward that rises to .8, is lost within three rows, and lies at .1 for 30 rows."""
    noise = 0.02 * np.random.default_rng(1).standard_normal(rows + lost)
    reward = np.concatenate([0.8 - 0.5 * np.exp(-np.arange(rows) / 12.0), np.full(lost, 0.1)]) + noise
    return make_run(steps(rows + lost), reward, reward_low=0.0, reward_high=1.0)


def test_the_rows_since_a_collapse_are_fitted():
    run = dipped_then_collapsed()
    run = replace(run, reward=run.reward + np.where(run.step > 30, 0.02 * np.sin(run.step), 0.0))
    cut, window = rows_to_fit(run)
    assert not_none(window.start_step) == pytest.approx(29.0, abs=1.0)
    assert cut.step[0] > not_none(window.start_step)
    assert window.reason.startswith("The reward fell from its best, 0.89 at step 25, to 0.01")
    assert window.lead.endswith(f"Since step {window.start_step:.0f}:")


def test_no_row_from_before_a_jump_is_fitted():
    """Four rows from before it made a sigmoid's posterior take NUTS minutes, and not converge."""
    cut, _ = rows_to_fit(collapsed())
    assert cut.step[0] == 51.0


def test_a_reward_that_is_constant_since_it_fell_has_nothing_to_fit():
    with pytest.raises(FitError, match=r"All 10 rows since step 30 are 0.*--up-to-step 30"):
        rows_to_fit(dipped_then_collapsed())


def test_too_few_rows_since_a_collapse_are_refused_with_what_to_do():
    run = dipped_then_collapsed().until(32)
    with pytest.raises(FitError, match=r"needs 8 rows since then, found .*--all-rows"):
        rows_to_fit(run)
    assert rows_to_fit(run, "all") == (run, FitWindow())
    with pytest.raises(SettingError, match="since_break"):
        bg.fit(run, rows="some")  # pyright: ignore[reportArgumentType]


def test_a_run_without_a_break_is_fitted_whole():
    for run in (rising_run(40), make_run(steps(2), [0.1, 0.2])):
        assert rows_to_fit(run)[0] is run


def test_a_collapse_that_was_recovered_from_is_left_behind():
    reward = np.full(60, 0.8) + 0.02 * np.random.default_rng(0).standard_normal(60)
    reward[15:25] = 0.1
    window = fit_window(make_run(steps(60), reward, reward_low=0.0, reward_high=1.0))
    assert 14 <= not_none(window.start_step) <= 26
    assert "recovered" in window.reason


def test_a_reward_that_swings_is_fitted_whole():
    """A swing that ends three rows before the end left "collapsed at step 195 and had recovered by step 195"."""
    step = np.arange(2.0, 201.0, 2.0)
    reward = 0.08 + 0.07 * np.random.default_rng(0).standard_normal(100)
    for first in (22, 54, 70):
        reward[first : first + 4] -= 0.18
    reward[-4:] = (0.0, -0.03, -0.1, -0.32)
    run = make_run(step, reward)
    lost = not_none(last_lost(not_none(reward_path(run, evaluation=False))))
    assert lost[1] == 195.0
    assert fit_window(run) == FitWindow()


def test_later_rows_keep_their_signals_and_evaluations():
    run = make_run(steps(10), np.arange(10.0), signals={"kl": np.arange(10.0)}, evals={2.0: 0.1, 8.0: 0.2})
    run = replace(
        run, logged={"kl": run.step > 0.0}, second_counter=("epoch", run.step), environments={"a": run.reward}
    )
    late = FitWindow(5.0, "It broke.").cut(run)
    assert late.step.tolist() == [6.0, 7.0, 8.0, 9.0, 10.0]
    assert late.signals["kl"].tolist() == late.reward.tolist() == [5.0, 6.0, 7.0, 8.0, 9.0]
    assert late.eval_step.tolist() == [8.0]
    assert len(late.logged["kl"]) == len(late.environments["a"]) == 5
    assert not_none(late.second_counter)[1].tolist() == late.step.tolist()


def test_a_dip_in_a_few_rows_is_no_break():
    reward = np.array([0.5, 0.48, 0.1, 0.05, 0.5, 0.52, 0.49, 0.51])
    assert fit_window(make_run(steps(8), reward, reward_low=0.0, reward_high=1.0)) == FitWindow()
    assert fit_window(make_run(steps(80), np.repeat(reward, 10), reward_low=0.0, reward_high=1.0)) != FitWindow()
