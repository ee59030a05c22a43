"""Keys looked up by pattern, whatever their case, spacing or wrapper; rows of several kinds.

Scripts that write ``{"type": "eval", "reward": 0.4}`` between lines like ``{"type": "rollout", "reward": 0.2}`` use one
key for two things. The keys of such rows get "eval/" in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.table import Table

_WRAPPERS = (
    "metrics/", "data/", "logs/", "log/", "values/", "scalars/", "payload/", "stats/", "fields/", "info/", "extra/",
    "results/", "result/", "event/", "record/", "body/", "jsonpayload/", "attributes/", "summary/",
)  # fmt: skip
"""Objects that scripts put a row's metrics into."""
_OF_ALL_ROWS = re.compile(r"_(?:history|log)$")
"""The end of a name of a list of values, one a row."""
_ASIDE = re.compile(r"([^()]{1,80})_\(([^()]{1,80})\)")
"""A name with a remark behind it, "test reward (against the base)"."""
_STATISTIC = re.compile(r"std|var|min|max|median|p\d|eval|val|test|delta|change|ema|moving")
"""A remark that says of which statistic a name is."""
CALLBACK_PREFIX = "bayes_grpo/"
"""Before every key that our callback writes into a trainer's log: our results are no signals of the run."""
MAX_COLUMNS = 200
"""Keys that may make one quantity together, such as the reward functions of a training."""


def column(name: str) -> Argument:
    """The argument by which a user names the key of a column: "step", "reward" or a signal."""
    return Argument("columns", "KEY", name)


class KeyIndex:
    """Finds the raw keys of a table by their usual spelling, whatever their case and spacing.

    ``raw`` maps the usual spellings of its keys with numbers, but for those that we wrote, to the ``keys`` as the log
    spells them. With ``numbers=False`` the keys are those under which something was written that is no number.
    """

    def __init__(self, table: Table, numbers: bool = True) -> None:
        self.table = table
        self.raw: dict[str, str] = {}
        for key in table.keys:
            if CALLBACK_PREFIX not in normal(key) and (table.has_numbers(key) if numbers else table.broken(key).any()):
                self.raw.setdefault(normal(key), key)
        for name, key in list(self.raw.items()):
            bare = name
            while bare.startswith(_WRAPPERS):
                bare = bare.partition("/")[2]
                self.raw.setdefault(bare, key)
            if _OF_ALL_ROWS.search(bare):
                self.raw.setdefault(_OF_ALL_ROWS.sub("", bare), key)
            if (aside := _ASIDE.fullmatch(name)) is not None and not _STATISTIC.search(aside[2]):
                self.raw.setdefault(aside[1], key)
        self.keys = tuple(dict.fromkeys(self.raw.values()))

    def find(self, patterns: Iterable[str], prefixes: Sequence[str] = ("",)) -> list[list[str]]:
        """Raw keys that each pattern matches, patterns without a match left out."""
        found = []
        for pattern in patterns:
            names = [name for prefix in prefixes for name in self._matches(prefix + pattern)]
            if names:
                found.append([self.raw[name] for name in dict.fromkeys(names)])
        return found

    def leave_out(self, keys: Sequence[str]) -> None:
        """Takes raw keys out of those that are found."""
        self.raw = {name: key for name, key in self.raw.items() if key not in keys}
        self.keys = tuple(key for key in self.keys if key not in keys)

    def columns(self, keys: Sequence[str], what: str) -> list[np.ndarray]:
        """The columns, shape (n,) each, of raw keys that make one quantity together; no trainer has hundreds."""
        if len(keys) > MAX_COLUMNS:
            raise LogReadError(
                f"expected at most {MAX_COLUMNS} {what}, found {len(keys)}, such as {listed(keys, 3)}; name one "
                f"with {MENDING} in a file without the others",
                mended_by=column("reward"),
            )
        return [self.table.column(key) for key in keys]

    def merged(self, keys: Sequence[str]) -> np.ndarray:
        """The first number of each row under some raw keys, shape (n,)."""
        none = np.full(self.table.n, np.nan)
        return reduce(lambda x, key: np.where(np.isfinite(x), x, self.table.column(key)), keys, none)

    def first(self, patterns: Iterable[str], prefixes: Sequence[str] = ("",)) -> str | None:
        """The first raw key of the first pattern that matches."""
        found = self.find(patterns, prefixes)
        return found[0][0] if found else None

    def named(self, key: str, name: str) -> str:
        """The raw key that a user named for a canonical name; an error where the log has no number under it."""
        if key in self.table and self.table.has_numbers(key):
            return key
        if normal(key) in self.raw:
            return self.raw[normal(key)]
        state = "has no number in it" if key in self.table else "is not in the log"
        raise LogReadError(
            f"expected a key with numbers for {name}, found that {clean(key)!r} {state}; the numeric keys are "
            f"{listed(self.keys)}; pass one of these",
            parameter="columns",
        )

    def _matches(self, pattern: str) -> list[str]:
        if "*" not in pattern:
            return [pattern] if pattern in self.raw else []
        regex = re.compile(re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*"))
        return sorted(name for name in self.raw if regex.fullmatch(name))


@lru_cache(maxsize=4096)
def normal(key: str) -> str:
    """A key in English and lower case, words joined by "_", no spaces round "/"."""
    return "/".join("_".join(part.split()) for part in in_english(key).lower().split("/"))


_ENGLISH = {
    "平均": "mean", "均值": "mean", "奖励": "reward", "标准差": "std", "总": "total", "训练": "train", "验证": "eval",
    "评估": "eval", "测试": "eval", "步数": "step", "步骤": "step", "步": "step", "轮次": "epoch", "损失": "loss",
    "学习率": "learning_rate", "梯度范数": "grad_norm", "准确率": "accuracy",
    "答案正确率": "accuracy", "正确率": "accuracy", "长度": "length", "回复": "response",
    "响应": "response", "生成": "completion", "截断": "truncated", "比例": "ratio", "比": "ratio", "率": "ratio",
    "KL散度": "kl", "kl散度": "kl", "熵": "entropy", "区间": "interval",
    "평균": "mean", "보상": "reward", "단계": "step", "스텝": "step", "구간": "interval", "손실": "loss",
    "정확도": "accuracy", "길이": "length", "報酬": "reward", "ステップ": "step", "損失": "loss",
}  # fmt: skip
"""Chinese, Korean and Japanese words for what a training logs; a longer one stands before those in it."""
_OTHER_WORDS = {
    "schritt": "step", "schritte": "step", "durchlauf": "iteration", "belohnung": "reward", "verlust": "loss",
    "mittlere": "mean", "mittelwert": "mean", "durchschnittliche": "mean", "länge": "length", "genauigkeit": "accuracy",
    "étape": "step", "étapes": "step", "etape": "step", "pas": "step", "itération": "iteration",
    "récompense": "reward", "recompense": "reward", "moyenne": "mean", "perte": "loss", "longueur": "length",
    "paso": "step", "pasos": "step", "iteración": "iteration", "recompensa media": "mean reward",
    "recompensa_media": "mean_reward", "recompensa": "reward", "ricompensa media": "mean reward",
    "adım": "step", "ödül": "reward", "kayıp": "loss", "bước": "step", "phần thưởng": "reward",
    "pérdida": "loss", "perdida": "loss", "entropía": "entropy", "entropie": "entropy", "entropia": "entropy",
    "passo": "step", "passos": "step", "perda": "loss", "ricompensa": "reward", "perdita": "loss",
    "шаг": "step", "шаги": "step", "итерация": "iteration", "эпоха": "epoch", "награда": "reward", "награды": "reward",
    "вознаграждение": "reward", "средняя": "mean", "среднее": "mean", "потери": "loss", "потеря": "loss",
    "энтропия": "entropy", "длина": "length", "точность": "accuracy",
}  # fmt: skip
"""German, French, Spanish, Portuguese, Italian and Russian words for what a training logs, whole words in a name."""
_OTHER = re.compile(rf"(?<![^\W_])(?:{'|'.join(_OTHER_WORDS)})(?![^\W_])", re.IGNORECASE)
_WORDS = re.compile("|".join(_ENGLISH))
_NAMES = re.compile(f"(?:{'|'.join(_ENGLISH)})+")
_NTH_STEP = re.compile(r"(?:第\s{0,4}(?=\d{1,12}\s{0,4}步)|(?<=[\[(]))(\d{1,12})\s{0,4}(?:步|스텝|단계|ステップ)")


def in_english(text: str) -> str:
    """A key or a line of text with East Asian and European names of what a training logs in English."""
    text = _NTH_STEP.sub(r"step \1", text).replace("：", ":").replace("，", ", ")
    text = _NAMES.sub(lambda found: "_".join(_ENGLISH[word] for word in _WORDS.findall(found[0])), text)
    return _OTHER.sub(lambda found: _OTHER_WORDS.get(found[0].lower(), found[0]), text)


_KIND = re.compile(r"(?:^|[/_.\s])(?:type|split|phase|mode|stage|kind|event|subset|partition)$", re.IGNORECASE)
"""Keys whose text says what a row is of, such as "split" and "log_type"."""
_TRAIN = re.compile(r"(?:.{0,31}[-_/ ])?(?:train|training|rollouts?)", re.IGNORECASE)
_FLAG = re.compile(r"(?:^|[/_.])(?:is_)?(?:eval|evaluation|val|validation|test|held[-_]?out)$", re.IGNORECASE)
"""Keys whose truth value says whether a row is of an evaluation."""
_LONGEST_KIND = 32
"""Characters from which on a text says more than a kind, such as a completion."""
_EVALUATION = re.compile(r"(?:eval|evaluate|evaluation|val|valid|validation|validate|test|dev|held[-_ ]?out)", re.I)
_CONTEXT_KEYS = re.compile(
    r"(?:steps?|epochs?|iter|iterations?|updates?|rollouts?|batch|time|seconds)$"
    r"|(?:^|[/_])(?:eval|val|valid|validation|test|dev)(?:[/_]|$)"
)
"""Keys that count, and keys that say by themselves what they are of."""


def is_kind(key: str) -> bool:
    """True if the text under a key says what a row is of, such as "split"."""
    return _KIND.search(key) is not None


def marked_evaluation(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row as it is, or that of an evaluation with "eval/" before the keys of what was measured."""
    for key, value in row.items():
        known = _FLAG if value is True else _KIND
        if (value is True or _is_evaluation(value)) and type(key) is str and known.search(key):
            return of_evaluation(row)
    return row


def of_evaluation(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of an evaluation with "eval/" before the keys of what was measured."""
    return {_key_of_evaluation(k): v for k, v in row.items()}


def _key_of_evaluation(key: str) -> str:
    unchanged = _KIND.search(key) or _CONTEXT_KEYS.search(normal(key)) or _FLAG.search(key)
    return key if unchanged else f"eval/{key}"


def table_of_rows(rows: Iterable[Mapping[str, Any]]) -> Table:
    """A table of records; those of an evaluation get keys of their own.

    A text such as "gsm8k_test" says so under a key of any name where all other texts under it are of training.
    """
    evaluations: dict[str, list[int]] = {}
    trained: set[str] = set()
    other: set[str] = set()

    def marked() -> Iterator[Mapping[str, Any]]:
        for place, row in enumerate(map(marked_evaluation, rows)):
            for key, value in row.items():
                if type(value) is not str or type(key) is not str or key in other:
                    continue
                if _ends_as_evaluation(value):
                    evaluations.setdefault(key, []).append(place)
                elif len(value) < _LONGEST_KIND and _TRAIN.fullmatch(value.strip()):
                    trained.add(key)
                elif value.strip():
                    other.add(key)
            yield row

    table = Table.from_rows(marked())
    found = [place for key in trained - other for place in evaluations.get(key, ())]
    return table.moved(np.isin(np.arange(table.n), found), _key_of_evaluation) if found else table


def with_evaluation_keys(columns: dict[str, Any]) -> Table:
    """A table of whole columns, lists or arrays of one length; an evaluation's rows get keys of their own."""
    texts = (values for values in columns.values() if isinstance(values, list))
    if any(map(_ends_as_evaluation, {x for values in texts for x in values if type(x) is str})):
        return table_of_rows(records_of_columns(columns))
    return Table.from_columns(columns)


def records_of_columns(columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of whole columns, lists or arrays of one length."""
    lists = [without_nan(v) if isinstance(v, np.ndarray) else v for v in columns.values()]
    return (dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True))


def without_nan(values: np.ndarray) -> list[Any]:
    """An array's values as a list; NaN, which stands for a missing value in arrays and frames, as None."""
    return [None if x != x else x for x in values.tolist()]


def _ends_as_evaluation(value: str) -> bool:
    """True if a text, or the last word of it, names an evaluation."""
    if len(value) >= _LONGEST_KIND:
        return False
    return _is_evaluation(value) or _is_evaluation(re.split(r"[-_/ ]", value.strip())[-1])


def _is_evaluation(value: Any) -> bool:
    return type(value) is str and len(value) < _LONGEST_KIND and _EVALUATION.fullmatch(value.strip()) is not None
