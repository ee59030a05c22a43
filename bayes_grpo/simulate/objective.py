"""The GRPO objective of a log-linear policy, sampled and in expectation.

A reward is 0 or 1, so within a group every success has one advantage and every failure another, and the
importance ratio depends only on (prompt, arm). The clipped surrogate of a whole batch is therefore a function
of four tables over (prompt, arm), `AdvantageMass`. Sampled, expected and infinite-group updates fill those
tables differently and share everything after.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from bayes_grpo.simulate.policies import PromptSet
from bayes_grpo.simulate.settings import Numbers, Structure


class AdvantageMass(NamedTuple):
    """A batch of scored completions, summed over (prompt, arm), shape (prompts, arms).

    ``gain`` (≥ 0) and ``loss`` (≤ 0) are sums of positive and negative advantages over the batch size, ``…_share`` the
    shares of completions that have one; ``prompt_share`` has the share of groups on each prompt, shape (prompts,).
    """

    gain: jax.Array
    loss: jax.Array
    gain_share: jax.Array
    loss_share: jax.Array
    prompt_share: jax.Array


class BatchMetrics(NamedTuple):
    """Logged scalars of a batch: mean reward, standard deviation of all rewards (TRL ≥ 0.27), share of equal groups."""

    reward: jax.Array
    reward_std: jax.Array
    frac_reward_zero_std: jax.Array


def log_policy(prompts: PromptSet, parameters: jax.Array) -> jax.Array:
    """Log-probabilities of every arm on every prompt, shape (prompts, arms)."""
    return jax.nn.log_softmax(prompts.reference_logit + prompts.features @ parameters, axis=-1)


def mean_reward(prompts: PromptSet, parameters: jax.Array, gold: bool = False) -> jax.Array:
    """Exact mean reward of a policy over a prompt set, by the training or the gold reward."""
    reward = prompts.gold_probability if gold else prompts.reward_probability
    return jnp.mean(jnp.sum(jnp.exp(log_policy(prompts, parameters)) * reward, axis=-1))


def sampled_batch(
    data_key: jax.Array,
    key: jax.Array,
    prompts: PromptSet,
    log_sampling: jax.Array,
    structure: Structure,
    numbers: Numbers,
) -> tuple[AdvantageMass, BatchMetrics]:
    """Draws B prompts by one random key and G completions each by the other, and scores them.

    ``log_sampling`` has the log-probabilities of the policy that draws, shape (prompts, arms).
    """
    n_prompts = log_sampling.shape[0]
    n_groups, size = structure.prompts_per_step, structure.group_size
    (prompt_key, _), (_, arm_key) = jax.random.split(data_key), jax.random.split(key)
    probability = jnp.exp(log_sampling)
    rewarded = probability * prompts.reward_probability
    upper = jnp.cumsum(probability, axis=-1)
    chosen = jax.random.randint(prompt_key, (n_groups,), 0, n_prompts)
    rewarded, upper = rewarded[chosen], upper[chosen]
    lower = jnp.concatenate([jnp.zeros_like(upper[:, :1]), upper[:, :-1]], axis=-1)
    # One uniform decides arm and reward: within an arm's interval the first part, of relative length equal to
    # its chance of reward, is a success. Counting the draws below each edge is all that is needed.
    u = jax.random.uniform(arm_key, (n_groups, size, 1), dtype=log_sampling.dtype) * upper[:, None, -1:]
    edges = jnp.concatenate([upper, jnp.minimum(lower + rewarded, upper)], axis=-1)
    below = jnp.sum(u < edges[:, None], axis=1, dtype=jnp.int32).astype(log_sampling.dtype)
    end, split = jnp.split(below, 2, axis=-1)
    begin = jnp.concatenate([jnp.zeros_like(end[:, :1]), end[:, :-1]], axis=-1)
    successes, failures = split - begin, end - split

    mean = jnp.sum(successes, axis=-1) / size
    variance = mean * (1.0 - mean)
    std = jnp.sqrt(variance * (size / (size - structure.ddof)))
    # Groups without spread have advantage 0, whatever ε: they neither gain nor lose.
    mixed = variance > 0
    spread = mixed.astype(log_sampling.dtype)[:, None]
    scale = jnp.ones_like(std)
    if structure.advantage == "std":
        scale = 1.0 / (jnp.where(mixed, std, 1.0) + numbers.advantage_epsilon)
    tables = jnp.stack(
        [
            successes * ((1.0 - mean) * scale)[:, None],
            -failures * (mean * scale)[:, None],
            successes * spread,
            failures * spread,
        ]
    ) / (n_groups * size)
    place = jax.nn.one_hot(chosen, n_prompts, dtype=log_sampling.dtype)
    tables = jnp.einsum("bp,tbk->tpk", place, tables)
    total = jnp.mean(mean)
    n = n_groups * size
    metrics = BatchMetrics(
        reward=total,
        reward_std=jnp.sqrt(total * (1.0 - total) * (n / (n - structure.ddof))),
        frac_reward_zero_std=1.0 - jnp.mean(spread),
    )
    return AdvantageMass(*tables, prompt_share=jnp.mean(place, axis=0)), metrics


def expected_batch(
    prompts: PromptSet, log_sampling: jax.Array, structure: Structure, numbers: Numbers
) -> tuple[AdvantageMass, BatchMetrics]:
    """The exact mean of `sampled_batch`'s tables over groups, on every prompt at once.

    With k successes in a group, its gradient is σ̂_k²/(s_k + ε) times the difference between the mean score
    functions of successes and failures, so a finite group only rescales the infinite-group advantages by
    E[σ̂_k²/(s_k + ε)] / (p(1 − p)), a binomial sum. (Exact for unclipped ratios.) ``structure.update`` chooses finite or
    infinite groups.
    """
    probability = jnp.exp(log_sampling)
    n_prompts = probability.shape[0]
    tiny = jnp.finfo(probability.dtype).eps
    p = jnp.clip(jnp.sum(probability * prompts.reward_probability, axis=-1), tiny, 1.0 - tiny)
    epsilon = numbers.advantage_epsilon
    size = structure.group_size
    share = _binomial(p, size)
    k = np.arange(size + 1) / size
    variance_k = k * (1.0 - k)
    std_k = np.sqrt(variance_k * size / (size - structure.ddof))
    if structure.update == "infinite_group":
        std = jnp.sqrt(p * (1.0 - p))
        scale = 1.0 / (std + epsilon) if structure.advantage == "std" else jnp.ones_like(p)
    else:
        weight = jnp.asarray(variance_k, p.dtype)
        if structure.advantage == "std":
            weight = weight / (jnp.asarray(np.where(variance_k > 0, std_k, 1.0), p.dtype) + epsilon)
        scale = share @ weight / (p * (1.0 - p))
    success = probability * prompts.reward_probability / n_prompts
    failure = probability * (1.0 - prompts.reward_probability) / n_prompts
    total = jnp.mean(p)
    mass = AdvantageMass(
        gain=success * ((1.0 - p) * scale)[:, None],
        loss=-failure * (p * scale)[:, None],
        gain_share=success,
        loss_share=failure,
        prompt_share=jnp.full(n_prompts, 1.0 / n_prompts, probability.dtype),
    )
    metrics = BatchMetrics(
        reward=total,
        reward_std=jnp.sqrt(total * (1.0 - total)),
        frac_reward_zero_std=jnp.mean(share[:, 0] + share[:, -1]),
    )
    return mass, metrics


def grpo_loss(
    parameters: jax.Array,
    log_sampling: jax.Array,
    mass: AdvantageMass,
    prompts: PromptSet,
    numbers: Numbers,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Clipped surrogate with KL penalty and entropy bonus, to be minimised.

    The KL(policy ‖ reference) is summed over arms, not estimated: the usual sampled estimator, put inside a
    loss, has the gradient of KL(reference ‖ policy) unless it is corrected by the importance ratio.

    Args:
        parameters: Where the gradient is evaluated, shape (parameters,).
        log_sampling: Log-probabilities of the policy that drew the batch, shape (prompts, arms).
        mass: The batch.
        prompts: Training prompts.
        numbers: Clip ranges and weights.

    Returns:
        The loss, and the metrics entropy (nats), kl (nats) and clip_ratio (share of completions).
    """
    log_current = log_policy(prompts, parameters)
    ratio = jnp.exp(log_current - jax.lax.stop_gradient(log_sampling))
    # min(r A, clip(r) A) is A·min(r, 1 + ε) for A > 0 and A·max(r, 1 − ε) for A < 0.
    too_high = 1.0 + numbers.clip_high
    too_low = 1.0 - numbers.clip_low
    surrogate = jnp.sum(mass.gain * jnp.minimum(ratio, too_high) + mass.loss * jnp.maximum(ratio, too_low))
    current = jnp.exp(log_current)
    log_reference = jax.nn.log_softmax(prompts.reference_logit, axis=-1)
    kl = jnp.sum(mass.prompt_share * jnp.sum(current * (log_current - log_reference), axis=-1))
    entropy = -jnp.sum(mass.prompt_share * jnp.sum(current * log_current, axis=-1))
    clipped = jnp.sum(mass.gain_share * (ratio > too_high) + mass.loss_share * (ratio < too_low))
    loss = -surrogate + numbers.kl_weight * kl - numbers.entropy_weight * entropy
    return loss, {"entropy": entropy, "kl": kl, "clip_ratio": clipped}


def _binomial(p: jax.Array, size: int) -> jax.Array:
    """Binomial probabilities of 0 … ``size`` successes, shape (len(p), size + 1)."""
    k = jnp.arange(size + 1, dtype=p.dtype)
    choose = gammaln(size + 1.0) - gammaln(k + 1.0) - gammaln(size - k + 1.0)
    return jnp.exp(choose + k * jnp.log(p)[:, None] + (size - k) * jnp.log1p(-p)[:, None])
