"""Every term that a page uses, in one line each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

GLOSSARY: Mapping[str, str] = {
    "interval": "Range that holds the true value with the stated probability, given the log and the model; 90% with "
    "5% on either side, unless said otherwise.",
    "probability": "Share of the posterior's draws in which something holds; never shown as 0 or 1, because a few "
    "thousand draws cannot tell that.",
    "posterior": "What is believed of a quantity after the log has been seen.",
    "prior": "What was believed of a quantity before the log was seen; weak, and stated with every fit.",
    "contraction": "Share of the prior's variance that the log removed: near 100% the log has spoken, below 50% the "
    "number is mostly the prior.",
    "sensitivity": "How much a quantity moves when the prior (first number) or the data (second) count more; from 0.05 "
    "on it depends on them.",
    "law": "A regime: one equation for the underlying reward, such as an exponential approach or a damped oscillator, "
    "with its priors.",
    "unforced law": "The law's curve without the random pushes of single steps.",
    "underlying reward": "The reward of the policy itself, without the noise of the few completions behind a logged "
    "row.",
    "noise": "Spread of logged rows about the underlying reward.",
    "R²": "Share of the rows' variance that a curve explains; noise cannot be explained, so a right law need not "
    "reach 1.",
    "fixed point": "Reward at which the curve would settle under a constant learning rate.",
    "overdamped": "The curve approaches its level without swinging past it.",
    "oscillatory": "The curve swings past its level and back, ever less.",
    "unstable": "The curve swings ever wider: the settings feed on their own lag.",
    "elpd": "Expected log predictive density: how well a law predicts each row from all others; higher is better, and "
    "differences below 4 are none.",
    "P(worse)": "Probability that a law predicts worse than the best one, by a normal approximation.",
    "weight": "Share that a law gets in the best mixture of all (stacking); it picks among near equals, so 1 is no "
    "proof.",
    "rows ahead": "Log density of the rows after the middle of the log, each predicted from the rows before it.",
    "Pareto k": "Whether the score of a row can be trusted; above 0.7 it cannot.",
    "residual": "A row less what the law expected of it, over its standard deviation: pure noise if the law is right.",
    "tail probability": "Probability that a right law shows something as odd as this by chance; small speaks against "
    "the law.",
    "autocorrelation": "Neighbouring residuals resemble each other: the law misses a slow movement.",
    "outliers": "Single rows that no law of this kind would give.",
    "break": "A jump within a few rows, or a bend, that no smooth curve makes; its statistic is a log Bayes factor.",
    "variance": "The noise changes its size along the run.",
    "PIT": "Probability of a smaller row given all others; uniform if the law is right.",
    "horizon": "Last step of the forecast.",
    "remaining gain": "Underlying reward at the horizon, less the one now.",
    "collapse": "The reward is lost within a few rows; no law knows it, so its probability comes from other logs.",
    "take-off": "A flat reward starts to rise; likewise from other logs.",
    "level": "The mean of the last rows, kept as it is: a forecaster beside the laws.",
    "peaked": "The law expects the reward to fall from now on and not to come back.",
    "net value": "What continuing to a step is worth: value of the gained reward less the cost of the steps.",
    "regret": "What a choice loses against the best step in hindsight.",
    "under way": "Probability that a failure is happening, alone or beside another one.",
    "onset": "Step at which a failure began, with its interval.",
    "evidence": "What the signals of the log show of one failure, in numbers.",
    "status": "How a run stands. Fine: it rises or holds, and nothing fails that the log could show. Watch: nothing is "
    "known to fail, and something should be looked at. Failing: a failure is more probable than not, and can be "
    "mended. Failed: half or more of the reward is lost. Done: nothing moves any more, the task is solved, or the "
    "planned steps are over. Unclear: the log says too little.",
    "values that are not numbers": "Rows in which a signal that every other row has is NaN or infinite.",
    "prompts too easy or too hard": "Most groups are all correct, or all wrong: either way they teach nothing.",
    "steps without a gradient": "Rows in which no group has a spread of reward; they cost time and change nothing.",
    "trainer and inference engine part": "The two give the same tokens ever more different probabilities.",
    "healthy": "No failure that the log can show, and the reward rose at some time.",
    "plateaued": "No failure that the log can show, and the reward hardly rose.",
    "reward hacking": "The train reward rises while what it stands for, a held-out or true reward, does not.",
    "advantage degeneracy": "Most groups have no spread of reward, so their completions teach nothing.",
    "policy concentration": "The policy puts nearly all probability on few answers before the best is found.",
    "dynamical instability": "Reward or policy swing or run away because updates are too large or too late.",
    "cannot tell": "The answer where what is known could as well be the prior.",
    "gain g": "Learning rate times curvature: how strongly one update answers a distance from the fixed point.",
    "margin": "Largest stable gain over the run's gain: above 1 is stable.",
    "lag": "Steps between drawing completions and learning from them; the refresh interval K_ref is its longest.",
    "momentum": "Share of the last update that an optimizer carries over; Adam's first beta.",
    "origin": "Where a setting comes from: logged, config (the trainer's own file), user (a flag or sidecar) or "
    "assumed.",
    "window": "Optimizer steps that are averaged into a logged row.",
    "held-out reward": "Reward on prompts that are not trained on.",
}
"""Term → one line."""


def anchor(term: str) -> str:
    """Anchor of a term on the page."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower().replace("²", "2")).strip("-")


def chosen(used: Iterable[str]) -> dict[str, str]:
    """The entries that a page uses, in alphabetical order.

    Args:
        used: Terms.
    """
    return {term: GLOSSARY[term] for term in sorted(set(used), key=str.lower) if term in GLOSSARY}
