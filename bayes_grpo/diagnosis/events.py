"""What a run is, as events on latent courses: the definitions, with their borders in one place.

`DEFINITIONS` says in words what holds where; the functions below say it in numbers. An event is judged on every draw of
a course, so that its probability carries the uncertainty of the log; `sure` is half of its log odds, held within
±`SURE`, because no border is worth more than that. *Strain* is no event but a sum: how many e-folds gradient norm, KL,
completion length and entropy lie beyond `CALM`, their ordinary range. The probability of a mode's evidence is that of
its event; a mode with several fails with any of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.swings import JUMP, swing_sd
from bayes_grpo.diagnosis.trend import Trend

SURE = 2.0
"""Bound of half the log odds of an event."""
NOISE, NOISE_OF_LEVEL = 2.0, 3.0
"""A row's noise sd that a fall has to exceed: of a gain or at a break, and of a level that needs no rise before."""
LOST = 0.5
"""Share of gain or level that a collapse, or a verifier that breaks, loses."""
MATERIAL = 0.03
"""Share of the reward's range below which no fall matters."""
WIDE = 0.1
"""Standard deviation of swings that matter, over the reward's range."""
DECLINE = 0.25
"""Share of the reward's range that a decline covers."""
CALM = {"burst": 8.0, "grad_norm": 6.0, "kl": 1.5, "completion_length": 3.3, "entropy": 2.0}
"""Largest row over the median and end over start of the gradient norm; KL in nats; end over start of the length (either
way) and of the entropy."""
STRAIN_EACH, STRAIN_MOST = 2.0, 3.0
"""Most e-folds of strain by one signal, and by all."""
FIRST = 2
"""Rows whose mean is the level at which a log begins, where it falls at once."""
SOLVED = 0.93
"""Share of the reward's range from which a task counts as solved."""
TAIL = 12
"""The end that a collapse is judged by is the mean over a course's last twelfth."""
LOOSE = 0.25
"""Coupling, change of the held-out reward over that of the train reward, below which a rise does not carry over."""
RISE, RISE_LEFT = 0.1, 0.2
"""Shares of the reward's range, and of what is left of it at the start, below both of which no rise beside a held-out
reward that stands still matters; with `TURNED` the laboratory's own borders (`laboratory.truth`)."""
TURNED = 0.3
"""Share of its best level that a held-out reward loses when it turns over."""
HOLLOW, STANDS = 0.05, 0.4
"""A held-out reward in [0, 1] that ends below the first beside a train reward above the second share of its range."""
GOING = 0.04
"""Share of the reward's range that a run gains over its second half while it is going on."""
SAME, BREAK, UNMOVED = 1e-6, 0.1, 0.7
"""A broken reward: largest spread of its rows and its fall over the range; e-folds by which entropy and length of the
completions may differ when it falls."""
LEFT = 0.2
"""Share of the starting entropy below which little is left to explore with."""
SHORT = 0.5
"""Share of the reward's range not reached, above which the entropy was spent too early."""
WASTE, EXCESS, DEAD = 0.55, 0.15, 0.35
"""Shares of waste over the second half of a log: of groups without spread, of those beyond what the level explains, and
of rows without any spread."""
LACKING = 0.5
"""Share of the groups with spread that the level implies, lacking which an unsolved task is surely wasted."""


class Definition(NamedTuple):
    """An event in words.

    Attributes:
        name: Its name.
        mode: The mode whose evidence it is; "" where it is shared.
        holds: When it holds, with its borders.
    """

    name: str
    mode: str
    holds: str


DEFINITIONS = (
    Definition("grew", "", "the course ends more than the noise sd of a row above its start"),
    Definition(
        "collapsed",
        "dynamical_instability",
        f"the reward's course has lost {LOST:.0%} of its gain, or of its level above the lowest reward, and more than "
        f"{MATERIAL:.0%} of its range: its end is the mean of the last {TAIL}th part, and the fall exceeds {NOISE:g} "
        f"noise sd of a row ({NOISE_OF_LEVEL:g} without a rise before it)",
    ),
    Definition(
        "declined",
        "dynamical_instability",
        f"the reward's course ends more than {DECLINE:.0%} of its range, and {NOISE:g} noise sd of a row, below its "
        "start",
    ),
    Definition(
        "swings",
        "dynamical_instability",
        "a linear law swings a full time within the log, or ever wider, and the rows about a cubic trend have a "
        f"standard deviation above {WIDE:.0%} of the range (less one jump, if that takes more than {JUMP:.0%} of their "
        "variance)",
    ),
    Definition(
        "uncoupled",
        "reward_hacking",
        f"the train reward rose beyond noise; and either less than {LOOSE:.0%} of the rise came with the held-out "
        f"reward, and the rise is more than {RISE:.0%} of the range or {RISE_LEFT:.0%} of what was left of it, or the "
        f"held-out reward fell by more than {TURNED:.0%} of its best, and {NOISE:g} noise sd, while the train reward "
        f"went on; or a held-out reward in [0, 1] ends below {HOLLOW:g} while the train reward stands above "
        f"{STANDS:.0%} of its range",
    ),
    Definition(
        "wasted",
        "advantage_degeneracy",
        f"over the second half more than {WASTE:.0%} of the groups have no spread, or {DEAD:.0%} of the rows none "
        f"at all, and the task is not solved (below {SOLVED:.0%} of the range); if it is, groups count that lie "
        f"{EXCESS:.0%} beyond what level and group size imply",
    ),
    Definition("going", "", f"the course gains more than {GOING:.0%} of the range over the second half of the log"),
    Definition(
        "broken",
        "advantage_degeneracy",
        f"the reward fell within two rows to one value and stays there, by more than {BREAK:.0%} of its range or "
        f"{LOST:.0%} of its level above the lowest reward, and {NOISE:g} times the spread of the rows before, while a "
        f"held-out reward kept {LOST:.0%} of its level, or entropy and length of the completions moved by less than a "
        f"factor {np.exp(UNMOVED):.1f}",
    ),
    Definition(
        "spent",
        "policy_concentration",
        f"less than {LEFT:.0%} of the starting entropy is left and more than {SHORT:.0%} of the reward's range not "
        "reached; without a known range, the reward has not grown",
    ),
)
"""Every event in words; `docs/diagnosis.md` shows them with logs on either side of their borders."""


def sure(event: np.ndarray) -> float:
    """Half the log odds of an event, counted over draws, within ±`SURE`."""
    return odds((float(np.sum(event)) + 0.5) / (len(event) + 1.0))


def odds(p: float) -> float:
    """Half the log odds of a probability, within ±`SURE`."""
    p = min(max(p, 1e-6), 1.0 - 1e-6)
    return float(np.clip(0.5 * np.log(p / (1.0 - p)), -SURE, SURE))


def span(courses: Courses, course: Trend) -> float:
    """The range of a reward: the known one, or what the log shows of it."""
    if courses.has_range:
        return courses.high - courses.low
    return max(float(np.ptp(course.value)), 0.5 * float(np.abs(course.value).max()), 1e-12)


def grew(course: Trend) -> np.ndarray:
    """Draws of whether a course grew, shape (draws,)."""
    return course.change() > course.noise_sd


def fallen(course: Trend) -> np.ndarray:
    """Draws of how far a course ends below its best, shape (draws,)."""
    return _best(course) - _end(course)


def _best(course: Trend) -> np.ndarray:
    # A robust course passes over the rows before a fall within two steps.
    return np.maximum(course.draws.max(axis=1), course.raw[:FIRST].mean())


def _end(course: Trend) -> np.ndarray:
    path = course.draws
    return path[:, -max(1, path.shape[1] // TAIL) :].mean(axis=1)


def collapsed(course: Trend, span: float, low: float = np.nan) -> np.ndarray:
    """Draws of whether a course collapsed, shape (draws,).

    Args:
        course: A reward's course.
        span: Its range.
        low: Lowest reward; NaN if unknown.
    """
    path = course.draws
    top, start, end = path.max(axis=1), path[:, 0], _end(course)
    lost = top - end
    gain, noise = top - start, course.noise_sd
    enough = (gain > NOISE * noise) & (lost > NOISE * noise)
    of_gain = (lost > LOST * gain) & enough & (path.argmax(axis=1) > 0)
    best, fall = _best(course), fallen(course)
    deep = fall > NOISE_OF_LEVEL * noise
    of_level = (fall > LOST * (best - low)) & deep if np.isfinite(low) else np.zeros(len(top), bool)
    return (of_gain & (lost > MATERIAL * span)) | (of_level & (fall > MATERIAL * span))


def declined(course: Trend, span: float) -> np.ndarray:
    """Draws of whether a course declined, shape (draws,)."""
    change = course.change()
    return (change < -NOISE * course.noise_sd) & (change < -DECLINE * span)


def going(course: Trend, span: float) -> np.ndarray:
    """Draws of whether a course went on growing over its second half, shape (draws,)."""
    middle = 0.5 * (course.step[0] + course.step[-1])
    return course.change(first=middle) > GOING * span


def wide(course: Trend, span: float) -> float:
    """How far a reward's swings about a slow course go beyond `WIDE` of its range, within ±`SURE`.

    A linear law finds a swing in many a noisy log; one that matters moves the reward itself.
    """
    return float(np.clip(20.0 * (swing_sd(course) / span - WIDE), -SURE, SURE))


def swings(courses: Courses, span: float) -> float:
    """Probability that the reward swings, or ever wider, by more than `WIDE` of its range; 0 without its damping."""
    damping = courses.damping
    if damping is None or wide(courses.progress, span) <= 0.0:
        return 0.0
    return 1.0 - (1.0 - damping.oscillates) * (1.0 - damping.swings_grow)


def uncoupled(courses: Courses, held: Trend, first: float, last: float) -> np.ndarray:
    """Draws of whether the train reward rose without the held-out reward, shape (draws,).

    Args:
        courses: Courses of a run with a train reward.
        held: Course of the held-out reward.
        first: First step at which both are known.
        last: Last such step.
    """
    train = courses.progress
    rise = train.change(first, last)
    rose = rise > np.maximum(train.noise_sd, NOISE * rise.std())
    stalled = (coupling(train, held, first, last) < LOOSE) & (rise > _least_rise(courses))
    fall, best = turnover(train, held, first, last)
    parted = rose & (stalled | (fall > np.maximum(TURNED * best, NOISE * held.noise_sd)))
    return parted | hollow(courses, held)


def hollow(courses: Courses, held: Trend) -> np.ndarray:
    """Draws of whether a train reward stands high beside a held-out one of nothing, shape (draws,)."""
    train = courses.progress
    if not courses.has_range or held.raw.min() < 0.0 or held.raw.max() > 1.0:
        return np.zeros(len(train.draws), bool)
    return (_end(held) < HOLLOW) & (courses.share(_end(train)) > STANDS)


def _least_rise(courses: Courses) -> float:
    """The smallest rise of the train reward that matters beside a held-out reward that stands still."""
    least = RISE * span(courses, courses.progress)
    left = courses.high - float(courses.progress.mean[0])
    return min(least, max(RISE_LEFT * left, 0.0)) if courses.has_range else least


def turnover(train: Trend, held: Trend, first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the held-out reward's fall from its best, and of that best, shape (draws,) each.

    The fall is 0 where the train reward did not go on rising meanwhile.
    """
    steps = np.linspace(first, last, 40)
    path, gold = train.at(steps), held.at(steps)
    best, rows = gold.argmax(axis=1), np.arange(len(gold))
    went_on = path[:, -1] > path[rows, best]
    return np.where(went_on, gold[rows, best] - gold[:, -1], 0.0), gold[rows, best]


def coupling(train: Trend, held: Trend, first: float, last: float) -> np.ndarray:
    """Draws of the held-out reward's change over the train reward's, within [-3, 3], shape (draws,)."""
    rise = train.change(first, last)
    return np.clip(held.change(first, last) / np.where(np.abs(rise) > 1e-12, rise, 1e-12), -3.0, 3.0)


def spent(courses: Courses) -> np.ndarray:
    """Draws of whether the entropy was spent before the reward was earned, shape (draws,)."""
    reward, left = courses.progress, entropy_left(courses.signals["entropy"])
    if courses.has_range:
        return (left < LEFT) & (1.0 - courses.share(reward.draws[:, -1]) > SHORT)
    # Without the reward's range only a reward that did not gain can be called poor.
    return (left < LEFT) & ~grew(reward)


def entropy_left(entropy: Trend) -> np.ndarray:
    """Draws of the share of the starting entropy that is left, from the course of its logarithm, shape (draws,)."""
    return np.exp(np.clip(entropy.change(), -12.0, 12.0))


def strain(courses: Courses) -> float:
    """How far signals lie beyond their ordinary range, in e-folds, between 0 and `STRAIN_MOST`; NaN without any."""
    found = []
    norm, kl, length, entropy = (courses.signals.get(k) for k in ("grad_norm", "kl", "completion_length", "entropy"))
    if norm is not None:  # courses of gradient norm, length and entropy are those of their logarithms
        found.append(float((norm.raw - np.median(norm.raw)).max()) - np.log(CALM["burst"]))
        found.append(float(norm.change().mean()) - np.log(CALM["grad_norm"]))
    if kl is not None:
        found.append(float(np.log(max(abs(kl.mean[-1]), 1e-3) / CALM["kl"])))
    if length is not None:
        found.append(abs(float(length.change().mean())) - np.log(CALM["completion_length"]))
    if entropy is not None:
        found.append(float(entropy.change().mean()) - np.log(CALM["entropy"]))
    if not found:
        return np.nan
    if courses.has_range and float(courses.share(courses.progress.mean[-1])) > SOLVED:
        return 0.0  # a solved task has no gradient to speak of: what moves then is rounding
    return float(min(np.clip(found, 0.0, STRAIN_EACH).sum(), STRAIN_MOST))
