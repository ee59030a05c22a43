"""Actions for a finding, in one table: each row has a sentence, what it needs and what forbids it.

`advice` walks the actions of a finding in order and returns the allowed ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.mode import all_modes
from bayes_grpo.diagnosis.status import CANNOT_TELL
from bayes_grpo.diagnosis.thresholds import THRESHOLDS

Condition = Callable[[Facts], bool]
_SCORE = ("train reward", "evaluation reward")
"""Score that chooses a checkpoint: without an evaluation one, and with one."""


def _named(f: Facts, column: str, otherwise: str) -> str:
    """Advice to name the candidate key of an unrecognized column; without one, ``otherwise``."""
    keys = f.suggested.get(column)
    return f"name the column with --column {column}={keys[0]} if it is the right one" if keys else otherwise


class ActionRow(NamedTuple):
    """One thing to do.

    Attributes:
        words: Its sentence without a full stop, or a function that returns it.
        needs: Whether its inputs are known; None where it needs none.
        forbidden: Whether a fact rules it out; by default NaN values, which come first; None where none does.
    """

    words: str | Callable[[Facts], str]
    needs: Condition | None = None
    forbidden: Condition | None = lambda f: f.broken

    def text(self, f: Facts) -> str:
        """Its sentence for a run."""
        return self.words if isinstance(self.words, str) else self.words(f)

    def allowed(self, f: Facts) -> bool:
        """Whether it is advised for a run."""
        return (self.needs is None or self.needs(f)) and not (self.forbidden is not None and self.forbidden(f))


def _rate(f: Facts, factor: float) -> str:
    if f.learning_rate is None:
        return f"the learning rate to {factor:g} times its value"
    return f"the learning rate from {f.learning_rate:.3g} to {factor * f.learning_rate:.3g}"


def _risky(f: Facts) -> bool:
    """Whether anything speaks against a higher learning rate."""
    shown = f.broken or bool(f.signs) or bool(f.falls) or f.held_out_stays or f.failing > THRESHOLDS.safe
    pointless = f.rate_spent is not None or f.all_wrong or f.level > THRESHOLDS.near_top
    wasted = f.waste > THRESHOLDS.half or f.truncated > THRESHOLDS.truncated
    return shown or pointless or wasted


def _saved(f: Facts) -> str:
    return f.step_text(round(f.checkpoint or 0.0))


def _again(f: Facts) -> str:
    more = "plan more steps" if f.every_step else "log more often"
    if f.ended:
        also = "" if f.every_step else ", or log more often"
        return f"plan more steps{also}: {f.rows} rewards are too few for a verdict"
    if f.rows_planned is not None and f.rows_planned < THRESHOLDS.waste_rows:
        few = f"{f.rows_planned:.0f} rewards, too few to judge"
        return f"go on, and {more}: at its planned end the log has {few}"
    wanted = round(min(max(2 * f.rows, THRESHOLDS.waste_rows), f.rows_planned or math.inf))
    return f"go on, and check again when the log has {wanted} rewards"


def _resume(f: Facts) -> str:
    if f.resumed is None:
        return ""
    seen = f" (here {', '.join(f.resumed.changes)})" if f.resumed.changes else ""
    return (
        f"stop, and compare both sides of the resume at {f.step_text(f.resumed.step)}: the optimizer state is loaded, "
        f"the learning rate and the data order continue{seen}"
    )


ACTIONS: dict[str, ActionRow] = {
    "go on": ActionRow(
        "go on",
        lambda f: f.rows >= THRESHOLDS.trend_rows,
        lambda f: f.broken or f.fails or f.ended or (f.resting and not f.rose),
    ),
    "look again": ActionRow(_again, forbidden=lambda f: f.broken or f.fails),
    "watch it": ActionRow("check again after 10% more steps; if it persists, stop and lower the learning rate"),
    "watch fall": ActionRow(
        lambda f: (
            f"check again when the log has {2 * f.rows} rewards; if it still falls, stop and lower the learning rate"
        )
    ),
    "stop": ActionRow(
        "stop here if this reward level is enough", lambda f: f.rows >= THRESHOLDS.trend_rows, lambda f: f.early
    ),
    "go back": ActionRow(
        lambda f: f"stop, and go back to the checkpoint of about {_saved(f)}, the best by {_SCORE[f.held_out]}",
        lambda f: f.checkpoint is not None and not f.latest,
        None,
    ),
    "start over": ActionRow(
        "stop, and start over with a corrected reward: by the evaluation reward, no checkpoint is worth going back to",
        lambda f: f.held_out and f.fails and (f.checkpoint is None or f.latest),
    ),
    "take checkpoint": ActionRow(
        lambda f: f"stop, and take the checkpoint with the best evaluation reward (about {_saved(f)})",
        lambda f: f.checkpoint is not None and f.held_out,
        lambda f: f.fails,
    ),
    "score checkpoints": ActionRow(
        "stop, and score the kept checkpoints on evaluation prompts to choose one",
        lambda f: not f.held_out,
        lambda f: f.fails,
    ),
    "compare resume": ActionRow(_resume, lambda f: f.resumed is not None, None),
    "compare checkpoints": ActionRow(
        "stop, and score the checkpoints before and after the onset on evaluation prompts", forbidden=None
    ),
    "precision": ActionRow(
        "stop; restart from an earlier checkpoint in bfloat16 or float32 with clipped gradients: weights that have "
        "seen a NaN cannot be recovered",
        lambda f: f.broken,
        None,
    ),
    "update path": ActionRow(
        "upgrade DeepSpeed (0.15.4 reports 0), and check that weights change: are adapters frozen, does gradient "
        "checkpointing lack input gradients, is the loss scale 0?",
    ),
    "find batch": ActionRow(
        "check the batch that caused it: an empty completion, a division by a zero standard deviation, the log of 0",
        forbidden=None,
    ),
    "lower rate": ActionRow(lambda f: f"lower {_rate(f, 0.5)}"),
    "raise rate": ActionRow(
        lambda f: f"raise {_rate(f, 2)}, and watch the KL",
        lambda f: f.kl < THRESHOLDS.calm_kl and f.rows >= THRESHOLDS.waste_rows,
        _risky,
    ),
    "larger groups": ActionRow(
        lambda f: (
            f"use larger groups{'' if f.group_size is None else f' than {f.group_size:g}'}, or resample prompts until "
            "groups have nonzero variance"
        ),
        lambda f: f.idle,
        lambda f: f.broken or f.constant or f.at_top,
    ),
    "more prompts": ActionRow(
        lambda f: f"use more prompts per step if noise hides the rise (noise of one row: {f.noise:.2g})",
        lambda f: f.rows >= THRESHOLDS.waste_rows and f.noisy,
    ),
    "easier prompts": ActionRow(
        "start with easier prompts, partial credit, or supervised fine-tuning",
        lambda f: f.all_wrong or f.level < THRESHOLDS.hard,
        lambda f: f.broken or f.truncated > THRESHOLDS.truncated,
    ),
    "harder prompts": ActionRow(
        "use harder prompts, or drop those that are always solved",
        lambda f: f.level > THRESHOLDS.near_top,
        lambda f: f.broken or f.fails,
    ),
    "mixed prompts": ActionRow(
        "sample prompts with success rates of 20% to 80%, so that groups have nonzero variance",
        lambda f: f.idle,
        lambda f: f.broken or f.constant,
    ),
    "verifier": ActionRow(
        "test the verifier by hand on a right and a wrong answer: format, time limits, exceptions",
        lambda f: f.constant or f.all_wrong or f.stuck is not None or f.waste > THRESHOLDS.half,
    ),
    "longer limit": ActionRow(
        lambda f: (
            "raise the completion length limit, or ask for shorter completions"
            + ("; some truncated completions earn reward, so check the scoring" if f.truncated_pays else "")
        ),
        lambda f: f.truncated > THRESHOLDS.truncated,
    ),
    "entropy term": ActionRow(
        "raise the upper clip range or the sampling temperature, or add an entropy bonus",
        lambda f: f.entropy,
        lambda f: f.broken or any("entropy grew" in s.words for s in f.signs),
    ),
    "KL term": ActionRow("raise the weight of the KL term, or stop at a KL budget", lambda f: not math.isnan(f.kl)),
    "read completions": ActionRow("read 20 high-reward completions of the last steps"),
    "compare prompts": ActionRow(
        "read completions of training and evaluation prompts, and compare how both are scored", lambda f: f.held_out
    ),
    "log evaluation": ActionRow(
        lambda f: _named(f, "heldout", "log an evaluation reward every 10 to 20 steps"), lambda f: not f.held_out, None
    ),
    "log KL": ActionRow(lambda f: _named(f, "kl", "log the KL to the reference"), lambda f: math.isnan(f.kl), None),
    "same engine": ActionRow("compare precision, weight sync and sampling parameters of trainer and inference engine"),
    "judge by task": ActionRow("judge the run by the task's own score, and lower the weight of the format reward"),
    "look at part": ActionRow(
        "check the falling component: its prompts, its verifier, its weight", lambda f: bool(f.falls)
    ),
    "new run": ActionRow(
        "stop; the next run needs more steps, other prompts or another learning rate", lambda f: f.ended
    ),
}
"""Name → action."""

_RISE_AGAIN = ("raise rate", "harder prompts", "easier prompts", "mixed prompts", "log evaluation")
SITUATIONS: dict[str, tuple[str, ...]] = {
    "instability signs": ("watch it", "lower rate", "go back", "log KL"),
    "stuck": ("compare resume", "verifier", "go back", "compare checkpoints", "lower rate"),
    "component falls": ("look at part", "read completions"),
    "evaluation falls": ("take checkpoint", "compare prompts", "lower rate", "KL term", "log KL"),
    "evaluation stays": ("compare prompts", "take checkpoint", "KL term", "log KL"),
    "mostly solved": ("harder prompts", "take checkpoint", "score checkpoints", "stop"),
    "solved": ("take checkpoint", "harder prompts"),
    "ended": ("take checkpoint", "score checkpoints", "harder prompts"),
    "ended flat": ("new run", "easier prompts", "mixed prompts", "log evaluation"),
    "at rest": ("take checkpoint", "stop", *_RISE_AGAIN),
    "rests early": ("look again", *_RISE_AGAIN),
    "all wrong so far": ("verifier", "look again"),
    "falls early": ("watch fall", "stop"),
    CANNOT_TELL: ("look again", "stop"),
}
"""Situation that is no mode → names of its actions, the most useful first."""


def remedies_for() -> dict[str, tuple[str, ...]]:
    """Mode or situation → names of actions, the most useful first."""
    return {mode.name: mode.remedies for mode in all_modes()} | SITUATIONS


def advice(finding: str, facts: Facts) -> tuple[str, ...]:
    """Sentences with the actions for a finding, the most urgent first; at least one.

    Args:
        finding: A mode, or a key of `SITUATIONS`.
        facts: Facts of the run.
    """
    chosen = (ACTIONS[name] for name in remedies_for()[finding])
    found = tuple(f"{a.text(facts)}." for a in chosen if a.allowed(facts))
    return found or ("read the completions of the last steps.",)
