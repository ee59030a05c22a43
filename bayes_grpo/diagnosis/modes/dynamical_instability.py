"""Dynamical instability: damping near or below zero, bursts, and a fall after a rise.

The damping is that of the reward's course (`bayes_grpo.diagnosis.damping`). A fall is how far the course ends below its
best; fluctuation is set against what sampling so many completions explains; bursts are rows of gradient norm and KL far
above their own course.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval, probability_text
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import collapsed, declined, fallen, odds, span, strain, sure, swings, wide
from bayes_grpo.diagnosis.evidence import Evidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.onset import steps_between
from bayes_grpo.logs.run import Provenance

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
        quantities, parts, missing = [], [], []
        used = ["eval_reward" if courses.uses_eval else "reward"]
        reach = span(courses, course)
        lost, sank = collapsed(course, reach, courses.low), declined(course, reach)
        features = {
            "collapse": max(sure(lost), sure(sank)),
            "held_out_collapse": np.nan,
            "swings": np.nan,
            "strain": strain(courses),
        }
        held = courses.held_out
        if held is not None:
            features["held_out_collapse"] = sure(collapsed(held, max(float(np.ptp(held.value)), 1e-12)))
        quantities.append(quantity("fall", fallen(course), "reward", "from the best of the course to its end"))
        f = quantities[0].posterior
        parts.append(f"the reward ends {f.median:.3g} [{f.low:.3g}, {f.high:.3g}] ({f.level:.0%}) below its best")
        probability = 1.0 - (1.0 - float(np.mean(lost | sank))) * (1.0 - swings(courses, reach))
        damping = courses.damping
        if damping is not None:
            still = (1.0 - damping.oscillates) * (1.0 - damping.swings_grow)
            features["swings"] = min(odds(1.0 - still), wide(course, reach))
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
        norm = courses.signals.get("grad_norm")
        if norm is None:
            missing.append("grad_norm")
        else:
            used.append("grad_norm")
            parts.append(f"largest gradient norm {np.exp((norm.raw - np.median(norm.raw)).max()):.3g} times the median")
        kl = courses.signals.get("kl")
        if kl is None:
            missing.append("kl")
        else:
            used.append("kl")
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


MODE = DynamicalInstability()
