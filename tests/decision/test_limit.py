"""A rule on the rows to come: checked where the best one is known."""

import json

import numpy as np
import pytest

from bayes_grpo.decision.limit import _first, best_limit

STEPS = np.arange(0.0, 41.0)


def swinging(draws: int = 2000, noise: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gain and rows of a reward that swings by ±1 with an unknown phase, at a cost of 0.001 a step."""
    rng = np.random.default_rng(seed)
    wave = np.sin(2 * np.pi * (STEPS / 10.0 + rng.uniform(size=(draws, 1))))
    net = wave - wave[:, :1] - 0.001 * STEPS
    return net - net[:, :1], wave[:, 1:] + noise * rng.standard_normal((draws, 40))


def test_a_swinging_reward_is_stopped_near_its_top():
    net, rows = swinging()
    found = best_limit(STEPS, net, rows, "GPU hours")
    assert found is not None
    assert 0.8 < found.reward <= 1.0
    assert found.more == pytest.approx(0.95, abs=0.1)  # from 0 on average to the top, less some steps
    assert found.reached > 0.9
    assert found.every == 1.0
    assert f"at least {found.reward:.3g}, looking every 1 steps" in found.sentence
    assert "GPU hours more than the best step that is fixed now" in found.sentence
    assert json.loads(json.dumps(found.to_dict()))["reward"] == found.reward


def test_rows_that_say_nothing_give_no_rule():
    net, _ = swinging()
    rows = np.random.default_rng(1).standard_normal((len(net), 40))
    assert best_limit(STEPS, net, rows) is None


def test_a_certain_rise_needs_no_rule():
    rise = 1.0 - np.exp(-STEPS / 10.0) - 0.01 * STEPS
    net = np.tile(rise, (500, 1))
    rows = np.tile(1.0 - np.exp(-STEPS[1:] / 10.0), (500, 1)) + 0.05 * np.random.default_rng(2).standard_normal(
        (500, 40)
    )
    assert best_limit(STEPS, net, rows) is None


def test_noise_makes_a_rule_worth_less():
    clear, noisy = (best_limit(STEPS, *swinging(noise=x, seed=3)) for x in (0.0, 1.0))
    assert clear is not None
    assert noisy is not None
    assert noisy.more < 0.8 * clear.more


def test_its_worth_is_that_of_paths_it_was_not_chosen_on():
    net, rows = swinging(4000, noise=0.5, seed=4)
    found = best_limit(STEPS, net[:2000], rows[:2000])
    assert found is not None
    net, rows = net[2000:], rows[2000:]
    there = rows >= found.reward
    first = 1 + np.where(there.any(axis=1), there.argmax(axis=1), 40)
    worth = net[np.arange(len(net)), np.minimum(first, int(found.latest))].mean()
    assert found.net == pytest.approx(worth, abs=0.1)


def test_rows_that_lag_behind_are_told_by_their_way_up():
    """What a stop keeps is a quarter of a swing further than rows show: at its top where they cross the middle."""
    rng = np.random.default_rng(5)
    phase = STEPS / 20.0 + rng.uniform(size=(4000, 1))
    seen, kept = np.sin(2 * np.pi * phase), np.sin(2 * np.pi * (phase + 0.25))
    net = kept - kept[:, :1] - 0.001 * STEPS
    found = best_limit(STEPS, net, seen[:, 1:])
    assert found is not None
    assert found.rising
    assert abs(found.reward) < 0.35
    assert "after a lower one, looking every" in found.sentence
    assert found.more == pytest.approx(0.9, abs=0.12)


def test_the_last_logged_row_counts_as_the_one_before():
    steps = np.arange(0.0, 4.0)
    rows = np.tile([0.6, 0.1, 0.7], (200, 1)) + 1e-9 * np.random.default_rng(6).standard_normal((200, 3))
    net = np.tile([0.0, -1.0, -1.0, 1.0], (200, 1))
    before = np.column_stack([np.full(200, 0.8), rows[:, :-1]])
    assert set(_first(rows, before, 0.5, rising=True)) == {3}
    assert set(_first(rows, before, 0.5, rising=False)) == {1}
    assert best_limit(steps, net, rows, last_row=0.8) is None  # a certain path needs no rule


def test_too_little_to_choose_from():
    net, rows = swinging(3)
    assert best_limit(STEPS[:2], net[:, :2], rows[:, :1]) is None
    assert best_limit(STEPS, net[:1], rows[:1]) is None
