"""Simulated runs of wide settings with known failures: what the diagnosis learns from and is judged on.

Every run is a real GRPO training of a small softmax policy (`bayes_grpo.simulate`). Settings are drawn far wider than
in the named scenarios, logs are cut at a random step, averaged over random logging intervals, and lack signals at
random. What a run is called is decided afterwards by exact quantities of the policy over the logged part, never by the
family it was drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.simulate.settings import Numbers
from bayes_grpo.simulate.training import simulate
from benchmarks.lab.learners.public_logs import CLASSES
from benchmarks.lab.learners.simulated_draws import (
    SIMULATED_FAMILIES,
    SIMULATED_SHARES,
    STEPS,
    SimulatedDraw,
    log_uniform,
)

_BATCH = 32
SETTINGS = (
    "12 families of softmax policies (contextual, Bernoulli and ten-armed bandits); 300 steps cut at 50 to 300; rows "
    "of 1 to 8 steps; G x prompts 2x8, 4x2, 8x1, 8x16, 16x8; Adam, EMA and heavy-ball momentum 0 to 0.95; sampling "
    "policy held 1 to 32 steps; KL weight 0 to 8; learning rates over a factor of 5 to 500 in each family"
)
"""What the runs cover, for the table's provenance."""
_SIGNALS = ("reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "clip_ratio")


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
    names = [name for name, weight in SIMULATED_SHARES.items() if not only or name in only for _ in range(weight)]
    draws, families, seeds, generators = [], [], [], []
    for index in range(n):
        rng = np.random.default_rng([seed, index])
        families.append(names[index % len(names)])
        draws.append(SIMULATED_FAMILIES[families[-1]](rng))
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
    eval_reward = exact + log_uniform(rng, 0.15, 1.0) * (np.asarray(trajectory.eval_reward, float)[keep] - exact)
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


__all__ = ["CLASSES", "MODES", "LabelledRun", "labelled_runs", "simulated_truth"]
