"""The model of several runs: its levels against the fit's own draws, its spreads, its data."""

import numpy as np
import pytest

from bayes_grpo.families.index import Index
from bayes_grpo.families.members import members_of
from bayes_grpo.families.model import TRAITS, FamilyDraws, draw_runs, family_data, spread_of
from bayes_grpo.fitting.sampling.batch import level_draws
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.prepared import prepare_rows
from tests.families.made import swept

LAW = get_regime("exponential")


def test_levels_of_every_run_are_drawn_as_a_fit_draws_them():
    """Priors of the levels as a fit of the run alone has them: then the draws are those of the fit."""
    members = members_of(swept(3), ["learning_rate"], Index({})).members
    data = family_data(members, ["learning_rate"])
    target = target_of(LAW, prepare_rows(members[0].table))
    size, z = len(TRAITS), np.tile([0.3, -0.2, 0.1], (400, 1))
    u = np.asarray(target.numbers.location) + np.asarray(target.numbers.scale) * z
    expected, spread = np.zeros((1, 400, 3, size)), np.ones((1, 400, size))
    expected[..., 3:] = (np.asarray(target.numbers.linear_mean) - data.origin) / data.unit
    spread[..., 3:] = np.asarray(target.numbers.linear_sd) / data.unit
    none = np.zeros((1, 400, size))
    draws = FamilyDraws(none[..., None, :], none, spread, expected, np.repeat(u[None, :, None], 3, axis=2))
    found = draw_runs(data, draws, 0)
    alone = level_draws(target, z, np.random.default_rng(1))
    for name in ("fixed_point", "initial_reward"):
        mine, its = found.values[name][:, 0], alone[name]
        assert mine.mean() == pytest.approx(its.mean(), abs=0.3 * its.std())
        assert mine.std() == pytest.approx(its.std(), rel=0.15)
    assert found.values["relaxation_time"][0, 0] == pytest.approx(np.exp(u[0, 0]))
    curve, rows = found.curve[:, 0], members[0].table
    assert np.abs(curve.mean(axis=0)[: len(rows.y)] - rows.y).mean() < 0.15


def test_a_spread_is_at_least_the_floor_and_grows_with_its_number():
    assert spread_of(np.zeros(len(TRAITS))) == pytest.approx(0.02)
    assert np.all(spread_of(np.full(len(TRAITS), -2.0)) > 0.7)


def test_a_mean_over_more_steps_has_less_noise_and_the_start_is_no_effect_of_the_learning_rate():
    members = members_of(swept(3), ["learning_rate"], Index({})).members
    data = family_data(members, ["learning_rate"])
    assert data.slope[0, TRAITS.index("initial_reward")] == 0.0
    assert np.all(data.slope[0, :4] > 0.0)
    assert np.all(data.offset == 0.0)  # windows of one length
