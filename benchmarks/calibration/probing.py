"""A stiffness from parts of a batch, beside dense matrices: bias, coverage, and what the naive estimate says.

    python -m benchmarks.calibration.probing [--quick]

Three updates whose exact Jacobian is known: a quadratic with noisy matrices, a softmax bandit with a linear policy, and
the same with a policy of two layers in Adam's metric. Batches are drawn again and again at a point; each is probed. The
naive estimate is the largest eigenvalue of the whole batch's matrix.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo.probing.operator import UpdateAt, lanczos, mean_of, product_of
from bayes_grpo.probing.probe import probe
from benchmarks.common import keep, say

PARTS, ARMS, PROMPTS, GROUP = 8, 5, 6, 8
KL_WEIGHT = 0.5


@dataclass(frozen=True)
class Problem:
    """An update whose batches can be drawn.

    Attributes:
        name: Which.
        scale: D, a number or shape (parameters,).
        exact: The mean update at shifted parameters.
        drawn: A batch of some groups in parts, by a seed: an update each.
        stiffest: The exact largest stiffness, from a dense matrix.
        groups: Batches that are tried, groups each.
    """

    name: str
    scale: Any
    exact: UpdateAt
    drawn: Callable[[int, int], list[UpdateAt]]
    stiffest: float
    groups: tuple[int, ...]


def largest(jacobian: np.ndarray, scale: Any) -> float:
    """Largest eigenvalue of D^½ (−J) D^½, its symmetric part, from a dense matrix."""
    root = np.sqrt(np.broadcast_to(np.asarray(scale, float), (len(jacobian),)))
    dense = -root[:, None] * jacobian * root
    return float(np.linalg.eigvalsh(0.5 * (dense + dense.T))[-1])


def quadratic(size: int = 60) -> Problem:
    """A symmetric matrix with noise in every entry, indefinite, its first eigenvalues a fifth apart."""
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.standard_normal((size, size)))
    values = 10.0 * 0.8 ** np.arange(size)
    values[-5:] *= -1.0
    matrix = turn @ np.diag(values) @ turn.T
    here = rng.standard_normal(size)

    def drawn(seed: int, groups: int) -> list[UpdateAt]:
        source = np.random.default_rng(seed)
        out = []
        for _ in range(PARTS):
            noise = source.standard_normal((size, size)) * 4.0 / np.sqrt(2.0 * groups / PARTS)
            push = source.standard_normal(size)
            out.append(lambda shift, m=matrix + noise + noise.T, p=push: p - m @ (here + shift))
        return out

    return Problem("quadratic", 1.0, lambda x: -(matrix @ (here + x)), drawn, largest(-matrix, 1.0), (256, 2048))


class Sample(NamedTuple):
    """Groups of completions of a bandit: prompts (n,), arms (n, G), and the policy that drew them, (n, arms)."""

    prompt: Any
    arm: Any
    log_policy: Any


def policy(theta: Any, features: Any, hidden: int) -> Any:
    """Log-probabilities of the arms for every prompt, (prompts, arms): linear in features, or through a tanh layer."""
    width = features.shape[1]
    if not hidden:
        return jax.nn.log_softmax(features @ theta.reshape(width, ARMS))
    first, second = theta[: width * hidden].reshape(width, hidden), theta[width * hidden :].reshape(hidden, ARMS)
    return jax.nn.log_softmax(jnp.tanh(features @ first) @ second)


def bandit(name: str, hidden: int, groups: tuple[int, ...]) -> Problem:
    """GRPO on prompts with five answers, a penalty on the KL divergence from a reference, and group advantages."""
    rng = np.random.default_rng(1)
    features = jnp.asarray(rng.standard_normal((PROMPTS, 4)))
    reward = jnp.asarray((rng.uniform(size=(PROMPTS, ARMS)) < 0.4).astype(float))
    size = 4 * ARMS if not hidden else 4 * hidden + hidden * ARMS
    here = jnp.asarray(0.7 * rng.standard_normal(size))
    far = policy(here + 0.3 * jnp.asarray(rng.standard_normal(size)), features, hidden)
    scale = 1.0 if not hidden else jnp.asarray(np.exp(rng.normal(0.0, 0.7, size)))

    def weighed(theta: Any, at: Any, sample: Sample) -> Any:
        """Loss whose gradient at ``at`` = ``theta`` is that of completions weighed by how much likelier they are."""
        now, fixed = policy(theta, features, hidden), policy(at, features, hidden)
        gain = reward[sample.prompt[:, None], sample.arm]
        away = gain - gain.mean(axis=1, keepdims=True)
        index = (sample.prompt[:, None], sample.arm)
        weight = jnp.exp(fixed[index] - jnp.take_along_axis(sample.log_policy, sample.arm, axis=1))
        behind = far[index] - now[index]
        return jnp.mean(weight * (-away * now[index] + KL_WEIGHT * (jnp.exp(behind) - behind - 1.0)))

    def mean_loss(theta: Any, at: Any) -> Any:
        now, fixed = policy(theta, features, hidden), jnp.exp(policy(at, features, hidden))
        away = (1.0 - 1.0 / GROUP) * (reward - (fixed * reward).sum(axis=1, keepdims=True))
        behind = far - now
        return (fixed * (-away * now + KL_WEIGHT * (jnp.exp(behind) - behind - 1.0))).sum(axis=1).mean()

    slope = jax.jit(lambda at, sample: -jax.grad(weighed)(at, at, sample))
    exact = jax.jit(lambda at: -jax.grad(mean_loss)(at, at))
    probabilities = np.exp(np.asarray(policy(here, features, hidden)))

    def drawn(seed: int, groups: int) -> list[UpdateAt]:
        source = np.random.default_rng(seed)
        out = []
        for _ in range(PARTS):
            prompt = source.integers(0, PROMPTS, groups // PARTS)
            steps = probabilities[prompt].cumsum(axis=1)
            arm = (source.uniform(size=(len(prompt), GROUP, 1)) > steps[:, None]).sum(axis=2).clip(max=ARMS - 1)
            sample = Sample(*(jnp.asarray(x) for x in (prompt, arm, np.log(probabilities[prompt]))))
            out.append(lambda shift, sample=sample: np.asarray(slope(here + shift, sample)))
        return out

    dense = np.asarray(jax.jacobian(lambda at: -jax.grad(mean_loss)(at, at))(here))
    update: UpdateAt = lambda shift: np.asarray(exact(here + shift))  # noqa: E731
    plain = scale if not hidden else np.asarray(scale)
    return Problem(name, plain, update, drawn, largest(dense, plain), groups)


def problems() -> tuple[Problem, ...]:
    """All of them, in double precision."""
    with jax.enable_x64(True):
        return quadratic(), bandit("softmax bandit", 0, (64, 512)), bandit("two layers, Adam", 8, (64, 512))


def told(problem: Problem, groups: int, seeds: Sequence[int]) -> dict[str, float]:
    """Probes of batches beside the exact stiffness."""
    found, naive, inside = [], [], []
    for seed in seeds:
        parts = problem.drawn(seed, groups)
        k = probe(parts, scale=problem.scale, optimizer="sgd").stiffest
        found.append((k.mean, k.crossed, k.sd))
        inside.append(k.interval.low <= problem.stiffest <= k.interval.high)
        each = [product_of(part, problem.scale) for part in parts]
        whole = lanczos(lambda way, each=each: mean_of([p(way) for p in each]), parts[0](0.0) - parts[1](0.0))
        naive.append(whole.value)
    table = np.array(found) / problem.stiffest
    error = table[:, 0].std(ddof=1) / np.sqrt(len(seeds))
    return {
        "batches": len(seeds),
        "bias": float(table[:, 0].mean() - 1.0),
        "bias_error": float(error),
        "sd": float(table[:, 0].std(ddof=1)),
        "crossed_bias": float(table[:, 1].mean() - 1.0),
        "naive_bias": float(np.mean(naive) / problem.stiffest - 1.0),
        "coverage": float(np.mean(inside)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few batches; keeps nothing")
    parser.add_argument("--batches", type=int, default=1000)
    options = parser.parse_args()
    batches = 60 if options.quick else options.batches
    out: dict[str, Any] = {}
    with jax.enable_x64(True):
        for problem in problems():
            exact = probe([problem.exact], scale=problem.scale, optimizer="sgd").stiffest.mean
            out[problem.name] = {"stiffest": problem.stiffest, "noise_free_error": exact / problem.stiffest - 1.0}
            print(f"{problem.name}: K {problem.stiffest:.4g}, noise-free {exact / problem.stiffest - 1.0:+.1e}")
            for groups in problem.groups:
                say(f"{problem.name}, {groups} groups")
                row = told(problem, groups, range(batches))
                out[problem.name][f"{groups} groups"] = row
                print(f"  {groups} groups:", *(f"{k} {v:.3g}" for k, v in row.items()))
    rows = [row for x in out.values() for key, row in x.items() if key.endswith("groups")]
    out["largest_noise_free_error"] = max(abs(x["noise_free_error"]) for x in out.values())
    out["coverage"] = float(np.mean([row["coverage"] for row in rows]))
    out["least_coverage"] = min(row["coverage"] for row in rows)
    out["most_coverage"] = max(row["coverage"] for row in rows)
    out["largest_bias"] = max((row["bias"] for row in rows), key=abs)
    out["largest_naive_bias"] = max(row["naive_bias"] for row in rows)
    print({k: v for k, v in out.items() if not isinstance(v, dict)})
    if not options.quick:
        keep("probing", out)


if __name__ == "__main__":
    main()
