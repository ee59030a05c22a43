"""Dynamical instability: damping near or below zero, bursts, and a fall after a rise.

The damping is that of the reward's course (`bayes_grpo.diagnosis.damping`). A fall is how far the course ends below its
best; fluctuation is set against what sampling so many completions explains; bursts are rows of gradient norm and KL far
above their own course.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.diagnosis.damping import Damping
from bayes_grpo.diagnosis.evidence import MANY, Courses, Evidence, log_odds, quantity
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.logs.run import Provenance

FELL = 0.3
"""Share of the curve's range that a run has to lose from its best to count as fallen."""
_FEATURES = ("fall_share", "fall_over_noise", "oscillates", "swings_grow", "excess_noise", "grad_burst", "grad_trend",
             "kl_burst")  # fmt: skip


def instability_evidence(courses: Courses, damping: Damping | None) -> Evidence:
    """Damping, fall after a rise, fluctuation beyond sampling noise, bursts.

    Args:
        courses: Courses of the run.
        damping: Of the course of progress; None where it has no spread.
    """
    course = courses.progress
    features: dict[str, float] = dict.fromkeys(_FEATURES, np.nan)
    quantities, parts, missing = [], [], []
    used = ["eval_reward" if courses.uses_eval else "reward"]
    fall, _, fell = falls(course)
    features |= fall_features(course)
    quantities.append(quantity("fall", fall, "reward", "from the best of the course to its end"))
    f = quantities[0].posterior
    probability = float(fell.mean())
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
            f"P(c <= 0) {unstable}, P(ζ < 1) {slow} of a linear law; a full swing in the log {swing}, one that grows "
            f"{growing}"
        )
        interval = courses.run.settings.refresh_interval
        if interval.value and interval.provenance is not Provenance.ASSUMED:
            steps = damping.response_time[drawn] * (course.step[-1] - course.step[0])
            quantities.append(quantity("stability_margin", steps / float(interval.value), "", "learning time over "
                              "refresh interval; the rule asks for more than 1, but from a lagged curve it is met by "
                              "construction"))  # fmt: skip
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
        "dynamical_instability", probability, tuple(quantities), tuple(used), tuple(missing), "; ".join(parts), features
    )


def fall_features(course: Trend) -> dict[str, float]:
    """How far a course ends below its best, of its range and in noise sd, and whether it fell."""
    fall, share, fell = falls(course)
    return {
        "fall_share": float(np.mean(share * (fall / (fall + course.noise_sd)))),
        "fall_over_noise": min(float(np.arcsinh(fall.mean() / course.noise_sd)), MANY),
        "fell": log_odds(float(fell.mean())),
    }


def falls(course: Trend) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of the fall from the best to the end, of its share of the course's range, and of whether it counts.

    Every noisy curve ends somewhat below its best: only a fall beyond the noise of a row counts.
    """
    path = course.draws
    best = path.max(axis=1)
    fall = best - path[:, -1]
    share = fall / np.maximum(best - path.min(axis=1), 1e-300)
    return fall, share, (share > FELL) & (fall > 2.0 * course.noise_sd) & (path.argmax(axis=1) > 0)


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
        if not np.isfinite(courses.low):
            return np.nan
        p = np.clip((courses.progress.mean - courses.low) / (courses.high - courses.low), 0.01, 0.99)
        typical = float(np.sqrt(np.mean(p * (1 - p)))) * (courses.high - courses.low)
    else:
        typical = float(np.sqrt(np.nanmean(spread**2)))
    if not size or not prompts or typical <= 0:
        return np.nan
    rows = float(size) * float(prompts) * float(np.median(run.window) if len(run.window) else 1.0)
    scatter = float(np.sqrt(np.mean(np.diff(courses.progress.raw) ** 2) / 2.0))
    return float(np.clip(np.log(max(scatter, 1e-6) / (typical / np.sqrt(rows))), -3.0, 4.0))
