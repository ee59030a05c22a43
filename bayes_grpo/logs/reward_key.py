"""Which key of a log is its train reward, which keys nothing was made of, what those may be, and parts of a reward.

What a log does not decide is an error that lists the candidates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher

import numpy as np

from bayes_grpo.common.errors import MENDING, LogReadError
from bayes_grpo.common.text import clean, counted, listed
from bayes_grpo.logs.columns import MOVING, Columns
from bayes_grpo.logs.keyindex import MAX_COLUMNS, OWN, KeyIndex, column, normal
from bayes_grpo.logs.steps import ROLLOUTS
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import GENERIC

_ADDS_UP = 0.02
"""Standard deviation that parts may leave of the total, over the total's, to count as adding up to it."""
_ROWS = 50_000
_LEAST = 1e-6
_TASK = re.compile(
    r"correct|accura|\bacc\b|answer|solution|exact|solve|math|equation|pass|test|success|score|outcome|"
    r"\biou\b|iou_|\bf1\b|bleu|rouge",
    re.I,
)
_FORM = re.compile(
    r"format|xml|tag|think|length|len\b|soft|strict|int\b|digit|style|finish|repet|structure|brevity", re.I
)


def is_form(name: str) -> bool:
    """Whether a function by its name rewards format, length or finishing, and nothing of the task."""
    return bool(_FORM.search(name)) and not _TASK.search(name)


def is_task(name: str) -> bool:
    """Whether it rewards the task, and nothing of the form."""
    return bool(_TASK.search(name)) and not _FORM.search(name)


def adding_weights(total: np.ndarray, parts: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Weights, those that count, with which parts add up to a total but for a constant; empty where they do not.

    ``total`` and the parts have the shape (n,); a part that is not always known is left out.
    """
    some = np.linspace(0, len(total) - 1, min(len(total), _ROWS)).astype(int)
    y = total[some]
    known = np.isfinite(y)
    used = {name: values[some].astype(float) for name, values in parts.items()}
    used = {k: v for k, v in used.items() if np.isfinite(v[known]).mean() > 0.99}
    for values in used.values():
        known &= np.isfinite(values)
    used = {k: v for k, v in used.items() if known.any() and np.ptp(v[known]) > 0.0}
    if known.sum() < len(used) + 2 or not used:
        return {}
    x = np.column_stack([v[known] for v in used.values()])
    y = y[known]
    x, y = x - x.mean(axis=0), y - y.mean()
    weight = np.linalg.lstsq(x / x.std(axis=0), y, rcond=1e-8)[0] / x.std(axis=0)
    if float(np.std(y - x @ weight)) >= _ADDS_UP * float(y.std()):
        return {}
    counts = np.abs(weight) * x.std(axis=0) > _LEAST * float(y.std())
    return {name: float(w) for name, w, counted in zip(used, weight, counts, strict=True) if counted}


NO_NUMBER = "no number in it"
NO_SIGNAL = "no known signal"
NOT_COMPUTED = "0 in every row, so not computed"
OURS = "written by bayes-grpo"
EVALUATION = "of an evaluation, and not its mean reward"
_REASONS = (EVALUATION, NO_SIGNAL, NOT_COMPUTED, NO_NUMBER, OURS)
_EVALUATION = re.compile(r"(?:(?:^|[/_])(?:eval|val|validation|test|dev|heldout|held_out)|^valid)(?:[-/_]|$)")
_COUNTS = re.compile(r"(?:^|[/_])(?:steps?|epoch|iteration|iter|_?timestamp|_?runtime|batch|episode|progress)$")
_NO_REWARD = re.compile(_COUNTS.pattern + "|std$|adv|grad|percent|memory|speed")


def unused_keys(columns: Columns, used: Iterable[str], read_otherwise: Iterable[str] = ()) -> dict[str, str]:
    """Raw key → why it was not used, in the order of the log.

    ``used`` are the canonical names that were used; of the raw keys ``read_otherwise`` something else was made, as of
    single rewards and settings.
    """
    taken = {*read_otherwise, *(key for name in used for key in columns.raw[name])}
    zero = {
        key
        for name in MOVING
        for key in columns.raw.get(name, ())
        if not np.nan_to_num(columns.index.table.column(key)).any()
    }
    table, unused = columns.index.table, {}
    for key in (key for key in table.keys if key not in taken):
        name = normal(key)
        why = EVALUATION if _EVALUATION.search(name) else NO_SIGNAL
        if not table.has_numbers(key):
            why = NO_NUMBER
        elif key in zero:
            why = NOT_COMPUTED
        unused[key] = OURS if OWN in name else why
    return unused


def grouped_by_reason(unused: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason → keys, the most telling reason first."""
    groups = {why: [key for key, x in unused.items() if x == why] for why in _REASONS}
    return {why: keys for why, keys in groups.items() if keys}


_LOOKS_LIKE: Mapping[str, tuple[str, float, float]] = {
    "heldout": (
        r"^(?!.*loss).*(?:eval(?!uate_response)|bench|held|(?:^|[/_])(?:val|test|dev)(?:[/_]|$))",
        -math.inf,
        math.inf,
    ),
    "entropy": (r"^(?!.*coef).*(?:(?:^|[^a-z])ent(?:$|[^a-z])|entropy)", 0.0, 20.0),
    "kl": (r"^(?!.*(?:sampl|rollout|infer|time|ppo)).*(?:(?:^|[^a-z])kl|diverg)", -1.0, math.inf),
    "grad_norm": (r"grad(?!e)|gnorm", 0.0, math.inf),
    "completion_length": (r"len|tokens", 1.0, 1e6),
    "clip_ratio": (r"clip", 0.0, 1.0),
    "learning_rate": (r"(?:^|[^a-z])lr(?:$|[^a-z])|learning", 0.0, 0.1),
    "loss": (r"loss|objective", -math.inf, math.inf),
    "accuracy": (r"acc|correct|solve|success|pass", 0.0, 1.0),
    "reward_std": (r"^(?!.*(?:zero|frac|adv|token|len)).*(?:std|spread)", 0.0, math.inf),
    "frac_reward_zero_std": (r"(?<!non)(?<!non_)zero|flat|degenerate|no_spread", 0.0, 1.0),
    "completions_clipped_ratio": (r"trunc|cut_off|max_len|no_eos", 0.0, 1.0),
    "gold_reward": (r"gold|true", -math.inf, math.inf),
    "staleness": (r"stale|(?:^|[^a-z])lag(?:$|[^a-z])|[a-z]_age$", 0.0, math.inf),
}
"""Column → words of keys that may be it, and the range that its values have."""
_SUGGESTED = 2
_LOWER_IS_BETTER = re.compile(
    r"loss|error|violat|perplex|ppl|(?:^|[^a-z])[wc]er(?:$|[^a-z])|fail|invalid|toxic|halluc|regret|mistake|wrong"
)
"""Words of what is no reward, held out or not: less of it is better."""
_SCORE = re.compile(r"acc|correct|solve|success|pass_?(?:at|@)")


def suggested_keys(table: Table, unused: Mapping[str, str], known: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Column that was not recognized → unused keys whose name and range fit it, the closest first."""
    free = [k for k, why in unused.items() if why in (NO_SIGNAL, EVALUATION) and not _COUNTS.search(normal(k))]
    ranges = {key: (float(np.nanmin(x)), float(np.nanmax(x))) for key in free if len(x := table.column(key))}
    found = {}
    for name, (words, low, high) in _LOOKS_LIKE.items():
        if name in known:
            continue
        fits = [k for k in free if re.search(words, normal(k)) and low <= ranges[k][0] < ranges[k][1] <= high]
        if name == "heldout":  # scores of seldom rows are those of an evaluation
            fits = [k for k in fits if not _LOWER_IS_BETTER.search(normal(k))]
            scores = [k for k in free if _SCORE.search(normal(k)) and ranges[k][1] <= 1.0 and k not in fits]
            fits += [k for k in scores if 1 < int(np.isfinite(table.column(k)).sum()) <= table.n // 2]
        fits = [k for k in fits if name in ("heldout", "accuracy") or not _EVALUATION.search(normal(k))]
        fits = [k for k in fits if name in ("reward_std", "frac_reward_zero_std") or not normal(k).endswith("std")]
        fits = [k for k in fits if name != "accuracy" or not is_form(_TASK.sub("", normal(k)))]
        fits.sort(key=lambda k, name=name: -SequenceMatcher(None, normal(k).rpartition("/")[2], name).ratio())
        if name == "heldout":
            fits.sort(key=lambda k: not _SCORE.search(normal(k)))
        if fits:
            found[name] = tuple(fits[:_SUGGESTED])
    return found


_NOT_A_MEAN = re.compile(
    r"std|stdev|variance|\bvar\b|(?<![a-z])(?:min|max)(?:imum)?(?![a-z])|p10|p90|median|eval|^valid|(?:^|[/_])val(?:[-/_]|idat|ue)|(?<!la)test|zero|count|frac|weight|kl|runtime|time|diff"
)
_RATE = re.compile(
    r"(?:train[/_])?(?:(?:success|solve|solved|pass|win|correct)_?rate|(?:mean_|avg_)?(?:accuracy|acc)(?:_mean)?|solved)"
)
_NOT_ALONE = re.compile(r"loss|lr|learning|entropy|len|tokens|temp|clip|per_|second|hour|minute|cost|rank|seed")
"""With `_NO_REWARD` and `_NOT_A_MEAN`: no reward, even where it is the only column of numbers next to the step."""
_KL = re.compile(r"(?:^|[/_])kl(?:$|[/_])")
_PART = re.compile(r"component|bonus|penalty|shaping|moving|running|rolling|smooth|(?:^|[/_])ema(?:[/_]|$)")
"""A part of a reward, or its average over earlier rows: no reward where another key may be one."""
_FUNCTION = re.compile(r"reward_(?:func|fn|function)(?:[/_]mean)?$")
"""The end of a key that is the mean of a reward function, whatever its weight."""
_FILLS = frozenset(("reward", "rewards", "mean", "avg", "average", "func", "fn", "train", "batch"))
_WHOLE = ("total", "all", "overall", "sum", "aggregate", "combined")
_NOT_A_PART = frozenset((
    *_WHOLE, "best", "final", "running", "moving", "ema", "smoothed", "cumulative", "gold", "true", "target",
    "baseline", "raw", "shaped", "advantage", "episode", "group", "groups", "rollout", "delta",
))  # fmt: skip
_ENVIRONMENTS = ("env/*/reward", "env/*/reward/mean", "env/*/reward/total", "reward/*/mean", "reward/env/*")
_FORGE_PARTS = "reward/evaluate_response/avg_*_reward"
"""The means of torchforge's reward functions, and of all."""
_TENSORBOARD = {"wall_time", "step", "value"}
"""Columns of a curve that was downloaded from TensorBoard."""
_NO_MEAN = re.compile(r"[/_](?:std|stdev|var|min|max)$")
"""Ends of keys that are no mean of a reward function."""
_NORMALIZED = 1e-4
"""Size up to which a total is 0 but for rounding."""
_TOTALS = ("mean", "std", "min", "max")  # of all rewards, not functions of these names
_REWARD_LIKE = re.compile(r"reward|score|return")


def reward_of(columns: Columns, named: str | None) -> list[str] | None:
    """The raw keys whose sum is the train reward, by the user's choice if there is one; None where the log has none."""
    index, notes = columns.index, columns.notes
    if named:
        return [index.named(named, "reward")]
    known = [] if columns.trainer is GENERIC else index.find(columns.trainer.keys["reward"], columns.trainer.prefixes)
    key = _only_one(index, known[0], notes) if known else _generic_reward(columns)
    if key is not None:
        return [key]
    parts = single_rewards(index)
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


def single_rewards(index: KeyIndex) -> list[str]:
    """Raw keys of the means of single reward functions."""
    found = [k for group in index.find(("rewards/*/mean", "rewards/*"), ("", "train/")) for k in group]
    return [k for k in dict.fromkeys(found) if not _NO_MEAN.search(normal(k))]


def components_of(index: KeyIndex, total: Collection[str] = ()) -> dict[str, str]:
    """Reward function → raw key of its mean; ``total`` are the keys whose sum is the train reward."""
    named = _adding_up(index, next(iter(total))) if len(total) == 1 else {}
    for key in reversed(single_rewards(index)):
        joined = "/".join(part.strip() for part in key.split("/"))
        start = joined.lower().rfind("rewards/") + len("rewards/")
        named[clean(joined[start:].removesuffix("/mean"))] = key
    for key in (k for group in index.find((_FORGE_PARTS,)) for k in group if k not in total):
        named.setdefault(clean(key.rpartition("/avg_")[2].removesuffix("_reward")), key)
    named = {name: k for name, k in named.items() if name.lower() not in _TOTALS}
    parts = [k for group in index.find(("reward/*",)) for k in group if normal(k).rpartition("/")[2] not in _TOTALS]
    whole = total_of(index, parts)
    for key in parts if whole is not None else ():
        name = normal(key).rpartition("/")[2]
        if key != whole and name not in _WHOLE:
            named.setdefault(clean(name), key)
    return named


def _adding_up(index: KeyIndex, total: str) -> dict[str, str]:
    """Keys such as ``format_reward`` and ``answer_reward`` whose total is named so, or that add up to it."""
    found: dict[str, str] = {}
    for name in sorted(index.raw, key=len):  # the name without its wrapper first
        words = re.split(r"[/_ ]", name)
        key = index.raw[name]
        what = "_".join(w for w in words if w not in _FILLS)
        other = _NOT_A_MEAN.search(name) or _EVALUATION.search(name) or name.startswith(("rewards/", "reward/"))
        if what and "reward" in words and not other and not _NOT_A_PART.intersection(words) and key != total:
            found |= {what: key} if key not in found.values() else {}
    if len(found) < 2 or len(found) > MAX_COLUMNS:
        return {}
    if all(_FUNCTION.search(normal(key)) for key in found.values()):  # named as TRL names them
        return found
    if set(_WHOLE).intersection(re.split(r"[/_ ]", normal(total))):  # named as their total, whatever else enters it
        return found
    columns = np.array([index.table.column(key) for key in (total, *found.values())])
    columns = columns[:, np.isfinite(columns).all(axis=0)]
    if columns.any() and np.allclose(columns[0], columns[1:].sum(axis=0), rtol=1e-3, atol=1e-3):
        return found
    enough = columns.shape[1] > 2 * len(columns)
    return found if enough and adding_weights(columns[0], dict(zip(found, columns[1:], strict=True))) else {}


def total_of(index: KeyIndex, candidates: list[str]) -> str | None:
    """The key among several rewards that is their total: by its name, or as the sum or mean of the others."""
    if len(candidates) < 2 or len(candidates) > MAX_COLUMNS:
        return None
    words = {k: set(re.split(r"[/_]", normal(k))) - _FILLS - {"score", "scores"} for k in candidates}
    named = [k for k in candidates if words[k] and words[k] <= {*_WHOLE}]
    if len(named) == 1:
        return named[0]
    columns = np.array([index.table.column(k) for k in candidates])
    rows = np.isfinite(columns).all(axis=0)
    if len(candidates) < 3 or rows.sum() < 2:
        return None
    values = columns[:, rows]
    for i, key in enumerate(candidates):
        rest = np.delete(values, i, axis=0)
        for made in (rest.sum(axis=0), rest.mean(axis=0)):
            if np.allclose(values[i], made, rtol=1e-3, atol=1e-4):
                return key
    return None


def environments_of(columns: Columns) -> dict[str, str]:
    """Environment → raw key of its mean reward, where keys name them and the reward is their mean."""
    for pattern in (*(p for p in columns.trainer.keys["reward"] if "*" in p), *_ENVIRONMENTS):
        for group in columns.index.find((pattern,), ("", "train/")):
            before, _, after = pattern.partition("*")
            names = {k: normal(k).partition(before)[2].removesuffix(after) for k in group}
            found = {clean(names[k]): k for k in group if k != columns.keys.get("reward")}
            found = {name: k for name, k in found.items() if name not in (*_TOTALS, "all", "agg", "overall", "total")}
            if len(found) > 1:
                return found
    return {}


def _generic_reward(columns: Columns) -> str | None:
    index, notes = columns.index, columns.notes
    known = [key for found in index.find(GENERIC.keys["reward"], GENERIC.prefixes) for key in found]
    if known:
        return _only_one(index, list(dict.fromkeys(known)), notes)
    like = [x for x in index.raw if not x.startswith(("rewards/", "train/rewards/")) and not _NOT_A_MEAN.search(x)]
    near = list(dict.fromkeys(index.raw[name] for name in like if _REWARD_LIKE.search(name)))
    whole = [key for key in near if not _PART.search(normal(key))] or near
    if not whole and {*index.raw} == _TENSORBOARD:
        notes.append("a curve from TensorBoard; its values are taken for the train reward")
        return index.raw["value"]
    if not whole:
        return _success_or_only(columns)
    key = _only_one(index, whole, notes)
    other = listed([k for k in near if k not in whole])
    parts = f" next to its parts or averages {other}" if len(whole) < len(near) else ""
    notes.append(f"took {key!r} for the train reward, the only key that reads like one{parts}")
    return key


def _success_or_only(columns: Columns) -> str | None:
    """The only rate of success in a log without rewards, else its only column of numbers next to the step."""
    index, notes = columns.index, columns.notes
    if single_rewards(index):
        return None
    rates = list(dict.fromkeys(key for name, key in index.raw.items() if _RATE.fullmatch(name)))
    if len(rates) == 1:
        notes.append(f"took {rates[0]!r} for the train reward: the log has no reward and no other rate of success")
        return rates[0]
    others = [key for key in index.keys if key not in columns.raw.get("step", ())]
    if columns.step is None or len(others) != 1:
        return None
    if any(words.search(normal(others[0])) for words in (_NO_REWARD, _NOT_A_MEAN, _NOT_ALONE)):
        return None
    notes.append(f"took {others[0]!r} for the train reward: it is the only column of numbers next to the step")
    return others[0]


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
            alike = len(candidates) > 2 and all(_is_function(normal(key)) for key in candidates)
            like = ", which read like reward functions: add a column 'reward' with their sum" if alike else ""
            raise LogReadError(
                f"expected one train reward, found several that differ: {listed(candidates)}{like}"
                f"{', or choose one with' if alike else '; choose with'} {MENDING}",
                mended_by=column("reward"),
            )
    if len(candidates) > 1:
        notes.append(f"{listed(candidates)} agree; {candidates[0]!r} is used as the reward")
    return candidates[0]


def _is_function(name: str) -> bool:
    """Whether a key reads like the reward of one function, as "reward_format" does and "train_reward" does not."""
    words = set(re.split(r"[/_ ]", name))
    return "reward" in words and bool(words - _FILLS) and not _NOT_A_PART & words and not _EVALUATION.search(name)


_KEYS_SHOWN, _SIGNALS_SHOWN = 4, 8


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
    shows = f"; the last shows {listed(shown, _SIGNALS_SHOWN)}" if shown else ""
    shows += _without_gradient(signals)
    if trainer is not GENERIC and signals and not empty:
        where = f" {trainer.reward_place}" if trainer.reward_place else ""
        said = (
            f"{listed(index.keys, _KEYS_SHOWN)} in {rows} of {trainer.name} and none that reads like one{shows}; "
            f"{trainer.name} logs its reward as {listed(trainer.keys['reward'], 2)}{where}: pass that part of the log "
            f"too, or name its key with {MENDING}"
        )
        return LogReadError(f"expected a train reward, found {said}", mended_by=column("reward"))
    unused = unused_keys(columns, columns.keys)
    never = (_NO_REWARD, _NOT_ALONE, _KL)
    free = [k for k in index.keys if unused.get(k) == NO_SIGNAL and not any(x.search(normal(k)) for x in never)]
    none = (
        f" in {rows} and none that reads like one{shows}; pass the log with the rewards, or name its key with {MENDING}"
    )
    these = "these" if [*free] == [*index.keys] else listed(free)
    said = f"{shows}; name its key with {MENDING}, if it is among {these}" if free else none
    return LogReadError(f"expected a train reward, found {found}{said}", mended_by=column("reward"))


def _without_gradient(signals: Mapping[str, np.ndarray]) -> str:
    """What rows say in which nothing is learned, of arrays of the shape (n,): their gradient is 0; else ""."""
    known = {k: x[np.isfinite(x)] for k, x in signals.items() if k in ("grad_norm", "loss")}
    flat = [name for name, x in known.items() if len(x) and not np.any(x)]
    if "grad_norm" not in flat:
        return ""
    also = " and loss are" if "loss" in flat else " is"
    return f"; grad norm{also} 0 in every row, so nothing is learned from these"
