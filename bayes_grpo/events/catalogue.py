"""Every event in words, in the order of `docs/diagnosis.md`, which shows logs on either side of their borders."""

from __future__ import annotations

from bayes_grpo.events.broken import BROKEN, MISREWARDED
from bayes_grpo.events.collapse import COLLAPSED, COLLAPSED_TRULY, DECLINED
from bayes_grpo.events.coupling import HACKED, UNCOUPLED
from bayes_grpo.events.entropy import EXPLODED, SPENT, SPENT_TRULY
from bayes_grpo.events.growth import GOING, GREW, LEARNED
from bayes_grpo.events.hazards import COLLAPSES, TAKES_OFF
from bayes_grpo.events.swings import OSCILLATION, SWINGS
from bayes_grpo.events.waste import SOLVED, TOO_HARD, WASTED

DEFINITIONS = (
    GREW,
    COLLAPSED,
    DECLINED,
    SWINGS,
    UNCOUPLED,
    WASTED,
    GOING,
    BROKEN,
    SPENT,
    MISREWARDED,
    EXPLODED,
    HACKED,
    COLLAPSED_TRULY,
    OSCILLATION,
    SPENT_TRULY,
    TOO_HARD,
    SOLVED,
    LEARNED,
    COLLAPSES,
    TAKES_OFF,
)
"""Those of a diagnosis, of the laboratory's truth and of the forecast's hazards."""
