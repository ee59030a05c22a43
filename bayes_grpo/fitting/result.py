"""`Fit`: draws of one regime on one run, with everything that led to them.

Nothing is stored that could be derived: summaries, sentences and plots are functions of a fit. What the groups keep
besides draws is written and read here: numbers are variables, words are attributes of what they belong to.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

from bayes_grpo.common.results import About, Displayed
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.groups import ROOT, Group, group, groups_in, tree_of
from bayes_grpo.fitting.sampling.nuts import Convergence, ParameterCheck
from bayes_grpo.fitting.sampling.target import Target, prior_numbers
from bayes_grpo.fitting.window import FitWindow
from bayes_grpo.logs.settings import Settings
from bayes_grpo.regimes.base import Prior, Regime
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.series import ExpectedNoise, NoiseLevel, Optimizer, Series

if TYPE_CHECKING:
    from xarray import Dataset, DataTree


FORMAT = 5
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
            - `observed_data`, `constant_data`, `series`, `noise_level`, `expected_noise`: the rows, and what holds for
              all of them;
            - `priors`, `settings` (of the run), `convergence` (R-hat and ESS by parameter).

            Attributes hold regime, versions, seed, notes and the log's hash; those of `sample_stats` the sampler's
            settings.
        regime: The regime that was fitted. A fit carries it, so that one that no registry knows can do all that others
            can.
    """

    groups: Mapping[str, Group]
    regime: Regime

    @classmethod
    def of_tree(cls, tree: DataTree, regime: Regime) -> Fit:
        """A fit of what `to_datatree` gave."""
        return cls(groups_in(tree), regime)

    @cached_property
    def data(self) -> DataTree:
        """The groups as a DataTree, made where it is asked for."""
        return tree_of(self.groups)

    @property
    def sentence(self) -> str:
        """Regime, run and rows; what it says is `summarize`'s."""
        about = self.about
        return f"{self.regime.name} on {about.rows} rows of {about.run}'s {about.reward}; summarize(fit) says the rest"

    @cached_property
    def priors(self) -> dict[str, Prior]:
        """Priors that were used, by parameter."""
        return priors_of_group(self.groups["priors"])

    @cached_property
    def convergence(self) -> Convergence:
        """Convergence checks of the sampler."""
        return convergence_of_groups(self.groups)

    def to_datatree(self) -> DataTree:
        """The DataTree, as ArviZ's functions take it."""
        return self.data

    @property
    def posterior(self) -> Dataset:
        """Draws of every parameter and derived quantity, dimensions chain and draw."""
        return self.data["posterior"].dataset

    @cached_property
    def as_draws(self) -> Draws:
        """The draws as every room takes them, out of the groups, so that a loaded fit can do all that a new one can.

        Without the sampler's coordinates: the groups keep the values alone.
        """
        priors = self.priors
        rows = rows_of_groups(self.groups, self.notes)
        values = {p.name: self.draws(p.name) for p in self.regime.parameters}
        z = np.empty((*next(iter(values.values())).shape, 0))
        checks = self.convergence
        target = Target(self.regime, rows, padded(rows), priors, prior_numbers(self.regime, priors))
        return Draws(target, values, z, checks, usable=checks.usable)

    @property
    def signal(self) -> str:
        """The fitted signal: "reward" or "eval_reward"."""
        return self.groups["series"].attrs["signal"]

    @property
    def about(self) -> About:
        """Which rows of which run it is a fit of."""
        attrs, step = self.attrs, self.step()
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
        start = float(self.attrs["window_start"])
        return FitWindow(None if math.isnan(start) else start, str(self.attrs["window_reason"]))

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The run's settings with their provenance."""
        return settings_of_group(self.groups["settings"])

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of reader and rows for the user."""
        return tuple(self.attrs["notes"].splitlines())

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Origin of the fit: regime, versions, seed, notes, hash of the log."""
        return self.groups[ROOT].attrs

    @property
    def quantities(self) -> dict[str, np.ndarray]:
        """Draws of every parameter and derived quantity, shape (chains, draws) each."""
        return {name: x.values for name, x in self.groups["posterior"].variables.items()}

    def draws(self, name: str) -> np.ndarray:
        """Draws of a parameter or derived quantity, shape (chains, draws)."""
        return self.groups["posterior"][name]

    def step(self) -> np.ndarray:
        """Steps of the rows, shape (n,)."""
        return self.groups["observed_data"]["step"]

    def observed(self) -> np.ndarray:
        """Logged values of the rows, shape (n,)."""
        return self.groups["observed_data"]["y"]

    def trajectories(self, name: str) -> np.ndarray:
        """Draws of "curve" (the unforced regime), "latent" (the latent reward) or "rows" (the same, measured again).

        Shape (chains, kept draws, n).
        """
        return self.groups["trajectories"][name]


def model_hash(regime: Regime) -> str:
    """Fingerprint of a regime's parameters; a fit of another model must not be read as this one."""
    text = ";".join(f"{p.name}[{p.unit}]:{p.transform.name}:{p.marginalized}" for p in regime.parameters)
    return hashlib.sha256(f"{regime.name}|{text}".encode()).hexdigest()[:16]


def priors_to_group(priors: Mapping[str, Prior], sampled_levels: Iterable[str]) -> Group:
    """Median of each parameter; of a prior that is not normal in its coordinate the quantiles (`Prior.quantiles`)."""
    known = {}
    for name, p in priors.items():
        words = {"median": p.median, "spread": p.spread, "distribution": p.name}
        known[name] = ((), p.median, words) if p.quantiles is None else ("normal_score", np.asarray(p.quantiles), words)
    return group(known, {"sampled_levels": " ".join(sampled_levels)})


def priors_of_group(found: Group) -> dict[str, Prior]:
    """The priors again."""
    priors = {}
    for name, (_, values, words) in found.variables.items():
        quantiles = tuple(values.tolist()) if values.ndim else None
        priors[name] = Prior(float(words["median"]), float(words["spread"]), quantiles, str(words["distribution"]))
    return priors


def settings_to_group(settings: Settings) -> Group:
    """A number for each setting that is known; NaN where it is a word, its attribute ``value``."""
    known = {}
    for name, s in settings.items():
        if s.value is not None:
            number = isinstance(s.value, int | float)
            words = {"provenance": s.provenance.value, "note": s.note} | ({} if number else {"value": str(s.value)})
            known[name] = ((), s.value if number else math.nan, words)
    return group(known)


def settings_of_group(found: Group) -> dict[str, dict[str, Any]]:
    """Setting → its value, provenance and note."""
    return {
        name: {"value": words.get("value", number.item())} | {k: str(words[k]) for k in ("provenance", "note")}
        for name, (_, number, words) in found.variables.items()
    }


def convergence_to_groups(found: Convergence) -> dict[str, Group]:
    """R-hat, bulk and tail ESS of each parameter in a group each, as ArviZ's functions of these names return them."""
    whole = {"divergences": found.divergences, "ebfmi": found.ebfmi, "retried": int(found.retried)}
    names = ParameterCheck.__annotations__
    checks = {x: group({k: ((), getattr(c, x)) for k, c in found.parameters.items()}) for x in names}
    return {
        "convergence": group({k: ((), x) for k, x in whole.items()}),
        **{f"convergence/{x}": one for x, one in checks.items()},
    }


def convergence_of_groups(groups: Mapping[str, Group]) -> Convergence:
    """The checks again."""
    whole = groups["convergence"]
    parts = {name: groups[f"convergence/{name}"] for name in ParameterCheck.__annotations__}
    return Convergence(
        parameters={
            k: ParameterCheck(**{name: float(x[k]) for name, x in parts.items()}) for k in parts["rhat"].variables
        },
        divergences=int(whole["divergences"]),
        ebfmi=float(whole["ebfmi"]),
        retried=bool(whole["retried"]),
    )


_COLUMNS = ("window", "rate", "weight", "noise")
"""Fields of `Series` that stand among `constant_data`, each after ``row_``."""
_FACTS = {"signal": str, "start": float, "reference_rate": float, "from_rest": int}
"""Fields of `Series` that hold for all rows."""


def rows_to_groups(rows: Series) -> dict[str, Group]:
    """Columns of the rows as `constant_data`; what holds for all of them as `series`; the noise that the log states."""
    columns = {"step": rows.step, "gap": rows.gap()} | {name: getattr(rows, name) for name in _COLUMNS}
    facts = {name: kind(getattr(rows, name)) for name, kind in _FACTS.items()}
    optimizer = rows.optimizer._replace(given=int(rows.optimizer.given))
    # Attributes of a file know no truth values.
    expected = rows.expected and rows.expected._replace(at_least=int(rows.expected.at_least))
    variables = {f"row_{k}": ("step", v) for k, v in columns.items() if v is not None}
    return {
        "constant_data": group(variables, step=rows.step),
        "series": group({}, facts | optimizer._asdict()),
        "noise_level": group({}, {} if rows.level is None else rows.level._asdict()),
        "expected_noise": group({}, {} if expected is None else expected._asdict()),
    }


def rows_of_groups(groups: Mapping[str, Group], notes: tuple[str, ...]) -> Series:
    """The same rows as `bayes_grpo.rows.rows_of.rows_of` gave when the fit was made."""
    observed = groups["observed_data"]
    constant = groups["constant_data"]
    facts = groups["series"].attrs
    known = groups["noise_level"].attrs
    level = {name: kind(known[name]) for name, kind in get_type_hints(NoiseLevel).items() if known}
    of_batch = groups["expected_noise"].attrs
    expected = {name: kind(of_batch[name]) for name, kind in get_type_hints(ExpectedNoise).items() if of_batch}
    optimizer = {name: kind(facts[name]) for name, kind in get_type_hints(Optimizer).items()}
    columns: dict[str, Any] = {k: constant[f"row_{k}"] for k in _COLUMNS if f"row_{k}" in constant}
    columns |= {name: kind(facts[name]) for name, kind in (_FACTS | {"from_rest": bool}).items()}
    return Series(
        step=observed["step"],
        y=observed["y"],
        optimizer=Optimizer(**optimizer),
        notes=notes,
        level=NoiseLevel(**level) if level else None,
        expected=ExpectedNoise(**expected) if expected else None,
        **columns,
    )
