"""What the law of one run reads at a step, at an amount of compute and in the end, averaged over two laws.

A run that rises and one that does not are both common, and a law with a trend sees trends in noise. So each run is read
under the exponential law and under the flat one, each with the share that its marginal likelihood gives it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.families.evidence import SAMPLER, Scale
from bayes_grpo.families.shrink import run_draws
from bayes_grpo.fitting.sampling.adaptive import Care
from bayes_grpo.fitting.sampling.fast import FastPosterior, fast_posterior
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.table import RowTable

LAWS = ("exponential", "flat")
DRAWS = 400


@dataclass(frozen=True, eq=False)
class Reading:
    """A run as its laws see it.

    Attributes:
        run: The run.
        table: Its rows.
        curve: The unforced law at the rows, shape (draws, T).
        plateau: Where it would settle at its highest learning rate, shape (draws,).
    """

    run: Run
    table: RowTable
    curve: np.ndarray
    plateau: np.ndarray

    @property
    def last(self) -> float:
        """Its last step."""
        return float(self.table.step[-1])

    def at(self, step: float) -> np.ndarray:
        """The unforced law at a step within the rows, shape (draws,)."""
        steps = self.table.step
        j = int(np.clip(np.searchsorted(steps, step), 1, len(steps) - 1))
        share = float(np.clip((step - steps[j - 1]) / (steps[j] - steps[j - 1]), 0.0, 1.0))
        return (1.0 - share) * self.curve[:, j - 1] + share * self.curve[:, j]


def reading_of(run: Run, table: RowTable, seed: int = 0) -> Reading:
    """Reads a run.

    Args:
        run: The run.
        table: Its rows.
        seed: Seed.

    Raises:
        FitError: No law can be put on the rows.
    """
    found: list[FastPosterior] = []
    for name in LAWS:
        try:
            law, care = get_regime(name), Care(effective=1000.0, draws=DRAWS)
            found.append(
                fast_posterior(law, table, shared(table), seed=seed_of(seed, name), care=care, sampler=SAMPLER)
            )
        except FitError:
            if name == LAWS[-1]:
                raise
    evidence = np.array([f.log_evidence for f in found])
    share = np.exp(evidence - evidence.max())
    counts = np.round(DRAWS * share / share.sum()).astype(int)
    curves, plateaus = [], []
    for f, count in zip(found, counts, strict=True):
        if count:
            picks = np.linspace(0, len(f.z) - 1, count).astype(int)
            levels = f.levels(seed_of(seed, "levels", f.regime.name))
            t = np.stack([levels[p.name] for p in f.regime.linear], axis=-1)[picks]
            u = np.asarray(f.numbers.location) + np.asarray(f.numbers.scale) * f.z[picks]
            draws = run_draws(f.regime, table, u, t, Scale(0.0, 1.0))
            curves.append(draws.curve)
            plateaus.append(draws.values["fixed_point"])
    return Reading(run, table, np.concatenate(curves), np.concatenate(plateaus))
