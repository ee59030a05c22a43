"""Draws of a posterior, which every room downstream takes, and what they say of every row.

By NUTS (`sample_posterior`) for what is reported, by importance sampling (`fast_posterior`) for what is only used.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.common.sampling import seed_of, spread
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings, WeightDiagnostics, WeightedPoints, weighted_points
from bayes_grpo.fitting.sampling.nuts import (
    RETRY_LENGTH,
    Chain,
    Convergence,
    SamplerSettings,
    Start,
    check_convergence,
    prepare_chains,
    sample_chains,
)
from bayes_grpo.fitting.sampling.target import Target, marginalized_draws, summarize_draws, values_of_draws
from bayes_grpo.regimes.base import Prior, Regime
from bayes_grpo.rows.series import Series


@dataclass(frozen=True, eq=False)
class Draws:
    """Equally weighted draws of a posterior; those of importance sampling are one chain.

    Attributes:
        target: Regime, priors and rows.
        values: Parameters in their units, shape (chains, draws) each; the marginalized ones once they are drawn.
        z: The same in the sampler's coordinates, shape (chains, draws, p); p is 0 for draws of a fit, which keeps their
            values alone.
        diagnostics: Checks of the chains, or of the weights that the draws were taken by.
        chains: What NUTS reports of every draw; None for importance sampling.
        log_evidence: Log marginal likelihood of the rows; NaN for chains, which do not tell it.
        note: Why they should not be used, or what was done to get them; empty where all went well.
    """

    target: Target
    values: Mapping[str, np.ndarray]
    z: np.ndarray
    diagnostics: Convergence | WeightDiagnostics
    chains: Chain | None = None
    log_evidence: float = float("nan")
    usable: bool = True
    note: str = ""

    @property
    def regime(self) -> Regime:
        """The regime."""
        return self.target.regime

    @property
    def rows(self) -> Series:
        """Rows of the log."""
        return self.target.rows

    @property
    def priors(self) -> Mapping[str, Prior]:
        """Priors that were used, by parameter."""
        return self.target.priors

    @property
    def size(self) -> int:
        """Number of draws, of all chains together."""
        return next(iter(self.values.values())).size

    @property
    def points(self) -> np.ndarray:
        """Draws of all chains in the sampler's coordinates, shape (size, p)."""
        return self.z.reshape(-1, self.z.shape[-1])

    def flat(self, name: str) -> np.ndarray:
        """Draws of a parameter, of all chains one after another, shape (size,)."""
        return self.values[name].ravel()

    def picked(self, picks: np.ndarray) -> dict[str, np.ndarray]:
        """Sampled parameters of some draws as a compiled program takes them, shape (picks,) each."""
        return {p.name: self.flat(p.name)[picks] for p in self.regime.sampled}

    def sample_marginalized(self, seed: int) -> Draws:
        """The same with the marginalized parameters drawn given the rows and each draw of the others."""
        drawn = marginalized_draws(self.target, self.points, np.random.default_rng(seed))
        return replace(self, values=dict(self.values) | {k: v.reshape(self.z.shape[:-1]) for k, v in drawn.items()})


TRAJECTORIES = 400
"""Draws of the curves that are kept or drawn, spread evenly over all draws."""


@dataclass(frozen=True, eq=False)
class SmoothedDraws:
    """Draws with what they say of every row, arrays of shape (chains, draws, n).

    The marginalized parameters are among the draws. ``curve`` is the unforced regime, ``latent`` the mean of the latent
    reward given all rows; ``loo`` stands for a row given all others.
    """

    draws: Draws
    curve: np.ndarray
    latent: np.ndarray
    latent_var: np.ndarray
    loo_log_density: np.ndarray
    loo_mean: np.ndarray
    loo_var: np.ndarray

    @property
    def curve_mean(self) -> np.ndarray:
        """Posterior mean of the unforced regime, shape (n,)."""
        return self.curve.mean((0, 1))

    @property
    def latent_mean(self) -> np.ndarray:
        """Posterior mean of the latent reward, shape (n,)."""
        return self.latent.mean((0, 1))

    @property
    def trajectory_draws(self) -> np.ndarray:
        """Draws of each chain whose curves are kept, evenly spread; `TRAJECTORIES` of all chains together at most."""
        chains, draws = self.curve.shape[:2]
        return spread(draws, max(1, TRAJECTORIES // chains))

    def measured_again(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The logged run itself, measured again, shape (chains, kept, n) each.

        Evenly spread draws of its latent reward, and rows about it.
        """
        mean, var = self.latent[:, self.trajectory_draws], self.latent_var[:, self.trajectory_draws]
        noise = self.draws.values["observation_sd"][:, self.trajectory_draws, None]
        latent = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal(mean.shape)
        precision = self.draws.rows.precision
        return latent, latent + noise / np.sqrt(precision) * rng.standard_normal(mean.shape)


def smoothed_at(draws: Draws, seed: int) -> SmoothedDraws:
    """Smooths the rows at draws, and draws the marginalized parameters given the rows and each draw of the others."""
    marginalized, *found, _ = summarize_draws(draws.target, draws.values, seed)
    levels = {p.name: marginalized[..., i] for i, p in enumerate(draws.regime.marginalized)}
    fixed = {k: np.full_like(x, draws.priors[k].median) for k, x in levels.items() if draws.priors[k].fixed}
    values = dict(draws.values) | levels | fixed
    return SmoothedDraws(replace(draws, values=values), *(x[..., : len(draws.rows.y)] for x in found))


def sample_posterior(
    target: Target,
    *,
    seed: int = 0,
    sampler: SamplerSettings | None = None,
    progress: Progress | None = None,
) -> SmoothedDraws:
    """Samples a posterior by NUTS; `fit` without the DataTree."""
    settings = sampler or SamplerSettings()
    progress = or_silent(progress)
    progress("finding starting points")
    pool = ThreadPoolExecutor(1)  # a core is free: the next programs are compiled, the last one by a call
    pool.submit(prepare_chains, target, settings)
    middle = np.zeros((1, 1, len(target.regime.sampled)))
    pool.submit(lambda: summarize_draws(target, values_of_draws(target, middle), seed))
    pool.shutdown(wait=False)
    points, weights = weighted_points(target.in_shared_shapes(), seed_of(seed, "start"), _ENOUGH)
    trusted = weights.power == 1.0 and weights.effective >= 0.5 * _ENOUGH.effective
    start = start_of(points, seed, settings.num_chains)
    progress("sampling")

    def chains(part: str, begin: Start, accept: float) -> Chain:
        return sample_chains(target, seed_of(seed, part), begin, settings, accept)

    # The chains move by the covariance that they begin with: a first run finds it where the points do not.
    begin = start if trusted else _restart(chains("first chains", start, settings.target_accept), start)
    chain = chains("chains", begin, settings.target_accept)
    found = _checked(target, chain, seed_of(seed, "levels"), False)
    if found.draws.diagnostics.passed:
        return found
    progress("sampling again, more carefully")
    # By the same program: a first run only lengthens the warm-up, more are kept.
    retried = []
    for part in ("careful first chains", *(f"careful chains {i}" for i in range(RETRY_LENGTH))):
        chain = chains(part, _restart(chain, start), settings.retry_target_accept)
        retried.append(chain)
    kept = Chain(*(np.concatenate(x, axis=1) for x in zip(*retried[1:], strict=True)))
    return _checked(target, kept, seed_of(seed, "levels again"), True)


_ENOUGH = ImportanceSettings(effective=500.0, rounds=16)
"""Points for a covariance; more of them would change no chain."""


def start_of(points: WeightedPoints, seed: int, chains: int) -> Start:
    """Where the chains begin: at points by their weights, with the covariance of all."""
    # Points by their weights: a posterior with two modes gets its chains in proportion to the modes' mass.
    z = points.resampled(chains, np.random.default_rng(seed_of(seed, "chains")))
    cov = points.moments()[1]
    return Start(z, cov + 1e-6 * np.eye(len(cov)))


def _checked(target: Target, chain: Chain, seed: int, retried: bool) -> SmoothedDraws:
    """Smoothed draws and checks; R-hat and ESS are checked on the sampler's own coordinates too."""
    z = np.asarray(chain.z)
    unchecked = Convergence({}, 0, float("nan"), retried)
    smoothed = smoothed_at(Draws(target, values_of_draws(target, z), z, unchecked, chain), seed)
    named = {p.name: z[..., i] for i, p in enumerate(target.regime.sampled)}
    named |= {p.name: smoothed.draws.values[p.name] for p in target.regime.marginalized}
    named = {name: x for name, x in named.items() if not target.priors[name].fixed}
    found = check_convergence(named, np.asarray(chain.energy), np.asarray(chain.diverging), retried)
    note = "" if found.passed else found.sentence
    return replace(smoothed, draws=replace(smoothed.draws, diagnostics=found, usable=found.usable, note=note))


def _restart(chain: Chain, start: Start) -> Start:
    """Where further chains begin: at the ends of these, with the spread that all of them have seen."""
    z = np.asarray(chain.z)
    cov = np.atleast_2d(np.cov(z.reshape(-1, z.shape[-1]).T))
    return Start(z[:, -1], cov + 1e-6 * np.eye(len(cov))) if np.all(np.isfinite(cov)) else start


def check_settings(settings: SamplerSettings, seed: int) -> None:
    """Raises `SettingError` where a sampler setting or the seed is impossible."""
    for name, low in (("num_chains", 2), ("num_warmup", 50), ("num_samples", 100)):
        value = getattr(settings, name)
        if not (isinstance(value, int) and value >= low):
            raise SettingError(f"expected an integer of at least {low}, found {value!r}", parameter=name)
    for name in ("target_accept", "retry_target_accept"):
        value = getattr(settings, name)
        if not 0.5 <= value < 1.0:
            raise SettingError(f"expected a number in [0.5, 1), found {value!r}", parameter=name)
    if seed < 0:
        raise SettingError(f"expected an integer of at least 0, found {seed!r}", parameter="seed")


def fast_posterior(
    target: Target,
    *,
    seed: int = 0,
    settings: ImportanceSettings | None = None,
    start: np.ndarray | None = None,
    sampler: SamplerSettings | None = None,
    fallback: bool = True,
) -> Draws:
    """A posterior for a score or a forecast and not for a report: a tenth of a second where NUTS takes ten.

    Adaptive importance sampling needs no gradient and no warm-up, and gives the marginal likelihood with it. It is
    trusted where the weights' Pareto k-hat, their effective size and two halves of the points agree that it can be;
    where not, NUTS is run (unless there is no ``fallback``), and the points are spread again about its draws. ``start``
    are draws of a posterior that is expected to be close, in the sampler's coordinates, shape (n, p).
    """
    settings = settings or ImportanceSettings()

    def drawn(part: str) -> np.ndarray:
        return points.resampled(settings.draws, np.random.default_rng(seed_of(seed, part)))

    def weighted(part: str, start: np.ndarray | None = None) -> tuple[WeightedPoints, WeightDiagnostics]:
        return weighted_points(target, seed_of(seed, part), settings, start)

    points, found = weighted("points", start)
    if start is not None and not found.passed:
        points, found = weighted("afresh")
    z = drawn("draws")
    nuts = ""
    usable = found.passed
    if fallback and not usable:
        chains = sample_posterior(target, seed=seed, sampler=sampler).draws
        points, found = weighted("about", chains.points)
        usable = chains.usable or found.passed
        # What is written about NUTS is about draws that are used.
        nuts, z = ("", drawn("again")) if found.passed else (f"NUTS: {chains.diagnostics.sentence}", chains.points)
    note = " ".join(x for x in (found.sentence, nuts) if x)
    values = values_of_draws(target, z[None])
    return Draws(target, values, z[None], found, log_evidence=points.log_evidence, usable=usable, note=note)
