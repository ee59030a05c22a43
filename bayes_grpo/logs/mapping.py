"""From the keys of a log to canonical columns: which trainer wrote it, which key is the reward, and so on.

What a log does not decide is an error that lists the candidates, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.columns import COMPONENT, ENVIRONMENT, Columns
from bayes_grpo.logs.evaluation_rows import evaluation_block
from bayes_grpo.logs.keyindex import KeyIndex, normal
from bayes_grpo.logs.reward_key import no_reward, reward_of
from bayes_grpo.logs.reward_parts import components_of, environments_of, is_cost
from bayes_grpo.logs.steps import over_epochs, place_cut_row, second_counter, share_rollouts, step_of
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainer import Derived, Trainer
from bayes_grpo.logs.trainers import GENERIC, TRAINERS, identify

_NOT_AN_EVAL = re.compile(
    r"step|epoch|time|runtime|per_second|truncated|length|_len|tokens|num_turns|loss|/std@|/best@|-pass@"
    r"|error|violation|perplexity|_std$|/std$"
)
_LOWER_IS_BETTER = re.compile(
    r"^(?!.*(?:reward|score)).*(?:^|[/_.\s])"
    r"(?:errors?|violations?|loss|losses|perplexity|ppl|wer|cer|regret|failures?|failed|hallucinations?|refusals?|mae|"
    r"mse|rmse)(?:$|[/_.\s])"
)
"""Words of what should fall, in a key that the user names as a reward; a reward for it rises."""
_ZERO = 1e-9
_QUALIFIED = re.compile(r"^(?:(?:train|per|token|batch|mean|avg|sampling(?=.entropy))[-_])+")
"""Words before the name of a signal that scripts of one's own add."""
_MEAN_GRADIENT = re.compile(r"(?:^|_)(?:mean|avg)_grad$")
"""A mean over the entries of a gradient, which is no norm of it."""
_NO_SPREAD = re.compile(
    r"^(?!.*non)(?=.*group)(?:.*(?:zero|no)[-_ ].*(?:std|var|spread)|.*(?:flat|degenerate))|^zero_std%?$"
)
"""Words for the share of groups without spread."""
_CONTRAST = re.compile(
    r"(?:informative|effective|mixed|useful|contrastive|non_?zero_(?:std|var|variance))_(?:[a-z]{1,12}_)?groups?"
    r"|groups?_(?:informative|mixed|with_(?:signal|contrast|spread|variance))|^effective_signal"
)
"""Words for the share of the others, which have some."""
_ADVANTAGE_STD = ("adv_std", "advantage_std", "advantages_std", "advantages/std", "advantage/std", "std_advantage")
_MOST = 0.8
"""Share of the rows without spread of the advantages from which on these are looked at."""
_SIGNALS = [name for name in GENERIC.keys if name not in ("step", "reward", "heldout")]

type Choices = Mapping[str, str]
"""Canonical name ("step", "reward", "heldout" or a signal) → the key that the user named for it."""


def map_columns(table: Table, choices: Choices, hint: Trainer | None = None) -> Columns:
    """Picks trainer (unless the file format tells it), step, reward, signals and evaluation out of a table.

    A log without reward and evaluation, or with several keys that could be the reward, is an error.
    """
    index = KeyIndex(table)
    written_by = identify(index)
    if hint is not None and not written_by.name.startswith(hint.name):  # "TRL AsyncGRPO" writes the files of "TRL"
        written_by = hint
    columns = Columns(index, written_by)
    columns.step = step_of(columns, choices.get("step"))
    columns.evals = _evals(columns, choices.get("heldout"))
    signals = _signals(columns, choices)
    found = reward_of(columns, choices.get("reward"))
    reward = np.full(table.n, np.nan)
    if found is not None:
        columns.use("reward", found, " + ".join(found))
        signals = {name: x for name, x in signals.items() if name != "accuracy" or [*columns.raw[name]] != found}
        reward = np.sum(index.columns(found, "reward functions"), axis=0)
        if "reward" in choices:
            reward = _upward(columns, "reward", found[0], reward)
    elif "eval_reward" in columns.keys:
        columns.notes.append("no train reward in the log; only the evaluation reward is there")
    else:
        raise no_reward(columns, signals)
    columns.train = {"reward": reward, **signals}
    place_cut_row(columns)
    share_rollouts(columns)
    for values in (*columns.train.values(), columns.evals):
        values[np.isinf(values)] = np.nan  # a sum of huge values
    _use_parts(columns, COMPONENT, components_of(index, found or ()), "reward functions")
    columns.broken = _broken(columns)
    _use_parts(columns, ENVIRONMENT, environments_of(columns), "environments")
    columns.counter = second_counter(columns)
    over_epochs(columns)
    return columns


def _use_parts(columns: Columns, prefix: str, keys: Mapping[str, str], what: str) -> None:
    """Adds parts of the reward; a cost is taken from it."""
    for (name, key), values in zip(keys.items(), columns.index.columns([*keys.values()], what), strict=True):
        cost = prefix == COMPONENT and is_cost(key, values)
        columns.use(prefix + name, [key], f"-{key}" if cost else "")
        columns.parts[prefix + name] = -values if cost else values


def _broken(columns: Columns) -> dict[str, np.ndarray]:
    """Where the trainer wrote what is no number, by canonical name; also under keys that never hold a number."""
    table = columns.index.table
    written = KeyIndex(table, numbers=False)
    named = {name: keys for name, keys in columns.raw.items() if name not in ("step", "eval_reward")}
    for name in _SIGNALS:
        if name not in named and (key := _signal_key(written, columns.trainer, name)[0]) is not None:
            named[name] = [key]
    found = {name: np.logical_or.reduce([table.broken(k) for k in keys]) for name, keys in named.items()}
    return {name: rows for name, rows in found.items() if rows.any()}


def _signal_key(index: KeyIndex, trainer: Trainer, name: str) -> tuple[str | None, str]:
    """The raw key of a signal and the short name of its definition: the trainer's own keys come before those of all.

    A key that the trainer has for another signal is not one of all trainers' keys: ``kl`` is of the sampler for some.
    """
    for pattern in trainer.keys.get(name, ()):
        if (key := index.first((pattern,), trainer.prefixes)) is not None:
            return key, trainer.definitions.get(pattern, "")
    elsewhere = {k for other in trainer.keys if other != name for k in trainer.keys[other]}
    for pattern in GENERIC.keys[name]:
        if pattern not in elsewhere and (key := index.first((pattern,), GENERIC.prefixes)) is not None:
            return key, GENERIC.definitions.get(pattern, "")
    if trainer is GENERIC:
        bare = {_QUALIFIED.sub("", words): key for words, key in index.raw.items() if not _MEAN_GRADIENT.search(words)}
        if (key := next((bare[pattern] for pattern in GENERIC.keys[name] if pattern in bare), None)) is not None:
            return key, ""
    if name == "frac_reward_zero_std":
        shares = [k for words, k in index.raw.items() if _NO_SPREAD.search(words) and _is_share(index.table.column(k))]
        return (shares[0] if len(dict.fromkeys(shares)) == 1 else None), ""
    return None, ""


def _is_share(values: np.ndarray) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known)) and known.min() >= 0.0 and known.max() <= 1.0


def _signals(columns: Columns, choices: Choices) -> dict[str, np.ndarray]:
    """Signals by the key that the user named, by the trainer's keys, or by all trainers'; then those put together."""
    index = columns.index
    signals: dict[str, np.ndarray] = {}
    for name in _SIGNALS:
        key, short = _signal_key(index, columns.trainer, name)
        if name in choices and (named := index.named(choices[name], name)) != key:
            key = named
            short = ""
        if key == "train_loss" and "train_runtime" in index.table and name not in choices:
            key = None  # the closing summary's mean loss over the whole run
        if key is not None:
            signals[name] = columns.use(name, [key], short=short)
    # Combinations of keys: the trainer's own, then the others', whose keys scripts borrow.
    for derived in (d for t in (columns.trainer, *TRAINERS) for d in t.derived):
        if derived.signal not in signals and (values := _combined(columns, derived)) is not None:
            signals[derived.signal] = values
    ways = [("frac_reward_zero_std", way) for way in (_without_contrast, _skipped_groups, _without_advantages)]
    for name, way in (*ways, ("kl", _weighted_kl), ("kl", _kl_of_loss)):
        if name not in signals and (found := way(columns)) is not None:
            signals[name] = found
    return signals


_LOSS_TERMS = (("loss_kl", "loss/kl"), ("loss_pg", "loss/pg", "loss_policy", "loss/policy"), ("loss",))


def _kl_of_loss(columns: Columns) -> np.ndarray | None:
    """The KL's term of a loss that is logged with its other term, shape (n,); None without these."""
    key, *others = (columns.index.first(names, GENERIC.prefixes) for names in _LOSS_TERMS)
    return None if key is None or None in others else columns.use("kl", [key], short="penalty")


_POLICY_KL = ("policy_kl", "kl_policy", "policy/kl")
_KL_WEIGHT = re.compile(r"^(?!.*adam)(?:.*[/_])?(?:(?:kl_)?beta|kl_(?:coeff?|weight|penalty_coeff?))(?:[/_]|$)")


def _weighted_kl(columns: Columns) -> np.ndarray | None:
    """The KL of the policy, shape (n,), where its weight in the loss is logged too; None without both.

    By itself the name says not whether the other policy is the reference or the one before the update.
    """
    key = columns.index.first(_POLICY_KL, GENERIC.prefixes)
    weight = next((k for words, k in columns.index.raw.items() if _KL_WEIGHT.search(words)), None)
    if key is None or weight is None or not np.nan_to_num(columns.index.table.column(weight)).any():
        return None
    columns.notes.append(f"took {key!r} for the KL to the reference, as {weight!r} weighs it")
    return columns.use("kl", [key])


def _without_contrast(columns: Columns) -> np.ndarray | None:
    """Share of groups without spread, shape (n,); None where no key, or several, read like one.

    A count of the one group of a step is 0 or 1, as a share is not in every row.
    """
    index = columns.index
    keys = [k for words, k in index.raw.items() if _CONTRAST.search(words) and _is_share(index.table.column(k))]
    if len(keys) != 1 or np.all(np.nan_to_num(index.table.column(keys[0])) % 1.0 == 0.0):
        return None
    return 1.0 - columns.use("frac_reward_zero_std", keys, f"1 - {keys[0]}")


def _skipped_groups(columns: Columns) -> np.ndarray | None:
    """The share of groups that were skipped, shape (n,), by their count beside that of the others, or of all.

    The count of all is the same in every row; None where neither that nor the sum of both is steadier than the other.
    """
    key = columns.index.first(("skipped_groups", "n_skipped_groups"), GENERIC.prefixes)
    other = columns.index.first(("n_groups", "num_groups"), GENERIC.prefixes)
    if key is None or other is None:
        return None
    skipped, counted = columns.index.table.column(key), columns.index.table.column(other)
    known = np.isfinite(skipped) & np.isfinite(counted)
    drawn = skipped + counted
    of_all = known.any() and np.ptp(counted[known]) == 0.0 and np.all(skipped[known] <= counted[known])
    if not known.any() or not (of_all or np.std(drawn[known]) < np.std(counted[known])):
        return None
    total = counted if of_all else drawn
    columns.use("frac_reward_zero_std", [key, other], f"{key} / {other if of_all else f'({key} + {other})'}")
    return skipped / np.where(total > 0.0, total, np.nan)


def _without_advantages(columns: Columns) -> np.ndarray | None:
    """1 on rows whose advantages have no spread, as no group has any there, shape (n,); None where few rows are such.

    A spread above 0 says nothing of the share of groups, so other rows are NaN.
    """
    key = columns.index.first(_ADVANTAGE_STD, GENERIC.prefixes)
    spread = columns.index.table.column(key or "")
    known = np.isfinite(spread)
    if key is None or np.mean(spread[known] == 0.0) < _MOST:
        return None
    columns.use("frac_reward_zero_std", [key], f"1 where {key} is 0")
    return np.where(spread == 0.0, 1.0, np.nan)


def _combined(columns: Columns, derived: Derived) -> np.ndarray | None:
    """A signal out of several keys, shape (n,), with its keys and definition put down; None where keys are missing."""
    index = columns.index
    terms = [found[0] for pattern in derived.terms if (found := index.find((pattern,)))]
    over = index.first((derived.over,)) if derived.over else None
    if len(terms) < len(derived.terms) or (derived.over and over is None):
        return None
    pooled = [_pooled(columns, keys, derived.pool) for keys in terms]
    total = np.sum([weight * x for x, weight in zip(pooled, derived.terms.values(), strict=True)], axis=0)
    if over is not None:
        count = index.table.column(over)
        total = total / np.where(count > 0.0, count, np.nan)
    values = derived.constant + total
    shown = [keys[0] if derived.pool == "first" else f"{derived.pool} of {listed(keys, 3)}" for keys in terms]
    text = derived.text(shown, over)
    if derived.skip_all_zero and not np.any(np.abs(np.nan_to_num(values)) > _ZERO):
        if not any(derived.signal in note for note in columns.notes):
            columns.notes.append(
                f"{derived.signal} is unknown: {text} is always 0, as if zero-variance groups were filtered before "
                "logging"
            )
        return None
    used = [key for keys in terms for key in (keys[:1] if derived.pool == "first" else keys)]
    columns.use(derived.signal, [*used, *([over] if over else [])], text, derived.definition)
    return values


def _pooled(columns: Columns, keys: list[str], pool: str) -> np.ndarray:
    """The first of some keys, or their sum or mean, shape (n,); a sum is 0 on rows of their kind with none of them.

    Those are the rows with a reward, or with a length of completions where what they took has rows of its own.
    """
    index = columns.index
    if pool == "first":
        return index.table.column(keys[0])
    values = np.array(index.columns(keys, "parts of a signal"))
    known = np.isfinite(values)
    total = np.nansum(values, axis=0)
    if pool == "mean":
        return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)
    for name in ("reward", "completion_length"):
        key = index.first(columns.trainer.keys.get(name, ()), columns.trainer.prefixes)
        of_kind = np.isfinite(index.table.column(key or ""))
        if np.any(of_kind & known.any(axis=0)):
            return np.where(of_kind | known.any(axis=0), total, np.nan)
    return np.where(known.any(axis=0), total, np.nan)


def _evals(columns: Columns, named: str | None) -> np.ndarray:
    index = columns.index
    if named:
        key = index.named(named, "heldout")
        return _upward(columns, "eval_reward", key, columns.use("eval_reward", [key]))
    for found in index.find((*columns.trainer.keys.get("heldout", ()), *GENERIC.keys["heldout"])):
        usable = [k for k in found if not _NOT_AN_EVAL.search(normal(k))]
        if len(usable) > 1:
            note = f"evaluation reward is the mean of {listed(usable)}; choose one with --column heldout=KEY"
            columns.notes.append(note)
        if usable:
            columns.use("eval_reward", usable, f"mean of {', '.join(usable)}" if len(usable) > 1 else "")
            return np.mean(index.columns(usable, "evaluation rewards"), axis=0)
    block = evaluation_block(index, columns.step) if columns.trainer is GENERIC else None
    if block is None:
        return np.full(index.table.n, np.nan)
    score, keys = block
    columns.evaluated = frozenset(keys)
    columns.notes.append(
        f"{listed(keys, 4)} stand in seldom rows, with a count of what was evaluated: an evaluation, of which "
        f"{clean(score)!r} is read; --column heldout=KEY names another"
    )
    index.leave_out(keys)
    return columns.use("eval_reward", [score])


def _upward(columns: Columns, name: str, key: str, values: np.ndarray) -> np.ndarray:
    """Values of a named key so that higher is better: 1 minus a rate that should fall, minus what has no such range."""
    if not _LOWER_IS_BETTER.search(normal(key)):
        return values
    rate = _is_share(values)
    columns.use(name, [key], f"1 - {key}" if rate else f"-{key}")
    columns.notes.append(f"lower is better for {clean(key)!r}: {'1 minus it' if rate else 'its negative'} is read")
    return 1.0 - values if rate else -values
