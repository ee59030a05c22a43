"""Keys of a log that nothing was made of: why, and what they may be."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher

import numpy as np

from bayes_grpo.logs.columns import MOVING, Columns
from bayes_grpo.logs.keyindex import CALLBACK_PREFIX, normal
from bayes_grpo.logs.reward_parts import OF_EVALUATION, TASK_PART, is_form
from bayes_grpo.logs.table import Table

NO_NUMBER = "no number in it"
NO_SIGNAL = "no known signal"
NOT_COMPUTED = "0 in every row, so not computed"
OURS = "written by bayes-grpo"
EVALUATION = "of an evaluation, and not its mean reward"
OF_BLOCK = "of the evaluation that is read, and not its score"
_REASONS = (EVALUATION, OF_BLOCK, NO_SIGNAL, NOT_COMPUTED, NO_NUMBER, OURS)
COUNTS = re.compile(r"(?:^|[/_])(?:steps?|epoch|iteration|iter|_?timestamp|_?runtime|batch|episode|progress)$")


def unused_keys(columns: Columns, used: Iterable[str], read_otherwise: Iterable[str] = ()) -> dict[str, str]:
    """Raw key → why it was not used, in the order of the log.

    ``used`` are canonical names; of the raw keys ``read_otherwise`` something else was made, as of settings.
    """
    table = columns.index.table
    taken = {*read_otherwise, *(key for name in used for key in columns.raw[name])}
    moving = {key for name in MOVING for key in columns.raw.get(name, ())}
    unused = {}
    for key in (key for key in table.keys if key not in taken):
        name = normal(key)
        why = EVALUATION if OF_EVALUATION.search(name) else NO_SIGNAL
        if CALLBACK_PREFIX in name:
            why = OURS
        elif not table.has_numbers(key):
            why = NO_NUMBER
        elif key in moving and not np.nan_to_num(table.column(key)).any():
            why = NOT_COMPUTED
        elif key in columns.evaluated:
            why = OF_BLOCK
        unused[key] = why
    return unused


def grouped_by_reason(unused: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason → keys, the most telling reason first."""
    groups = {why: [key for key, x in unused.items() if x == why] for why in _REASONS}
    return {why: keys for why, keys in groups.items() if keys}


_CUT = r"trunc|cut_off|max_len|no_eos|(?:hit|at|reached)_(?:\w{1,20}_)?(?:limit|cap|max)"
_LOOKS_LIKE: Mapping[str, tuple[str, float, float]] = {
    "heldout": (
        r"^(?!.*(?:loss|(?:^|[^a-z])ratio|clip|entropy|approx_?kl|tokens|length|time)).*"
        r"(?:eval(?!uate_response)|bench|held|(?:^|[/_])(?:val|test|dev)(?:[/_]|$))",
        -math.inf,
        math.inf,
    ),
    "entropy": (r"^(?!.*coef).*(?:(?:^|[^a-z])ent(?:$|[^a-z])|entropy)", 0.0, 20.0),
    "kl": (r"^(?!.*(?:sampl|rollout|infer|time|ppo)).*(?:(?:^|[^a-z])kl|diverg)", -1.0, math.inf),
    "grad_norm": (r"^(?!.*(?:no_grad|without|groups)).*grad(?!e)|gnorm", 0.0, math.inf),
    "completion_length": (r"len|tokens", 1.0, 1e6),
    "clip_ratio": (r"clip", 0.0, 1.0),
    "learning_rate": (r"(?:^|[^a-z])lr(?:$|[^a-z])|learning", 0.0, 0.1),
    "loss": (r"loss|objective", -math.inf, math.inf),
    "accuracy": (r"(?<!j)acc|correct|solve|success|pass(?!_?(?:at_?|@)(?!1(?!\d)))", 0.0, 1.0),
    "reward_std": (r"^(?!.*(?:zero|frac|adv|token|len)).*(?:std|spread)", 0.0, math.inf),
    "frac_reward_zero_std": (r"(?<!non)(?<!non_)zero|flat|degenerate|no_spread", 0.0, 1.0),
    "completions_clipped_ratio": (_CUT, 0.0, 1.0),
    "gold_reward": (r"gold|true", -math.inf, math.inf),
    "staleness": (r"stale|(?:^|[^a-z])lag(?:$|[^a-z])|[a-z]_age$", 0.0, math.inf),
}
"""Column → words of keys that may be it, and the range that its values have."""
_SUGGESTED = 2
_LOWER_IS_BETTER = re.compile(
    r"loss|error|violat|perplex|ppl|(?:^|[^a-z])[wc]er(?:$|[^a-z])|fail|invalid|toxic|halluc|regret|mistake|wrong|refus|false_"
)
"""Words of what is no reward, held out or not: less of it is better."""
_SCORE = re.compile(r"(?<!j)acc|correct|solve|success|pass_?(?:at|@)")


def suggested_keys(table: Table, unused: Mapping[str, str], known: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Column that was not recognized → unused keys whose name and range fit it, the closest first."""
    free = [k for k, why in unused.items() if why in (NO_SIGNAL, EVALUATION) and not COUNTS.search(normal(k))]
    ranges = {key: (float(np.nanmin(x)), float(np.nanmax(x))) for key in free if len(x := table.column(key))}
    found = {}
    for name, (words, low, high) in _LOOKS_LIKE.items():
        if name in known:
            continue
        fits = [k for k in free if normal(k) != name and re.search(words, normal(k))]
        fits = [k for k in fits if low <= ranges[k][0] < ranges[k][1] <= high]
        if name == "heldout":  # scores of seldom rows are those of an evaluation
            fits = [k for k in fits if not _LOWER_IS_BETTER.search(normal(k))]
            scores = [k for k in free if _SCORE.search(normal(k)) and ranges[k][1] <= 1.0 and k not in fits]
            fits += [k for k in scores if 1 < int(np.isfinite(table.column(k)).sum()) <= table.n // 2]
        fits = [k for k in fits if name in ("heldout", "accuracy") or not OF_EVALUATION.search(normal(k))]
        fits = [k for k in fits if name in ("reward_std", "frac_reward_zero_std") or not normal(k).endswith("std")]
        fits = [k for k in fits if name != "accuracy" or not is_form(TASK_PART.sub("", normal(k)))]
        fits.sort(key=lambda k, name=name: -SequenceMatcher(None, normal(k).rpartition("/")[2], name).ratio())
        if name == "heldout":
            fits.sort(key=lambda k: not _SCORE.search(normal(k)))
        if fits:
            found[name] = tuple(fits[:_SUGGESTED])
    return found
