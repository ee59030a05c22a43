"""Whether a logged spread of rewards is that within groups or of all completions."""

import numpy as np
import pytest

from bayes_grpo.logs import read_log

RNG = np.random.default_rng(5)


def logged(groups, group, rule, **more):
    """The kind of spread in a log of simulated binary rewards of prompts of different difficulty."""
    rows = []
    for step in range(1, 41):
        rewards = (RNG.random((groups, group)) < RNG.beta(1, 1, size=(groups, 1))).astype(float)
        within = rewards.std(axis=1, ddof=1)
        row = {"step": step, "reward": rewards.mean(), "frac_reward_zero_std": float(np.mean(within == 0)), "loss": 0.0}
        row["reward_std"] = rewards.std(ddof=1) if rule == "total" else within.mean()
        rows.append(row | {k: f(rewards) for k, f in more.items()})
    return read_log(rows).settings.reward_std_kind


@pytest.mark.parametrize("rule", ["total", "within"])
def test_beside_the_std_of_the_only_reward_function(rule):
    more = {"rewards/f/mean": np.mean, "rewards/f/std": lambda r: r.std(ddof=1)}
    assert logged(16, 8, rule, **more).value == rule


def test_binary_rewards_tell_the_total_and_claim_nothing_else():
    setting = logged(64, 8, "total")
    assert setting.value == "total"
    assert "sqrt(p(1 - p))" in setting.note
    assert logged(64, 8, "within").value == "unknown"
    beyond_one = [{"step": s, "reward": 1.0 + 0.1 * s, "reward_std": 0.4} for s in range(1, 20)]
    assert read_log(beyond_one).settings.reward_std_kind.value == "unknown"


def test_spread_where_no_group_has_any():
    rows = [{"step": s, "reward": 1.0, "reward_std": 0.3, "frac_reward_zero_std": 1.0} for s in range(1, 6)]
    assert read_log(rows).settings.reward_std_kind.value == "total"
