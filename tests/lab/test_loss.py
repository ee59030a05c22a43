"""The GRPO loss against loops over completions and tokens."""

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.lab.loss import LossKind, Weights, group_statistics, grpo_loss
from benchmarks.lab.rollout import PolicyReading

KINDS: list[LossKind] = ["sequence", "token", "constant"]
N, LIMIT = 12, 5
WEIGHTS = Weights(clip_low=0.1, clip_high=0.2, kl=0.3, entropy=0.05)


@pytest.fixture(scope="module")
def batch():
    """Readings that differ enough for clipping on both sides, lengths from 1 to the limit."""
    rng = np.random.default_rng(0)
    written = np.arange(LIMIT) < rng.integers(1, LIMIT + 1, (N, 1))
    before = np.where(written, rng.uniform(-3, -0.1, (N, LIMIT)), 0.0)
    now = np.where(written, before + 0.4 * rng.standard_normal((N, LIMIT)), 0.0)
    reference = np.where(written, before + 0.4 * rng.standard_normal((N, LIMIT)), 0.0)
    entropy = np.where(written, rng.uniform(0, 2, (N, LIMIT)), 0.0)
    return now, before, reference, entropy, rng.standard_normal(N), written


def plain_loss(batch, kind, kl_kind):
    now, before, reference, entropy, advantage, written = batch
    sums, counts, clipped, kls, entropies = np.zeros(N), np.zeros(N), [], [], []
    for i in range(N):
        for t in range(LIMIT):
            if not written[i, t]:
                continue
            ratio = np.exp(now[i, t] - before[i, t])
            away = reference[i, t] - now[i, t]
            kl = (np.exp(away) - away - 1) * (ratio if kl_kind == "weighted" else 1)
            bounded = min(max(ratio, 1 - WEIGHTS.clip_low), 1 + WEIGHTS.clip_high)
            gain = min(ratio * advantage[i], bounded * advantage[i])
            sums[i] += -gain + WEIGHTS.kl * kl
            counts[i] += 1
            high, low = ratio > 1 + WEIGHTS.clip_high, ratio < 1 - WEIGHTS.clip_low
            clipped.append(+1 if high and advantage[i] > 0 else -1 if low and advantage[i] < 0 else 0)
            kls.append(kl)
            entropies.append(entropy[i, t])
    assert {-1, 0, 1} == set(clipped)
    loss = {"sequence": np.mean(sums / counts), "token": sums.sum() / counts.sum(), "constant": sums.sum() / N / LIMIT}
    return loss[kind] - WEIGHTS.entropy * np.mean(entropies), {
        "entropy": np.mean(entropies),
        "kl": np.mean(kls),
        "clip_ratio": np.mean(np.abs(clipped)),
    }


@pytest.mark.parametrize("kl_kind", ["plain", "weighted"])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_metrics(batch, kind, kl_kind):
    now, before, reference, entropy, advantage, written = (jnp.asarray(x) for x in batch)
    loss, metrics = grpo_loss(
        PolicyReading(now, entropy), before, reference, advantage, written, WEIGHTS, kind, kl_kind=kl_kind
    )
    expected, expected_metrics = plain_loss(batch, kind, kl_kind)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert {k: float(v) for k, v in metrics.items()} == pytest.approx(expected_metrics, rel=1e-5)


def test_an_endless_ratio_leaves_the_penalty_finite():
    one = jnp.ones((1, 1))
    reading = PolicyReading(-200.0 * one, 0 * one)
    loss, metrics = grpo_loss(reading, -200.0 * one, 0 * one, one[0], one > 0, WEIGHTS, "token")
    assert np.isfinite([float(loss), float(metrics["kl"])]).all()


@pytest.mark.parametrize("scaled", [True, False])
def test_group_statistics(scaled):
    groups = [[1.0, 0.0, 0.5, 0.25], [0.3, 0.3, 0.3, 0.3], [0.1, 0.1, 0.1, 1.1]]
    found = group_statistics(jnp.asarray(groups).ravel(), 4, scaled, 1e-4)
    expected, spreads = [], []
    for group in groups:
        mean = sum(group) / 4
        spread = (sum((x - mean) ** 2 for x in group) / 3) ** 0.5
        spreads.append(spread)
        expected += [(x - mean) / (spread + 1e-4) if scaled else x - mean for x in group]
    np.testing.assert_allclose(found.advantage, expected, atol=1e-6)
    assert float(found.reward_std_within) == pytest.approx(np.mean(spreads), rel=1e-6)
    every = np.concatenate(groups)
    assert float(found.reward) == pytest.approx(every.mean(), rel=1e-6)
    assert float(found.reward_std) == pytest.approx(np.sqrt(np.sum((every - every.mean()) ** 2) / 11), rel=1e-6)
    assert float(found.frac_reward_zero_std) == pytest.approx(1 / 3)
    assert jnp.all(found.advantage[4:8] == 0)


def test_equal_rewards_push_nowhere_whatever_their_rounding():
    found = group_statistics(jnp.full(6, 0.1), 3, True, 0.0)
    assert jnp.all(found.advantage == 0)
    assert float(found.frac_reward_zero_std) == 1.0
    assert float(found.reward_std_within) == 0.0
