"""From the keys of a log to canonical columns: which trainer wrote it, which key is the reward, and so on.

What a log does not decide is an error that lists the candidates, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.keyindex import KeyIndex, normal
from bayes_grpo.logs.reward_key import components_keys, components_of, environments_of, no_reward, reward_of
from bayes_grpo.logs.rollout_steps import ROLLOUTS, first_updates, on_updates, repeated_rows
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import GENERIC, TRAINERS, Derived, Trainer, identify

_NOT_AN_EVAL = re.compile(
    r"step|epoch|time|runtime|per_second|truncated|length|_len|tokens|num_turns|loss|/std@|/best@|-pass@"
)
_ZERO = 1e-9
_COUNTERS = (*ROLLOUTS, "optimizer_step", "optim_step", "train_step", "update", "update_step", "policy_step")
"""Keys that count rollouts or updates beside the step."""


@dataclass(frozen=True)
class Columns:
    """Canonical columns of a log, rows still in file order.

    Attributes:
        trainer: Whose keys these are.
        step: Logged step, shape (n,), or None where the log has none.
        train: "reward" and canonical signals → values, each of shape (n,).
        evals: Held-out reward, shape (n,), NaN on rows without one.
        keys: Canonical name → raw key or combination of raw keys.
        components: Reward function → its mean, shape (n,).
        notes: What was decided on the way.
        broken: "reward", signal or "rewards/COMPONENT" → rows whose logged value is no number, shape (n,).
        environments: Environment → its mean reward, shape (n,), where the reward is a mean over them.
        counter: Raw key that counts something else than the step.
        rows_without_rollout: Whether steps between two rollouts have rows of their own, without a reward.
    """

    trainer: Trainer
    step: np.ndarray | None
    train: dict[str, np.ndarray]
    evals: np.ndarray
    keys: dict[str, str]
    components: dict[str, np.ndarray] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows_without_rollout: bool = False
    broken: dict[str, np.ndarray] = field(default_factory=dict)
    environments: dict[str, np.ndarray] = field(default_factory=dict)
    counter: str | None = None


type Choices = Mapping[str, str]
"""Canonical name ("step", "reward", "heldout" or a signal) → the key that the user named for it."""


def map_columns(table: Table, choices: Choices, hint: Trainer | None = None) -> Columns:
    """Picks trainer, step, reward, signals and evaluation out of a table.

    Args:
        table: Rows in file order under raw keys.
        choices: Columns the user named.
        hint: The trainer, where the file format already tells.

    Raises:
        LogReadError: No reward or evaluation is found, or several keys could be the reward.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _map(KeyIndex(table), choices, hint)


def _map(index: KeyIndex, choices: Choices, hint: Trainer | None) -> Columns:
    table = index.table
    trainer = hint or identify(index)
    notes: list[str] = []
    keys: dict[str, str] = {}
    step = _step(index, trainer, choices.get("step"), keys, notes)
    evals = _evals(index, trainer, choices.get("heldout"), keys, notes)
    train = _signals(index, trainer, choices, keys, notes)
    reward = reward_of(index, trainer, choices.get("reward"), keys, notes)
    if reward is None and "eval_reward" not in keys:
        raise LogReadError(no_reward(table, index, trainer, keys))
    if reward is None:
        notes.append("no train reward in the log; only the held-out reward is there")
        reward = np.full(table.n, np.nan)
    train = {"reward": reward, **train}
    step, placed = _placed(index, step, keys)
    shared = _once_a_rollout(index, step, train, keys, notes)
    components = components_of(index)
    for values in (*train.values(), *components.values(), evals):
        values[np.isinf(values)] = np.nan  # a sum of huge values
    apart = trainer.rows_without_rollout or shared or placed
    environments = environments_of(index, trainer, keys)
    broken = _broken(table, trainer, keys, components_keys(index))
    return Columns(
        trainer, step, train, evals, keys, components, notes, apart, broken, environments, _second(index, step, keys)
    )


def _broken(table: Table, trainer: Trainer, keys: dict[str, str], parts: dict[str, str]) -> dict[str, np.ndarray]:
    """Where the trainer wrote what is no number, by canonical name; also under keys that never hold a number."""
    written = KeyIndex(table, numbers=False)
    named = {name: key for name, key in keys.items() if name not in ("step", "eval_reward")}
    for name in GENERIC.signals:
        if name not in named:
            key = written.first(trainer.signals.get(name, ()), trainer.prefixes) or written.first(
                GENERIC.signals[name], GENERIC.prefixes
            )
            named |= {name: key} if key is not None else {}
    named |= {f"rewards/{name}": key for name, key in parts.items()}
    found = {}
    for name, text in named.items():
        raw = [k for k in (text, *re.split(r" \+ |, ", text.removeprefix("mean of "))) if k in table]
        rows = np.logical_or.reduce([table.broken(k) for k in raw]) if raw else np.zeros(table.n, dtype=bool)
        if rows.any():
            found[name] = rows
    return found


def _second(index: KeyIndex, step: np.ndarray | None, keys: dict[str, str]) -> str | None:
    """The key of another counter than the step's that goes its own way; None where there is none."""
    used = keys.get("step", "").split(" or ")
    for key in (index.first((name,), GENERIC.prefixes) for name in _COUNTERS):
        if key is None or key in used or step is None:
            continue
        values = index.table.column(key)
        both = np.isfinite(values) & np.isfinite(step)
        if both.sum() > 2 and np.ptp(values[both]) > 0 and np.ptp((values - step)[both]) > 0:
            return key
    return None


def counter_of(keys: Mapping[str, str]) -> str:
    """What the step counts, by its key: "optimizer step", "rollout step", "log row" or the log's own word."""
    name = normal(keys.get("step", "")).split("_or_")[0].split(" or ")[0]
    last = name.rpartition("/")[2]
    if not name or last == "_step":
        return "log row"
    if name in ROLLOUTS or last in ROLLOUTS:
        return "rollout step"
    return last if last in ("iteration", "iter", "batch", "episode", "epoch") else "optimizer step"


def _step(
    index: KeyIndex, trainer: Trainer, named: str | None, keys: dict[str, str], notes: list[str]
) -> np.ndarray | None:
    if named:
        keys["step"] = index.named(named, "step")
        return index.table.column(keys["step"])
    groups = (*trainer.steps, *GENERIC.steps)
    for group in groups:
        present = [found[0] for found in index.find(group)]
        if not present:
            continue
        keys["step"] = " or ".join(present)
        step = _first_finite([index.table.column(k) for k in present])
        drawn = [found[0] for found in index.find(trainer.rollouts)] if group is trainer.steps[0] else []
        if drawn:
            keys["step"] = " or ".join((*present, *drawn))
            step, each = on_updates(step, _first_finite([index.table.column(k) for k in drawn]))
            if each > 1:
                notes.append(f"{each} updates a rollout; a rollout is placed at the first of them")
        return step
    unread = [k for k in index.table.keys if normal(k) in {name for group in groups for name in group}]
    if unread and index.table.n:
        raise LogReadError(
            f"expected the step as a number, found {listed(unread)} without one in {index.table.n} rows; "
            f"repair it or name another key with --column step=KEY: {listed(index.keys)}"
        )
    return None


def _rollout_counter(index: KeyIndex, keys: dict[str, str]) -> str | None:
    """The key that counts rollouts beside the step; None where there is none, or where it is the step."""
    counter = index.first(ROLLOUTS)
    return None if counter in keys.get("step", "").split(" or ") else counter


def _placed(index: KeyIndex, step: np.ndarray | None, keys: dict[str, str]) -> tuple[np.ndarray | None, bool]:
    """Puts rows that know the rollout and no step at the first update made with it; whether there are such rows."""
    counter = _rollout_counter(index, keys)
    if counter is None or step is None:
        return step, False
    found = first_updates(step, index.table.column(counter))
    return found, bool(np.any(np.isfinite(found) & ~np.isfinite(step)))


def _once_a_rollout(
    index: KeyIndex, step: np.ndarray | None, train: dict[str, np.ndarray], keys: dict[str, str], notes: list[str]
) -> bool:
    """Takes out what only repeats, where a log has a row for every update made with a rollout."""
    counter = _rollout_counter(index, keys)
    if counter is None or step is None:
        return False
    again = repeated_rows(index.table.column(counter), step, train)
    for name, rows in again.items():
        train[name][rows] = np.nan
    if again:
        repeats = int(np.sum(again["reward"]))
        notes.append(
            f"several updates for each {counter!r}: {counted(repeats, 'row')} that repeat a rollout's reward "
            f"left without one"
        )
    return bool(again)


def _signals(
    index: KeyIndex, trainer: Trainer, choices: Choices, keys: dict[str, str], notes: list[str]
) -> dict[str, np.ndarray]:
    table = index.table
    signals: dict[str, np.ndarray] = {}
    for name in GENERIC.signals:
        key = index.named(choices[name], name) if name in choices else None
        if key is None:
            key = index.first(trainer.signals.get(name, ()), trainer.prefixes)
        if key is None:
            key = index.first(GENERIC.signals[name], GENERIC.prefixes)
            if key == "train_loss" and "train_runtime" in table:
                key = None  # the closing summary's mean loss over the whole run
        if key is not None:
            keys[name] = key
            signals[name] = table.column(key)
    for derived in _derived(trainer):
        found = [index.first((pattern,)) for pattern in derived.terms]
        over = index.first((derived.over,)) if derived.over else None
        if derived.signal in signals or None in found or (derived.over and over is None):
            continue
        terms = [k for k in found if k is not None]
        total = sum(weight * table.column(k) for k, weight in zip(terms, derived.terms.values(), strict=True))
        if over is not None:
            count = table.column(over)
            total = np.asarray(total) / np.where(count > 0.0, count, np.nan)
        values = derived.constant + np.asarray(total)
        if derived.zero_says_nothing and not np.any(np.abs(np.nan_to_num(values)) > _ZERO):
            if not any(derived.signal in note for note in notes):
                notes.append(
                    f"{derived.signal} is not known: {derived.text(terms, over)} is 0 throughout, as where groups "
                    f"without spread are taken out before a row is logged"
                )
            continue
        keys[derived.signal], signals[derived.signal] = derived.text(terms, over), values
    return signals


def _derived(trainer: Trainer) -> list[Derived]:
    """Combinations of keys that make a signal: the trainer's own, then the others', whose keys scripts borrow."""
    others = [d for t in TRAINERS if t is not trainer for d in t.derived]
    return [*trainer.derived, *others]


def _evals(index: KeyIndex, trainer: Trainer, named: str | None, keys: dict[str, str], notes: list[str]) -> np.ndarray:
    if named:
        keys["eval_reward"] = index.named(named, "heldout")
        return index.table.column(keys["eval_reward"])
    for found in index.find((*trainer.evals, *GENERIC.evals)):
        usable = [k for k in found if not _NOT_AN_EVAL.search(normal(k))]
        if usable:
            return _mean_of(index, usable, keys, notes)
    parts = [k for found in index.find(("eval_rewards/*/mean", "eval/rewards/*/mean")) for k in found]
    if parts:
        keys["eval_reward"] = " + ".join(parts)
        if len(parts) > 1:
            notes.append(f"held-out reward is the sum of {listed(parts)} with TRL's default weight 1")
        return np.sum(index.columns(parts, "held-out reward functions"), axis=0)
    return np.full(index.table.n, np.nan)


def _mean_of(index: KeyIndex, found: list[str], keys: dict[str, str], notes: list[str]) -> np.ndarray:
    if len(found) == 1:
        keys["eval_reward"] = found[0]
        return index.table.column(found[0])
    columns = index.columns(found, "held-out rewards")
    keys["eval_reward"] = f"mean of {', '.join(found)}"
    notes.append(f"held-out reward is the mean of {listed(found)}; choose one with --column heldout=KEY")
    return np.mean(columns, axis=0)


def _first_finite(columns: list[np.ndarray]) -> np.ndarray:
    values = columns[0].copy()
    for column in columns[1:]:
        values = np.where(np.isfinite(values), values, column)
    return values
