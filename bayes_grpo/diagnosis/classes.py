"""The names that a run can be called by."""

from __future__ import annotations

MODES = ("reward_hacking", "advantage_degeneracy", "policy_concentration", "dynamical_instability")
"""The four failures."""
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
