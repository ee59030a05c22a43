"""Paths of signals, and what is asked of them: levels, losses, checkpoints, dips and jumps."""

import numpy as np
import pytest

from bayes_grpo.rows.series import ExpectedNoise
from bayes_grpo.signals.events import dips_of, jumps_of
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.loss import fallen_in, fallen_of, last_lost, rows_collapsed
from bayes_grpo.signals.path import PATH_BLOCKS
from bayes_grpo.signals.path import fit_path as path_or_none
from bayes_grpo.signals.run_paths import SpentRate, best_checkpoint, reward_path, spent_rate
from tests.helpers.paths import fit_path, not_none, paths_of
from tests.helpers.runs import evaluated, make_run, steps

NOISE = np.random.default_rng(0).standard_normal(120)


def share(values, **more):
    """Path of a share, in the rows 1 to n."""
    return fit_path(steps(len(values)), np.asarray(values, float), **more)


def test_one_outlier_of_thirty_rows_moves_no_level():
    y = 0.5 + 0.02 * NOISE[:30]
    with_outlier = np.where(np.arange(30) == 14, 0.0, y)
    assert np.abs(share(with_outlier).mean - share(y).mean).max() < 0.02


def test_a_jump_is_no_ramp():
    path = share(np.repeat([0.2, 0.7], 20) + 0.02 * NOISE[:40])
    assert path.mean[18:22] == pytest.approx([0.2, 0.2, 0.7, 0.7], abs=0.05)


def test_a_take_off_and_a_share_near_0_stay_within_the_range():
    y = np.clip(np.maximum(0.0, 0.02 * (np.arange(50.0) - 30.0)) + 0.003 * np.abs(NOISE[:50]), 0.0, 1.0)
    path = share(y)
    assert path.draws.min() >= 0.0
    assert path.draws.max() <= 1.0
    assert np.median(path.start) < 0.01
    assert np.median(path.now) == pytest.approx(0.36, abs=0.05)
    low = share(0.002 * np.abs(NOISE[:40]))
    assert np.quantile(low.now, 0.95) < 0.01


def test_a_constant_has_no_width_and_two_rows_have_a_wide_path():
    path = share(np.full(10, 0.3))
    np.testing.assert_allclose(path.draws, 0.3, atol=1e-12)
    assert path.noise == 0.0
    two = share([0.2, 0.6])
    assert 0.05 < (two.change() > 0.0).mean() < 0.999
    assert two.change().std() > 2.0 * share(np.repeat([0.2, 0.6], 20) + 0.02 * NOISE[:40]).change().std()
    assert path_or_none(np.arange(5.0), np.array([np.nan, 1.0, np.nan, np.nan, np.nan])) is None


def test_irregular_steps_gaps_and_long_logs():
    step = np.array([0.0, 1.0, 2.0, 50.0, 51.0, 400.0])
    path = fit_path(step, np.array([0.1, 0.12, 0.11, 0.5, 0.52, 0.8]))
    middle, after = path.at(np.array([26.0, 999.0])).T
    np.testing.assert_allclose(middle, path.draws[:, 2:4].mean(axis=1))
    np.testing.assert_allclose(after, path.draws[:, -1])
    x = np.arange(1000.0)
    long = fit_path(x, np.where(x % 3 == 0, np.nan, x / 1000.0))
    assert len(long.step) <= PATH_BLOCKS
    assert long.last_step[-1] == 998.0
    np.testing.assert_allclose(long.mean, long.step / 1000.0, atol=0.02)


def test_a_factor_over_decades_keeps_its_ratios_and_a_range_its_scale():
    true = np.geomspace(1e-3, 10.0, 60)
    path = share(true * np.exp(0.2 * NOISE[:60]), unit="factor")
    assert np.abs(np.log(path.mean / true)).max() < 0.5
    y = NOISE[:40].cumsum()
    plain, moved = share(y), share(1000.0 + 0.01 * y)
    np.testing.assert_allclose(moved.draws, 1000.0 + 0.01 * plain.draws, rtol=0, atol=1e-6)


UP = np.linspace(0.2, 0.8, 40)
COLLAPSED = np.concatenate([UP, np.full(20, 0.1)]) + 0.02 * NOISE[:60]


def test_lost_is_half_of_the_gain_and_dated():
    path = share(COLLAPSED, low=0.0, high=1.0)
    lost = path.lost()
    assert lost[:, -1].mean() > 0.99
    assert lost[:, :38].mean() < 0.02
    for kept in (np.concatenate([UP, np.full(20, 0.7)]), np.full(60, 0.5), np.append(UP, 0.79)):
        assert share(kept + 0.02 * NOISE[: len(kept)], low=0.0, high=1.0).lost()[:, -1].mean() < 0.05


def test_few_rows_of_noise_alone_are_rarely_lost_and_five_that_collapse_are():
    """In units of their own range, three rows that happen to fall are as far apart as rows can be."""
    rng = np.random.default_rng(5)
    for n in (3, 4, 5, 8):
        alarms = [fit_path(steps(n), rng.standard_normal(n)).lost()[:, -1].mean() > 0.5 for _ in range(100)]
        assert sum(alarms) <= 4, n
    # Rows with many steps between them span more of the range that there is: five that rise all the way are rising.
    rises = fit_path(np.array([10.0, 100.0, 200.0, 300.0, 500.0]), np.array([1.08, 1.18, 1.52, 1.76, 1.78]))
    assert (rises.change() > 0.0).mean() > 0.8
    collapsed = fit_path(steps(6), np.array([0.71, 0.74, 0.72, -0.6, -0.61, -0.6]))
    assert collapsed.lost()[:, -1].mean() > 0.7


def test_rows_are_no_quieter_than_expected():
    y = np.array([0.12, 0.13, 0.12, 0.11, 0.05, 0.04])
    plain = share(y)
    batch = share(y, noise=ExpectedNoise(0.15, at_least=False))
    assert batch.noise > 1.3 * plain.noise
    assert batch.fell()[:, -1].mean() < plain.fell()[:, -1].mean()
    at_least = share(y, noise=ExpectedNoise(0.15, at_least=True))
    np.testing.assert_array_equal(at_least.draws, batch.draws)
    lower = share(y, noise=ExpectedNoise(1e-4, at_least=True))
    np.testing.assert_array_equal(lower.draws, plain.draws)


@pytest.mark.parametrize(("completions", "level"), [(4, 0.06), (8, 0.06), (16, 0.06), (4, 0.94), (8, 0.5)])
def test_the_level_of_few_completions_is_the_mean_of_their_rows(completions, level):
    """The mean of sin² of noisy angles is not sin² of their mean: 0.06 of 4 completions would be 0.015."""
    rng = np.random.default_rng(completions)
    medians = [np.median(share(rng.binomial(completions, level, 60) / completions).now) for _ in range(10)]
    assert np.mean(medians) == pytest.approx(level, abs=0.02)


def test_fell_is_a_tenth_of_the_best():
    for level, expected in ((0.6, True), (0.77, False)):
        path = share(np.concatenate([UP, np.full(20, level)]) + 0.01 * NOISE[:60], low=0.0, high=1.0)
        assert (path.fell()[:, -1].mean() > 0.9) == expected
        assert path.lost()[:, -1].mean() < 0.1


def test_the_best_is_where_the_mean_is_highest_and_never_before_its_rows():
    path = share(COLLAPSED)
    assert path.best_step == pytest.approx(40.0, abs=1.0)
    assert np.median(path.best) == pytest.approx(0.77, abs=0.04)
    so_far = path.best_so_far.mean(axis=0)
    assert so_far.shape == path.step.shape
    assert so_far[9] < 0.4
    assert np.all(np.diff(so_far[path.window :]) > -1e-9)


def test_what_is_fallen_and_where_to_go_back_to():
    path = share(COLLAPSED, low=0.0, high=1.0)
    found = not_none(fallen_of(path))
    assert (found.best_step, found.saved_step, found.at_once) == (path.best_step, path.best_step, False)
    assert found.best > 0.7 > 0.15 > found.now
    scored = not_none(fallen_of(path, 20.0))
    assert (scored.saved_step, scored.saved) == (20.0, pytest.approx(0.49, abs=0.05))
    run = make_run(steps(60), COLLAPSED, evals=evaluated([10.0, 20.0, 30.0, 60.0], [0.2, 0.5, 0.3, 0.1]))
    assert not_none(fallen_in(run, "reward")).saved_step == 20.0
    assert fallen_of(share(UP)) is None
    assert fallen_in(make_run(steps(40), UP), "reward") is None
    lost = not_none(fallen_of(share([0.5, 0.5, *np.zeros(58)])))
    assert (lost.at_once, lost.best, lost.now) == (True, pytest.approx(0.5, abs=0.02), pytest.approx(0.0, abs=0.01))


def test_a_loss_that_is_over_is_no_fall_and_has_its_rows():
    y = 0.6 + 0.02 * NOISE[:60]
    y[20:32] = 0.05
    path = share(y, low=0.0, high=1.0)
    assert fallen_of(path) is None
    first, last = not_none(last_lost(path))
    assert (first, last) == (pytest.approx(21.0, abs=1.0), pytest.approx(32.0, abs=1.0))
    assert last_lost(share(UP)) is None


def test_rows_collapse():
    assert rows_collapsed(COLLAPSED)
    assert not rows_collapsed(UP)
    assert not rows_collapsed(np.empty(0))
    assert not rows_collapsed(np.array([0.4]))
    assert reward_path(make_run(steps(3), np.full(3, np.nan)), evaluation=False) is None


@pytest.mark.parametrize(
    ("at", "scores", "expected"),
    [
        ([0.0, 10.0, 20.0, 30.0], [0.5, 0.4, 0.3, 0.2], 0.0),
        ([10.0, 20.0, 30.0, 40.0], [0.3, 0.42, 0.61, 0.4], 30.0),
        ([10.0, 20.0, 30.0], [0.3, 0.3, 0.3], None),
        ([10.0, 20.0, 30.0, 40.0], [0.001, 0.0, 0.002, 0.001], None),
    ],
    ids=["before training", "a single best row", "no score differs", "all count as zero"],
)
def test_the_best_checkpoint(at, scores, expected):
    run = make_run(steps(40), np.linspace(0.1, 0.5, 40), evals=evaluated(at, scores))
    assert best_checkpoint(paths_of(run)) == expected


def test_no_evaluation_chooses_no_checkpoint_and_one_alone_is_the_reward():
    assert best_checkpoint(paths_of(make_run(steps(20), UP[:20]))) is None
    alone = paths_of(make_run(steps(5), np.full(5, np.nan), evals=evaluated([1.0, 2.0, 3.0], [0.1, 0.5, 0.2])))
    assert alone.uses_eval
    assert best_checkpoint(alone) == 2.0


def test_the_rate_is_spent_after_its_peak_alone():
    warm = 1e-5 * np.clip((np.arange(40.0)) / 10.0, 0.0, 1.0)
    decayed = warm * np.clip((30.0 - np.arange(40.0)) / 20.0, 0.0, 1.0)
    low = np.where(np.arange(40.0) < 30.0, warm, 1e-7)
    assert spent_rate(make_run(steps(40), UP, signals={"learning_rate": decayed})) == SpentRate(0.0, 31.0)
    assert spent_rate(make_run(steps(40), UP, signals={"learning_rate": low})) == (pytest.approx(0.01), None)
    assert spent_rate(make_run(steps(40), UP, signals={"learning_rate": warm})) is None
    assert spent_rate(make_run(steps(40), UP)) is None


def test_dips_are_over_and_jumps_stay():
    y = 0.6 + 0.02 * NOISE
    dip, jump = y.copy(), y.copy()
    dip[80:88] -= 0.35
    jump[30:] += 0.3
    (found,) = dips_of(Logged(steps(120), dip))
    assert (found.first, found.last) == (80, 87)
    assert found.extreme < 0.3 < 0.55 < found.usual
    (changed,) = jumps_of(Logged(steps(120), jump))
    assert (changed.row, changed.after - changed.before) == (30, pytest.approx(0.3, abs=0.03))
    for calm in (y, np.linspace(0.1, 0.9, 120)):
        assert dips_of(Logged(steps(120), calm)) == jumps_of(Logged(steps(120), calm)) == ()
    assert jumps_of(Logged(steps(120), dip)) == ()


def test_the_best_level_is_no_single_first_row():
    y = 0.3 + 0.02 * NOISE[:40]
    y[0] = 0.6
    path = share(y)
    assert path.best_block >= 1
    assert np.median(path.best) < 0.5
    assert np.median(path.best_so_far[:, -1]) < 0.5
