"""What remedies are made of: a run's own settings in words, and what the model of its dynamics expects of a change.

A swinging trend tells its gain g = η K by its natural frequency, g = m ω₀², and by its damping ratio the lag that
takes from the momentum's damping, 2 ζ ω₀ m = c = (1 − μ) − g · lag, with m = (1 + μ)/2 to first order in the lag; see
`bayes_grpo.dynamics.reduction`. Another learning rate changes g and leaves the lag. Swings that have grown until the
reward's ends hold them look as if c were 0: the border then lies at or below the present rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.damping import DAMPING_ROWS
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.dynamics.reduction import oscillator_coefficients
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.logs.run import Provenance, Run, Setting
from bayes_grpo.risk.change import Change, change
from bayes_grpo.risk.failing import p_fails, shared_rate

_MOST_DRAWS = 2000


def setting_text(name: str, setting: Setting) -> str:
    """A setting with its value, e.g. "G = 8 (assumed)"; "" where nobody knows it."""
    if setting.value is None:
        return ""
    value = f"{setting.value:.4g}" if isinstance(setting.value, int | float) else str(setting.value)
    return f"{name} = {value}" + (" (assumed)" if setting.provenance is Provenance.ASSUMED else "")


def highest_rate(run: Run) -> float | None:
    """Highest learning rate, stated or logged; None where neither."""
    stated = run.settings.learning_rate.value
    if stated is not None:
        return float(stated)
    rates = run.signals.get("learning_rate", np.empty(0))
    rates = rates[np.isfinite(rates) & (rates > 0.0)]
    return float(rates.max()) if len(rates) else None


def left_text(name: str, left: Interval) -> str:
    """What is left of a quantity: a percentage of its start, or a multiple where it has more than doubled."""
    if left.median > BORDERS.doubled:
        return f"the {name} is {left.median:.3g} [{left.low:.3g}, {left.high:.3g}] ({left.level:.0%}) times its start"
    return f"{left.median:.0%} [{left.low:.0%}, {left.high:.0%}] ({left.level:.0%}) of the starting {name} is left"


def rate_times(run: Run, factor: float) -> str:
    """A change of the learning rate in words, with its numbers where it is logged."""
    rate = highest_rate(run)
    if rate is None:
        return f"the learning rate to {factor:.2g} times its value"
    return f"the learning rate from {rate:.3g} to {factor * rate:.3g}"


def shared_rate_of(run: Run) -> float | None:
    """A run's learning rate on the scale that runs share; None where it has none."""
    convention = run.settings.momentum_convention.value
    return shared_rate(highest_rate(run), None if convention is None else str(convention))


def fails_at(run: Run, factor: float, failed: bool) -> str:
    """How probably a run fails at a factor on the learning rate, in words.

    Args:
        run: The present run.
        factor: New learning rate over the present one.
        failed: Whether the present run failed.
    """
    return p_fails(Change(learning_rate=math.log(factor)), rate=shared_rate_of(run), failed=failed).text


def fails_fresh(run: Run, held: float) -> str:
    """How probably a run that failed fails again where its policy is refreshed every step, in words.

    Args:
        run: It.
        held: Its refresh interval, optimizer steps.
    """
    fresh = change({"refresh_interval": held}, {"refresh_interval": 1.0})
    return p_fails(fresh, rate=shared_rate_of(run), failed=True).text


_DUST = 1e-8
"""A number below this is what is left of 0 in the trend of a signal that is constant."""


def without_dust(found: Interval) -> Interval:
    """An interval whose ends are 0 where they are 0 but for rounding."""
    return found._replace(**{k: 0.0 for k in ("median", "low", "high") if abs(getattr(found, k)) < _DUST})


def span_text(found: Interval, digits: str = ".2g") -> str:
    """Median and interval with its level."""
    found = without_dust(found)
    return f"{found.median:{digits}} [{found.low:{digits}}, {found.high:{digits}}] ({found.level:.0%})"


class Swings(NamedTuple):
    """What the swings of a trend say of a learning rate.

    Attributes:
        damping_ratio: Draws of ζ, shape (draws,).
        gain: Draws of g = η K, shape (draws,), 1/step.
        lag: Draws of the age of the gradient that this damping takes, shape (draws,), steps; 0 where it takes none.
        momentum: μ, or Adam's first beta.
    """

    damping_ratio: np.ndarray
    gain: np.ndarray
    lag: np.ndarray
    momentum: float

    @property
    def border(self) -> np.ndarray:
        """Draws of the factor on the learning rate from which nothing is damped, c = 0; infinite without a lag."""
        with np.errstate(divide="ignore"):
            return (1.0 - self.momentum) / (self.gain * self.lag)

    def damping_at(self, factor: float) -> np.ndarray:
        """Draws of ζ at a factor on the learning rate, with the same lag, shape (draws,)."""
        law = oscillator_coefficients(factor * self.gain, 1.0, self.momentum)
        return (law.damping - law.stiffness * self.lag) / (2.0 * np.sqrt(law.mass * law.stiffness))


def swings_of(trends: RunTrends) -> Swings | None:
    """What a trend that swings says of its learning rate; None where it does not swing or the momentum is unknown.

    The border of the settings alone (`critical_gain`) would take the refresh interval's word for the lag; the trend's
    own damping also holds what nobody states, such as several updates a batch.
    """
    damping, trend = trends.damping, trends.reward
    momentum = trends.run.settings.momentum.value
    if damping is None or momentum is None or trends.swinging < BORDERS.probable:
        return None
    mu = float(momentum)
    drawn = np.random.default_rng(0).choice(len(damping.weight), _MOST_DRAWS, p=damping.weight)
    zeta, rows = damping.damping_ratio[drawn], min(trend.rows, DAMPING_ROWS)
    length = float(trend.step[-1] - trend.step[0]) * (1.0 + 1.0 / max(rows - 1, 1))
    # The grid's response time holds that of the rows too, as in its likelihood.
    time = length * np.hypot(damping.response_time[drawn], 1.0 / rows)
    frequency = np.sqrt(1.0 + 4.0 * zeta**2) / time
    mass = oscillator_coefficients(0.0, 0.0, mu).mass
    gain = mass * frequency**2
    lag = (1.0 - mu - 2.0 * zeta * frequency * mass) / gain
    return Swings(zeta, gain, np.maximum(lag, 0.0), mu)
