"""The numbers that decide a judgement, in one table, which `docs/diagnosis.md` shows.

Each is a size, not a level of significance: whether noise could have made a change is what the draws of a path say.
What leaving one out changes in the stored benchmark stands in `benchmarks/results/status.json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _row(value: float, unit: str, meaning: str) -> Any:
    return field(default=value, metadata={"unit": unit, "meaning": meaning})


@dataclass(frozen=True)
class Thresholds:
    """The numbers. A "share of the range" is one of the way from the lowest reward to the highest."""

    # A reward that is lost, rises or rests
    half: float = _row(0.5, "share", "of a gain, or of a level high at the start, whose loss is a failure; of a whole")
    material: float = _row(
        0.05, "of the range", "below which no fall and no rise matters, and an evaluation reward counts as zero"
    )
    fell: float = _row(0.1, "of the best", "that a reward loses, before its fall is named")
    rests: float = _row(0.04, "of the range", "within which a reward rests over the last half of its rows")
    rises: float = _row(0.02, "of the range", "above all that was before the last third, for a reward that rises")

    swings: int = _row(3, "times", "that a reward loses 30% of its best and is back, for an oscillation")

    # Train and evaluation reward
    parted: float = _row(0.15, "of the range", "that the train reward rises, to expect that the evaluation shares it")
    shared: float = _row(0.1, "of that rise", "that the evaluation reward shares at most, where they part")
    turned: float = _row(0.3, "of the best", "that an evaluation reward loses while the train reward holds")

    # Signals that strain before or while a reward falls
    spent: float = _row(0.1, "of the start", "of entropy or completion length, below which it is spent")
    grew: float = _row(2.0, "ratio", "of the entropy, or of a mismatch without a healthy range, over its start")
    exploded: float = _row(100.0, "ratio", "of a gradient norm or loss over its lowest level, that strains a run")
    named_growth: float = _row(20.0, "ratio", "of a gradient norm over its lowest level, that is named")
    far_kl: float = _row(0.3, "nats", "of KL to the reference, below which nine of ten public logs stay")
    high_kl: float = _row(1.5, "nats", "of KL to the reference, that is named")

    # Groups without variance
    waste: float = _row(0.7, "of the groups", "without variance, above which there is no signal")
    idle: float = _row(0.35, "of the groups or rows", "without variance, above which they are named as waste")
    waste_rows: int = _row(20, "rows", "that groups without variance have to last, for a verdict")
    dead_groups: float = _row(0.99, "of the groups", "without variance, from which a row has no gradient")

    # Counts
    counted: int = _row(8, "completions", "of a row, up to which its successes are counted: a few lie close by chance")

    # Levels
    near_top: float = _row(0.7, "of the range", "above which a reward is high: idle groups are waste, not a failure")
    solved: float = _row(0.93, "of the range", "from which a task counts as solved")
    hard: float = _row(0.2, "of the range", "below which prompts are too hard")

    # Direct measurements
    direct_rows: int = _row(8, "rows", "of one value, before a constant reward counts")

    # Schedule
    rate_spent: float = _row(0.01, "of its peak", "of the learning rate, below which the policy no longer moves")
    plateau_rows: int = _row(40, "rows", "below which a noisy plateau may rise on")

    # Probabilities
    suspect: float = _row(0.2, "probability", "above which a failure is named as possible")
    suspect_early: float = _row(0.3, "probability", "the same, of a reward of form alone in a few rows")
    probable: float = _row(0.5, "probability", "from which a sentence states it as a fact")
    sure: float = _row(0.95, "probability", "from which a rise counts as certain")


THRESHOLDS = Thresholds()
