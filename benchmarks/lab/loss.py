"""The GRPO loss of sampled completions, and what trainers log of it, by the definitions of TRL's `GRPOTrainer`.

Group-relative advantages: https://doi.org/10.48550/arXiv.2402.03300; without length and spread normalisation
(Dr. GRPO): https://doi.org/10.48550/arXiv.2503.20783; token mean (DAPO): https://doi.org/10.48550/arXiv.2503.14476.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from benchmarks.lab.rollout import PolicyReading

LossKind = Literal["sequence", "token", "constant"]
"""Mean over a completion's tokens and then over completions; mean over all tokens; sum over the longest length."""
KlKind = Literal["plain", "weighted"]
"""The estimate of the penalty as it is, or times the importance ratio. The gradient of the second is that of the KL
divergence, also where the ratio is 1 (DeepSeek-V3.2, https://doi.org/10.48550/arXiv.2512.02556; TRL's default since
2026)."""
KL_LARGEST = 30.0
"""Log ratios beyond this are held, so that one token cannot make the penalty infinite."""


class GroupStatistics(NamedTuple):
    """Advantages of a batch and what is logged of its rewards.

    Attributes:
        advantage: Shape (n,), the completions of a group side by side.
        reward: Mean reward.
        reward_std: Standard deviation of all rewards of the batch.
        reward_std_within: Mean standard deviation within the groups.
        frac_reward_zero_std: Share of groups whose rewards are all equal.
    """

    advantage: Array
    reward: Array
    reward_std: Array
    reward_std_within: Array
    frac_reward_zero_std: Array


def group_statistics(reward: Array, size: int, scaled: bool, epsilon: Any) -> GroupStatistics:
    """Advantages relative to the group.

    Args:
        reward: Shape (n,), the G completions of a prompt side by side.
        size: G.
        scaled: Whether they are divided by the group's standard deviation.
        epsilon: Added to it.

    Returns:
        Advantages and what is logged.
    """
    groups = reward.reshape(-1, size)
    away = groups - groups.mean(axis=1, keepdims=True)
    # A group without spread is one whose rewards are all equal, whatever rounding makes of their standard deviation.
    flat = jnp.all(groups == groups[:, :1], axis=1)
    std = jnp.where(flat, 0.0, jnp.sqrt(jnp.where(flat, 1.0, (away**2).sum(axis=1) / (size - 1))))
    advantage = jnp.where(flat[:, None], 0.0, away / (std[:, None] + epsilon) if scaled else away)
    return GroupStatistics(
        advantage.reshape(-1), reward.mean(), jnp.std(reward, ddof=1), std.mean(), flat.astype(float).mean()
    )


class Weights(NamedTuple):
    """Numeric settings of the loss.

    Attributes:
        clip_low: Ratios below 1 − clip_low stop pushing down.
        clip_high: Ratios above 1 + clip_high stop pushing up.
        kl: β of the penalty on the estimate of KL(policy ‖ reference).
        entropy: Weight of the entropy bonus.
    """

    clip_low: Any
    clip_high: Any
    kl: Any
    entropy: Any


def grpo_loss(
    now: PolicyReading,
    before: Array,
    reference: Array,
    advantage: Array,
    written: Array,
    weights: Weights,
    kind: LossKind,
    *,
    kl_kind: KlKind = "plain",
) -> tuple[Array, dict[str, Array]]:
    """Clipped surrogate with a KL penalty and an entropy bonus, to be minimised.

    Args:
        now: The completions under the policy that is trained.
        before: Their log-probabilities under the policy that wrote them, a constant where gradients are taken, shape
            (n, L).
        reference: Under the reference, shape (n, L).
        advantage: Shape (n,).
        written: Which tokens count, shape (n, L).
        weights: Clip ranges and weights.
        kind: Over what the mean is taken; that of the entropy is over all tokens.
        kl_kind: Whether the penalty is weighed by the importance ratio.

    Returns:
        The loss and the metrics entropy and kl (nats a token) and clip_ratio (share of tokens).
    """
    ratio = jnp.exp(now.log_probability - before)
    held = jnp.clip(ratio, 1.0 - weights.clip_low, 1.0 + weights.clip_high)
    push = advantage[:, None]
    behind = jnp.clip(reference - now.log_probability, -KL_LARGEST, KL_LARGEST)
    kl = jnp.exp(behind) - behind - 1.0
    kl = kl * ratio if kl_kind == "weighted" else kl
    term = -jnp.minimum(ratio * push, held * push) + weights.kl * kl
    tokens = written.sum()

    def a_token(x: Array) -> Array:
        return jnp.sum(x * written) / jnp.maximum(tokens, 1)

    clipped = ((ratio < 1.0 - weights.clip_low) & (push < 0)) | ((ratio > 1.0 + weights.clip_high) & (push > 0))
    if kind == "sequence":
        loss = jnp.mean(jnp.sum(term * written, axis=1) / jnp.maximum(written.sum(axis=1), 1))
    elif kind == "token":
        loss = a_token(term)
    else:
        loss = jnp.sum(term * written) / written.size
    entropy = a_token(now.entropy)
    return loss - weights.entropy * entropy, {"entropy": entropy, "kl": a_token(kl), "clip_ratio": a_token(clipped)}
