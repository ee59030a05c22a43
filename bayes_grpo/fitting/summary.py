"""Summary of a fit, in numbers and in one sentence. Functions of a fit, no state of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.document import ranged
from bayes_grpo.common.intervals import LEVEL, Interval, interval, percent, span_text
from bayes_grpo.common.results import About, Result, frame_of
from bayes_grpo.fitting.alternative import AlternativePrior, alternative_prior
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.nuts import Convergence
from bayes_grpo.fitting.sensitivity import CONTRACTION_LIMIT, THRESHOLD, SummaryRow, summary_rows
from bayes_grpo.fitting.window import FitWindow
from bayes_grpo.logs.settings import Setting
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.series import CHANCE, RewardLevels
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.run_paths import fit_reward, may_be_counted
from bayes_grpo.signals.thresholds import THRESHOLDS

if TYPE_CHECKING:
    import pandas as pd


ENDED_SHARE = 0.005
"""Share of the highest learning rate below which nothing of it is left in whole percents."""
SPENT_SHARE = 0.1
"""Share of the highest learning rate at or below which a schedule is called near its end."""
CLEAR_DIRECTION = 0.95
"""Probability from which on the direction of the reward is clear."""
PROBABLE_DIRECTION = 0.8
"""Probability from which on the reward has probably moved that way."""
LOST_SHARE = 0.25
"""Share of a rise from which on its loss is part of the answer."""
_SWING_PERIOD = 8.0
"""Rows in an oscillation at least: faster ones are a prompt order or an alias."""
_SWING_DAMPING = 0.4
"""Damping ratio below which a linear regime oscillates."""


@dataclass(frozen=True)
class Summary(Result):
    """Everything that is printed of a fit.

    Attributes:
        rows: The table.
        alternative: The medians under another prior of the damping ratio; None for a regime without one.
        probabilities: By the regime's parameters: probability of overdamped, oscillatory, unstable (oscillator), and
            of growth, that the fixed point lies above the initial reward (with a trend).
        r2: Plain R² of the posterior mean of the unforced regime, against the logged rows.
        r2_latent: The same for the posterior mean of the latent reward (regime plus gradient noise).
        levels: First, last and best level of the fitted rows, by their path, as the diagnosis has them.
        now: The last of these with its interval.
        rose: Probability that the last level lies above the first.
        past_peak: Whether much of the rise to the best level has been lost since.
        level: The last level as a share of the reward's range; NaN where that is unknown.
        rate_left: Learning rate at the last row over the highest one.
        rate_ended: Step at which the logged learning rate reached zero; NaN where it has not.
        measured: What the measurement noise rests on and how far the rows depart from it; "" where the log says
            nothing of it.
        warnings: Plain sentences about what not to believe.
        notes: What reader and rows did.
        about: Which rows were fitted; ``window`` says why these.
        log_format: What the log was read as.
    """

    rows: tuple[SummaryRow, ...]
    alternative: AlternativePrior | None
    probabilities: dict[str, float]
    r2: float
    r2_latent: float
    levels: RewardLevels
    now: Interval
    rose: float
    past_peak: bool
    level: float
    rate_left: float
    rate_ended: float
    convergence: Convergence
    measured: str
    warnings: tuple[str, ...]
    assumed_settings: Mapping[str, Setting]
    notes: tuple[str, ...]
    about: About
    window: FitWindow
    regime: str
    log_format: str
    interval_level: float
    seed: int

    also_in_json = ("verdict", "assumed")
    not_in_json = ("assumed_settings", "window")

    @property
    def verdict(self) -> str:
        """Where the reward goes, how fast, and whether it overshoots, in sentences."""
        return " ".join(x for x in (self.window.lead, self.answer, self.why, self.constant_rate) if x)

    @property
    def assumed(self) -> tuple[str, ...]:
        """Settings that are assumed, as "name = value (why)"."""
        known = self.assumed_settings.items()
        return tuple(f"{name} = {x.value}" + (f" ({x.note})" if x.note else "") for name, x in known)

    @property
    def constant_rate(self) -> str:
        """Step at which the learning rate reached zero, as a sentence; "" where it has not."""
        if not math.isfinite(self.rate_ended):
            return ""
        return f"The learning rate reached zero at about step {self.rate_ended:g}."

    @property
    def answer(self) -> str:
        """Where the reward stands, after which start and with which learning rate left, in one sentence."""
        if not self.convergence.passed:
            return "The sampler did not converge; do not use these numbers."
        what = self.about.reward
        now = ranged(self.now)
        if not self._has_trend:
            end = ranged(self._posteriors["fixed_point"])
            return f"The {what} stays at {end}: the {self.regime} regime has no trend."
        first, _, best, best_step = self.levels
        if self.past_peak:
            peak = f"its peak of {best:.3g} at step {best_step:g}"
            return f"The {what} grew from {first:.3g} and has fallen from {peak} to {now}."
        likely = max(self.rose, 1.0 - self.rose)
        if likely < PROBABLE_DIRECTION:
            return f"The {what} is {now}; this log cannot tell whether it has grown or fallen."
        verb = "grown" if self.rose > 0.5 else "fallen"
        sure = "" if likely >= CLEAR_DIRECTION else "probably "
        return f"The {what} has {sure}{verb} from {first:.3g} to {now}{self._rate_text}."

    @property
    def _has_trend(self) -> bool:
        return "growth" in self.probabilities

    @property
    def solved(self) -> bool:
        """True if the reward is so near its highest value that the task counts as solved."""
        return self.level >= THRESHOLDS.solved

    @property
    def schedule_ended(self) -> bool:
        """True if the learning rate has come to its end."""
        return math.isfinite(self.rate_ended) or self.rate_left <= THRESHOLDS.rate_spent

    @property
    def _rate_text(self) -> str:
        if math.isfinite(self.rate_ended) or self.rate_left < ENDED_SHARE:
            return ", where its learning rate ended"
        if self.rate_left <= SPENT_SHARE:
            return f", with {self.rate_left:.0%} of its peak learning rate left"
        return ""

    @property
    def _posteriors(self) -> dict[str, Interval]:
        return {r.name: r.posterior for r in self.rows}

    @property
    def _settles(self) -> str:
        """The fixed point, named as what it is; where a risen reward is above it, that other regimes may differ."""
        if not self._has_trend or not self.convergence.passed:
            return ""
        settles = f"Under a constant learning rate it would settle at {ranged(self._posteriors['fixed_point'])}"
        if self.rose < CLEAR_DIRECTION or self.past_peak or self._posteriors["fixed_point"].median >= self.now.median:
            return f"{settles}."
        return f"{settles}: this regime sees no gain left; bayes-grpo forecast averages several."

    @property
    def why(self) -> str:
        """Where a constant learning rate leads, the chance of growth, how fast, and whether the curve overshoots."""
        known = {r.name: r for r in self.rows}
        parts = [self._settles]
        if self._has_trend:
            parts.append(f"Chance that it has grown: {percent(self.rose)}.")
            growth = self.probabilities["growth"]
            sure = min(growth, self.rose) >= CLEAR_DIRECTION or max(growth, self.rose) <= 1.0 - CLEAR_DIRECTION
            if "half_gain_step" in known and self.convergence.passed and sure:
                half = ranged(known["half_gain_step"].posterior)
                parts.append(f"Half of the change is reached after {half} steps.")
        parts.append(overshoot_text(self.probabilities, known.get("damping_ratio")))
        parts.append(f"Intervals are {self.interval_level:.0%}.")
        return " ".join(x for x in parts if x)

    def to_frame(self) -> pd.DataFrame:
        """The table, one row a parameter or derived quantity: the fields of `SummaryRow`."""
        return frame_of(self.rows, "name")


def path_of(fit: Fit, ends: RewardRange) -> SignalPath:
    """The path of the fitted rows, in which every command finds the levels of a reward, within its range."""
    logged = Logged.of(fit.step(), fit.observed())
    evaluation = fit.signal == "eval_reward"
    path = fit_reward(logged, ends, evaluation, noise=fit.rows.expected, counted=may_be_counted(fit.settings))
    if path is None:
        raise ValueError(f"expected the rows of a fit, which has two at least, found {len(fit.step())}")
    return path


def summarize(fit: Fit) -> Summary:
    """Table, probabilities, R², warnings and the verdict sentence of a fit."""
    rows = tuple(summary_rows(fit))
    ends = fit.reward_range
    path = path_of(fit, ends)
    now = interval(path.now)
    chances = probabilities(fit.regime, fit.quantities, fit.rows.length, len(fit.step()))
    y = fit.observed()
    means = fit.groups["posterior_mean"]
    attrs = fit.attrs
    return Summary(
        rows=rows,
        alternative=alternative_prior(fit),
        probabilities=chances,
        r2=r_squared(y, means["curve"]),
        r2_latent=r_squared(y, means["latent"]),
        levels=path.display_levels,
        now=now,
        rose=float((path.change() > 0.0).mean()),
        past_peak=past_peak(path),
        level=(now.median - ends.low) / (ends.high - ends.low) if ends.bounded else math.nan,
        rate_left=float(fit.rows.rate[-1] / np.max(fit.rows.rate)),
        rate_ended=float(attrs["rate_ended"]),
        convergence=fit.convergence,
        measured=measured(fit),
        warnings=_warnings(fit, rows),
        assumed_settings={k: x for k, x in fit.settings.items() if x.explicit is None and x.value is not None},
        notes=fit.notes,
        about=fit.about,
        window=fit.window,
        regime=fit.regime.name,
        log_format=attrs["log_format"],
        interval_level=LEVEL,
        seed=int(attrs["seed"]),
    )


def r_squared(y: np.ndarray, curve: np.ndarray) -> float:
    """Plain R² of one curve, 1 − SS_res / SS_tot."""
    with np.errstate(over="ignore", invalid="ignore"):  # the unforced curve of an unstable regime can be enormous
        return float(1.0 - np.sum((y - curve) ** 2) / np.sum((y - y.mean()) ** 2))


def _warnings(fit: Fit, rows: tuple[SummaryRow, ...]) -> tuple[str, ...]:
    out = []
    if not fit.convergence.passed:
        out.append(f"The sampler did not converge: {'; '.join(fit.convergence.reasons)}. Do not use these numbers.")
    if len(fit.step()) < 30:
        out.append(f"Only {len(fit.step())} rows: intervals lean on the priors.")
    noise_known = fit.rows.level is not None  # then its prior is a measurement of its own
    prior = [r.name for r in rows if r.mostly_prior and not (noise_known and r.name == "observation_sd")]
    if prior:
        out.append(
            f"Weakly identified (posterior close to prior): {', '.join(prior)} (less than "
            f"{CONTRACTION_LIMIT:.0%} of the prior variance was removed)."
        )
    moved = [r.name for r in rows if r.moves_with_prior]
    if moved:
        out.append(
            f"Informed by the data but prior-sensitive: {', '.join(moved)} (power-scaling sensitivity of "
            f"{THRESHOLD:g} or more)."
        )
    return tuple(out)


_LESS = "rows scatter less than independent prompts would: prompts may repeat, or groups may be dropped before the mean"
_MORE = (
    "rows scatter more than their completions imply: rewards may be summed, batches smaller than configured, or "
    "prompts of a step similar"
)


def measured(fit: Fit) -> str:
    """Expected noise of a row, its source and the ratio of the fitted to the expected noise, as a sentence.

    "" where the log does not determine its noise, or the user overrides the prior.
    """
    known = fit.rows.level
    name = "observation_sd"
    if known is None or name not in fit.priors or not math.isclose(fit.priors[name].median, known.sd, rel_tol=1e-6):
        return ""
    ratio = interval(fit.draws(name) / known.sd)
    words = (
        f"Measurement noise: {known.sd:.3g} of a typical row is expected from {known.evidence} (within about "
        f"{100 * math.expm1(known.spread):.0f}%); the rows show {span_text(ratio, '.2f', level=False)} "
        "times as much"
    )
    if abs(np.log(ratio.median)) <= CHANCE * known.spread:
        return f"{words}."
    return f"{words}; {_LESS if ratio.median < 1.0 else _MORE}."


def probabilities(regime: Regime, draws: Mapping[Any, Any], length: float, rows: int) -> dict[str, float]:
    """Probabilities of what a regime can do, from draws of its parameters and derived quantities, arrays of one shape.

    "growth" for a regime with a trend; "overdamped", "oscillatory", "unstable", "half_period_seen", "swings_seen" (a
    full period within ``length`` steps, with a damping at which one can be seen, of rows enough to follow it) and
    "turns_fast" (within fewer rows than that) for a regime with a damping ratio.
    """
    out = {}
    if regime.has_trend:
        out["growth"] = float(np.mean(draws["fixed_point"] > draws["initial_reward"]))
    if "damping_ratio" in draws:
        zeta, omega = draws["damping_ratio"], draws["natural_frequency"]
        speed = omega * np.sqrt(np.maximum(1.0 - zeta**2, 0.0))
        swing = speed * length
        fast = speed * length / rows > 2.0 * np.pi / _SWING_PERIOD
        out |= {
            "overdamped": float(np.mean(zeta >= 1)),
            "oscillatory": float(np.mean((zeta > 0) & (zeta < 1))),
            "unstable": float(np.mean(zeta <= 0)),
            "half_period_seen": float(np.mean((np.abs(zeta) < 1) & (swing > np.pi))),
            "swings_seen": float(np.mean((zeta > 0) & (zeta < _SWING_DAMPING) & (swing > 2.0 * np.pi) & ~fast)),
            "turns_fast": float(np.mean((zeta > 0) & (zeta < 1) & fast)),
        }
    return out


def overshoot_text(p: dict[str, float], zeta: SummaryRow | None) -> str:
    """Overshoot or instability of the curve, in one sentence."""
    if p.get("unstable", 0.0) > 0.5:
        return f"Unstable: {percent(p['unstable'])}."
    if zeta is None:
        return f"Stable: {percent(1.0 - p['unstable'])}." if "unstable" in p else ""
    if p["overdamped"] >= p["oscillatory"]:
        tail = "; this log barely tests it" if zeta.mostly_prior else f" ({percent(p['overdamped'])})"
        return f"No overshoot seen{tail}."
    if p["turns_fast"] >= 0.5:
        return f"It swings within fewer than {_SWING_PERIOD:g} rows, which is no oscillation of the learning."
    if p["swings_seen"] < 0.5:
        return "Overshoots at most once." if p["half_period_seen"] >= 0.5 else "A slow start; no oscillation seen."
    return f"Oscillates: {percent(p['oscillatory'])}."


def past_peak(path: SignalPath) -> bool:
    """True if a reward rose and has surely lost more than `LOST_SHARE` of its rise to its best level."""
    rise = path.best - path.start
    lost = path.best - path.now
    return float(np.mean((rise > 0.0) & (lost > LOST_SHARE * rise))) >= CLEAR_DIRECTION
