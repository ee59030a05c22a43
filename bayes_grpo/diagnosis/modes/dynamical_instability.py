"""Dynamical instability: damping near or below zero, bursts, and a fall after a rise.

The damping is that of the reward's course (`bayes_grpo.diagnosis.damping`). A fall is how far the course ends below its
best; fluctuation is set against what sampling so many completions explains; bursts are rows of gradient norm and KL far
above their own course.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval, probability_text
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.evidence import Evidence, log_odds, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.onset import steps_between
from bayes_grpo.diagnosis.progress import fall_features, falls
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.logs.run import Provenance

_FEATURES = ("fall_share", "fall_over_noise", "oscillates", "swings_grow", "excess_noise", "grad_burst", "grad_trend",
             "kl_burst")  # fmt: skip
_MARGIN = (
    "learning time over refresh interval; the rule asks for more than 1, but from a lagged curve it is met by "
    "construction"
)


class DynamicalInstability(Mode):
    """Dynamical instability."""

    name = "dynamical_instability"
    label = "dynamical instability"
    signals = ("grad_norm", "kl")

    def evidence(self, courses: Courses) -> Evidence:
        """Damping, fall after a rise, fluctuation beyond sampling noise, bursts."""
        course = courses.progress
        features: dict[str, float] = dict.fromkeys(_FEATURES, np.nan)
        quantities, parts, missing = [], [], []
        used = ["eval_reward" if courses.uses_eval else "reward"]
        fall, _, fell = falls(course)
        features |= fall_features(course)
        quantities.append(quantity("fall", fall, "reward", "from the best of the course to its end"))
        f = quantities[0].posterior
        probability = float(fell.mean())
        damping = courses.damping
        if damping is not None:
            features["oscillates"] = log_odds(damping.oscillates, 400)
            features["swings_grow"] = log_odds(damping.swings_grow, 400)
            probability = 1.0 - (1.0 - probability) * (1.0 - damping.oscillates) * (1.0 - damping.swings_grow)
            drawn = np.random.default_rng(0).choice(len(damping.weight), 2000, p=damping.weight)
            ratio = damping.damping_ratio[drawn]
            quantities.append(quantity("damping_ratio", ratio, "", "ζ = c / (2 sqrt(mk)): below 1 oscillatory, below 0 "
                                       "unstable"))  # fmt: skip
            unstable, slow, swing, growing = map(
                probability_text, (damping.unstable, damping.underdamped, damping.oscillates, damping.swings_grow)
            )
            parts.append(
                f"P(c <= 0) {unstable}, P(ζ < 1) {slow} of a linear law; a full swing in the log {swing}, one that "
                f"grows {growing}"
            )
            interval = courses.run.settings.refresh_interval
            if interval.value and interval.provenance is not Provenance.ASSUMED:
                steps = damping.response_time[drawn] * (course.step[-1] - course.step[0])
                quantities.append(quantity("stability_margin", steps / float(interval.value), "", _MARGIN))
        if courses.run.has_reward:
            features["excess_noise"] = excess_noise(courses)
        parts.append(f"the reward ends {f.median:.3g} [{f.low:.3g}, {f.high:.3g}] ({f.level:.0%}) below its best")
        norm = courses.signals.get("grad_norm")
        if norm is None:
            missing.append("grad_norm")
        else:
            used.append("grad_norm")
            features["grad_burst"] = burst(norm)
            features["grad_trend"] = float(np.clip(norm.change(), -5.0, 5.0).mean())
            parts.append(f"largest gradient norm {np.exp((norm.raw - np.median(norm.raw)).max()):.3g} times the median")
        kl = courses.signals.get("kl")
        if kl is None:
            missing.append("kl")
        else:
            used.append("kl")
            features["kl_burst"] = burst(kl)
        return Evidence(
            self.name, probability, tuple(quantities), tuple(used), tuple(missing), "; ".join(parts), features
        )

    def onset(self, courses: Courses) -> tuple[np.ndarray, str] | None:
        """Where the reward's course first comes near its best, from which it falls."""
        course = courses.progress
        steps = steps_between(course.step[0], course.step[-1])
        path = course.at(steps)
        top, low = path.max(axis=1, keepdims=True), path.min(axis=1, keepdims=True)
        # The first of several tops, so that a run that swings is dated by its first swing.
        first = (path >= top - 0.1 * (top - low)).argmax(axis=1)
        return steps[first], "the reward comes near its best for the first time"

    def remedies(self, courses: Courses, evidence: Evidence, onset: Interval | None) -> tuple[str, ...]:
        """The checkpoint before, a smaller learning rate times refresh interval, clipped gradients."""
        settings = courses.run.settings
        out = []
        if onset is not None:
            out.append(
                f"stop, and go back to the checkpoint of about step {onset.median:.0f}, when the reward first neared "
                "its best"
            )
        interval = settings.refresh_interval.value
        known = "" if not interval else f" (K_ref is {float(interval):g} here)"
        out.append(f"lower the learning rate times the refresh interval, eta * K_ref{known}: half of it first")
        out.append("clip the gradient norm; more prompts a step if the fluctuation is the batch's")
        return tuple(out)


def burst(course: Trend) -> float:
    """Largest residual above the course, in robust sd of the residuals; asinh."""
    residual = course.residual()
    spread = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    return float(np.arcsinh(residual.max() / max(spread, course.noise_sd * 0.1, 1e-12)))


def excess_noise(courses: Courses) -> float:
    """Log of the scatter of a row over what sampling its completions explains; NaN where that is not known."""
    run = courses.run
    size, prompts = run.settings.group_size.value, run.settings.prompts_per_step.value
    spread = run.signals.get("reward_std")
    if spread is None or not np.isfinite(spread).any():
        if not courses.has_range:
            return np.nan
        p = np.clip(courses.share(courses.progress.mean), 0.01, 0.99)
        typical = float(np.sqrt(np.mean(p * (1 - p)))) * (courses.high - courses.low)
    else:
        typical = float(np.sqrt(np.nanmean(spread**2)))
    if not size or not prompts or typical <= 0:
        return np.nan
    rows = float(size) * float(prompts) * float(np.median(run.window) if len(run.window) else 1.0)
    scatter = float(np.sqrt(np.mean(np.diff(courses.progress.raw) ** 2) / 2.0))
    return float(np.clip(np.log(max(scatter, 1e-6) / (typical / np.sqrt(rows))), -3.0, 4.0))


MODE = DynamicalInstability()
