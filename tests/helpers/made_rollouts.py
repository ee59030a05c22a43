"""Simulated rollouts whose shares, difficulties and differences are known."""

from typing import NamedTuple

import numpy as np

from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.rollouts.shares import Factors, shapley


class Course(NamedTuple):
    """Logits of finishing, format and correctness at the first and the last step, and spreads over prompts."""

    finished: tuple[float, float] = (0.5, 3.0)
    formatted: tuple[float, float] = (-1.0, 2.0)
    correct: tuple[float, float] = (1.0, 0.7)
    spread: tuple[float, float, float] = (0.5, 1.0, 1.5)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def _line(ends: tuple[float, float], steps: int) -> np.ndarray:
    return np.linspace(*ends, steps)


def rollouts_of(
    reward: np.ndarray,
    step: np.ndarray,
    prompt: np.ndarray,
    *,
    parts: dict[str, np.ndarray] | None = None,
    truncated: np.ndarray | None = None,
    name: str = "made",
) -> Rollouts:
    """Rollouts from columns, in the order of their steps; groups are prompts of a step."""
    n = len(reward)
    key = step.astype(np.int64) * (int(prompt.max()) + 1) + prompt
    group = np.unique(key, return_inverse=True)[1]
    return Rollouts(
        name=name,
        source=name,
        format="made",
        split="train",
        step=step.astype(np.int32),
        policy_version=np.full(n, -1, np.int32),
        prompt=(prompt + 1).astype(np.uint64),
        group=group.astype(np.int32),
        reward=reward.astype(float),
        parts={k: v.astype(np.float32) for k, v in (parts or {}).items()},
        truncated=np.full(n, -1, np.int8) if truncated is None else truncated.astype(np.int8),
        answer=np.zeros(n, np.uint64),
        length=np.full(n, np.nan, np.float32),
    )


def with_gates(rng: np.random.Generator, course: Course, steps: int = 40, prompts: int = 8, group: int = 8) -> Rollouts:
    """A run in which answers have to be finished and formatted to be correct; every prompt comes once."""
    many = steps * prompts
    step, prompt = np.repeat(np.arange(1, steps + 1), prompts * group), np.repeat(np.arange(many), group)
    effects = [s * rng.standard_normal(many)[prompt] for s in course.spread]
    levels = [_line(x, steps)[step - 1] for x in (course.finished, course.formatted, course.correct)]
    finished, formatted, correct = (
        rng.random(len(step)) < _sigmoid(a + b) for a, b in zip(levels, effects, strict=True)
    )
    good = finished & formatted
    parts = {"format_ok": good * 1.0}
    return rollouts_of((good & correct) * 1.0, step, prompt, parts=parts, truncated=~finished)


def true_shares(course: Course, steps: int, many: int) -> dict[str, float]:
    """Shares of the gain over all prompts, between the first and the last ``many`` steps; gain too."""
    z = np.random.default_rng(0).standard_normal((3, 200_000))
    levels = [_line(x, steps) for x in (course.finished, course.formatted, course.correct)]
    sides = []
    for some in (slice(None, many), slice(-many, None)):
        f, t, q = np.zeros(3)
        for row in range(*some.indices(steps)):
            p = [_sigmoid(level[row] + s * x) for level, s, x in zip(levels, course.spread, z, strict=True)]
            f, t, q = f + p[0].mean(), t + (p[0] * p[1]).mean(), q + (p[0] * p[1] * p[2]).mean()
        zero = np.zeros(1)  # what is not formatted gets nothing
        sides.append(Factors(np.array([f / many]), np.array([t / f]), np.array([q / t]), zero, zero))
    changes = shapley(*sides)
    gain = float(sides[1].reward[0] - sides[0].reward[0])
    shares = {name: float(changes[name][0]) / gain for name in ("finished", "formatted", "quality")}
    return {"gain": gain} | shares


def graded(
    rng: np.random.Generator,
    level: np.ndarray,
    prompts: np.ndarray,
    effect: np.ndarray,
    *,
    group: int = 8,
    passing: float = 0.0,
    name: str = "made",
) -> Rollouts:
    """A run of rewards 0 and 1 whose success rate has a logit of the step's level plus the prompt's effect.

    Args:
        rng: Random numbers.
        level: Logit of every step, shape (steps,).
        prompts: Prompts of every step, shape (steps, B).
        effect: Effect of every prompt, logits.
        group: Completions of a prompt.
        passing: Spread of what a prompt has at one step alone, logits.
        name: Name of the run.
    """
    logit = level[:, None] + effect[prompts] + passing * rng.standard_normal(prompts.shape)
    reward = rng.random((*prompts.shape, group)) < _sigmoid(logit)[..., None]
    step = np.repeat(np.arange(1, len(level) + 1), prompts.shape[1] * group)
    return rollouts_of(reward.ravel() * 1.0, step, np.repeat(prompts.ravel(), group), name=name)
