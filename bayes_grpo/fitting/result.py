"""`Fit`: draws of one regime on one run, with the ArviZ DataTree of everything that led to them.

Nothing is stored that could be derived: summaries, sentences and plots are functions of a fit.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.results import About, Shown
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.groups import convergence_of_groups, priors_of_group, rows_of_groups, settings_of_group
from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.target import Target, prior_numbers
from bayes_grpo.fitting.window import FitWindow
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.padding import padded

if TYPE_CHECKING:
    from xarray import Dataset, DataTree


FORMAT = 5
"""Version of the saved layout; a file of another one is refused."""


@dataclass(frozen=True, eq=False)
class Fit(Shown):
    """A posterior with its data.

    Attributes:
        data: DataTree with the groups

            - `posterior` (parameters and derived quantities), `sample_stats`, `prior` (4,000 draws of the same);
            - `log_likelihood`: ``y``, log p(row | all other rows, sampled parameters), with the levels integrated out:
              the terms of leave-one-out, which do not add up to the likelihood of all rows;
            - `posterior_predictive`: ``y``, a value drawn from that conditional;
            - `joint_log_likelihood`: log p(all rows | all parameters, levels included), a number a draw; and
              `joint_log_prior`: log density of each parameter, in the coordinate in which its prior is normal. Power
              scaling needs both, under the names `log_likelihood` and `log_prior`, and refuses the tree as it is;
            - `prior_predictive`: a new run drawn at each draw of `prior`;
            - `posterior_mean`: of the latent reward and of the unforced regime;
            - `trajectories`: at 400 of the draws, each under its chain and draw, the unforced regime (``curve``), the
              latent reward of this run (``latent``) and this run measured again (``rows``);
            - `observed_data`, `constant_data`, `series`, `noise_level`: the rows, and what holds for all of them;
            - `priors`, `settings` (of the run), `convergence` (R-hat and ESS by parameter).

            Attributes hold regime, versions, seed, notes and the log's hash; those of `sample_stats` the sampler's
            settings.
        regime: The regime that was fitted. A fit carries it, so that one that no registry knows can do all that others
            can.
    """

    data: DataTree
    regime: Regime

    @property
    def sentence(self) -> str:
        """Regime, run and rows; what it says is `summarize`'s."""
        about = self.about
        return f"{self.regime.name} on {about.rows} rows of {about.run}'s {about.reward}; summarize(fit) says the rest"

    @cached_property
    def priors(self) -> dict[str, Prior]:
        """Priors that were used, by parameter."""
        return priors_of_group(self.data["priors"].dataset)

    @cached_property
    def convergence(self) -> Convergence:
        """Convergence checks of the sampler."""
        return convergence_of_groups(self.data.children["convergence"])

    def to_datatree(self) -> DataTree:
        """The DataTree, as ArviZ's functions take it."""
        return self.data

    @property
    def posterior(self) -> Dataset:
        """Draws of every parameter and derived quantity, dimensions chain and draw."""
        return self.data["posterior"].dataset

    @cached_property
    def as_draws(self) -> Draws:
        """The draws as every room takes them, out of the tree, so that a loaded fit can do all that a new one can.

        Without the sampler's coordinates: the tree keeps the values alone.
        """
        tree, priors = self.data["posterior"].dataset, self.priors
        rows = rows_of_groups(self.data, self.notes)
        values = {p.name: tree[p.name].to_numpy() for p in self.regime.parameters}
        z = np.empty((tree.sizes["chain"], tree.sizes["draw"], 0))
        checks = self.convergence
        target = Target(self.regime, rows, padded(rows), priors, prior_numbers(self.regime, priors))
        return Draws(target, values, z, checks, usable=checks.usable)

    @property
    def signal(self) -> str:
        """What was fitted: "reward" or "eval_reward"."""
        return self.data["series"].attrs["signal"]

    @property
    def about(self) -> About:
        """Which rows of which run it is a fit of."""
        attrs, step = self.data.attrs, self.step()
        return About(
            run=attrs["run_name"],
            signal=self.signal,
            rows=len(step),
            first_step=float(step[0]),
            last_step=float(step[-1]),
            source=attrs["source"],
        )

    @property
    def window(self) -> FitWindow:
        """Which rows of the run were fitted, and why."""
        start = float(self.data.attrs["window_start"])
        return FitWindow(None if math.isnan(start) else start, str(self.data.attrs["window_reason"]))

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The run's settings with their provenance."""
        return settings_of_group(self.data["settings"].dataset)

    @property
    def notes(self) -> tuple[str, ...]:
        """What reader and rows did that a user should know."""
        return tuple(self.data.attrs["notes"].splitlines())

    def draws(self, name: str) -> np.ndarray:
        """Draws of a parameter or derived quantity, shape (chains, draws)."""
        return self.data["posterior"].dataset[name].to_numpy()

    def step(self) -> np.ndarray:
        """Steps of the rows, shape (n,)."""
        return self.data["observed_data"].dataset["step"].to_numpy()

    def observed(self) -> np.ndarray:
        """Logged values of the rows, shape (n,)."""
        return self.data["observed_data"].dataset["y"].to_numpy()

    def trajectories(self, name: str) -> np.ndarray:
        """Draws of "curve" (the unforced regime), "latent" (the latent reward) or "rows" (the same, measured again).

        Shape (chains, kept draws, n).
        """
        return self.data["trajectories"].dataset[name].to_numpy()


def model_hash(regime: Regime) -> str:
    """Fingerprint of a regime's parameters; a fit of another model must not be read as this one."""
    text = ";".join(f"{p.name}[{p.unit}]:{p.transform.name}:{p.marginalized}" for p in regime.parameters)
    return hashlib.sha256(f"{regime.name}|{text}".encode()).hexdigest()[:16]
