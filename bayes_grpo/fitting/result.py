"""`Fit`: draws of one regime on one run, with everything that led to them.

Nothing is stored that could be derived: summaries, sentences and plots are functions of a fit. Its arrays are groups of
variables with named dimensions. The DataTree, in which records are attributes in JSON, is made where it is asked for:
xarray brings pandas, 70 MB and a twentieth of a fit's time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from bayes_grpo.common.results import About, Displayed
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.groups import Group, groups_in, tree_of
from bayes_grpo.fitting.sampling.nuts import Convergence, ParameterCheck
from bayes_grpo.fitting.sampling.target import Target, prior_numbers
from bayes_grpo.fitting.window import FitWindow
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.regimes.base import Prior, Regime
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.reward_range import RewardRange, both_ends
from bayes_grpo.rows.series import ExpectedNoise, NoiseLevel, Optimizer, Series

if TYPE_CHECKING:
    from xarray import Dataset, DataTree


FORMAT = 6
"""Version of the saved layout; a file of another one is refused."""


@dataclass(frozen=True, eq=False)
class Fit(Displayed):
    """A posterior with its data.

    Attributes:
        groups: Groups of arrays by their paths

            - `posterior` (parameters and derived quantities), `sample_stats`, `prior` (2,000 draws of the same);
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
            - `observed_data`, `constant_data`: the rows.

        regime: The regime that was fitted. A fit carries it, so that one that no registry knows can do all that others
            can.
        rows: The fitted rows; their notes are those of the reader too. ``window`` says which of the run's they are.
        attrs: Origin of the fit: regime, versions, seed, hash of the log.
    """

    groups: Mapping[str, Group]
    regime: Regime
    rows: Series
    priors: Mapping[str, Prior]
    settings: Mapping[str, Setting]
    convergence: Convergence
    window: FitWindow
    attrs: Mapping[str, Any]

    @classmethod
    def of_tree(cls, tree: DataTree, regime: Regime) -> Fit:
        """A fit of what `to_datatree` gave."""
        groups = groups_in(tree)
        attrs = {str(k): v for k, v in tree.attrs.items()}
        known = {name: json.loads(attrs.pop(name)) for name in _RECORDS}
        checks, divergences, ebfmi, retried = known["convergence"]
        start, reason = known["window"]
        return cls(
            groups=groups,
            regime=regime,
            rows=_rows_again(groups, known["series"]),
            priors={
                k: Prior(float(median), float(spread), quantiles and tuple(map(float, quantiles)), str(name))
                for k, (median, spread, quantiles, name) in known["priors"].items()
            },
            settings={k: Setting(value, Provenance(p), str(note)) for k, (value, p, note) in known["settings"].items()},
            convergence=Convergence(
                {k: _again(ParameterCheck, x) for k, x in checks.items()}, int(divergences), float(ebfmi), bool(retried)
            ),
            window=FitWindow(None if start is None else float(start), str(reason)),
            attrs=attrs,
        )

    @cached_property
    def data(self) -> DataTree:
        """The fit as a DataTree, made where it is asked for."""
        series = {name: getattr(self.rows, name) for name in _FACTS}
        records = (series, self.priors, self.settings, self.convergence, self.window)
        texts = (json.dumps(x, default=_plain) for x in records)
        return tree_of(self.groups, {**self.attrs, **dict(zip(_RECORDS, texts, strict=True))})

    def to_datatree(self) -> DataTree:
        """The DataTree, as ArviZ's functions take it."""
        return self.data

    @property
    def sentence(self) -> str:
        """Regime, run and rows; what it says is `summarize`'s."""
        about = self.about
        return f"{self.regime.name} on {about.rows} rows of {about.run}'s {about.reward}; summarize(fit) says the rest"

    @property
    def posterior(self) -> Dataset:
        """Draws of every parameter and derived quantity, dimensions chain and draw."""
        return self.data["posterior"].dataset

    @cached_property
    def as_draws(self) -> Draws:
        """The draws as every room takes them, so that a loaded fit can do all that a new one can.

        Without the sampler's coordinates: the groups keep the values alone.
        """
        values = {p.name: self.draws(p.name) for p in self.regime.parameters}
        z = np.empty((*next(iter(values.values())).shape, 0))
        numbers = prior_numbers(self.regime, self.priors)
        target = Target(self.regime, self.rows, padded(self.rows), self.priors, numbers)
        return Draws(target, values, z, self.convergence, usable=self.convergence.usable)

    @property
    def about(self) -> About:
        """Which rows of which run it is a fit of."""
        step = self.rows.step
        name, source = self.attrs["run_name"], self.attrs["source"]
        return About(name, self.signal, len(step), float(step[0]), float(step[-1]), source)

    @property
    def signal(self) -> str:
        """The fitted signal: "reward" or "eval_reward"."""
        return self.rows.signal

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of reader and rows for the user."""
        return self.rows.notes

    @property
    def reward_range(self) -> RewardRange:
        """Range of the fitted reward, with both ends or none."""
        return both_ends(self.rows.y, self.settings)

    @property
    def quantities(self) -> dict[str, np.ndarray]:
        """Draws of every parameter and derived quantity, shape (chains, draws) each."""
        return {name: x.values for name, x in self.groups["posterior"].variables.items()}

    def draws(self, name: str) -> np.ndarray:
        """Draws of a parameter or derived quantity, shape (chains, draws)."""
        return self.groups["posterior"][name]

    def step(self) -> np.ndarray:
        """Steps of the rows, shape (n,)."""
        return self.rows.step

    def observed(self) -> np.ndarray:
        """Logged values of the rows, shape (n,)."""
        return self.rows.y

    def trajectories(self, name: str) -> np.ndarray:
        """Draws of "curve" (the unforced regime), "latent" (the latent reward) or "rows" (the same, measured again).

        Shape (chains, kept draws, n).
        """
        return self.groups["trajectories"][name]


def model_hash(regime: Regime) -> str:
    """Fingerprint of a regime's parameters; a fit of another model must not be read as this one."""
    text = ";".join(f"{p.name}[{p.unit}]:{p.transform.name}:{p.marginalized}" for p in regime.parameters)
    return hashlib.sha256(f"{regime.name}|{text}".encode()).hexdigest()[:16]


_RECORDS = ("series", "priors", "settings", "convergence", "window")
"""Attributes of the tree in JSON; a record is the list of its fields."""
COLUMNS = ("window", "rate", "weight", "noise")
"""Fields of `Series` that stand among `constant_data`, each after ``row_``."""
_FACTS = ("signal", "start", "reference_rate", "from_rest", "notes", "optimizer", "level", "expected")
"""Fields of `Series` that hold for all rows."""


def _plain(x: Any) -> Any:
    """NumPy's numbers and dataclasses for JSON."""
    return x.item() if isinstance(x, np.generic) else astuple(x)


def _again[R](kind: type[R], values: list[Any]) -> R:
    """A record of the list of its fields; a stranger's file may hold anything."""
    return kind(*(of(x) for of, x in zip(get_type_hints(kind).values(), values, strict=True)))


def _rows_again(groups: Mapping[str, Group], facts: Mapping[str, Any]) -> Series:
    observed = groups["observed_data"]
    constant = groups["constant_data"]
    level, expected = facts["level"], facts["expected"]
    columns: dict[str, Any] = {k: constant[f"row_{k}"] for k in COLUMNS if f"row_{k}" in constant}
    return Series(
        signal=str(facts["signal"]),
        step=observed["step"],
        y=observed["y"],
        start=float(facts["start"]),
        reference_rate=float(facts["reference_rate"]),
        from_rest=bool(facts["from_rest"]),
        optimizer=_again(Optimizer, facts["optimizer"]),
        notes=tuple(map(str, facts["notes"])),
        level=level and _again(NoiseLevel, level),
        expected=expected and _again(ExpectedNoise, expected),
        **columns,
    )
