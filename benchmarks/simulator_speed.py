"""Speed of the simulator: 1,000 runs × 500 steps of the K-armed bandit, beside a plain NumPy loop.

    python benchmarks/simulator_speed.py

The loop makes the same updates (same policy, optimizer, penalty and logged quantities), one run at a time; it
is timed on fewer runs and scaled. Both are checked to learn the same mean curve.
"""

import os
import statistics
import time

import numpy as np

from bayes_grpo.simulate.policies import softmax_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import simulate
from benchmarks.common import keep

RUNS, STEPS, LOOP_RUNS, REPEATS = 1000, 500, 20, 5
ARMS, GROUP, PROMPTS = 10, 8, 4
RATE, MOMENTUM, KL_WEIGHT, EPSILON, CLIP = 0.05, 0.9, 0.1, 1e-4, 0.2
REWARD = np.linspace(0.1, 0.9, ARMS)


def numpy_run(seed: int) -> np.ndarray:
    """One run in plain NumPy; rows of reward, std, zero-std share, entropy, KL, clip, gradient norm, true."""
    rng = np.random.default_rng(seed)
    theta, velocity = np.zeros(ARMS), np.zeros(ARMS)
    rows = np.empty((STEPS, 8))
    for step in range(STEPS):
        log_policy = theta - theta.max()
        log_policy -= np.log(np.exp(log_policy).sum())
        policy = np.exp(log_policy)
        arms = (rng.random((PROMPTS, GROUP, 1)) > np.cumsum(policy)[:-1]).sum(axis=-1)
        reward = (rng.random((PROMPTS, GROUP)) < REWARD[arms]).astype(float)
        std = reward.std(axis=1, ddof=1)
        advantage = (reward - reward.mean(axis=1, keepdims=True)) / (std[:, None] + EPSILON)
        old = log_policy[arms]
        ratio = np.exp(log_policy[arms] - old)
        active = np.where(advantage > 0, ratio <= 1 + CLIP, ratio >= 1 - CLIP)
        weight = active * ratio * advantage / arms.size
        gradient = weight.sum() * policy - np.bincount(arms.ravel(), weight.ravel(), minlength=ARMS)
        surprise = log_policy + np.log(ARMS)
        kl = policy @ surprise
        gradient += KL_WEIGHT * policy * (surprise - kl)
        rows[step] = (
            reward.mean(),
            reward.std(ddof=1),
            (std == 0).mean(),
            -(policy @ log_policy),
            kl,
            1.0 - active.mean(),
            np.linalg.norm(gradient),
            policy @ REWARD,
        )
        velocity = MOMENTUM * velocity + gradient
        theta = theta - RATE * velocity
    return rows


def main() -> None:
    """Prints medians, ranges and the ratio."""
    structure = Structure(n_steps=STEPS, group_size=GROUP, prompts_per_step=PROMPTS)
    numbers = Numbers(learning_rate=RATE, momentum=MOMENTUM, kl_weight=KL_WEIGHT, advantage_epsilon=EPSILON)
    environment = softmax_bandit(REWARD)
    compiled, looped, batch, loop = [], [], None, []
    # Alternated, so that other load on the machine falls on both.
    for repeat in range(REPEATS + 1):
        begin = time.perf_counter()
        batch = simulate(structure, numbers, environment, repeat * RUNS + np.arange(RUNS))
        compiled.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        loop += [numpy_run(repeat * LOOP_RUNS + seed)[:, -1] for seed in range(LOOP_RUNS)]
        looped.append((time.perf_counter() - begin) * RUNS / LOOP_RUNS)
    first, warm = compiled[0], sorted(compiled[1:])
    assert batch is not None
    gap = np.abs(batch.true_reward.mean(axis=0) - np.mean(loop, axis=0)).max()
    print(f"{RUNS} runs x {STEPS} steps, {ARMS} arms, {PROMPTS} groups of {GROUP}; {os.cpu_count()} cores")
    print(f"compiled, first call     {first:8.2f} s (with compilation)")
    print(f"compiled, median of {REPEATS}    {statistics.median(warm):8.2f} s ({warm[0]:.2f} to {warm[-1]:.2f})")
    middle = statistics.median(looped)
    print(f"NumPy loop, median of {len(looped)}  {middle:8.1f} s ({min(looped):.1f} to {max(looped):.1f}),")
    print(f"                         scaled from {LOOP_RUNS} runs")
    print(f"ratio                    {middle / statistics.median(warm):8.0f} x")
    times = {"first": first, "compiled": statistics.median(warm), "loop": middle}
    keep("simulator_speed", times | {"ratio": middle / times["compiled"], "gap": float(gap)})
    print(f"largest gap of the mean curves {gap:.4f} (reward)")


if __name__ == "__main__":
    main()
