"""Dynamical instability: damping near or below zero, bursts, and a fall after a rise.

The damping is that of the reward's course (`bayes_grpo.diagnosis.damping`). A fall is how far the course ends below its
best; fluctuation is set against what sampling so many completions explains; bursts are rows of gradient norm and KL far
above their own course.
"""

from __future__ import annotations

import math

import numpy as np

from bayes_grpo.common.intervals import Interval, interval, probability_text
from bayes_grpo.diagnosis.advice import fails_at, fails_fresh, rate_times, said, span_text, swings_of
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import (
    CALM,
    FIRST,
    NOISE,
    TAIL,
    collapsed,
    declined,
    fallen,
    odds,
    span,
    strain,
    sure,
    swings,
    wide,
)
from bayes_grpo.diagnosis.evidence import Evidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.onset import last_true, steps_between
from bayes_grpo.diagnosis.swings import swing_sd, wider_from
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.dynamics.thresholds import critical_gain
from bayes_grpo.logs.run import Provenance

_MARGIN = (
    "learning time over refresh interval; the rule asks for more than 1, but from a lagged curve it is met by "
    "construction"
)


_ENGINES = "mismatch of trainer and inference engine, end over start"
_PARTED = 1.5
"""Growth of that mismatch from which on it is worth a look, surely exceeded."""

_FACTORS = tuple(np.geomspace(1.0, 0.05, 40).tolist())
"""Factors on the learning rate that a linear law is trusted to advise, the largest first."""
_FAR = 3.0
"""Factor on the learning rate beyond which the border of stability is of no concern."""


NEAR = 0.1
"""Share of a fall within which a reward is near its best."""
CLIP = 2.0
"""Norm at which to clip a gradient, over the median one."""
FALLING, SWINGING = "the reward is near its best for the last time", "the reward begins to swing"


def _swinging(courses: Courses) -> bool:
    """Whether the reward swings rather than falls: then the spread of its rows tells when it began, not its best."""
    return swings(courses, span(courses, courses.progress)) > 0.5


class DynamicalInstability(Mode):
    """Dynamical instability."""

    name = "dynamical_instability"
    label = "dynamical instability"
    signals = ("grad_norm", "kl", "engine_mismatch")

    def evidence(self, courses: Courses) -> Evidence:
        """Damping, fall after a rise, fluctuation beyond sampling noise, bursts."""
        course = courses.progress
        quantities, missing = [], []
        parts: list[tuple[bool, str]] = []  # whether it speaks for the mode, and what it says
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
        fell, swung = float(np.mean(lost | sank)), swings(courses, reach)
        ends = f"the reward ends {f.median:.3g} [{f.low:.3g}, {f.high:.3g}] ({f.level:.0%}) below its best"
        parts.append((fell > 0.5, ends))
        probability = 1.0 - (1.0 - fell) * (1.0 - swung)
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
            size = f"the reward swings by {swing_sd(course):.2g} (sd) about its trend: " if swung > 0.5 else ""
            law = f"P(c <= 0) {unstable}, P(ζ < 1) {slow} of a linear law; a full swing in the log {swing}, one that"
            parts.append((swung > 0.5, f"{size}{law} grows {growing}"))
            held = courses.run.settings.refresh_interval
            if held.value and held.provenance is not Provenance.ASSUMED:
                steps = damping.response_time[drawn] * (course.step[-1] - course.step[0])
                quantities.append(quantity("stability_margin", steps / float(held.value), "", _MARGIN))
        norms = _norms(courses)
        if len(norms):
            used.append("grad_norm")
            burst = float(norms.max() / np.median(norms))
            parts.append((burst > CALM["burst"], f"largest gradient norm {burst:.3g} times the median"))
        elif "grad_norm" not in courses.run.signals:
            missing.append("grad_norm")
        kl = courses.signals.get("kl")
        if kl is None:
            missing.append("kl")
        else:
            used.append("kl")
        engines = courses.signals.get("engine_mismatch")
        if engines is not None:  # no labelled log has it, so it is told and not weighed
            used.append("engine_mismatch")
            quantities.append(quantity("engine_mismatch_growth", _times(engines), "", _ENGINES))
            parts.append((False, f"{_ENGINES} {span_text(quantities[-1].posterior)}"))
        said = "; ".join(text for _, text in sorted(parts, key=lambda part: not part[0]))
        return Evidence(self.name, probability, tuple(quantities), tuple(used), tuple(missing), said, features)

    def onset(self, courses: Courses) -> tuple[np.ndarray, str] | None:
        """Where a fall begins, the last step near the best; where the reward swings, the row that the swings begin at.

        The course passes over swings that it takes for noise, so that these are read off the rows.
        """
        course = courses.progress
        if _swinging(courses):
            return course.raw_step[wider_from(course.raw)], SWINGING
        steps = steps_between(course.step[0], course.step[-1])
        path = course.at(steps)
        top = path.max(axis=1, keepdims=True)
        end = path[:, -max(1, path.shape[1] // TAIL) :].mean(axis=1, keepdims=True)
        found = steps[last_true(path >= top - NEAR * (top - end))]
        # A best that was lost within the first rows is one that a robust course passes over.
        at_once = course.raw[:FIRST].mean() > top[:, 0] + NOISE * course.noise_sd
        return np.where(at_once, course.raw_step[0], found), FALLING

    def remedies(self, courses: Courses, evidence: Evidence, onset: Interval | None) -> tuple[str, ...]:
        """The checkpoint before, a smaller learning rate times refresh interval, clipped gradients."""
        run, out = courses.run, []
        if onset is not None:
            at_once, swung = onset.median <= courses.progress.raw_step[FIRST - 1], _swinging(courses)
            if at_once:
                out.append(f"start anew: the reward {'swings' if swung else 'was lost'} from its first rows on")
            else:
                when = "before it began to swing" if swung else "when the reward was last near its best"
                out.append(f"stop, and go back to the checkpoint of about step {onset.median:.0f}, {when}")
        out += [*_engines(courses), *_slower(courses), *_fresher(courses)]
        norms = _norms(courses)
        if not len(norms):
            out.append("log and clip the gradient norm")
        else:
            usual, most = float(np.median(norms)), float(norms.max())
            found = f"its median is {usual:.2g}, its largest {most:.2g}"
            if most > CLIP * usual:
                out.append(f"clip the gradient norm at about {CLIP * usual:.2g}: {found}")
            else:
                out.append(f"the gradient norm had no bursts ({found}): clipping it would change little")
        prompts = run.settings.prompts_per_step
        more = f" ({said('B', prompts)}; {4 * float(prompts.value):g} would halve it)" if prompts.value else ""
        out.append(f"more prompts a step if the fluctuation is the batch's{more}")
        return tuple(out)


def _norms(courses: Courses) -> np.ndarray:
    """Gradient norms of the rows that had a gradient; empty where there are too few for a course."""
    course = courses.signals.get("grad_norm")
    return np.empty(0) if course is None else np.exp(course.raw)


def _times(course: Trend) -> np.ndarray:
    """Draws of a course's end over its start, from that of its logarithm, shape (draws,)."""
    return np.exp(np.clip(course.change(), -12.0, 12.0))


def _engines(courses: Courses) -> list[str]:
    """What to look at where trainer and inference engine part."""
    course = courses.signals.get("engine_mismatch")
    if course is None or interval(_times(course)).low <= _PARTED:
        return []
    start, end = (float(np.exp(course.mean[i])) for i in (0, -1))
    return [
        f"trainer and inference engine give the same tokens ever more different probabilities (mismatch {start:.2g}, "
        f"then {end:.2g}): compare their precisions, weight synchronisation and sampling parameters, or weigh by "
        "truncated importance ratios"
    ]


def _slower(courses: Courses) -> list[str]:
    """A smaller learning rate, with what the dynamics expect of it where the course swings."""
    run = courses.run
    found, half = swings_of(courses), f"lower {rate_times(run, 0.5)} first"
    others = f"; beside public runs that failed, half the rate has {fails_at(0.5, True)}, a fifth {fails_at(0.2, True)}"
    if found is None:
        return [
            f"{half}: the course shows no swing that would tell how far it is above the border of stability{others}"
        ]
    known = [said("momentum", run.settings.momentum), said("K_ref", run.settings.refresh_interval)]
    now, then = interval(found.damping_ratio), interval(found.damping_at(0.5))
    line = (
        f"{half}: with {' and '.join(x for x in known if x)} and a damping ratio of {span_text(now)} one expects "
        f"{span_text(then)} there"
    )
    border = interval(found.border)
    if np.isfinite(border.median) and border.median < _FAR:
        line += f"; the border of stability lies at about {rate_times(run, border.median).rpartition('to ')[2]}"
    calm = [f for f in _FACTORS if np.median(found.damping_at(f)) >= 1.0]
    if calm and calm[0] < 0.5:
        line += f"; swings would end at about {rate_times(run, calm[0]).rpartition('to ')[2]}"
    return [line + others]


def _fresher(courses: Courses) -> list[str]:
    """A fresher sampling policy, where it is held for more than one step."""
    settings = courses.run.settings
    held, momentum = settings.refresh_interval.value, settings.momentum.value
    if not held or float(held) <= 1.0 or momentum is None:
        return []
    now, then = (critical_gain(float(momentum), math.ceil(float(k)), "hold") for k in (held, 1))
    return [
        f"refresh the sampling policy every step ({said('K_ref', settings.refresh_interval)}): the border of stability "
        f"moves up by a factor of {then / now:.2g}, from a gain of {now:.2g} to {then:.2g} ({fails_fresh(float(held))})"
    ]


MODE = DynamicalInstability()
