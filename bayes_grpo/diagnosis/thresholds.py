"""Every border, slope and window of every event, in one table.

Two rooms ask whether an event happened: `diagnosis` of the rows of a log and the trends beneath them, `forecast` of
paths to come and of the logs from which hazards are learned. `advice` is what a diagnosis recommends and says, which no
probability depends on. `docs/diagnosis.md` shows the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

DIAGNOSIS, FORECAST, ADVICE = "diagnosis", "forecast", "advice"


def _border(value: float, unit: str, readers: tuple[str, ...], meaning: str) -> Any:
    return field(default=value, metadata={"unit": unit, "readers": readers, "meaning": meaning})


_D, _F, _A = (DIAGNOSIS,), (FORECAST,), (ADVICE,)


@dataclass(frozen=True)
class Thresholds:
    """The numbers. A "share of the range" is one of the way from the lowest reward to the highest."""

    # Noise and windows
    noise: float = _border(2.0, "noise sd", _D, "of a row, that a fall, a gain before it or a break has to exceed")
    noise_of_level: float = _border(3.0, "noise sd", _D, "of a row, that a fall without a rise before it has to exceed")
    noise_of_growth: float = _border(1.0, "noise sd", _D, "of a row, above which a change is growth")
    noise_of_means: float = _border(
        3.0, "standard errors", _F, "by which means of rows differ beyond noise; means, because a hazard has no trend"
    )
    first_rows: int = _border(2, "rows", _D, "whose mean is the level at which a run begins, as it may fall at once")
    end_part: int = _border(12, "1 / log", _D, "the end of a trend is the mean over its last twelfth")
    origin_part: int = _border(5, "1 / log", _F, "first and now are means of the first and the last fifth")
    end_part_ahead: int = _border(
        10, "1 / log", _F, "the end is the mean of the last tenth: rows that came are fewer and rougher than a trend"
    )
    least_rows: int = _border(3, "rows", _F, "of such a mean, at least")

    # Collapse and decline
    lost: float = _border(
        0.5, "share", _D + _F, "of gain or level that a collapse loses, or of its level a verifier that breaks"
    )
    started_high: float = _border(
        0.5, "of the best", _F, "above which a run that began there can lose its level, and below it its gain; a "
        "diagnosis asks for either, because a trend's best is less certain than its end"
    )  # fmt: skip
    material: float = _border(0.03, "of the range", _D, "below which no fall matters")
    decline: float = _border(0.25, "of the range", _D, "that a decline covers")

    # Growth, take-off
    going: float = _border(0.04, "of the range", _D, "that the second half gains while a run is going on")
    takeoff: float = _border(
        3.0, "gain or noise sd", _F, "that a take-off gains, in multiples of what was gained before"
    )
    takeoff_most: float = _border(
        4.0, "least take-off", _F, "that counts as the most where nobody knows the highest reward"
    )
    settled: int = _border(5, "rows", _F, "after which a path that meets an event is where it leads")

    # Held-out beside train reward
    turned: float = _border(0.3, "of the best", _D, "that a held-out reward loses when it turns over")
    hollow: float = _border(0.05, "reward", _D, "below which a held-out reward in [0, 1] is one of nothing")
    stands: float = _border(0.4, "of the range", _D, "above which a train reward beside it stands high")
    coupling_most: float = _border(3.0, "coupling", _D, "bound of a coupling, whose denominator may be noise")

    late_share_most: float = _border(2.0, "of the change", _D, "bound of what the second half has of it, below -1")

    # Entropy
    short: float = _border(0.5, "of the range", _D, "not reached, above which the entropy was spent too early")

    most_e_folds: float = _border(12.0, "e-folds", _D, "of a signal's change at most, before it becomes a factor")
    most_log_entropy: float = _border(
        2.0, "log nats", _D, "of an entropy at most, whose exponential the entropy law takes"
    )

    # Groups without spread
    solved: float = _border(0.93, "of the range", _D + _A, "from which a task counts as solved")
    dead: float = _border(
        0.35, "of the rows", _D, "without any spread over the second half, above which they are waste"
    )
    dead_groups: float = _border(0.999, "of the groups", _D, "without spread, from which a row has none")
    dead_spread: float = _border(
        1e-3, "of the largest reward", _D, "standard deviation below which a row has no spread"
    )
    loss_digits: float = _border(
        30.0, "last digits", _D, "of a typical loss, from which on a loss of 0 is no rounded one"
    )
    loss_least: float = _border(1e-4, "loss", _D, "typical, from which on a loss of 0 tells")
    least_rate: float = _border(0.002, "success rate", _D, "at least, and at most 1 less it, that implies a share")
    least_rate_ahead: float = _border(
        0.01, "success rate", _A, "the same for other group sizes: their ratio is rougher"
    )

    half: float = _border(0.5, "share", _D, "of groups without spread, or of a rise that is form, that tells nothing")

    # Completions that are cut off
    truncated: float = _border(0.5, "of the completions", _D, "that run into the limit, above which they are truncated")

    # Other findings
    one_sided: float = _border(0.6, "of the groups", _D, "all correct, or all wrong, above which prompts are to blame")

    # The learning rate
    rate_spent: float = _border(0.01, "of its peak", _D, "of the learning rate, below which no policy moves any more")

    # Swings
    swing_damping: float = _border(0.4, "damping ratio", _D, "below which a linear law swings")
    swing_periods: float = _border(1.0, "periods", _D, "within the log that it swings at least")
    swing_period: float = _border(
        8.0, "rows", _D, "in a swing at least: what turns faster is an order of prompts, or an alias"
    )

    # Strain: e-folds beyond the ordinary range of a signal
    calm_burst: float = _border(8.0, "ratio", _D + _A, "largest gradient norm over the median")
    calm_kl: float = _border(1.5, "nats", _D, "KL to the reference at the end")
    calm_entropy: float = _border(2.0, "ratio", _D, "entropy, end over start")
    least_kl: float = _border(1e-3, "nats", _D, "that a KL counts for at least")

    # When it began, what is said, what to do
    suspect: float = _border(0.2, "probability", _A, "above which a failure gets an onset and remedies")
    easy: float = _border(0.8, "of the range", _A, "above which groups have no spread because they are solved")
    hard: float = _border(0.2, "of the range", _A, "below which because they are hopeless")
    share_said: float = _border(0.3, "of the groups", _A, "without spread, above which it is said why")
    engines: float = _border(1.5, "ratio", _D + _A, "growth of the engines' mismatch worth a look, surely exceeded")
    repeated_rows: int = _border(10, "rows", _A, "that are alike, or come again, before a log is called implausible")
    smooth_rows: int = _border(20, "rows", _A, "whose scatter is held against the spread within their groups")
    smooth_share: float = _border(0.4, "of the least scatter", _A, "below which rows are too smooth to be measured")
    doubled: float = _border(2.0, "ratio", _A, "from which a change is told as a multiple and not in percent")
    taken_back_most: float = _border(3.0, "of the rise", _A, "bound of what is taken back")
    material_part: float = _border(0.1, "of the largest", _A, "change of a reward function that counts")
    adds_up: float = _border(
        0.02, "scatter", _A, "of the total about its weighted parts, over its own, where they add up"
    )
    # Rows (bayes_grpo.diagnosis.rows): what the definitions of failures are held against
    window_part: int = _border(8, "1 / log", _D, "a running mean is over an eighth of the rows")
    few_rows: float = _border(6.0, "rows", _D, "by which few rows make their noise less certain: 1 + 6/n")
    trend_rows: int = _border(12, "rows", _D, "that a verdict on a trend needs at least")
    waste_rows: int = _border(20, "rows", _D, "that a verdict on groups without spread needs at least")
    direct_rows: int = _border(
        8, "rows", _D, "that a direct measurement needs: one reward in all of them, NaN at the end"
    )
    held_out_rows: int = _border(6, "values", _D, "of a held-out reward before its fall counts")
    thirds: int = _border(3, "parts", _D, "of the rows that are held against each other, to see whether a reward rises")
    late_part: int = _border(4, "1 / log", _D, "late is the last quarter")
    fall_errors: float = _border(5.0, "standard errors", _D, "of two means, that a fall exceeds")
    gain_errors: float = _border(
        4.0, "standard errors", _D, "that a gain and its loss exceed, where nearly all is lost"
    )
    gain_lost: float = _border(0.6, "of the gain", _D, "that counts as nearly all")
    gain_part: float = _border(0.08, "of the range", _D, "that its loss covers at least")
    rise_errors: float = _border(4.0, "standard errors", _D, "that a rise exceeds")
    rose_errors: float = _border(
        2.5, "standard errors", _A, "of two thirds, above which a reward is said to have risen"
    )
    going_errors: float = _border(
        2.0, "standard errors", _D, "of two means, above which the last half rises, below which it rests"
    )
    risen: float = _border(0.05, "of the range", _D, "that a rise covers at least")
    near_top: float = _border(
        0.7, "of the range", _D, "above which a reward stands high: idle groups are waste, no failure"
    )
    waste: float = _border(
        0.8, "of the groups", _D, "or rows, without spread late in the log, above which there is no signal"
    )
    loss_told: float = _border(1e-3, "loss", _D, "typical, from which a loss of exactly 0 is a row without gradient")
    grad_times: float = _border(100.0, "ratio", _D, "of a gradient norm late over early, above which a run is unstable")
    kl_times: float = _border(20.0, "ratio", _D, "of the highest KL over the usual one, above which it has exploded")
    kl_high: float = _border(2.0, "nats", _D, "of KL at least, then")
    burst_rows: int = _border(20, "rows", _D, "of a gradient norm or KL before its growth counts")
    entropy_gone: float = _border(0.1, "of the start", _D, "of the entropy, below which it is spent")
    sign_fall: float = _border(0.15, "of the best", _A, "that a reward loses: a sign of instability")
    sign_grad: float = _border(3.0, "ratio", _A, "of the gradient norm, late over early: a sign of instability")
    strong_grad: float = _border(20.0, "ratio", _A, "of it, above which the sign is worth a look by itself")
    safe: float = _border(0.1, "probability", _A, "of a failure, above which no higher learning rate is advised")
    hack_rise: float = _border(0.2, "of the range", _D, "that the train reward rises while the held-out one does not")
    hack_shared: float = _border(0.1, "of the rise", _D, "that the held-out reward shares at most")
    probable: float = _border(0.5, "probability", _A, "from which an event is spoken of as a fact")


THRESHOLDS = Thresholds()


class Border(NamedTuple):
    """One line of the table.

    Attributes:
        name: Its name in `Thresholds`.
        value: The number.
        unit: What it counts.
        readers: Who holds something against it.
        meaning: What it is.
    """

    name: str
    value: float
    unit: str
    readers: tuple[str, ...]
    meaning: str


def table() -> tuple[Border, ...]:
    """Every border with its words, in the order of `Thresholds`."""
    return tuple(Border(f.name, getattr(THRESHOLDS, f.name), **f.metadata) for f in fields(Thresholds))
