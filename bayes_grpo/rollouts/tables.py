"""A plain table: CSV, also gzip, Parquet or JSON lines with a column for the step and one for the reward.

Further columns: prompt_id, group, policy_version, truncated under usual names. Numbers of samples, lengths and
advantages are left out; all other numbers are parts of the reward, or what was measured with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.table import to_float
from bayes_grpo.rollouts.completions import Completion, TableColumns, count, scalars_in, was_cut
from bayes_grpo.rollouts.files import RolloutFile, RolloutPath, SkippedRecords, records_of

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "training_step", "train_step", "global_step", "iteration", "rollout_step"),
    "reward": ("reward", "total_reward", "score", "rewards", "reward_total"),
    "prompt": (
        "prompt_id", "prompt_hash", "question_id", "problem_id", "example_id", "task_id", "prompt_idx", "prompt",
        "input_prompt",
    ),
    "group": ("group", "group_id", "group_idx", "group_index", "uid"),
    "version": ("policy_version", "weight_version", "version", "sampling_client_step"),
    "truncated": ("truncated", "is_truncated", "clipped", "finish_reason", "stop_reason"),
    "answer": ("answer", "completion", "response", "output", "output_response"),
    "length": (
        "completion_tokens", "response_length", "n_tokens", "completion_length", "length", "clen_chars", "clen_tokens",
    ),
}  # fmt: skip
"""Column of a block → names under which tables have it, the first that is there."""
_NOT_PARTS = frozenset((
    "advantage", "advantages", "index", "idx", "seed", "__index_level_0__", "unnamed: 0", "sample", "sample_idx",
    "sample_id", "traj_idx", "trajectory_index",
))  # fmt: skip
"""Numbers that are no parts of the reward: of samples, advantages."""


class PlainTable:
    """The format of a table that anyone may have made."""

    name = "plain_table"
    drops_constant = False

    def sniff(self, place: RolloutPath) -> list[RolloutFile]:
        """The file that is given, or the only one of a folder, where its name is that of a table."""
        found = place.named(r"[^/]+\.(?:csv|csv\.gz|tsv|parquet|jsonl|jsonl\.gz)")
        return [RolloutFile(path) for path, _ in found if len(place.files) == 1]

    def read(self, file: RolloutFile, options: TableColumns, skipped: SkippedRecords) -> Iterator[Completion]:
        """Completions of a table; an error where it has no column of rewards, or not the one named."""
        names: dict[str, None] = {}
        columns: dict[str, str] = {}
        no_parts: set[str] = set()
        for row in records_of(file.path, skipped):
            if not row.keys() <= names.keys():  # records of JSON lines need not have all keys
                names |= dict.fromkeys(row)
                columns = _usual_columns(names) | dict(options.columns)
                no_parts = {*columns.values(), *(x for x in names if _normal(x) in _NOT_PARTS or _normal(x) in _USUAL)}
            known = {ours: x for ours, name in columns.items() if (x := row.get(name)) == x}  # but NaN
            yield Completion(
                step=to_float(known.get("step")) if "step" in columns else 0.0,  # without steps all is of one
                reward=to_float(known.get("reward")),
                prompt=_label(known.get("prompt")),
                group=_label(known.get("group")),
                version=count(to_float(known.get("version"))),
                truncated=was_cut(known.get("truncated")),
                answer=known.get("answer"),
                length=to_float(known.get("length")),
                parts=scalars_in(row, no_parts),
            )
        if missing := [x for x in options.columns.values() if x not in names]:
            raise LogReadError(
                f"{file.path}: expected a column {clean(missing[0])!r}, found {listed(names, 20)}; correct its name"
            )
        if "reward" not in columns:
            raise LogReadError(
                f"{file.path}: expected a column of rewards ({', '.join(USUAL_NAMES['reward'])}), found "
                f"{listed(names, 20)}; name it with {MENDING}",
                mended_by=Argument("columns", "NAME", "reward"),
            )


_USUAL = frozenset(name for names in USUAL_NAMES.values() for name in names)


def _normal(name: str) -> str:
    return name.strip().lower()


def _usual_columns(names: Iterable[str]) -> dict[str, str]:
    """Column of a batch → name in the table."""
    lower = {_normal(name): name for name in reversed(list(names))}
    found = {ours: next((lower[x] for x in theirs if x in lower), None) for ours, theirs in USUAL_NAMES.items()}
    return {ours: name for ours, name in found.items() if name is not None}


def _label(value: Any) -> Any:
    """A prompt or group; numbers in a column that lacks some are floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
