"""The names that a run can be called by, and what follows from their probabilities. Imports nothing that computes."""

from __future__ import annotations

from collections.abc import Mapping

PROGRESS = "progress"
"""Name of the evidence that all modes share."""

MODES = ("reward_hacking", "advantage_degeneracy", "policy_concentration", "dynamical_instability")
"""The four failures."""
LEFT_BY_SOLVED = ("advantage_degeneracy", "policy_concentration", "idle_steps", "one_sided_groups")
"""What a solved task leaves: groups without spread and little entropy are no failure there."""
CLASSES = ("healthy", "plateaued", *MODES)
"""Everything that has a likelihood of its own."""
CANNOT_TELL = "cannot_tell"
"""What is left where the log says too little, or something that no simulated run has shown."""
ANSWERS = (*CLASSES, CANNOT_TELL)
"""All answers, in the order in which they are printed."""
PRIOR = {
    "healthy": 0.34,
    "plateaued": 0.22,
    "reward_hacking": 0.08,
    "advantage_degeneracy": 0.10,
    "policy_concentration": 0.06,
    "dynamical_instability": 0.08,
    CANNOT_TELL: 0.12,
}
"""Prior probabilities where nobody states others."""


class AnswerProbabilities:
    """What follows from the probabilities of the answers; base of results that hold them.

    Attributes:
        probability: Answer → probability.
        own: Mode → probability that it is under way, alone or beside another.
    """

    probability: Mapping[str, float]
    own: Mapping[str, float]

    @property
    def failing(self) -> float:
        """Probability that something fails: the failures' together, no less than that of any that is under way."""
        together = sum(self.probability.get(mode, 0.0) for mode in MODES)
        return min(max(together, *(self.own.get(mode, 0.0) for mode in MODES)), 1.0)

    def alarming(self, limit: float) -> tuple[str, ...]:
        """Failures that sound an alarm: those under way with a probability of at least a limit.

        Where none is, though the failures together reach it, the one that leads: something fails, and it is the best
        guess what.
        """
        found = tuple(mode for mode in MODES if self.own[mode] >= limit)
        if not found and self.failing >= limit:
            return (max(MODES, key=lambda mode: self.probability[mode]),)
        return found
