"""What whole logs of scripts of one's own hold beside their reward: parts, evaluations, runs, steps."""

import pytest

from bayes_grpo.logs import read_log

STEPS = range(1, 9)


def rows(total="reward_mean", **columns):
    """Eight rows with a mean reward and other columns, each a number or values by step."""
    found = [{k: x if not isinstance(x, list) else x[s - 1] for k, x in columns.items()} for s in STEPS]
    return [{"step": s, total: 0.2 + 0.05 * s, **row} for s, row in zip(STEPS, found, strict=True)]


@pytest.mark.parametrize(
    ("total", "columns", "parts"),
    [
        ("reward_mean", {"fp_reward": 0.5, "task_reward": 0.3}, {"fp": "fp_reward", "task": "task_reward"}),
        ("mean_reward", {"fp_reward": 0.5, "mean_question_reward": 0.3}, {}),
        ("mean_reward", {"best_reward": 0.5, "max_reward": 1.0, "window_reward": 0.4, "ema_reward": 0.4}, {}),
        ("reward_mean", {"fp_reward": 0.5, "rare_reward": [0.5, *[None] * 7]}, {}),
        ("reward_mean", {"verifier_reward_mean": 0.0}, {"verifier": "verifier_reward_mean"}),
        ("reward_mean", {"copy_penalty_mean": 0.1}, {"copy_penalty": "-copy_penalty_mean"}),
        ("reward_mean", {"copy_penalty_mean": -0.1}, {"copy_penalty": "copy_penalty_mean"}),
    ],
)
def test_rewards_and_penalties_beside_a_mean_reward_are_its_parts(total, columns, parts):
    found = read_log(rows(total, **columns))
    assert found.part_keys == {f"rewards/{name}": key for name, key in parts.items()}
    assert found.keys["reward"] == total


def test_the_size_of_a_penalty_is_read_below_zero():
    assert read_log(rows(copy_penalty_mean=[0.1 * s for s in STEPS])).components["copy_penalty"][-1] == -0.8


@pytest.mark.parametrize(
    ("columns", "kl"),
    [({"loss": 0.2, "loss_pg": 0.1, "loss_kl": 0.1}, "penalty"), ({"loss": 0.2, "loss_kl": 0.1}, None)],
)
def test_the_divergence_beside_the_other_term_of_the_loss_is_its_own_term(columns, kl):
    assert read_log(rows(**columns)).definitions.get("kl") == kl
