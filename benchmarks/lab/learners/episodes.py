"""Learns when a mode is under way from labelled episodes, and writes the package's table of chains.

    python -m benchmarks.lab.learners.episodes LABELS.csv --runs FOLDER ... --lab FOLDER ... [--out chains.json]

Of every mode the conditional likelihood of its labelled rows (`bayes_grpo.diagnosis.chain`), with what the runs of one
author have in common integrated out by Gauss-Hermite quadrature, under normal priors; the answer is the mode of the
posterior with its curvature. Rows that two readers could read otherwise are left open, which the likelihood sums over.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo.common.files import written_whole
from bayes_grpo.diagnosis.chain import FIXED, FULL_ROWS, ModeChain
from bayes_grpo.diagnosis.mode import Mode, followed_modes
from bayes_grpo.diagnosis.smoothing import TREND_ROWS
from benchmarks.lab.learners.episode_cases import OFF, ON, OPEN, EpisodeCase, lab_episodes, public_episodes
from benchmarks.lab.learners.record import keep

_TARGET = Path(__file__).parents[2] / "diagnosis" / "chains.json"
WEIGHT, WEIGHT_SD = 0.3, 0.4
"""Prior of a weight."""
FIXED_PRIOR = {
    "seen": (-0.5, 1.0),
    "unseen": (-0.5, 0.5),
    "begins": (0.0, 0.7),
    "ends": (0.0, 0.7),
    "start": (-1.5, 1.0),
    "spread": (-1.0, 0.5),
}
"""Prior mean and standard deviation of the other numbers."""
_MOST = 8.0
"""Runs that one author, or one family of the laboratory, counts for at most."""
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


class _Batch(NamedTuple):
    """Cases padded to one length: shape (runs, ...)."""

    x: np.ndarray
    rows: np.ndarray
    seen: np.ndarray
    label: np.ndarray
    author: np.ndarray
    weight: np.ndarray


def learn_chain(cases: Sequence[EpisodeCase], mode: Mode, without: str = "") -> ModeChain:
    """The numbers of one mode.

    Args:
        cases: Labelled runs.
        mode: The mode.
        without: An author whose runs are left out.
    """
    from scipy.optimize import minimize

    k = len(mode.predictors)
    batch, authors = _batch(cases, mode.name, k, without)
    middle = np.array([WEIGHT] * k + [FIXED_PRIOR[name][0] for name in FIXED])
    sd = np.array([WEIGHT_SD] * k + [FIXED_PRIOR[name][1] for name in FIXED])
    with jax.enable_x64(True):

        def at(numbers: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = _loss_and_slope(numbers, batch, authors, middle, sd)
            return float(value), np.asarray(slope)

        bounds = [(0.0, None)] * k + [(None, None)] * len(FIXED)
        found = np.asarray(minimize(at, middle, jac=True, method="L-BFGS-B", bounds=bounds).x)
        curvature = np.asarray(_curvature(found, batch, authors, middle, sd))
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    covariance = (vectors / np.maximum(values, 1.0 / sd.max() ** 2)) @ vectors.T
    kept = [c for c in cases if c.author != without]
    episodes = sum(int(np.any(c.labels[mode.name] == ON)) for c in kept)
    learned_from = {"runs": len(kept), "runs with it": episodes, "authors": len({c.author for c in kept})}
    return ModeChain(mode.predictors, found, covariance, learned_from)


def _batch(cases: Sequence[EpisodeCase], mode: str, k: int, without: str) -> tuple[_Batch, int]:
    names = sorted({c.author for c in cases})
    count = Counter(c.author for c in cases)
    x = np.zeros((len(cases), TREND_ROWS, k))
    label = np.full((len(cases), TREND_ROWS), OPEN)
    for i, case in enumerate(cases):
        n = len(case.step)
        x[i, :n] = np.nan_to_num(case.course[mode])
        label[i, :n] = case.labels[mode]
    batch = _Batch(
        x,
        np.array([len(c.step) for c in cases]),
        np.array([bool(np.isfinite(c.course[mode][:, 0]).any()) for c in cases]),
        label,
        np.array([names.index(c.author) for c in cases]),
        np.array([0.0 if c.author == without else c.trust * min(1.0, _MOST / count[c.author]) for c in cases]),
    )
    return batch, len(names)


def _loss(numbers: Any, batch: _Batch, authors: int, middle: Any, sd: Any) -> Any:
    """Negative log posterior density up to a constant."""
    spread = jnp.exp(numbers[-1])

    def of_node(node: Any) -> Any:
        found = _log_likelihoods(numbers, batch, spread * node)
        return jax.ops.segment_sum(batch.weight * found, batch.author, authors)

    by_node = jax.vmap(of_node)(jnp.asarray(_NODES))
    log_weight = jnp.log(_NODE_WEIGHTS / _NODE_WEIGHTS.sum())[:, None]
    marginal = jax.nn.logsumexp(by_node + log_weight, axis=0)
    return -marginal.sum() + 0.5 * jnp.sum(((numbers - middle) / sd) ** 2)


_loss_and_slope = jax.jit(jax.value_and_grad(_loss), static_argnames="authors")
_curvature = jax.jit(jax.hessian(_loss), static_argnames="authors")


def _log_likelihoods(numbers: Any, batch: _Batch, author: Any) -> Any:
    """Log conditional likelihood of the labelled rows of every run, shape (runs,)."""
    k = batch.x.shape[2]
    score = jnp.where(batch.seen[:, None], numbers[k] + batch.x @ numbers[:k], numbers[k + 1])
    unary = (score + author) * (FULL_ROWS / jnp.maximum(batch.rows, FULL_ROWS))[:, None]
    on, off = (-jnp.expm1(-jnp.exp(numbers[k + i]) / jnp.maximum(batch.rows - 1, 1)) for i in (2, 3))
    inside = jnp.arange(batch.x.shape[1]) < batch.rows[:, None]
    log_sum = jax.vmap(partial(_log_sum, start=numbers[k + 4]))
    return log_sum(unary, batch.label, inside, on, off) - log_sum(
        unary, jnp.full_like(batch.label, OPEN), inside, on, off
    )


def _log_sum(unary: Any, label: Any, inside: Any, on: Any, off: Any, start: Any) -> Any:
    """Log of the sum over all histories that agree with the labels; an open row agrees with both."""
    never = -1e9

    def kept(off_on: Any, label: Any) -> Any:
        return jnp.where(label == ON, never, off_on[0]), jnp.where(label == OFF, never, off_on[1])

    def step(before: Any, row: Any) -> Any:
        u, label, inside = row
        then = (
            jnp.logaddexp(before[0] + jnp.log1p(-on), before[1] + jnp.log(off)),
            jnp.logaddexp(before[0] + jnp.log(on), before[1] + jnp.log1p(-off)) + u,
        )
        return jax.tree.map(partial(jnp.where, inside), kept(then, label), before), None

    first = kept((jax.nn.log_sigmoid(-start), jax.nn.log_sigmoid(start) + unary[0]), label[0])
    return jnp.logaddexp(*jax.lax.scan(step, first, (unary[1:], label[1:], inside[1:]))[0])


def learn_chains(cases: Sequence[EpisodeCase], say: Callable[[str], None] = print) -> dict[str, ModeChain]:
    """The numbers of every mode that is followed over time and labelled in some case."""
    out = {}
    for mode in followed_modes():
        known = [c for c in cases if mode.name in c.labels]
        if any(np.any(c.labels[mode.name] == ON) for c in known):
            out[mode.name] = learn_chain(known, mode)
            say(f"{mode.name}: {dict(out[mode.name].learned_from)}")
    return out


def written(chains: Mapping[str, ModeChain], target: Path) -> None:
    """Writes the table."""
    content = {name: chain.to_dict() for name, chain in chains.items()}
    with written_whole(target) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path, help="episodes of public logs, one a line")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="folders with index.csv, csv and raw")
    parser.add_argument("--lab", type=Path, nargs="+", required=True, help="folders of `lab_logs`")
    parser.add_argument("--out", type=Path, default=_TARGET)
    asked = parser.parse_args()
    public, lab = public_episodes(asked.labels, asked.runs), lab_episodes(asked.lab)
    chains = learn_chains([*public, *lab])
    written(chains, asked.out)
    if asked.out == _TARGET:
        keep(
            "learn_episodes",
            {
                "public runs": len(public),
                "laboratory runs": len(lab),
                "numbers": {name: chain.to_dict()["mean"] for name, chain in chains.items()},
            },
        )


if __name__ == "__main__":
    main()
