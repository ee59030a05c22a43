"""Actions for a finding, in one table: each row has an action, what it needs and what forbids it.

`advice` walks the actions of a finding in order and returns the allowed ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.finding_words import CANNOT_TELL
from bayes_grpo.diagnosis.mode import all_modes
from bayes_grpo.diagnosis.records import Action, ActionKind
from bayes_grpo.signals.thresholds import THRESHOLDS

Condition = Callable[[Facts], bool]
_SCORE = ("reward", "eval_reward")
"""Score that chooses a checkpoint: without an evaluation one, and with one."""


def _log(f: Facts, column: str) -> Action:
    """To log a signal, or to name the candidate key of its column."""
    return Action(kind="log_signal", subject=column, key=plain(f.view.run.suggested.get(column, ("",))[0], 80))


class ActionRow(NamedTuple):
    """One thing to do.

    Attributes:
        made: The action, or a function that makes it of a run.
        needs: Whether its inputs are known.
        forbidden: Whether a fact rules it out; by default NaN values, which come first.
    """

    made: Action | Callable[[Facts], Action]
    needs: Condition = lambda f: True
    forbidden: Condition = lambda f: f.broken

    def of(self, f: Facts) -> Action:
        """The action for a run."""
        return self.made if isinstance(self.made, Action) else self.made(f)

    def allowed(self, f: Facts) -> bool:
        """True if it is advised for a run."""
        return self.needs(f) and not self.forbidden(f)


def _never(f: Facts) -> bool:
    """Nothing rules it out."""
    return False


def _rate(f: Facts, factor: float) -> Action:
    numbers = {} if f.learning_rate is None else {"learning_rate": f.learning_rate}
    return Action(kind="change_setting", setting="learning_rate", factor=factor, numbers=numbers)


def _high(f: Facts) -> bool:
    """True if the reward is high, so that neither verifier nor length limit keeps it down."""
    return f.level > THRESHOLDS.near_top


def _risky(f: Facts) -> bool:
    """True if anything speaks against a higher learning rate."""
    parted = max(f.held_out_stays, f.held_out_falls) >= THRESHOLDS.probable
    shown = f.broken or bool(f.signs) or bool(f.falls) or parted or f.failing > THRESHOLDS.suspect
    declines = f.declined or f.fell >= THRESHOLDS.probable
    pointless = f.spent_rate is not None or f.all_wrong or _high(f)
    wasted = f.waste > THRESHOLDS.half or f.truncated > THRESHOLDS.half
    return shown or declines or pointless or wasted


def _saved(f: Facts, kind: ActionKind) -> Action:
    """An action with the best checkpoint."""
    step = f.checkpoint or 0.0
    return Action(kind=kind, step=step, at=f.step_name(round(step)), subject=_SCORE[f.held_out])


def _again(f: Facts) -> Action:
    lacking = "steps" if f.every_step else "rows"
    if f.part_of_a_log is not None:
        return f.part_of_a_log
    if f.ended:
        return Action(kind="plan_more_steps", subject=lacking, numbers={"rewards": f.rows})
    if f.rows_planned is not None and f.rows_planned < THRESHOLDS.waste_rows:
        return Action(kind="log_more", subject=lacking, numbers={"rewards": f.rows_planned})
    wanted = round(min(max(2 * f.rows, THRESHOLDS.waste_rows), f.rows_planned or math.inf))
    return Action(kind="look_again", numbers={"rewards": wanted})


def _wait(f: Facts) -> Action:
    """To look again, of a reward that is at its lowest: nothing says to go on."""
    again = _again(f)
    return replace(again, kind="wait") if again.kind == "look_again" else again


def _resume(f: Facts) -> Action:
    if f.resumed is None:
        return Action(kind="compare_resume")
    step = f.resumed.step
    return Action(kind="compare_resume", step=step, at=f.step_name(step), parts=f.resumed.changes)


def _groups(f: Facts) -> Action:
    numbers = {} if f.group_size is None else {"group_size": f.group_size}
    return Action(kind="change_setting", setting="group_size", numbers=numbers)


ACTIONS: dict[str, ActionRow] = {
    "go on": ActionRow(
        Action(kind="go_on"),
        lambda f: f.rows >= THRESHOLDS.direct_rows,
        lambda f: f.broken or f.fails or f.ended or f.falling or (f.resting and not f.rose),
    ),
    "look again": ActionRow(_again, forbidden=lambda f: f.broken or f.fails or f.falling),
    "watch it": ActionRow(Action(kind="watch")),
    "wait": ActionRow(_wait, forbidden=lambda f: f.broken or f.fails),
    "watch fall": ActionRow(lambda f: Action(kind="watch", numbers={"rewards": 2 * f.rows})),
    "stop": ActionRow(Action(kind="stop"), lambda f: f.rows >= THRESHOLDS.direct_rows, lambda f: f.early or f.ended),
    "go back": ActionRow(
        lambda f: _saved(f, "go_back"), lambda f: f.checkpoint is not None and not f.latest, forbidden=_never
    ),
    "start over": ActionRow(
        Action(kind="start_over"), lambda f: f.held_out and f.fails and (f.checkpoint is None or f.latest)
    ),
    "take checkpoint": ActionRow(
        lambda f: _saved(f, "take_checkpoint"), lambda f: f.checkpoint is not None and f.held_out
    ),
    "score checkpoints": ActionRow(Action(kind="score_checkpoints"), lambda f: not f.held_out),
    "compare resume": ActionRow(_resume, lambda f: f.resumed is not None, _never),
    "compare checkpoints": ActionRow(Action(kind="compare_checkpoints"), forbidden=_never),
    "precision": ActionRow(Action(kind="restart"), lambda f: f.broken, _never),
    "update path": ActionRow(Action(kind="check_update")),
    "evaluated policy": ActionRow(Action(kind="check_update", subject="evaluation")),
    "find batch": ActionRow(Action(kind="look", subject="batch"), forbidden=_never),
    "lower rate": ActionRow(lambda f: _rate(f, 0.5)),
    "raise rate": ActionRow(
        lambda f: _rate(f, 2), lambda f: f.kl < THRESHOLDS.high_kl and f.rows >= THRESHOLDS.waste_rows, _risky
    ),
    "larger groups": ActionRow(_groups, lambda f: f.idle, lambda f: f.broken or f.constant or f.at_top),
    "more prompts": ActionRow(
        lambda f: Action(kind="change_setting", setting="prompts_per_step", numbers={"noise": f.noise}),
        lambda f: f.rows >= THRESHOLDS.waste_rows and f.noisy,
    ),
    "easier prompts": ActionRow(
        Action(kind="change_prompts", subject="easier"),
        lambda f: f.all_wrong or f.mostly_lowest or f.level < THRESHOLDS.hard,
        lambda f: f.broken or f.truncated > THRESHOLDS.half or f.one_score is not None,
    ),
    "harder prompts": ActionRow(Action(kind="change_prompts", subject="harder"), _high, lambda f: f.broken or f.fails),
    "mixed prompts": ActionRow(
        Action(kind="change_prompts", subject="mixed"), lambda f: f.idle, lambda f: f.broken or f.constant
    ),
    "scorer": ActionRow(Action(kind="look", subject="scorer"), lambda f: f.one_score is not None),
    "verifier": ActionRow(
        Action(kind="look", subject="verifier"),
        lambda f: f.constant or f.all_wrong or (f.waste > THRESHOLDS.half and not _high(f)),
    ),
    "longer limit": ActionRow(
        lambda f: Action(
            kind="change_setting",
            setting="max_completion_length",
            numbers={"truncated": f.truncated, "truncated_pays": float(f.truncated_pays)},
        ),
        lambda f: f.truncated > THRESHOLDS.half or f.capped,
        lambda f: f.broken or (f.fails and _high(f)),
    ),
    "entropy term": ActionRow(Action(kind="change_setting", setting="entropy")),
    "KL term": ActionRow(Action(kind="change_setting", setting="kl_weight"), lambda f: not math.isnan(f.kl)),
    "read completions": ActionRow(Action(kind="look", subject="completions")),
    "compare prompts": ActionRow(Action(kind="look", subject="prompts")),
    "log evaluation": ActionRow(lambda f: _log(f, "heldout"), lambda f: not f.held_out, _never),
    "log KL": ActionRow(lambda f: _log(f, "kl"), lambda f: math.isnan(f.kl), _never),
    "same engine": ActionRow(Action(kind="look", subject="engine")),
    "lower staleness": ActionRow(
        Action(kind="change_setting", setting="staleness"),
        lambda f: "staleness" in f.view.run.signals or "dropped" in f.view.run.signals,
    ),
    "judge by task": ActionRow(Action(kind="judge_by_task")),
    "look at part": ActionRow(Action(kind="look", subject="component")),
    "new run": ActionRow(Action(kind="new_run")),
}
"""Name → action."""

_RISE_AGAIN = ("raise rate", "harder prompts", "easier prompts", "mixed prompts", "log evaluation")
SITUATIONS: dict[str, tuple[str, ...]] = {
    "instability signs": ("watch it", "lower rate", "go back", "log KL"),
    "far": ("lower rate", "KL term", "start over", "log evaluation"),
    "swings": ("lower rate", "KL term", "go back", "log evaluation"),
    "component falls": ("look at part", "read completions"),
    "evaluation falls": ("take checkpoint", "compare prompts", "lower rate", "KL term", "log KL"),
    "evaluation constant": ("evaluated policy", "update path"),
    "evaluation stays": ("compare prompts", "take checkpoint", "KL term", "log KL"),
    "goal parts": ("read completions", "judge by task", "take checkpoint", "KL term", "log evaluation"),
    "mostly solved": ("harder prompts", "take checkpoint", "score checkpoints", "stop"),
    "solved": ("take checkpoint", "harder prompts"),
    "ended": ("take checkpoint", "score checkpoints", "harder prompts"),
    "ended flat": ("new run", "easier prompts", "mixed prompts", "log evaluation"),
    "at rest": ("take checkpoint", "stop", *_RISE_AGAIN),
    "rests early": ("look again", *_RISE_AGAIN),
    "constant so far": ("longer limit", "verifier", "look again", "stop"),
    "unmeasured": ("longer limit", "verifier"),
    "ends low": ("wait", "lower rate"),
    "falls early": ("watch fall", "go back", "lower rate"),
    "scheduled weight": ("judge by task", "look at part"),
    CANNOT_TELL: ("look again", "stop"),
}
"""Situation that is no mode → names of its actions, the most useful first."""


def remedies_for() -> dict[str, tuple[str, ...]]:
    """Mode or situation → names of actions, the most useful first."""
    return {mode.name: mode.remedies for mode in all_modes()} | SITUATIONS


def advice(finding: str, facts: Facts) -> tuple[Action, ...]:
    """The actions for a finding, which is a mode or a key of `SITUATIONS`, the most urgent first; at least one."""
    chosen = (ACTIONS[name] for name in remedies_for()[finding])
    found = tuple(replace(row.of(facts), ended=facts.ended) for row in chosen if row.allowed(facts))
    return found or (Action(kind="look", subject="last_completions"),)
