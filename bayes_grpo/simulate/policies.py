"""Softmax policies that are linear in features, and the rewards of their arms.

One form serves every policy here: the logit of arm ``a`` on prompt ``i`` is

    logit[i, a] = reference_logit[i, a] + features[i, a] · θ

so θ = 0 *is* the reference policy. A two-armed Bernoulli bandit has one parameter (the logit itself), a
K-armed bandit one per arm, a contextual bandit shares its parameters across prompts and so generalises.
An arm is a completion, its reward a Bernoulli draw: verifiable rewards are 0 or 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Array = Any
"""A NumPy array, or a JAX array inside a compiled function."""


class PromptSet(NamedTuple):
    """Prompts with their arms.

    Attributes:
        reference_logit: Logits of the reference policy, shape (prompts, arms).
        features: Feature vectors, shape (prompts, arms, parameters).
        reward_probability: Chance that the training reward of an arm is 1, shape (prompts, arms).
        gold_probability: Chance that an arm is truly right, shape (prompts, arms).
    """

    reference_logit: Array
    features: Array
    reward_probability: Array
    gold_probability: Array


class Environment(NamedTuple):
    """Task on which a policy is trained; a pytree whose leaves may carry a leading axis of runs.

    Attributes:
        train: Prompts that updates are drawn from.
        held_out: Prompts of the evaluation, graded by the gold reward. May be the train set.
        initial_parameters: θ at the first update, shape (parameters,).
    """

    train: PromptSet
    held_out: PromptSet
    initial_parameters: Array


def _verified(gold: np.ndarray, true_positive_rate: float, false_positive_rate: float) -> np.ndarray:
    """Chance of reward 1 of each arm under a noisy verifier."""
    return true_positive_rate * gold + false_positive_rate * (1.0 - gold)


def bernoulli_bandit(
    initial_logit: float = 0.0,
    reference_logit: float = 0.0,
    true_positive_rate: float = 1.0,
    false_positive_rate: float = 0.0,
) -> Environment:
    """Two arms on one prompt, one of them right; θ is the logit of the right arm minus ``reference_logit``.

    Args:
        initial_logit: Logit z of the right arm at the first update.
        reference_logit: Logit z_r of the reference policy of the KL penalty.
        true_positive_rate: Of the verifier.
        false_positive_rate: Of the verifier.
    """
    gold = np.array([[0.0, 1.0]])
    prompts = PromptSet(
        reference_logit=np.array([[0.0, reference_logit]]),
        features=np.array([[[0.0], [1.0]]]),
        reward_probability=_verified(gold, true_positive_rate, false_positive_rate),
        gold_probability=gold,
    )
    return Environment(prompts, prompts, np.array([initial_logit - reference_logit]))


def softmax_bandit(reward_probability: ArrayLike, initial_logits: ArrayLike | None = None) -> Environment:
    """K arms with one parameter each, on one prompt; the start is the reference policy.

    Args:
        reward_probability: Chance that an arm is right and rewarded, shape (arms,), in [0, 1].
        initial_logits: Logits of the reference policy, shape (arms,); zeros if None.
    """
    reward = np.asarray(reward_probability, dtype=np.float64)
    logits = np.zeros_like(reward) if initial_logits is None else np.asarray(initial_logits, dtype=np.float64)
    prompts = PromptSet(logits[None], np.eye(len(reward))[None], reward[None], reward[None])
    return Environment(prompts, prompts, np.zeros(len(reward)))


def contextual_bandit(
    rng: np.random.Generator,
    *,
    n_prompts: int = 64,
    n_held_out: int = 64,
    n_arms: int = 6,
    n_skills: int = 4,
    n_memory: int = 8,
    difficulty_mean: float = 0.0,
    difficulty_sd: float = 1.5,
    true_positive_rate: float = 1.0,
    false_positive_rate: float = 0.0,
    exploit_logit: float | None = None,
    exploit_strength: float = 1.0,
) -> Environment:
    """Many prompts of different difficulty that share parameters.

    Each prompt needs a mixture of skills: the right arm's features are its skill weights, so raising a skill
    helps evaluation prompts too. Random "memory" features of every arm let training prompts be learned by
    heart, which does not carry over. With ``exploit_logit`` the last arm of each prompt is an exploit: the
    training reward is 1, the gold reward 0, and its feature is shared, so finding it once spreads.

    Args:
        rng: Source of the prompts.
        n_prompts: Training prompts.
        n_held_out: Evaluation prompts, drawn from the same distribution.
        n_arms: Arms of a prompt, at least 2 (3 with an exploit).
        n_skills: Shared skill features.
        n_memory: Random features.
        difficulty_mean: Mean of how far the right arm starts behind a wrong arm, in logits.
        difficulty_sd: Its standard deviation over prompts.
        true_positive_rate: Of the verifier.
        false_positive_rate: Of the verifier.
        exploit_logit: Starting logit of the exploit arm, or None for no exploit.
        exploit_strength: Size of the exploit's shared feature: how fast it spreads once it is found.

    Returns:
        An environment; parameters are (skills, memory, exploit if any).
    """
    n_parameters = n_skills + n_memory + (exploit_logit is not None)

    def draw(n: int) -> PromptSet:
        logit = rng.normal(0.0, 0.3, (n, n_arms))
        logit[:, 0] = -rng.normal(difficulty_mean, difficulty_sd, n)
        features = np.zeros((n, n_arms, n_parameters))
        # Weights are scaled to unit mean square, so that curvature does not shrink with the number of skills.
        features[:, 0, :n_skills] = rng.dirichlet(np.ones(n_skills), n) * np.sqrt(n_skills)
        memory = slice(n_skills, n_skills + n_memory)
        features[:, :, memory] = rng.normal(0.0, 0.3, (n, n_arms, n_memory))
        gold = np.zeros((n, n_arms))
        gold[:, 0] = 1.0
        reward = _verified(gold, true_positive_rate, false_positive_rate)
        if exploit_logit is not None:
            logit[:, -1] = exploit_logit + rng.normal(0.0, 0.3, n)
            features[:, -1, -1] = exploit_strength
            reward[:, -1] = 1.0
        return PromptSet(logit, features, reward, gold)

    return Environment(draw(n_prompts), draw(n_held_out), np.zeros(n_parameters))
