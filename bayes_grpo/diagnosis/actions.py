"""What to do about a finding: one table. An action is a row: what must be known for it, what forbids it, its sentence.

Nothing is advised past its row: `advice` walks the actions of a finding in order and takes those that are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.risk.change import Change
from bayes_grpo.risk.failing import Failing, p_fails


class ActionRow(NamedTuple):
    """One thing to do.

    Attributes:
        needs: Whether what it rests on is known.
        forbidden: Whether something speaks against it.
        words: Its sentence, without a full stop.
    """

    needs: Callable[[Facts], bool]
    forbidden: Callable[[Facts], bool]
    words: Callable[[Facts], str]


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


def _rate(f: Facts, factor: float) -> str:
    if f.learning_rate is None:
        return f"the learning rate to {factor:g} times its value"
    return f"the learning rate from {f.learning_rate:.3g} to {factor * f.learning_rate:.3g}"


def _risk(f: Facts) -> Failing:
    """Of a run with twice the learning rate."""
    return p_fails(Change(learning_rate=math.log(2.0)), rate=f.shared_rate)


def _raised(f: Facts) -> str:
    return f"raise {_rate(f, 2.0)} ({_risk(f).text}), and watch the KL"


def _share(x: float) -> str:
    return f"{x:.0%}"


def _group(f: Facts) -> str:
    return "larger groups" if f.group_size is None else f"larger groups than {f.group_size:g}"


def _saved(f: Facts) -> str:
    return f.step_text(round(f.checkpoint or 0.0))


ACTIONS: dict[str, ActionRow] = {
    "go on": ActionRow(
        lambda f: f.rows >= BORDERS.trend_rows,
        lambda f: (
            _broken(f)
            or f.failing > BORDERS.half
            or f.rate_spent is not None
            or f.planned is not None
            or (f.resting and not f.rose)
        ),
        lambda f: "go on",
    ),
    "look again": ActionRow(
        _always,
        lambda f: _broken(f) or f.failing > BORDERS.half,
        lambda f: f"go on, and look again when the log has {max(2 * f.rows, BORDERS.waste_rows)} rewards",
    ),
    "watch it": ActionRow(
        _always,
        _broken,
        lambda f: "look again after a tenth more steps; if it lasts, stop and lower the learning rate",
    ),
    "stop": ActionRow(
        lambda f: f.rows >= BORDERS.trend_rows,
        _never,
        lambda f: "stop here if this level is what you need",
    ),
    "go back": ActionRow(
        lambda f: f.checkpoint is not None,
        _never,
        lambda f: f"stop, and go back to the checkpoint of about {_saved(f)} (best {f.chosen_by})",
    ),
    "take checkpoint": ActionRow(
        lambda f: f.checkpoint is not None and f.chosen_by == "held-out score",
        lambda f: f.failing > BORDERS.half,
        lambda f: f"stop, and take the checkpoint with the best held-out score (about {_saved(f)})",
    ),
    "score checkpoints": ActionRow(
        lambda f: not f.held_out,
        lambda f: f.failing > BORDERS.half,
        lambda f: "stop, and score the kept checkpoints on held-out prompts to choose one",
    ),
    "compare checkpoints": ActionRow(
        _always, _never, lambda f: "stop, and score the checkpoints before and after on held-out prompts"
    ),
    "precision": ActionRow(
        _broken,
        _never,
        lambda f: (
            "stop; restart from a checkpoint before it in bfloat16 or float32 with clipped gradients: weights that "
            "have seen a NaN cannot be recovered"
        ),
    ),
    "find batch": ActionRow(
        _broken,
        _never,
        lambda f: "look at the batch that did it: an empty completion, a division by a spread of 0, the log of 0",
    ),
    "lower rate": ActionRow(_always, _broken, lambda f: f"lower {_rate(f, 0.5)}"),
    "raise rate": ActionRow(
        lambda f: f.kl_known and f.rows >= BORDERS.waste_rows,
        lambda f: (
            _broken(f)
            or bool(f.signs)
            or bool(f.falls)
            or f.failing > BORDERS.safe
            or f.high
            or f.all_wrong
            or f.rate_spent is not None
            or f.truncated > BORDERS.truncated
            or f.waste > BORDERS.half
            or _risk(f).p > BORDERS.safe
        ),
        _raised,
    ),
    "larger groups": ActionRow(
        lambda f: not np.isnan(f.waste),
        lambda f: _broken(f) or f.constant or f.top,
        lambda f: f"{_group(f)}, or resample prompts until groups have spread",
    ),
    "more prompts": ActionRow(
        lambda f: f.rows >= BORDERS.waste_rows,
        _broken,
        lambda f: f"more prompts a step, if noise hides the rise: a row's noise is {f.noise:.2g}",
    ),
    "easier prompts": ActionRow(
        lambda f: f.all_wrong or f.level < BORDERS.hard,
        lambda f: _broken(f) or f.truncated > BORDERS.truncated,
        lambda f: "easier prompts first, partial credit, or a supervised start",
    ),
    "harder prompts": ActionRow(
        lambda f: f.level > BORDERS.near_top,
        lambda f: _broken(f) or f.failing > BORDERS.half,
        lambda f: "harder prompts, or leave out those that are always solved",
    ),
    "mixed prompts": ActionRow(
        lambda f: not np.isnan(f.waste),
        lambda f: _broken(f) or f.constant,
        lambda f: "sample prompts by their success rate (20% to 80%), so that groups have spread",
    ),
    "verifier": ActionRow(
        lambda f: f.constant or f.all_wrong or f.waste > BORDERS.half,
        _broken,
        lambda f: "give the verifier a right and a wrong answer by hand: format, time limits, exceptions",
    ),
    "longer limit": ActionRow(
        lambda f: f.truncated > BORDERS.truncated,
        _broken,
        lambda f: (
            "raise the limit on completions, or ask for shorter ones"
            + ("; some that are cut off earn reward, so look at what is scored" if f.truncated_pays else "")
        ),
    ),
    "entropy term": ActionRow(
        lambda f: f.entropy,
        lambda f: _broken(f) or any("entropy grew" in s.words for s in f.signs),
        lambda f: "raise the upper clip range or the sampling temperature, or add an entropy bonus",
    ),
    "KL term": ActionRow(
        lambda f: f.kl_known, _broken, lambda f: "raise the weight of the KL term, or stop at a KL budget"
    ),
    "read completions": ActionRow(
        _always, _broken, lambda f: "read 20 completions of the last steps with a high reward"
    ),
    "log held-out": ActionRow(
        lambda f: not f.held_out, _never, lambda f: _named(f, "heldout", "log a held-out score every 10 to 20 steps")
    ),
    "log KL": ActionRow(lambda f: not f.kl_known, _never, lambda f: _named(f, "kl", "log the KL to the reference")),
    "same engine": ActionRow(
        _always,
        _broken,
        lambda f: "compare precision, weight sync and sampling parameters of trainer and inference engine",
    ),
    "judge by task": ActionRow(
        _always, _broken, lambda f: "judge the run by the task's own score, and lower the weight of the format reward"
    ),
    "look at part": ActionRow(
        lambda f: bool(f.falls),
        _broken,
        lambda f: "look at what falls by itself: its prompts, its verifier, its weight",
    ),
    "new run": ActionRow(
        lambda f: f.rate_spent is not None or f.planned is not None,
        _broken,
        lambda f: "stop; another run needs more steps, other prompts or another learning rate",
    ),
}
"""Name → action."""

FOR: dict[str, tuple[str, ...]] = {
    "lost_values": ("precision", "find batch", "lower rate"),
    "dynamical_instability": ("go back", "compare checkpoints", "lower rate", "KL term", "log KL", "log held-out"),
    "instability signs": ("watch it", "lower rate", "go back", "log KL"),
    "advantage_degeneracy": (
        "longer limit", "verifier", "easier prompts", "larger groups", "mixed prompts", "harder prompts",
    ),
    "policy_concentration": ("go back", "entropy term", "lower rate", "KL term", "compare checkpoints"),
    "reward_hacking": ("go back", "read completions", "KL term", "log KL"),
    "component falls": ("look at part", "read completions"),
    "truncated_completions": ("longer limit", "read completions"),
    "apparent_gain": ("judge by task", "read completions"),
    "engine_gap": ("same engine", "lower rate"),
    "idle_steps": ("mixed prompts", "larger groups", "harder prompts"),
    "one_sided_groups": ("harder prompts", "easier prompts", "mixed prompts"),
    "mostly solved": ("harder prompts", "take checkpoint", "score checkpoints", "stop"),
    "solved": ("take checkpoint", "harder prompts"),
    "ended": ("take checkpoint", "score checkpoints", "harder prompts"),
    "ended flat": ("new run", "easier prompts", "mixed prompts", "log held-out"),
    "at rest": ("stop", "raise rate", "harder prompts", "easier prompts", "mixed prompts", "log held-out"),
    "plateaued": (
        "longer limit", "easier prompts", "raise rate", "more prompts", "mixed prompts", "read completions", "stop",
    ),
    "growing": ("go on", "look again"),
    "cannot_tell": ("look again", "stop"),
}  # fmt: skip
"""Finding → names of what may be done about it, the most useful first."""


def advice(finding: str, facts: Facts) -> tuple[str, ...]:
    """Sentences of what is to be done about a finding, the first of them now; at least one.

    Args:
        finding: A key of `FOR`.
        facts: What is known.
    """
    chosen = (ACTIONS[name] for name in FOR[finding])
    found = tuple(f"{a.words(facts)}." for a in chosen if a.needs(facts) and not a.forbidden(facts))
    return found or ("read the completions of the last steps.",)
