"""What to do about a finding: one table. An action is a row: what must be known for it, what forbids it, its sentence.

Nothing is advised past its row: `advice` walks the actions of a finding in order and takes those that are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.mode import all_modes
from bayes_grpo.diagnosis.status import CANNOT_TELL
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.risk.change import Change
from bayes_grpo.risk.failing import Failing, p_fails

Condition = Callable[["Facts"], bool]


def _always(_: Facts) -> bool:
    return True


def _never(_: Facts) -> bool:
    return False


def _named(f: Facts, column: str, otherwise: str) -> str:
    """To name the key that a column may be, where it was not recognized; else something else."""
    keys = f.suggested.get(column)
    return f"name the column with --column {column}={keys[0]}, if it is that" if keys else otherwise


def _broken(f: Facts) -> bool:
    return bool(f.not_finite)


def _idle(f: Facts) -> bool:
    return f.idle


def _failing(f: Facts) -> bool:
    return f.failing > THRESHOLDS.half


class ActionRow(NamedTuple):
    """One thing to do.

    Attributes:
        words: Its sentence, without a full stop, or what makes it.
        needs: Whether what it rests on is known.
        forbidden: Whether something speaks against it; by default values that are NaN, before which nothing else helps.
    """

    words: str | Callable[[Facts], str]
    needs: Condition = _always
    forbidden: Condition = _broken

    def text(self, f: Facts) -> str:
        """Its sentence for a run."""
        return self.words if isinstance(self.words, str) else self.words(f)

    def allowed(self, f: Facts) -> bool:
        """Whether it is advised for a run."""
        return self.needs(f) and not self.forbidden(f)


def _rate(f: Facts, factor: float) -> str:
    if f.learning_rate is None:
        return f"the learning rate to {factor:g} times its value"
    return f"the learning rate from {f.learning_rate:.3g} to {factor * f.learning_rate:.3g}"


def _risk(f: Facts) -> Failing:
    """Of a run with twice the learning rate."""
    return p_fails(Change(learning_rate=math.log(2.0)), rate=f.shared_rate)


def _raised(f: Facts) -> str:
    return f"raise {_rate(f, 2.0)} ({_risk(f).text}), and watch the KL"


def _risky(f: Facts) -> bool:
    """Whether anything speaks against a higher learning rate."""
    shown = (
        bool(f.signs) or bool(f.falls) or f.failing > THRESHOLDS.safe or f.held_out_stays or f.waste > THRESHOLDS.half
    )
    pointless = f.high or f.all_wrong or f.rate_spent is not None or f.truncated > THRESHOLDS.truncated
    return _broken(f) or shown or pointless or _risk(f).p > THRESHOLDS.safe


def _group(f: Facts) -> str:
    more = "larger groups" if f.group_size is None else f"larger groups than {f.group_size:g}"
    return f"{more}, or resample prompts until groups have spread"


def _saved(f: Facts) -> str:
    return f.step_text(round(f.checkpoint or 0.0))


def _ended(f: Facts) -> bool:
    return f.rate_spent is not None or f.planned is not None


def _longer(f: Facts) -> str:
    pays = "; some that are cut off earn reward, so look at what is scored" if f.truncated_pays else ""
    return f"raise the limit on completions, or ask for shorter ones{pays}"


ACTIONS: dict[str, ActionRow] = {
    "go on": ActionRow(
        "go on",
        lambda f: f.rows >= THRESHOLDS.trend_rows,
        lambda f: _broken(f) or _failing(f) or _ended(f) or (f.resting and not f.rose),
    ),
    "look again": ActionRow(
        lambda f: f"go on, and look again when the log has {max(2 * f.rows, THRESHOLDS.waste_rows)} rewards",
        forbidden=lambda f: _broken(f) or _failing(f),
    ),
    "watch it": ActionRow("look again after a tenth more steps; if it lasts, stop and lower the learning rate"),
    "stop": ActionRow("stop here if this level is what you need", lambda f: f.rows >= THRESHOLDS.trend_rows, _never),
    "go back": ActionRow(
        lambda f: f"stop, and go back to the checkpoint of about {_saved(f)} (best {f.chosen_by})",
        lambda f: f.checkpoint is not None,
        _never,
    ),
    "take checkpoint": ActionRow(
        lambda f: f"stop, and take the checkpoint with the best held-out score (about {_saved(f)})",
        lambda f: f.checkpoint is not None and f.chosen_by == "held-out score",
        _failing,
    ),
    "score checkpoints": ActionRow(
        "stop, and score the kept checkpoints on held-out prompts to choose one", lambda f: not f.held_out, _failing
    ),
    "compare checkpoints": ActionRow(
        "stop, and score the checkpoints before and after on held-out prompts", forbidden=_never
    ),
    "precision": ActionRow(
        "stop; restart from a checkpoint before it in bfloat16 or float32 with clipped gradients: weights that have "
        "seen a NaN cannot be recovered",
        _broken,
        _never,
    ),
    "find batch": ActionRow(
        "look at the batch that did it: an empty completion, a division by a spread of 0, the log of 0", _broken, _never
    ),
    "lower rate": ActionRow(lambda f: f"lower {_rate(f, 0.5)}"),
    "raise rate": ActionRow(
        _raised,
        lambda f: f.kl_known and f.rows >= THRESHOLDS.waste_rows,
        _risky,
    ),
    "larger groups": ActionRow(_group, _idle, lambda f: _broken(f) or f.constant or f.top),
    "more prompts": ActionRow(
        lambda f: f"more prompts a step, if noise hides the rise: a row's noise is {f.noise:.2g}",
        lambda f: f.rows >= THRESHOLDS.waste_rows and f.noisy,
    ),
    "easier prompts": ActionRow(
        "easier prompts first, partial credit, or a supervised start",
        lambda f: f.all_wrong or f.level < THRESHOLDS.hard,
        lambda f: _broken(f) or f.truncated > THRESHOLDS.truncated,
    ),
    "harder prompts": ActionRow(
        "harder prompts, or leave out those that are always solved",
        lambda f: f.level > THRESHOLDS.near_top,
        lambda f: _broken(f) or _failing(f),
    ),
    "mixed prompts": ActionRow(
        "sample prompts by their success rate (20% to 80%), so that groups have spread",
        _idle,
        lambda f: _broken(f) or f.constant,
    ),
    "verifier": ActionRow(
        "give the verifier a right and a wrong answer by hand: format, time limits, exceptions",
        lambda f: f.constant or f.all_wrong or f.waste > THRESHOLDS.half,
    ),
    "longer limit": ActionRow(_longer, lambda f: f.truncated > THRESHOLDS.truncated),
    "entropy term": ActionRow(
        "raise the upper clip range or the sampling temperature, or add an entropy bonus",
        lambda f: f.entropy,
        lambda f: _broken(f) or any("entropy grew" in s.words for s in f.signs),
    ),
    "KL term": ActionRow("raise the weight of the KL term, or stop at a KL budget", lambda f: f.kl_known),
    "read completions": ActionRow("read 20 completions of the last steps with a high reward"),
    "compare prompts": ActionRow(
        "read completions of training and held-out prompts, and compare how both are scored", lambda f: f.held_out
    ),
    "log held-out": ActionRow(
        lambda f: _named(f, "heldout", "log a held-out score every 10 to 20 steps"), lambda f: not f.held_out, _never
    ),
    "log KL": ActionRow(lambda f: _named(f, "kl", "log the KL to the reference"), lambda f: not f.kl_known, _never),
    "same engine": ActionRow("compare precision, weight sync and sampling parameters of trainer and inference engine"),
    "judge by task": ActionRow("judge the run by the task's own score, and lower the weight of the format reward"),
    "look at part": ActionRow(
        "look at what falls by itself: its prompts, its verifier, its weight", lambda f: bool(f.falls)
    ),
    "new run": ActionRow("stop; another run needs more steps, other prompts or another learning rate", _ended),
}
"""Name → action."""

SITUATIONS: dict[str, tuple[str, ...]] = {
    "instability signs": ("watch it", "lower rate", "go back", "log KL"),
    "component falls": ("look at part", "read completions"),
    "held-out falls": ("take checkpoint", "compare prompts", "lower rate", "KL term", "log KL"),
    "held-out stays": ("compare prompts", "take checkpoint", "KL term", "log KL"),
    "mostly solved": ("harder prompts", "take checkpoint", "score checkpoints", "stop"),
    "solved": ("take checkpoint", "harder prompts"),
    "ended": ("take checkpoint", "score checkpoints", "harder prompts"),
    "ended flat": ("new run", "easier prompts", "mixed prompts", "log held-out"),
    "at rest": (
        "take checkpoint",
        "stop",
        "raise rate",
        "harder prompts",
        "easier prompts",
        "mixed prompts",
        "log held-out",
    ),
    CANNOT_TELL: ("look again", "stop"),
}
"""What a run may do that is no mode → names of what may be done about it, the most useful first."""


def remedies_for() -> dict[str, tuple[str, ...]]:
    """Mode or situation → names of actions, the most useful first."""
    return {mode.name: mode.remedies for mode in all_modes()} | SITUATIONS


def advice(finding: str, facts: Facts) -> tuple[str, ...]:
    """Sentences of what is to be done about a finding, the first of them now; at least one.

    Args:
        finding: A mode, or a key of `SITUATIONS`.
        facts: What is known.
    """
    chosen = (ACTIONS[name] for name in remedies_for()[finding])
    found = tuple(f"{a.text(facts)}." for a in chosen if a.allowed(facts))
    return found or ("read the completions of the last steps.",)
