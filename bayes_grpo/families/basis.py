"""What a plan rests on: the present settings' law, and what changing each setting does to it.

From a family both are its draws. From one run the law is the run's, and the exponents are what theory expects, give or
take: nothing of them is data, and the plan says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.draws import spread
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.dynamics.reduction import group_drift_factor
from bayes_grpo.families.design import SPREAD
from bayes_grpo.families.evidence import SAMPLER
from bayes_grpo.families.result import Family
from bayes_grpo.fitting.sampling.adaptive import Care
from bayes_grpo.fitting.sampling.fast import fast_posterior
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.rows_of import rows_of

DRAWS = 1000
RATE_SD: Mapping[str, float] = {
    "learning_rate": 0.3,
    "group_size": 0.1,
    "prompts_per_step": 0.1,
    "refresh_interval": 0.1,
}
"""Standard deviations of the rate's exponents about theory, where no family says more."""
PLATEAU_SD = 0.05
"""Standard deviation of the plateau's exponents about 0, likewise."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Draws at the present settings; every array of shape (draws,).

    Attributes:
        present: Present settings.
        rate: Response rate, 1/step.
        plateau: Where the reward settles.
        start: Where it begins.
        rate_exponent: Setting → exponent of the rate.
        plateau_exponent: Setting → relative change of the plateau per e-fold.
        rate_apart: What sets the next seed's logarithm of the rate apart.
        plateau_apart: What sets the next seed's plateau apart, reward.
        learned: Setting → share of the rate's exponent that is data.
        success: Mean reward of the last rows where rewards are shares; NaN elsewhere.
        words: What it rests on.
    """

    present: dict[str, float]
    rate: np.ndarray
    plateau: np.ndarray
    start: np.ndarray
    rate_exponent: dict[str, np.ndarray]
    plateau_exponent: dict[str, np.ndarray]
    rate_apart: np.ndarray
    plateau_apart: np.ndarray
    learned: dict[str, float]
    success: float
    words: str


def basis_of_family(family: Family, present: Mapping[str, float], seed: int) -> Basis:
    """The basis of a family's draws.

    Args:
        family: The family.
        present: Present settings; those that the family varied and that are not given are its middle ones.
        seed: Seed.
    """
    rng = np.random.default_rng(seed_of(seed, "family"))
    posterior, unit = family.data["posterior"].dataset, float(family.data.attrs["unit"])
    flat = {k: posterior[k].to_numpy().reshape(-1, *posterior[k].shape[2:]) for k in ("mean", "slopes", "spread")}
    picks = spread(len(flat["mean"]), DRAWS)
    mean, slopes, apart = (flat[k][picks] for k in ("mean", "slopes", "spread"))
    traits = [str(x) for x in posterior["trait"].to_numpy()]
    if "relaxation_time" not in traits:
        raise SettingError(f"plan: expected a family under the exponential law, found {family.regime}")
    time, plateau, start = (traits.index(x) for x in ("relaxation_time", "fixed_point", "initial_reward"))
    logs = np.log([[run.settings[name] for name in family.vary] for run in family.runs])
    middle = dict(zip(family.vary, np.exp(logs.mean(axis=0)).tolist(), strict=True))
    here = middle | dict(present)
    x = np.array([math.log(here[name] / middle[name]) for name in family.vary])
    level = float(family.data.attrs["origin"]) + unit * (mean + np.einsum("k,dkp->dp", x, slopes))
    rate = np.exp(-(mean[:, time] + slopes[:, :, time] @ x))
    last = float(np.mean([run.reward[-max(1, len(run.reward) // 5) :].mean() for run in family.runs]))
    shares = all(run.reward.min() >= 0.0 and run.reward.max() <= 1.0 for run in family.runs)
    success = last if shares else math.nan
    theory = _theory([s for s in here if s not in family.vary], here, success, rng, len(picks))
    own = {name: -slopes[:, k, time] for k, name in enumerate(family.vary)}
    moved = {name: unit * slopes[:, k, plateau] / level[:, plateau] for k, name in enumerate(family.vary)}
    return Basis(
        present=here,
        rate=rate,
        plateau=level[:, plateau],
        start=level[:, start],
        rate_exponent=theory[0] | own,
        plateau_exponent=theory[1] | moved,
        rate_apart=apart[:, time] * rng.standard_normal(len(picks)),
        plateau_apart=unit * apart[:, plateau] * rng.standard_normal(len(picks)),
        learned={name: family.exponent("rate", name).contraction for name in family.vary},
        success=success,
        words=f"a family of {len(family.runs)} runs that varied {', '.join(family.vary)}",
    )


def basis_of_run(run: Run, present: Mapping[str, float], signal: str, seed: int) -> Basis:
    """The basis of one run, the exponents as theory expects them.

    Args:
        run: The run.
        present: Its settings where its log does not state them.
        signal: "auto", "reward" or "eval".
        seed: Seed.
    """
    rng, law = np.random.default_rng(seed_of(seed, "run")), get_regime("exponential")
    table = rows_of(run, signal)
    care = Care(effective=2000.0, draws=DRAWS)
    found = fast_posterior(law, table, shared(table), seed=seed_of(seed, "law"), care=care, sampler=SAMPLER)
    picks = spread(len(found.z), DRAWS)
    values = {k: np.asarray(v)[picks] for k, v in (found.values() | found.levels(seed_of(seed, "levels"))).items()}
    here: dict[str, float] = {}
    if math.isfinite(table.reference_rate):
        here["learning_rate"] = table.reference_rate
    for name in ("group_size", "prompts_per_step", "refresh_interval"):
        value = dict(run.settings.items())[name].value
        if value is not None:
            here[name] = float(value)
    here |= dict(present)
    success = float(table.y[-max(1, len(table.y) // 5) :].mean()) if table.is_share else math.nan
    rate_exponent, plateau_exponent = _theory(list(here), here, success, rng, len(picks))
    scale = SPREAD["time"] * np.abs(rng.standard_normal(len(picks)))
    return Basis(
        present=here,
        rate=1.0 / values["relaxation_time"],
        plateau=values["fixed_point"],
        start=values["initial_reward"],
        rate_exponent=rate_exponent,
        plateau_exponent=plateau_exponent,
        rate_apart=scale * rng.standard_normal(len(picks)),
        plateau_apart=0.5 * SPREAD["level"] * table.scale * rng.standard_normal(len(picks)),
        learned=dict.fromkeys(here, 0.0),
        success=success,
        words="one run, and what theory expects of its settings",
    )


def _theory(
    names: list[str], present: Mapping[str, float], success: float, rng: np.random.Generator, size: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Exponents of rate and plateau as theory expects them, each of shape (draws,)."""
    rate, plateau = {}, {}
    for name in names:
        expected = 1.0 if name == "learning_rate" else 0.0
        if name == "group_size" and 0.0 < success < 1.0 and present[name] >= 2:
            g = max(2, round(present[name]))
            # The exponent about the present size: twice the size over it.
            factor = [math.log(float(group_drift_factor(success, x, 1))) for x in (g, 2 * g)]
            expected = (factor[1] - factor[0]) / math.log(2.0)
        rate[name] = expected + RATE_SD.get(name, 0.3) * rng.standard_normal(size)
        plateau[name] = PLATEAU_SD * rng.standard_normal(size)
    return rate, plateau
