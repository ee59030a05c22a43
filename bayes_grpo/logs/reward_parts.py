"""Parts of a reward: the functions and environments that a log names, their total, and the weights of each in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from bayes_grpo.common.text import clean
from bayes_grpo.logs.columns import Columns
from bayes_grpo.logs.keyindex import MAX_COLUMNS, KeyIndex, normal

_ADDS_UP = 0.02
"""Standard deviation that parts may leave of the total, over the total's, to count as adding up to it."""
_ROWS = 50_000
_LEAST = 1e-6
TASK_PART = re.compile(
    r"correct|accura|\bacc\b|answer|solution|exact|solve|math|equation|pass|test|success|score|outcome|"
    r"\biou\b|iou_|\bf1\b|bleu|rouge|(?:^|[^a-z])(?:task|env|environment)(?:$|[^a-z])",
    re.I,
)
_FORM = re.compile(
    r"format|xml|tag|think|length|len\b|soft|strict|int\b|digit|style|finish|repet|structure|brevity", re.I
)
OF_EVALUATION = re.compile(r"(?:(?:^|[/_])(?:eval|val|validation|test|dev|heldout|held_out)|^valid)(?:[-/_]|$)")
NOT_A_MEAN = re.compile(
    r"std|stdev|variance|\bvar\b|(?<![a-z])(?:min|max)(?:imum)?(?![a-z])|p10|p90|median|eval|^valid|(?:^|[/_])val(?:[-/_]|idat|ue)|(?<!la)test|zero|count|frac|weight|kl|runtime|time|timing|diff|(?:^|[/_])(?:cal|calc|calculate|compute)_"
)
_FUNCTION = re.compile(r"reward_(?:func|fn|function)(?:[/_]mean)?$")
"""The end of a key that is the mean of a reward function, whatever its weight."""
FILLS = frozenset(("reward", "rewards", "mean", "avg", "average", "func", "fn", "train", "batch"))
_TOTALS = ("total", "all", "overall", "sum", "aggregate", "combined")
NOT_A_PART = frozenset((
    *_TOTALS, "best", "final", "running", "moving", "ema", "smoothed", "cumulative", "gold", "true", "target",
    "baseline", "raw", "shaped", "advantage", "episode", "group", "groups", "rollout", "delta",
))  # fmt: skip
_MEAN_TOTALS = ("reward_mean", "mean_reward", "avg_reward", "average_reward", "reward_avg")
"""Names of a total that say it is the mean of all completions."""
_SUFFIXED = re.compile(r"(?:\w{0,80}/)?\w{1,80}?_(reward|penalty)(_mean)?")
_NOT_SUFFIXED = frozenset((
    "mean", "avg", "average", "window", "last", "latest", "recent", "rolling", "smooth", "prev", "previous", "first",
    "initial", "current", "question", "questions", "reference", "ref", "chosen", "rejected", "epoch", "step", "time",
))  # fmt: skip
"""Words of a reward, as of another policy or of a part of the training, that is no part of the mean of all."""
_ENVIRONMENTS = ("env/*/reward", "env/*/reward/mean", "env/*/reward/total", "reward/*/mean", "reward/env/*")
_FORGE_PARTS = "reward/evaluate_response/avg_*_reward"
"""The means of torchforge's reward functions, and of all."""
_NO_MEAN = re.compile(r"[/_](?:std|stdev|var|min|max)$")
"""Ends of keys that are no mean of a reward function."""
TOTALS = ("mean", "std", "min", "max")  # of all rewards, not functions of these names


def is_form(name: str) -> bool:
    """True if a function by its name rewards format, length or finishing, and nothing of the task."""
    return bool(_FORM.search(name)) and not TASK_PART.search(name)


def is_task(name: str) -> bool:
    """True if it rewards the task, and nothing of the form."""
    return bool(TASK_PART.search(name)) and not _FORM.search(name)


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


def single_rewards(index: KeyIndex) -> list[str]:
    """Raw keys of the means of single reward functions."""
    found = [k for group in index.find(("rewards/*/mean", "rewards/*"), ("", "train/")) for k in group]
    return [k for k in dict.fromkeys(found) if not _NO_MEAN.search(normal(k))]


def components_of(index: KeyIndex, total: Collection[str] = ()) -> dict[str, str]:
    """Reward function → raw key of its mean; ``total`` are the keys whose sum is the train reward."""
    named = {}
    if len(total) == 1:
        whole = next(iter(total))
        named = _additive_parts(index, whole) or _parts_of_mean(index, whole)
    for key in reversed(single_rewards(index)):
        joined = "/".join(part.strip() for part in key.split("/"))
        start = joined.lower().rfind("rewards/") + len("rewards/")
        named[clean(joined[start:].removesuffix("/mean"))] = key
    for key in (k for group in index.find((_FORGE_PARTS,)) for k in group if k not in total):
        named.setdefault(clean(key.rpartition("/avg_")[2].removesuffix("_reward")), key)
    named = {name: k for name, k in named.items() if name.lower() not in TOTALS}
    parts = [k for group in index.find(("reward/*",)) for k in group if normal(k).rpartition("/")[2] not in TOTALS]
    whole = total_of(index, parts)
    for key in parts if whole is not None else ():
        name = normal(key).rpartition("/")[2]
        if key != whole and name not in _TOTALS:
            named.setdefault(clean(name), key)
    return named


def _parts_of_mean(index: KeyIndex, total: str) -> dict[str, str]:
    """Keys such as ``format_reward`` in the rows of a total such as ``reward_mean``, and ``length_penalty_mean``.

    One is enough where it says to be a mean as the total does; ``mean_question_reward`` has a form of its own.
    """
    if normal(total).rpartition("/")[2] not in _MEAN_TOTALS:
        return {}
    rows = np.isfinite(index.table.column(total))
    found: dict[str, str] = {}
    same_form = False
    for name, key in _other_rewards(index, total):
        bare = name.removesuffix("_mean")
        form = _SUFFIXED.fullmatch(name)
        if form is None or _NOT_SUFFIXED.intersection(re.split(r"[/_ ]", bare)) or key in found.values():
            continue
        if np.array_equal(np.isfinite(index.table.column(key)), rows):
            found[bare.rpartition("/")[2].removesuffix("_reward")] = key
            same_form = same_form or form[2] is not None
    return found if (1 if same_form else 2) <= len(found) <= MAX_COLUMNS else {}


def _other_rewards(index: KeyIndex, total: str) -> Iterator[tuple[str, str]]:
    """Names, the shortest first, and raw keys of what may be a part of the reward under the key ``total``."""
    for name in sorted(index.raw, key=len):  # the name without its wrapper first
        words = set(re.split(r"[/_ ]", name))
        never = NOT_A_MEAN.search(name) or OF_EVALUATION.search(name) or name.startswith(("rewards/", "reward/"))
        if words - FILLS and not never and not NOT_A_PART & words and index.raw[name] != total:
            yield name, index.raw[name]


def is_cost(key: str, values: np.ndarray) -> bool:
    """True if a part of the shape (n,) is the size of a penalty, which is taken from the reward."""
    known = values[np.isfinite(values)]
    form = _SUFFIXED.fullmatch(normal(key))
    return form is not None and form[1] == "penalty" and bool(len(known)) and known.min() >= 0.0


def _additive_parts(index: KeyIndex, total: str) -> dict[str, str]:
    """Keys such as ``format_reward`` and ``answer_reward`` whose total is named so, or that add up to it."""
    found: dict[str, str] = {}
    for name, key in _other_rewards(index, total):
        words = re.split(r"[/_ ]", name)
        if "reward" in words and key not in found.values():
            found["_".join(word for word in words if word not in FILLS)] = key
    if len(found) < 2 or len(found) > MAX_COLUMNS:
        return {}
    if all(_FUNCTION.search(normal(key)) for key in found.values()):  # named as TRL names them
        return found
    if set(_TOTALS).intersection(re.split(r"[/_ ]", normal(total))):  # named as their total, whatever else enters it
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
    words = {k: set(re.split(r"[/_]", normal(k))) - FILLS - {"score", "scores"} for k in candidates}
    named = [k for k in candidates if words[k] and words[k] <= {*_TOTALS}]
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
            found = {name: k for name, k in found.items() if name not in (*TOTALS, "all", "agg", "overall", "total")}
            if len(found) > 1:
                return found
    return {}


def is_trl_function(name: str) -> bool:
    """True if a key is named as TRL's notebooks name the mean of a reward function, "format_reward_func"."""
    return _FUNCTION.search(name) is not None


def is_function(name: str) -> bool:
    """True if a key reads like the reward of one function, as "reward_format" does and "train_reward" does not."""
    words = set(re.split(r"[/_ ]", name))
    return "reward" in words and bool(words - FILLS) and not NOT_A_PART & words and not OF_EVALUATION.search(name)
