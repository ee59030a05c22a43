"""The colours of answers and modes: one for each, in every picture."""

from __future__ import annotations

from collections.abc import Mapping

from bayes_grpo.diagnosis.classes import CANNOT_TELL

COLOURS: Mapping[str, str] = {
    "healthy": "#15803d",
    "plateaued": "#a3c585",
    "reward_hacking": "#d97706",
    "advantage_degeneracy": "#7e57a8",
    "policy_concentration": "#0e7490",
    "dynamical_instability": "#b91c1c",
    CANNOT_TELL: "#c4c8cf",
    "growing": "#15803d",
    "truncated_completions": "#9f1239",
    "apparent_gain": "#a16207",
    "lost_values": "#111827",
    "one_sided_groups": "#b45309",
    "idle_steps": "#78716c",
    "engine_gap": "#be185d",
}
"""Answer or mode → its colour."""
