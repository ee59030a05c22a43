"""Simulated runs of wide settings with known failures: what the diagnosis learns from and is judged on.

Every run is a real GRPO training of a small softmax policy (`bayes_grpo.simulate`). Settings are drawn far wider than
in the named scenarios, logs are cut at a random step, averaged over random logging intervals, and lack signals at
random. What a run is called is decided afterwards by exact quantities of the policy over the logged part, never by the
family it was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from bayes_grpo.diagnosis.classes import CLASSES, MODES
from bayes_grpo.dynamics.thresholds import critical_gain, onset_of_oscillation
from bayes_grpo.logs.run import Provenance, Run, Setting, Settings
from bayes_grpo.simulate import (
    Environment,
    Numbers,
    Structure,
    bernoulli_bandit,
    contextual_bandit,
    simulate,
    softmax_bandit,
)

STEPS = 300
_BATCH = 32
SETTINGS = (
    "12 families of softmax policies (contextual, Bernoulli and ten-armed bandits); 300 steps cut at 50 to 300; rows "
    "of 1 to 8 steps; G x prompts 2x8, 4x2, 8x1, 8x16, 16x8; Adam, EMA and heavy-ball momentum 0 to 0.95; sampling "
    "policy held 1 to 32 steps; KL weight 0 to 8; learning rates over a factor of 5 to 500 in each family"
)
"""What the runs cover, for the table's provenance."""
_SIGNALS = ("reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "clip_ratio")
GROUPS = ((2, 8), (4, 2), (8, 1), (8, 16), (16, 8))  # few, because each compiles its own program


class SimulatedDraw(NamedTuple):
    """Settings of a run before it is simulated."""

    structure: Structure
    numbers: Numbers
    environment: Environment


@dataclass(frozen=True, eq=False)
class LabelledRun:
    """A log and what is true of it.

    Attributes:
        run: The log.
        family: Which family of settings it was drawn from.
        label: One of `CLASSES`.
        modes: Every failure under way, the leading one first; empty without.
        onset: Step at which the leading failure begins, NaN without one.
        damage: Step at which it can be seen in the quantity that matters, NaN without one.
    """

    run: Run
    family: str
    label: str
    modes: tuple[str, ...]
    onset: float
    damage: float


class SimulatedTruth(NamedTuple):
    """What a run's exact quantities say."""

    label: str
    modes: tuple[str, ...]
    onset: float
    damage: float


def labelled_runs(n: int, seed: int, *, complete: bool = False, only: tuple[str, ...] = ()) -> list[LabelledRun]:
    """Simulates runs, families in turn.

    Args:
        n: Number of runs.
        seed: Seed of settings, sampling and logging.
        complete: Keep every signal in every log.
        only: Families to draw from; all if empty.
    """
    names = [name for name, weight in _WEIGHTS.items() if not only or name in only for _ in range(weight)]
    draws, families, seeds, generators = [], [], [], []
    for index in range(n):
        rng = np.random.default_rng([seed, index])
        families.append(names[index % len(names)])
        draws.append(_FAMILIES[families[-1]](rng))
        seeds.append(int(rng.integers(2**31)))
        generators.append(rng)
    out: dict[int, LabelledRun] = {}
    keys = [(d.structure, tuple(leaf.shape for leaf in jax.tree.leaves(d.environment))) for d in draws]
    for key in dict.fromkeys(keys):
        members = [i for i, k in enumerate(keys) if k == key]
        for first in range(0, len(members), _BATCH):
            part = members[first : first + _BATCH]
            filled = part + part[:1] * (_BATCH - len(part))  # one batch size, one compiled program
            numbers = Numbers(*map(np.array, zip(*(draws[i].numbers for i in filled), strict=True)))
            environment = jax.tree.map(lambda *leaves: np.stack(leaves), *(draws[i].environment for i in filled))
            batch = simulate(key[0], numbers, environment, [seeds[i] for i in filled])
            for row, i in enumerate(part):
                trajectory = jax.tree.map(lambda leaf, row=row: leaf[row], batch)
                out[i] = _logged(generators[i], families[i], draws[i], trajectory, f"run-{i:05d}", complete)
    return [out[i] for i in range(n)]


def simulated_truth(trajectory: Any, best: float, last: int) -> SimulatedTruth:
    """Judges the first ``last`` steps of a run from what only a simulator knows.

    * dynamical instability: over the last third the exact reward swings by more than 0.2, there and back; or it ends
      more than 0.1 and a third of its range below its best;
    * reward hacking: the gold reward ends more than 0.1 below its best while the train reward rose; or the train reward
      gains at least 0.1 and the gold reward less than a fifth of that;
    * policy concentration: entropy below a tenth of its start, exact reward more than 0.25 below the best policy's;
    * advantage degeneracy: over the second half more than 65% of the groups have no spread, the reward gained less than
      0.1;
    * healthy: the exact reward gained at least 0.08, or stands within 0.05 of the best;
    * plateaued: neither.

    Args:
        trajectory: One run.
        best: Reward of the best policy.
        last: Steps that are logged.
    """
    reward, gold, entropy = (
        np.asarray(getattr(trajectory, name), float)[:last] for name in ("true_reward", "gold_reward", "entropy")
    )
    share = np.asarray(trajectory.frac_reward_zero_std, float)[:last]
    end = reward[-max(last // 20, 1) :].mean()
    gain = end - reward[0]
    found: list[tuple[str, int, int]] = []
    late = reward[-max(last // 3, 1) :]
    away = late - 0.5 * (late.max() + late.min())
    side = np.sign(away[np.abs(away) > 0.25 * np.ptp(late)])
    swings = np.ptp(late) > 0.2 and np.count_nonzero(np.diff(side)) >= 2
    peak = int(reward.argmax())
    fell = reward[peak] - end > max(0.1, np.ptp(reward) / 3.0) and peak > 0
    if swings or fell:
        # The first clear fall from a best so far.
        drop = np.maximum.accumulate(reward) - reward
        damage = _first(drop > 0.1)
        onset = int(reward[: damage + 1].argmax())
        found.append(("dynamical_instability", onset, damage))
    top = int(gold.argmax())
    turned = gold[-1] < gold[top] - 0.1 and end > reward[top]
    hollow = gain >= 0.1 and gold[-max(last // 20, 1) :].mean() - gold[0] < 0.2 * gain
    if turned or hollow:
        if turned:
            onset, damage = top, top + _first(gold[top:] < gold[top] - 0.1)
        else:
            onset, damage = _first(reward > reward[0] + 0.03), _first(reward > reward[0] + 0.1)
        found.append(("reward_hacking", onset, damage))
    if entropy[-1] < 0.1 * entropy[0] and end < best - 0.25:
        found.append(("policy_concentration", _first(entropy < 0.5 * entropy[0]), _first(entropy < 0.1 * entropy[0])))
    if share[last // 2 :].mean() > 0.65 and gain < 0.1:
        smooth = np.convolve(share, np.ones(20) / 20.0, mode="valid")
        onset = _first(smooth > 0.65)
        found.append(("advantage_degeneracy", onset, min(onset + 20, last - 1)))
    if found:
        return SimulatedTruth(found[0][0], tuple(mode for mode, _, _ in found), float(found[0][1]), float(found[0][2]))
    label = "healthy" if gain >= 0.08 or end > best - 0.05 else "plateaued"
    return SimulatedTruth(label, (), np.nan, np.nan)


def _first(condition: np.ndarray) -> int:
    """Index of the first true value, or the last index."""
    return int(condition.argmax()) if condition.any() else len(condition) - 1


def _logged(
    rng: np.random.Generator, family: str, draw: SimulatedDraw, trajectory: Any, name: str, complete: bool
) -> LabelledRun:
    """One run as a log: cut, averaged, rescaled, some signals left out."""
    last = int(rng.integers(50, STEPS + 1)) if rng.random() < 0.6 else STEPS
    every = int(rng.choice([1, 1, 1, 2, 4, 8]))
    if last // every < 16:
        every = last // 16
    rows = last // every
    last = rows * every

    def means(values: Any) -> np.ndarray:
        return np.asarray(values, float)[:last].reshape(rows, every).mean(axis=1)

    signals = {key: means(getattr(trajectory, key)) for key in _SIGNALS if key != "grad_norm"}
    signals["grad_norm"] = np.asarray(trajectory.grad_norm, float)[every - 1 : last : every]
    # A trainer estimates entropy and KL from the tokens it sampled; estimates of the KL have heavy tails.
    signals["entropy"] = signals["entropy"] * np.exp(rng.uniform(0.01, 0.08) * rng.standard_normal(rows))
    signals["kl"] = signals["kl"] * np.exp(rng.uniform(0.03, 0.4) * rng.standard_t(rng.uniform(2.5, 10.0), rows))
    signals["grad_norm"] = signals["grad_norm"] * np.exp(rng.uniform(0.0, 0.3) * rng.standard_t(4.0, rows))
    reward = means(trajectory.reward)
    keep = np.asarray(trajectory.eval_step) <= last
    eval_step = np.asarray(trajectory.eval_step, float)[keep]
    # As if the evaluation had 64 to 3,000 prompts: the sampling noise of 64 shrinks.
    exact = np.asarray(trajectory.true_eval_reward, float)[keep]
    eval_reward = exact + _between(rng, 0.15, 1.0) * (np.asarray(trajectory.eval_reward, float)[keep] - exact)
    thin = int(rng.choice([1, 2, 3]))
    eval_step, eval_reward = eval_step[::thin], eval_reward[::thin]
    scale, offset = 1.0, 0.0
    settings: dict[str, Any] = {"momentum": float(draw.numbers.momentum), "logging_window": every}
    if complete or rng.random() < 0.7:
        settings |= {"group_size": draw.structure.group_size, "prompts_per_step": draw.structure.prompts_per_step}
    if not complete:
        if rng.random() < 0.3:
            scale, offset = float(np.exp(rng.normal(0.0, 1.0))), float(rng.normal(0.0, 1.0))
        for key, chance in (
            ("reward_std", 0.3), ("frac_reward_zero_std", 0.4), ("entropy", 0.4), ("kl", 0.4), ("grad_norm", 0.3),
            ("clip_ratio", 0.5),
        ):  # fmt: skip
            if rng.random() < chance:
                del signals[key]
        if rng.random() < 0.45:
            eval_step, eval_reward = np.empty(0), np.empty(0)
        elif rng.random() < 0.12:
            reward = np.full(rows, np.nan)
    if "reward_std" in signals:
        signals["reward_std"] = signals["reward_std"] * scale
    run = Run(
        name=name,
        source=family,
        format="simulated",
        log_hash="",
        step=np.arange(1, rows + 1) * float(every),
        reward=offset + scale * reward,
        window=np.full(rows, float(every)),
        signals=signals,
        eval_step=eval_step,
        eval_reward=offset + scale * eval_reward,
        settings=Settings(**{k: Setting(v, Provenance.CONFIG) for k, v in settings.items()}),
    )
    best = float(np.asarray(draw.environment.train.reward_probability).max(axis=-1).mean())
    truth = simulated_truth(trajectory, best, last)
    return LabelledRun(run, family, *truth)


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _structure(rng: np.random.Generator, **fields: Any) -> Structure:
    size, prompts = GROUPS[rng.integers(len(GROUPS))]
    usual: dict[str, Any] = {"n_steps": STEPS, "group_size": size, "prompts_per_step": prompts, "eval_every": 10}
    return Structure(**usual | fields)


def _climb(rng: np.random.Generator) -> SimulatedDraw:
    """Contextual policy over a wide range of difficulty, rate and penalty."""
    adam = rng.random() < 0.5
    structure = _structure(rng, optimizer="adam" if adam else "ema", schedule="linear" if adam else "constant")
    numbers = Numbers(
        learning_rate=_between(rng, 0.002, 0.05) if adam else _between(rng, 0.03, 0.6),
        momentum=0.9,
        kl_weight=_between(rng, 0.005, 0.5),
        warmup_steps=int(rng.integers(0, 31)),
    )
    environment = contextual_bandit(
        rng,
        difficulty_mean=rng.uniform(-0.5, 3.0),
        difficulty_sd=rng.uniform(0.8, 2.6),
        memory_scale=rng.uniform(0.05, 0.3),
        true_positive_rate=rng.uniform(0.8, 1.0),
    )
    return SimulatedDraw(structure, numbers, environment)


def _late(rng: np.random.Generator) -> SimulatedDraw:
    """Bandit that takes off late, where p(1 - p) leaves little to learn from."""
    structure = Structure(n_steps=STEPS, group_size=8, prompts_per_step=16, advantage="mean", optimizer="ema",
                          eval_every=10)  # fmt: skip
    start, fixed = rng.uniform(-4.0, -2.5), rng.uniform(0.5, 3.0)
    numbers = Numbers(
        learning_rate=(1.0 + np.exp(-start)) / rng.uniform(40.0, 250.0),
        momentum=0.9,
        kl_weight=(1.0 - 1.0 / 8.0) / (fixed - start),
    )
    return SimulatedDraw(structure, numbers, bernoulli_bandit(start, start))


def _flat(rng: np.random.Generator) -> SimulatedDraw:
    """Bandit at its fixed point."""
    structure = _structure(rng, advantage="mean")
    reward = rng.uniform(0.05, 0.95)
    logit, weight = float(np.log(reward / (1.0 - reward))), rng.uniform(0.2, 1.0)
    reference = logit - (1.0 - 1.0 / structure.group_size) / weight
    numbers = Numbers(learning_rate=_between(rng, 0.001, 0.1), momentum=rng.uniform(0.0, 0.9), kl_weight=weight)
    return SimulatedDraw(structure, numbers, bernoulli_bandit(logit, reference))


def _barely(rng: np.random.Generator) -> SimulatedDraw:
    """Contextual policy with far too small a rate."""
    draw = _climb(rng)
    return draw._replace(numbers=draw.numbers._replace(learning_rate=draw.numbers.learning_rate * 0.04))


def _settled(rng: np.random.Generator) -> SimulatedDraw:
    """Contextual policy held near its start by a strong penalty."""
    draw = _climb(rng)
    return draw._replace(numbers=draw.numbers._replace(kl_weight=rng.uniform(2.0, 8.0)))


def _ringing(rng: np.random.Generator) -> SimulatedDraw:
    """Underdamped yet stable bandit: healthy once it has rung out."""
    mu, interval = rng.uniform(0.85, 0.95), int(rng.choice([1, 2, 4]))
    onset = float(onset_of_oscillation(mu))
    highest = min(30.0, 0.5 * critical_gain(mu, interval, "hold") / onset)
    gain = onset * rng.uniform(min(3.0, 0.8 * highest), highest)
    return _lagged(rng, mu, interval, "hold", gain)


def _hacked(rng: np.random.Generator) -> SimulatedDraw:
    """An exploit that is found on the way: the gold reward rises, then turns over."""
    structure = _structure(rng, optimizer="adam")
    numbers = Numbers(learning_rate=_between(rng, 0.008, 0.05), momentum=0.9, kl_weight=_between(rng, 0.01, 0.08))
    environment = contextual_bandit(
        rng,
        difficulty_mean=rng.uniform(0.5, 2.5),
        difficulty_sd=rng.uniform(1.5, 3.5),
        true_positive_rate=rng.uniform(0.55, 0.85),
        exploit_logit=rng.uniform(-4.0, -2.0),
        exploit_strength=rng.uniform(1.5, 3.5),
        exploit_reward=rng.uniform(0.85, 1.0),
    )
    return SimulatedDraw(structure, numbers, environment)


def _hollow(rng: np.random.Generator) -> SimulatedDraw:
    """An exploit on tasks that the policy cannot solve: the gold reward stays on the floor."""
    structure = _structure(rng, optimizer="adam")
    numbers = Numbers(learning_rate=_between(rng, 0.004, 0.04), momentum=0.9, kl_weight=_between(rng, 0.005, 0.1))
    environment = contextual_bandit(
        rng,
        difficulty_mean=rng.uniform(4.0, 8.0),
        difficulty_sd=rng.uniform(0.5, 1.5),
        exploit_logit=rng.uniform(-2.5, 0.5),
        exploit_strength=rng.uniform(0.8, 2.5),
        exploit_reward=rng.uniform(0.5, 1.0),
    )
    return SimulatedDraw(structure, numbers, environment)


def _degenerate(rng: np.random.Generator) -> SimulatedDraw:
    """Prompts too hard, too easy, or groups too small for a mixture of both."""
    cause = str(rng.choice(["too_hard", "too_hard", "too_easy", "too_small"]))
    fields = {"group_size": 2, "prompts_per_step": 8} if cause == "too_small" else {}
    structure = _structure(rng, **fields)
    lead = rng.uniform(2.0, 8.0)
    mean, sd = {"too_hard": (lead, rng.uniform(0.3, 3.0)), "too_easy": (-lead - 0.5, rng.uniform(0.3, 3.0)),
                "too_small": (rng.uniform(-2.0, 2.0), lead + 1.0)}[cause]  # fmt: skip
    numbers = Numbers(learning_rate=_between(rng, 0.003, 0.05), momentum=0.5, kl_weight=rng.uniform(0.02, 0.2))
    return SimulatedDraw(structure, numbers, contextual_bandit(rng, difficulty_mean=mean, difficulty_sd=sd))


def _concentrated(rng: np.random.Generator) -> SimulatedDraw:
    """A good arm takes all before the best is seen."""
    structure = Structure(n_steps=STEPS, group_size=int(rng.choice([4, 8])), prompts_per_step=4, eval_every=10)
    arms = 10
    reward, logits = rng.uniform(0.02, 0.2, arms), rng.normal(0.0, 0.3, arms)
    reward[0], logits[0] = rng.uniform(0.85, 1.0), rng.uniform(-6.0, -3.5)
    reward[1], logits[1] = rng.uniform(0.15, 0.65), rng.uniform(0.0, 1.5)
    numbers = Numbers(learning_rate=_between(rng, 0.05, 0.6), momentum=rng.uniform(0.3, 0.8))
    return SimulatedDraw(structure, numbers, softmax_bandit(reward, logits))


def _poor(rng: np.random.Generator) -> SimulatedDraw:
    """Poor arms only, but for one that is hardly ever tried, and a large step: chance picks what to lock in."""
    structure = Structure(n_steps=STEPS, group_size=8, prompts_per_step=4, eval_every=10)
    arms = 10
    reward, logits = rng.uniform(0.0, 0.12, arms), rng.normal(0.0, 0.4, arms)
    reward[0], logits[0] = rng.uniform(0.8, 1.0), rng.uniform(-8.0, -5.0)
    numbers = Numbers(learning_rate=_between(rng, 0.2, 1.5), momentum=rng.uniform(0.3, 0.9))
    return SimulatedDraw(structure, numbers, softmax_bandit(reward, logits))


def _unstable(rng: np.random.Generator) -> SimulatedDraw:
    """Bandit above the exact threshold of its lag model; cut early, it shows one rise and one fall."""
    model: Literal["hold", "delay"] = "hold" if rng.random() < 0.7 else "delay"
    mu = rng.uniform(0.3, 0.95)
    interval = int(rng.choice([4, 8, 16, 32])) if model == "hold" else 8
    # Far above it the policy is thrown to certainty, where nothing moves: a collapse.
    excess = _between(rng, 2.5, 12.0) if rng.random() < 0.4 else rng.uniform(1.05, 2.5)
    return _lagged(rng, mu, interval, model, critical_gain(mu, interval, model) * excess)


def _lagged(
    rng: np.random.Generator, momentum: float, interval: int, model: Literal["hold", "delay"], gain: float
) -> SimulatedDraw:
    structure = Structure(n_steps=STEPS, group_size=8, prompts_per_step=16, advantage="mean", refresh=model,
                          eval_every=10)  # fmt: skip
    logit, distance = rng.uniform(-0.3, 1.2), rng.uniform(1.2, 2.2)
    weight = (1.0 - 1.0 / 8.0) / distance
    p = 1.0 / (1.0 + np.exp(-logit))
    numbers = Numbers(
        learning_rate=gain / (weight * p * (1.0 - p)),
        momentum=momentum,
        refresh_interval=interval,
        lag_exposure=1.0,
        kl_weight=weight,
    )
    return SimulatedDraw(structure, numbers, bernoulli_bandit(logit - distance, logit - distance))


_FAMILIES: dict[str, Callable[[np.random.Generator], SimulatedDraw]] = {
    "climb": _climb,
    "late": _late,
    "flat": _flat,
    "barely": _barely,
    "settled": _settled,
    "ringing": _ringing,
    "hacked": _hacked,
    "hollow": _hollow,
    "degenerate": _degenerate,
    "concentrated": _concentrated,
    "poor": _poor,
    "unstable": _unstable,
}
"""Each draws the settings of one run."""

_WEIGHTS = {
    "climb": 5,
    "late": 1,
    "flat": 2,
    "barely": 2,
    "settled": 1,
    "ringing": 1,
    "hacked": 3,
    "hollow": 2,
    "degenerate": 2,
    "concentrated": 3,
    "poor": 2,
    "unstable": 5,
}  # fmt: skip

__all__ = ["CLASSES", "MODES", "LabelledRun", "labelled_runs", "simulated_truth"]
