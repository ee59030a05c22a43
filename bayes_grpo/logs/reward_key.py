"""Which key of a log is its train reward; what a log does not decide is an error that lists the candidates."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.errors import MENDING, LogReadError
from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.columns import Columns
from bayes_grpo.logs.keyindex import MAX_COLUMNS, KeyIndex, column, normal
from bayes_grpo.logs.lines import is_rate
from bayes_grpo.logs.reward_parts import NOT_A_MEAN, NOT_A_PART, is_function, is_trl_function, single_rewards, total_of
from bayes_grpo.logs.steps import ROLLOUTS
from bayes_grpo.logs.trainers import GENERIC
from bayes_grpo.logs.unused import COUNTS, NO_SIGNAL, unused_keys

_NO_REWARD = re.compile(COUNTS.pattern + "|std$|adv|grad|percent|memory|speed")
_NOT_ALONE = re.compile(r"loss|lr|learning|entropy|len|tokens|temp|clip|per_|second|hour|minute|cost|rank|seed")
"""With `_NO_REWARD` and `NOT_A_MEAN`: no reward, even where it is the only column of numbers next to the step."""
_KL = re.compile(r"(?:^|[/_])kl(?:$|[/_])")
_PART = re.compile(
    r"component|bonus|penalty|shaping|normali[sz]ed|moving|running|rolling|smooth|(?:^|[/_])ema(?:[/_]|$)"
)
"""A part of a reward, or its average over earlier rows: no reward where another key may be one."""
_TENSORBOARD = {"wall_time", "step", "value"}
"""Columns of a curve that was downloaded from TensorBoard."""
_NORMALIZED = 1e-4
"""Size up to which a total is 0 but for rounding."""
_REWARD_LIKE = re.compile(r"reward|score|return")


def reward_of(columns: Columns, named: str | None) -> list[str] | None:
    """The raw keys whose sum is the train reward, by the user's choice if there is one; None where the log has none."""
    index, notes = columns.index, columns.notes
    if named:
        terms = [named] if normal(named) in index.raw else [x.strip() for x in named.split("+")]
        return [index.named(term, "reward") for term in terms]
    known = [] if columns.trainer is GENERIC else index.find(columns.trainer.keys["reward"], columns.trainer.prefixes)
    parts = [] if known else _summed(columns)
    key = None
    if known:
        key = _only_one(index, known[0], notes)
    elif not parts:
        key = _generic_reward(columns)
    if key is not None:
        return [key]
    parts = parts or single_rewards(index)
    if (total := total_of(index, parts)) is not None:
        parts = [key for key in parts if key != total]
        _refuse_normalized(index, total, parts)
        notes.append(f"{total!r} is the total of {listed(parts)}")
        return [total]
    if len(parts) > 1:
        notes.append(
            f"the log has no total reward; it is the sum of {listed(parts)} with TRL's default weight 1 each "
            f"(name one with --column reward=KEY)"
        )
    return parts or None


def _refuse_normalized(index: KeyIndex, total: str, parts: list[str]) -> None:
    """Refuses a total that was normalized to 0 before it was logged, which says nothing of the training."""
    values = index.table.column(total)
    if np.nanmax(np.abs(values)) > _NORMALIZED:
        return
    raw = [key for key in parts if np.nanmax(np.abs(index.table.column(key))) > _NORMALIZED]
    raise LogReadError(
        f"expected a train reward, found {total!r}, which is normalized: it is 0 in every row; name a part that is not "
        f"with {MENDING}: {listed(raw)}",
        mended_by=column("reward"),
    )


def _summed(columns: Columns) -> list[str]:
    """Keys of several reward functions, named as TRL's notebooks name them, of which TRL takes the sum; else none."""
    names = [name for name in columns.index.raw if _REWARD_LIKE.search(name) and not NOT_A_MEAN.search(name)]
    keys = list(dict.fromkeys(columns.index.raw[name] for name in names))
    return keys if len(keys) > 1 and all(map(is_trl_function, names)) else []


def _generic_reward(columns: Columns) -> str | None:
    index, notes = columns.index, columns.notes
    known = [key for found in index.find(GENERIC.keys["reward"], GENERIC.prefixes) for key in found]
    if known:
        return _only_one(index, list(dict.fromkeys(known)), notes)
    means = [x for x in index.raw if not x.startswith(("rewards/", "train/rewards/")) and not NOT_A_MEAN.search(x)]
    near = list(dict.fromkeys(index.raw[name] for name in means if _REWARD_LIKE.search(name)))
    if scores := _scores_of_rewards(near):
        near = [key for key in near if key not in scores]
        notes.append(f"a reward goes before a score of the same form: {listed(scores)} left out")
    whole = [key for key in near if not _PART.search(normal(key))] or near
    if not whole and {*index.raw} == _TENSORBOARD:
        notes.append("a curve from TensorBoard; its values are taken for the train reward")
        return index.raw["value"]
    if not whole:
        return _success_or_only(columns)
    whole = _total_score(whole) or whole
    key = _only_one(index, whole, notes)
    other = listed([k for k in near if k not in whole])
    parts = f" next to its parts or averages {other}" if len(whole) < len(near) else ""
    notes.append(f"took {key!r} for the train reward, the only key that reads like one{parts}")
    return key


def _total_score(keys: list[str]) -> list[str]:
    """The key "score" beside the scores of its parts, such as "format_score"; none where another is no part."""
    score = [key for key in keys if normal(key).rpartition("/")[2] == "score"]
    others = [normal(key).rpartition("/")[2] for key in keys if key not in score]
    parts = len(others) > 1 and all(x.endswith("_score") and not NOT_A_PART & {*x.split("_")} for x in others)
    return score if len(score) == 1 and parts else []


def _scores_of_rewards(keys: list[str]) -> list[str]:
    """Keys of a score whose reward has a key of the same form, as "score_curve" beside "reward_curve"."""
    names = {normal(key) for key in keys}
    return [key for key in keys if "score" in normal(key) and normal(key).replace("score", "reward") in names]


def _success_or_only(columns: Columns) -> str | None:
    """The only rate of success in a log without rewards, else its only column of numbers next to the step."""
    index, notes = columns.index, columns.notes
    if single_rewards(index):
        return None
    rates = list(dict.fromkeys(key for name, key in index.raw.items() if is_rate(name)))
    if len(rates) == 1:
        notes.append(f"took {rates[0]!r} for the train reward: the log has no reward and no other rate of success")
        return rates[0]
    others = [key for key in index.keys if key not in columns.raw.get("step", ())]
    if (total := _sum_of_others(index, others)) is not None:
        notes.append(f"took {total!r} for the train reward: it is the sum of {listed(k for k in others if k != total)}")
        return total
    if columns.step is None or len(others) != 1:
        return None
    if any(words.search(normal(others[0])) for words in (_NO_REWARD, NOT_A_MEAN, _NOT_ALONE)):
        return None
    notes.append(f"took {others[0]!r} for the train reward: it is the only column of numbers next to the step")
    return others[0]


def _sum_of_others(index: KeyIndex, keys: list[str]) -> str | None:
    """The key "total" that is the sum of at least two others, signals left out; None where there is none."""
    whole = [key for key in keys if normal(key).rpartition("/")[2] == "total"]
    never = (_NO_REWARD, NOT_A_MEAN, _NOT_ALONE, _KL)
    parts = [key for key in keys if key not in whole and not any(words.search(normal(key)) for words in never)]
    if len(whole) != 1 or not 1 < len(parts) <= MAX_COLUMNS:
        return None
    total = index.table.column(whole[0])
    made = np.sum([index.table.column(key) for key in parts], axis=0)
    known = np.isfinite(total) & np.isfinite(made)
    return whole[0] if known.any() and np.allclose(total[known], made[known], rtol=1e-3, atol=1e-4) else None


def _only_one(index: KeyIndex, candidates: list[str], notes: list[str]) -> str:
    """The first of several keys if they agree wherever they meet."""
    chosen = index.table.column(candidates[0])
    counter = index.first(ROLLOUTS)
    for other in candidates[1:]:
        one = chosen
        two = index.table.column(other)
        if counter is not None and not np.any(np.isfinite(one) & np.isfinite(two)):
            import pandas as pd

            rollout = index.table.column(counter)
            one, two = pd.DataFrame({0: one, 1: two}).groupby(rollout).agg("mean").to_numpy().T
        both = np.isfinite(one) & np.isfinite(two)
        if not both.any() or not np.allclose(one[both], two[both], rtol=1e-4, atol=1e-6):
            if (total := total_of(index, candidates)) is not None:
                notes.append(f"{total!r} is the total of {listed([k for k in candidates if k != total])}")
                return total
            are_functions = all(is_function(normal(key)) for key in candidates)
            kind = ", which read like reward functions" if are_functions else ""
            or_sum = " (KEY+KEY for their sum, where each has the weight 1)" if are_functions else ""
            raise LogReadError(
                f"expected one train reward, found several that differ: {listed(candidates)}{kind}; choose with "
                f"{MENDING}{or_sum}",
                mended_by=column("reward"),
            )
    if len(candidates) > 1:
        notes.append(f"{listed(candidates)} agree; {candidates[0]!r} is used as the reward")
    return candidates[0]


_KEYS_LISTED, _SIGNALS_LISTED = 4, 8


def no_reward(columns: Columns, signals: Mapping[str, np.ndarray]) -> LogReadError:
    """The error about a log without a reward: the columns that it has, and where the reward would be.

    ``signals`` are the canonical signals that were found, shape (n,) each.
    """
    index = columns.index
    table = columns.index.table
    trainer = columns.trainer
    if not table.n:
        return LogReadError("expected rows of metrics, found none; pass the file that the trainer logs to")
    rows = counted(table.n, "row")
    empty = [k for k in table.keys if _REWARD_LIKE.search(normal(k)) and not table.has_numbers(k)]
    found = f"{listed(empty)} without a finite number in {table.n} rows" if empty else listed(index.keys)
    last = ((name, values[np.isfinite(values)][-1:]) for name, values in signals.items())
    shown = [f"{name.replace('_', ' ')} {value[0]:.4g}" for name, value in last if len(value)]
    shows = f"; the last shows {listed(shown, _SIGNALS_LISTED)}" if shown else ""
    shows += _without_gradient(signals)
    if trainer is not GENERIC and signals and not empty:
        where = f" {trainer.reward_place}" if trainer.reward_place else ""
        text = (
            f"{listed(index.keys, _KEYS_LISTED)} in {rows} of {trainer.name} and none that reads like one{shows}; "
            f"{trainer.name} logs its reward as {listed(trainer.keys['reward'], 2)}{where}: pass that part of the log "
            f"too, or name its key with {MENDING}"
        )
        return LogReadError(f"expected a train reward, found {text}", mended_by=column("reward"))
    unused = unused_keys(columns, columns.keys)
    never = (_NO_REWARD, _NOT_ALONE, _KL)
    free = [k for k in index.keys if unused.get(k) == NO_SIGNAL and not any(x.search(normal(k)) for x in never)]
    none = (
        f" in {rows} and none that reads like one{shows}; pass the log with the rewards, or name its key with {MENDING}"
    )
    choices = "these" if [*free] == [*index.keys] else listed(free)
    more = f"{shows}; name its key with {MENDING}, if it is among {choices}" if free else none
    return LogReadError(f"expected a train reward, found {found}{more}", mended_by=column("reward"))


def _without_gradient(signals: Mapping[str, np.ndarray]) -> str:
    """Note on rows in which nothing is learned, of arrays of the shape (n,): their gradient is 0; else ""."""
    known = {k: x[np.isfinite(x)] for k, x in signals.items() if k in ("grad_norm", "loss")}
    flat = [name for name, x in known.items() if len(x) and not np.any(x)]
    if "grad_norm" not in flat:
        return ""
    also = " and loss are" if "loss" in flat else " is"
    return f"; grad norm{also} 0 in every row, so nothing is learned from these"
