"""Words that the sentences of findings and actions share: names of modes and signals, steps, clauses.

`finding_words` and `action_words` have the templates. They are called where a sentence is shown; nothing reads one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from bayes_grpo.common.intervals import Interval, from_to
from bayes_grpo.common.text import StepName

LABELS: Mapping[str, str] = {
    "reward_hacking": "reward hacking",
    "advantage_degeneracy": "advantage degeneracy",
    "policy_concentration": "policy concentration",
    "dynamical_instability": "dynamical instability",
    "apparent_gain": "gain in formatting, not correctness",
    "engine_gap": "trainer-inference mismatch",
    "growing": "growing",
    "idle_steps": "steps without reward variance",
    "lost_gradient": "zero gradient norm despite reward variance",
    "lost_values": "NaN or infinite values",
    "one_sided_groups": "prompts too easy or too hard",
    "plateaued": "plateaued",
    "truncated_completions": "truncated completions",
    "form_without_task": "format without the task",
    "length_collapse": "shrinking completions",
}
"""Mode → its name in words."""
_SIGNALS: Mapping[str, str] = {
    "eval_reward": "the evaluation reward",
    "grad_norm": "the gradient norm",
    "kl": "the KL",
    "engine_mismatch": "the mismatch of sampler and trainer",
    "importance_ratio": "the mean importance weight of trainer to sampler",
    "importance_ess": "the effective share of the importance weights",
}


def label_of(name: str) -> str:
    """A mode in words."""
    return LABELS.get(name, name.replace("_", " "))


def signal_words(name: str) -> str:
    """A signal in a sentence, such as "the gradient norm"."""
    return _SIGNALS.get(name, f"the {name.replace('_', ' ')}")


def as_sentence(clause: str) -> str:
    """A clause with a capital and a full stop; "" of none."""
    return f"{clause[:1].upper()}{clause[1:]}." if clause else ""


def joined(clauses: Iterable[str]) -> str:
    """Clauses of one sentence."""
    return "; ".join(clauses)


def step_name(at: StepName | None, step: Interval | float | None) -> StepName:
    """The step of a finding or an action: as the log counts it, else the middle of its interval."""
    if at is not None or step is None:
        return at or StepName(math.nan)
    return StepName(round(step.median) if isinstance(step, Interval) else step)


def fell_text(signal: str, best: float, now: float) -> str:
    """A fall in words, the same wherever it is named."""
    return f"{signal_words(signal)} fell {from_to(best, now)}"
