"""Every threshold, slope and window of every event and mode, in one table, which `docs/diagnosis.md` shows.

Two packages detect events with them: `diagnosis` in the rows and trends of a log, `forecasting` in simulated paths and
in the logs from which hazards are learned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _row(value: float, unit: str, meaning: str) -> Any:
    return field(default=value, metadata={"unit": unit, "meaning": meaning})


@dataclass(frozen=True)
class Thresholds:
    """The numbers. A "share of the range" is one of the way from the lowest reward to the highest."""

    # Noise and windows
    noise_of_means: float = _row(
        3.0, "standard errors", "by which means of rows differ beyond noise; means, because a hazard has no trend"
    )
    first_rows: int = _row(2, "rows", "whose mean is the level at which a run begins, as it may fall at once")
    origin_part: int = _row(5, "1 / log", "first and now are means of the first and the last fifth")
    least_rows: int = _row(3, "rows", "of such a mean, at least")

    # Collapse and decline
    lost: float = _row(0.5, "share", "of gain or level that a collapse loses, or of its level a verifier that breaks")
    started_high: float = _row(
        0.5, "of the best", "above which a run that began there can lose its level, and below it its gain"
    )
    material: float = _row(0.03, "of the range", "below which no fall matters")
    decline: float = _row(0.25, "of the range", "that a decline covers")

    # Growth, take-off
    going: float = _row(0.04, "of the range", "that the second half gains while a run is going on")
    takeoff: float = _row(3.0, "gain or noise sd", "that a take-off gains, in multiples of what was gained before")
    takeoff_most: float = _row(4.0, "least take-off", "that counts as the most where the highest reward is unknown")
    far: float = _row(10.0, "rows ahead / rows", "beyond which no more events come: in public logs none more did")
    settled: int = _row(5, "rows", "after which a path that meets an event is where it leads")

    # Evaluation and train reward
    turned: float = _row(0.3, "of the best", "that an evaluation reward loses when it turns over")
    hollow: float = _row(0.05, "reward", "below which an evaluation reward in [0, 1] counts as zero")
    stands: float = _row(0.45, "of the range", "above which the train reward is high")

    # Entropy
    short: float = _row(0.5, "of the range", "up to which an entropy collapse is too early")

    # Zero-variance groups
    solved: float = _row(0.93, "of the range", "from which a task counts as solved")
    dead: float = _row(0.35, "of the rows", "with zero variance over the second half, above which they are waste")
    dead_groups: float = _row(0.999, "of the groups", "with zero variance, from which a row has no gradient")
    dead_spread: float = _row(1e-3, "of the largest reward", "standard deviation below which a row has zero variance")
    least_rate: float = _row(0.002, "success rate", "at least, and at most 1 less it, that implies a share")
    half: float = _row(0.5, "share", "of zero-variance groups, or of a rise in form, above which it is uninformative")

    # Loss and clip ratio
    reads_as_zero: float = _row(1e-6, "loss or share", "up to which a loss or clip ratio reads as 0")
    mostly_zero: float = _row(0.9, "of the rows", "that read as 0, from which the reason is given")

    # Truncated completions
    truncated: float = _row(0.5, "of the completions", "that hit the length limit, above which they are truncated")
    all_truncated: float = _row(0.95, "of the completions", "in each of the last rows, from which few rows measure it")

    # Resumes
    resumed: float = _row(1.5, "ratio", "of a signal's medians before and after a resume, from which it is named")

    # Other findings
    one_sided: float = _row(0.6, "of the groups", "all correct, or all wrong, above which prompts are to blame")

    # The learning rate
    rate_spent: float = _row(0.01, "of its peak", "of the learning rate, below which the policy no longer moves")
    past_plan: float = _row(1.1, "of the planned steps", "above which a log contradicts its plan")

    # Oscillations
    swing_damping: float = _row(0.4, "damping ratio", "below which a linear regime oscillates")
    swing_periods: float = _row(1.0, "periods", "within the log that an oscillation covers at least")
    swing_period: float = _row(8.0, "rows", "in an oscillation at least: faster ones are a prompt order or an alias")

    # Strain: e-folds beyond the ordinary range of a signal
    calm_burst: float = _row(8.0, "ratio", "largest gradient norm over the median")
    calm_kl: float = _row(1.5, "nats", "KL to the reference at the end")
    calm_entropy: float = _row(2.0, "ratio", "entropy, end over start")
    least_kl: float = _row(1e-3, "nats", "that a KL counts for at least")

    # When it began, what to say, what to do
    suspect: float = _row(0.2, "probability", "above which a failure gets an onset and remedies")
    easy: float = _row(0.8, "of the range", "above which zero-variance groups are solved ones")
    hard: float = _row(0.2, "of the range", "below which zero-variance groups are hopeless ones")
    share_named: float = _row(0.3, "of the groups", "without spread, above which the reason is given")
    sure_groups: float = _row(0.05, "of the groups", "surely without spread, above which a logged 0 is of the batch")
    engines: float = _row(1.5, "ratio", "growth of the trainer-inference mismatch that warrants a look")
    repeated_rows: int = _row(10, "rows", "that are equal, or repeat, before a log is called implausible")
    smooth_rows: int = _row(20, "rows", "whose scatter is compared with the spread within their groups")
    smooth_share: float = _row(0.4, "of the least scatter", "below which rows are too smooth to be measured")
    doubled: float = _row(2.0, "ratio", "from which a change is given as a multiple and not in percent")
    taken_back_most: float = _row(3.0, "of the rise", "bound of what is taken back")
    all_parts: float = _row(0.9, "of the rows", "that all parts have values in, before they have shares of the gain")
    clear_gain: float = _row(0.5, "noise sd", "of a row, that a gain exceeds, before parts have shares of it")
    whole: float = _row(0.05, "of 1", "that the estimated weights of environments may miss")
    material_part: float = _row(0.1, "of the largest", "change of a reward function that counts")
    described: float = _row(0.15, "of the means' range", "that a rise covers, before its episode is described")

    # Rows (bayes_grpo.diagnosis.logged): what the definitions of failures use
    window_part: int = _row(8, "1 / log", "a running mean is over an eighth of the rows")
    few_rows: float = _row(6.0, "rows", "by which few rows make their noise less certain: 1 + 6/n")
    trend_rows: int = _row(12, "rows", "that a verdict on a trend needs at least")
    waste_rows: int = _row(20, "rows", "that a verdict on zero-variance groups needs at least")
    early: float = _row(0.5, "of the planned rewards", "below which a plateau is no reason to stop")
    direct_rows: int = _row(8, "rows", "that a direct measurement needs: one reward in all of them, NaN at the end")
    held_out_rows: int = _row(6, "values", "of an evaluation reward before its fall counts")
    thirds: int = _row(3, "parts", "of the rows that are compared, to see whether a reward rises")
    late_part: int = _row(4, "1 / log", "late is the last quarter")
    fall_errors: float = _row(5.0, "standard errors", "of two means, that a fall exceeds")
    gain_errors: float = _row(4.0, "standard errors", "that a gain and its loss exceed, where nearly all is lost")
    gain_lost: float = _row(0.6, "of the gain", "that counts as nearly all")
    gain_part: float = _row(0.08, "of the range", "that its loss covers at least")
    rise_errors: float = _row(4.0, "standard errors", "that a rise exceeds")
    sure: float = _row(0.95, "probability", "of a rise beyond a row's noise, from which it counts as risen")
    rose_errors: float = _row(2.5, "standard errors", "of two thirds, above which a reward counts as risen")
    going_errors: float = _row(
        2.0, "standard errors", "of two means, above which the last half rises, below which it rests"
    )
    risen: float = _row(0.05, "of the range", "that a rise covers at least")
    near_top: float = _row(0.7, "of the range", "above which a reward is high: idle groups are waste, not a failure")
    waste: float = _row(0.8, "of the groups", "or rows, without spread late in the log, above which there is no signal")
    loss_typical: float = _row(1e-3, "loss", "typical, from which a loss of exactly 0 is a row without gradient")
    grad_times: float = _row(100.0, "ratio", "of a gradient norm late over early, above which a run is unstable")
    kl_times: float = _row(20.0, "ratio", "of the highest KL over the usual one, above which it has exploded")
    kl_high: float = _row(2.0, "nats", "of KL at least, then")
    burst_rows: int = _row(20, "rows", "of a gradient norm or KL before its growth counts")
    entropy_gone: float = _row(0.1, "of the start", "of the entropy, below which it is spent")
    sign_fall: float = _row(0.15, "of the best", "that a reward loses, as a sign of instability")
    dip_rows: int = _row(30, "rows", "of a dip at most, and a sixth of the log: what lasts longer is a failure")
    one_row: float = _row(2.0, "ratio", "of a dip of one row over one of several, before it is named")
    at_once: float = _row(0.7, "of a change of level", "that a single row covers, for a jump")
    carry_errors: float = _row(
        3.0, "standard errors", "of an evaluation reward, that a train reward rises, to compare both"
    )
    held_out_fall: float = _row(0.1, "of the best", "that an evaluation reward loses, before it is named")
    sign_grad: float = _row(3.0, "ratio", "of the gradient norm, late over early: a sign of instability")
    strong_grad: float = _row(20.0, "ratio", "of it, above which the sign alone warrants a look")
    safe: float = _row(0.1, "probability", "of a failure, above which no higher learning rate is advised")
    hack_rise: float = _row(0.2, "of the range", "that the train reward rises while the evaluation reward does not")
    hack_shared: float = _row(0.1, "of the rise", "that the evaluation reward shares at most")
    probable: float = _row(0.5, "probability", "from which a sentence states an event as a fact")


THRESHOLDS = Thresholds()
