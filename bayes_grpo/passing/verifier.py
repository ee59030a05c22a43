"""`verifier_errors`: how often a verifier accepts wrong answers and rejects right ones, by hand labels.

In a stratum s (a phase of the training, or short and long completions) a share π_s of the completions is right, the
verifier accepts a wrong one with probability a_s and rejects a right one with r_s:

    accepted:              q_s = π_s (1 − r_s) + (1 − π_s) a_s
    right, if accepted:    π_s (1 − r_s) / q_s                   right, if rejected:    π_s r_s / (1 − q_s)

    logit a_s ~ N(a + b x_s, τ²),  a ~ N(−2, 1.5²),  b ~ N(0, 2²),  log τ ~ N(−1, 0.7²),  r_s likewise,
    logit π_s ~ N(0, 2²),  x_s from −½ to ½ over the strata

Labels count given the verdict, so that accepted and rejected completions may be labeled in any proportion; within each
they are taken to be labeled at random. Completions of one group are alike: accepted shares count with the variance
that they have between groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL, Interval, interval, span_text
from bayes_grpo.common.results import Result
from bayes_grpo.fitting.sampling.nuts import Convergence
from bayes_grpo.passing.passing import phases_of, sample_strata
from bayes_grpo.rollouts.labels import Labels, to_label
from bayes_grpo.rollouts.passes import Right
from bayes_grpo.rollouts.records import Rollouts

_LEAST = 10
"""Labels at least."""
_NO_VERDICT = -1
"""Stratum of completions of which the verifier says nothing."""


class _Counts(NamedTuple):
    """Of S strata: accepted shares, the independent completions they are worth, labels by verdict and truth (2, 2)."""

    accepted: Any
    size: Any
    labels: Any


@dataclass(frozen=True)
class VerifierStratum(Result):
    """A verifier's errors in one phase, or at one length.

    Attributes:
        name: The stratum in words.
        labels: Labels in it.
        accepted: Share that the verifier accepts.
        right: Share that is right: the corrected value.
        false_accept: Share of the wrong ones that it accepts.
        false_reject: Share of the right ones that it rejects.
    """

    name: str
    labels: int
    accepted: float
    right: Interval
    false_accept: Interval
    false_reject: Interval


@dataclass(frozen=True, kw_only=True)
class VerifierErrors(Result):
    """A verifier's errors by hand labels.

    Attributes:
        by: What says whether the verifier accepts.
        labels_by: Who labels: "hand", or a second scorer.
        labels: Number of labels.
        accepted: Share that the verifier accepts.
        right: Share that is right.
        false_accept: Share of the wrong ones that it accepts.
        false_reject: Share of the right ones that it rejects.
        overstated: Accepted share less right share: what its errors are worth.
        gain_accepted: Change of the accepted share from the first phase to the last.
        gain_right: Change of the right share likewise.
        p_hacked: Probability that the false accept rate is higher in the last phase than in the first.
        phases: The training in equal parts: the corrected curve.
        lengths: Shorter and longer completions; empty where lengths are unknown, or half are of the largest.
        next: Ids of the completions to label next.
        convergence: Checks of the sampler.
        notes: What a user should know.
    """

    by: str
    labels_by: str
    labels: int
    accepted: float
    right: Interval
    false_accept: Interval
    false_reject: Interval
    overstated: Interval
    gain_accepted: float
    gain_right: Interval
    p_hacked: float
    phases: tuple[VerifierStratum, ...]
    lengths: tuple[VerifierStratum, ...]
    next: tuple[str, ...]
    convergence: Convergence
    notes: tuple[str, ...]

    interval_level = LEVEL
    also_in_json = ("sentence", "interval_level")

    @property
    def sentence(self) -> str:
        """The rates and what they are worth."""
        accept, reject = (span_text(i, ".0%", level=False) for i in (self.false_accept, self.false_reject))
        over = span_text(self.overstated, "+.1%", level=False)
        gain = span_text(self.gain_right, "+.0%", level=False)
        return (
            f"The verifier accepts {accept} of the wrong answers and rejects {reject} of the right ones ({LEVEL:.0%}, "
            f"{self.labels} labels by {self.labels_by}). The accepted share less the right share is {over}. "
            f"The accepted share changed by {self.gain_accepted:+.0%}, the right one by {gain}."
        )


def verifier_errors(rollouts: Rollouts, verdict: Right, labels: Labels, *, seed: int = 0) -> VerifierErrors:
    """False accept and false reject rates of a verifier, by phase and by length, and the corrected curve.

    ``verdict`` says which completions the verifier accepts, ``labels`` which of some are right.

    Raises:
        FitError: Too few labels.
    """
    accepted = verdict.right
    judged = np.isfinite(accepted)
    known = judged[labels.place]
    labels = labels._replace(place=labels.place[known], right=labels.right[known])
    if len(labels.place) < _LEAST:
        raise FitError(
            f"--labels: expected at least {_LEAST} labels of completions with a verdict, found {len(labels.place)}; "
            "--to-label names the completions to label"
        )
    phase = np.full(rollouts.size, _NO_VERDICT)
    phase[judged], names = phases_of(rollouts.step[judged])
    many = len(names)
    draws, convergence = _sampled(rollouts, accepted, labels, phase, many, seed)
    weight = np.bincount(phase[judged]) / judged.sum()
    right = draws["right"] @ weight
    wrong = (1.0 - draws["right"]) * weight
    good = draws["right"] * weight
    share = float(accepted[judged].mean())
    phases = _strata(draws, accepted, labels, phase, names)
    lengths: tuple[VerifierStratum, ...] = ()
    size = rollouts.length[judged]
    middle = float(np.median(size))
    if middle < size.max():  # else half are of the largest length, or lengths are unknown
        long = np.full(rollouts.size, _NO_VERDICT)
        long[judged] = size > middle
        by_length, more = _sampled(rollouts, accepted, labels, long, 2, seed)
        lengths = _strata(by_length, accepted, labels, long, [f"length up to {middle:g}", f"length above {middle:g}"])
        convergence = convergence if more.passed else more
    gains = draws["right"][:, -1] - draws["right"][:, 0]
    return VerifierErrors(
        by=verdict.by,
        labels_by=labels.by,
        labels=len(labels.place),
        accepted=share,
        right=interval(right),
        false_accept=interval((draws["accept"] * wrong).sum(axis=1) / wrong.sum(axis=1)),
        false_reject=interval((draws["reject"] * good).sum(axis=1) / good.sum(axis=1)),
        overstated=interval(share - right),
        gain_accepted=phases[-1].accepted - phases[0].accepted,
        gain_right=interval(gains),
        p_hacked=float(np.mean(draws["accept"][:, -1] > draws["accept"][:, 0])) if many > 1 else float("nan"),
        phases=phases,
        lengths=lengths,
        next=to_label(rollouts, accepted, labels, seed=seed),
        convergence=convergence,
        notes=labels.notes,
    )


def _strata(
    draws: dict[str, np.ndarray], accepted: np.ndarray, labels: Labels, stratum: np.ndarray, names: list[str]
) -> tuple[VerifierStratum, ...]:
    return tuple(
        VerifierStratum(
            name=name,
            labels=int(np.sum(stratum[labels.place] == s)),
            accepted=float(accepted[stratum == s].mean()),
            right=interval(draws["right"][:, s]),
            false_accept=interval(draws["accept"][:, s]),
            false_reject=interval(draws["reject"][:, s]),
        )
        for s, name in enumerate(names)
    )


def _sampled(
    rollouts: Rollouts, accepted: np.ndarray, labels: Labels, stratum: np.ndarray, many: int, seed: int
) -> tuple[dict[str, np.ndarray], Convergence]:
    counts, place = np.zeros((many, 2, 2)), labels.place
    labeled = np.isin(np.arange(rollouts.size), place)
    np.add.at(counts, (stratum[place], accepted[place].astype(int), labels.right.astype(int)), 1.0)
    shares, sizes = np.array([_share(rollouts, accepted, stratum == s) for s in range(many)]).T
    for s in range(many):  # labels of one group are alike too
        if (inside := labeled & (stratum == s)).any():
            counts[s] *= _share(rollouts, accepted, inside)[1] / inside.sum()
    return sample_strata(verifier_model, _Counts(shares, sizes, counts), many, ("right", "accept", "reject"), seed)


def _share(rollouts: Rollouts, accepted: np.ndarray, inside: np.ndarray) -> tuple[float, float]:
    """Accepted share of some completions, and how many independent ones it is worth."""
    y, group = accepted[inside], rollouts.group[inside]
    p = float(y.mean())
    unit = np.where(group >= 0, group, -1 - np.arange(len(group)))
    place = np.unique(unit, return_inverse=True)[1]
    off = np.bincount(place, y - p)
    error = float(np.sum(off**2)) / len(y) ** 2
    return p, float(np.clip(p * (1.0 - p) / error if error > 0.0 else len(off), 1.0, len(y)))


def verifier_model(data: _Counts, each: Any) -> None:
    """Right shares and a verifier's errors in strata, as a NumPyro model."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    strata = len(each)

    def standard(name: str, size: int) -> Any:
        return numpyro.sample(name, dist.Normal(0.0, 1.0).expand([size]).to_event(1))

    right: Any = jax.nn.sigmoid(2.0 * standard("right_z", strata))
    x = jnp.linspace(-0.5, 0.5, strata) if strata > 1 else jnp.zeros(1)

    def errors(name: str) -> Any:
        line = -2.0 + 1.5 * standard(f"{name}_z", 1) + 2.0 * x * standard(f"{name}_slope_z", 1)
        return jax.nn.sigmoid(
            line + jnp.exp(-1.0 + 0.7 * standard(f"{name}_spread_z", 1)) * standard(f"{name}_own_z", strata)
        )

    accept, reject = errors("accept"), errors("reject")
    for name, value in (("right", right), ("accept", accept), ("reject", reject)):
        numpyro.deterministic(name, value)
    tiny = 1e-9
    both = jnp.stack(
        [
            jnp.stack([(1.0 - right) * (1.0 - accept), right * reject], axis=-1),
            jnp.stack([(1.0 - right) * accept, right * (1.0 - reject)], axis=-1),
        ],
        axis=-2,
    )  # verdict (rejected, accepted) × truth (wrong, right)
    verdict = both.sum(axis=-1)
    share = jnp.stack([1.0 - data.accepted, data.accepted], axis=-1)
    numpyro.factor("verdicts", jnp.sum(data.size[:, None] * share * jnp.log(verdict + tiny)))
    numpyro.factor("labels", jnp.sum(data.labels * jnp.log(both / (verdict[..., None] + tiny) + tiny)))
