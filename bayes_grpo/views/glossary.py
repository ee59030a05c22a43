"""Every term that a page links to, in one line each."""

from __future__ import annotations

import re
from collections.abc import Mapping

GLOSSARY: Mapping[str, str] = {
    "interval": "Contains the true value with 90% probability, given the log and the model; 5% lie on either side.",
    "underlying reward": "The reward of the policy itself, without the noise of the completions behind a logged row.",
    "noise": "Spread of logged rows about the underlying reward.",
    "fixed point": "Reward at which the curve would settle under a constant learning rate.",
    "half gain step": "Step at which half of the gain is reached.",
    "damping ratio": "Above 1 the curve approaches its plateau without overshooting; below 1 it swings past it.",
    "stiffness": "How strongly the reward is pulled toward its fixed point.",
    "damping": "How strongly a change of the reward is slowed down.",
    "observation sd": "Standard deviation of a logged row about the underlying reward.",
    "prior": "What was assumed of a quantity before the log was read; weak.",
    "contraction": "Share of the prior's variance that the log removed; below 50% the number is mostly the prior.",
    "sensitivity": "How much an estimate moves when the prior (first) or the data (second) count more.",
    "elpd": "Expected log predictive density: how well a regime predicts each row from all others. Higher is better.",
    "P(worse)": "Probability that a regime predicts worse than the best one, by a normal approximation.",
    "weight": "Share of a regime in the best mixture of all (stacking); arbitrary among near-equal regimes.",
    "rows ahead": "Log density of the rows after the middle of the log, each predicted from the rows before it.",
    "tail probability": "How often replicated rows look as odd as this; small speaks against the regime.",
    "autocorrelation": "Neighboring residuals resemble each other: the regime misses a slow movement.",
    "outliers": "Single rows that no regime of this kind would give.",
    "break": "A jump within a few rows, or a bend, that no smooth curve makes; its statistic is a log Bayes factor.",
    "variance": "The noise level changes along the run.",
    "remaining gain": "Underlying reward at the horizon, less the one now.",
    "net value": "Value of the reward gained by a step, less the cost of the steps.",
    "under way": "Probability that a failure is happening now, alone or with another one; "
    "not seen: no logged signal can show it.",
    "onset": "Step at which a failure began, with its interval.",
    "NaN or infinite values": "Rows in which a signal that every other row has is NaN or infinite.",
    "prompts too easy or too hard": "Most groups are all correct, or all wrong: either way they teach nothing.",
    "steps without reward variance": "Rows whose groups all have zero reward variance; they teach nothing.",
    "trainer-inference mismatch": "Trainer and inference engine assign diverging probabilities to the same tokens.",
    "reward hacking": "The train reward rises while an evaluation or true reward does not.",
    "advantage degeneracy": "Most groups have zero reward variance, so their completions carry no gradient.",
    "policy concentration": "The policy puts nearly all probability on few answers before the best is found.",
    "dynamical instability": "Reward or policy swing or run away because updates are too large or too late.",
    "gain g": "Learning rate times curvature: how strongly one update answers a distance from the fixed point.",
    "margin": "Largest stable gain over the run's gain: above 1 is stable.",
    "lag": "Steps between drawing completions and learning from them.",
    "origin": "Where a setting comes from: logged, config (the trainer's file), user (a flag or file) or assumed.",
}
"""Term → one line."""


def anchor(term: str) -> str:
    """Anchor of a term on the page."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")
