"""Formats of rollouts that are records, one a completion: JSON lines, and Parquet as TRL writes it.

A format is one entry of `RECORD_FORMATS`: where its files lie and which keys of a record mean what.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.rollouts.completions import Completion, TableColumns, count, scalar_of, scalars_in, was_cut
from bayes_grpo.rollouts.files import RolloutFile, RolloutPath, SkippedRecords, json_lines, records_of

_Record = dict[str, Any]
_LINES = r"\.jsonl(?:\.gz)?"


@dataclass(frozen=True, kw_only=True)
class RecordFormat:
    """Where a trainer writes records and what their keys mean.

    Of several keys the first that has a value counts; a dot leads into a mapping.

    Attributes:
        name: Of the format.
        paths: Ends of paths, the first that files have, with groups ``step`` and ``split`` where a path
            tells them.
        holds: Keys that the first record has to have.
        step: Keys of the step; where there is none it is the file's.
        reward: Keys of the reward; the other columns of a `Completion` likewise.
        parts: Mapping whose numbers are the parts of the reward; those of the record without a meaning if empty.
        no_parts: Numbers of a record that are no parts either.
        changed: Makes a record one that the keys fit.
        drops_constant: Whether the trainer leaves out zero-variance groups.
        refused: Why it is not read, where all files of a folder are of it.
    """

    name: str
    paths: tuple[str, ...]
    holds: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    reward: tuple[str, ...] = ("reward",)
    prompt: tuple[str, ...] = ("prompt",)
    group: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    length: tuple[str, ...] = ()
    parts: str = ""
    no_parts: tuple[str, ...] = ()
    changed: Callable[[_Record, TableColumns], _Record] = lambda record, _: record
    drops_constant: bool = False
    refused: str = ""

    @property
    def keys(self) -> frozenset[str]:
        """Top keys of a record that have a meaning."""
        columns = (*_COLUMNS, "step", "no_parts", "holds")
        return frozenset(key.split(".")[0] for name in columns for key in getattr(self, name)) | {self.parts}

    def sniff(self, place: RolloutPath) -> list[RolloutFile]:
        """Files that it would read, none where the folder is of another format."""
        found = next((x for x in map(place.named, self.paths) if x), [])
        if self.refused and len(found) < len(place.files):
            return []
        files = []
        for path, match in found:
            if self.holds and not next(json_lines(path, SkippedRecords()), {}).keys() >= {*self.holds}:
                continue
            named = match.groupdict()
            split = named.get("split") or place.split(path)
            step = None if named.get("step") is None else float(named["step"])
            files.append(RolloutFile(path, step, "train" if split == "train" else "eval"))
        return files

    def read(self, file: RolloutFile, options: TableColumns, skipped: SkippedRecords) -> Iterator[Completion]:
        """Completions of a file; one that cannot be read, or is refused, is an error."""
        if self.refused:
            raise LogReadError(f"{file.path}: {self.refused}")
        value = {name: _getter(getattr(self, name)) for name in (*_COLUMNS, "step")}
        keys = self.keys
        for raw in records_of(file.path, skipped, keys.__contains__):
            record = self.changed(raw, options)
            step = scalar_of(value["step"](record))
            if not step >= 0.0:
                step = math.nan if file.step is None else file.step
            yield Completion(
                step=step,
                reward=scalar_of(value["reward"](record)),
                prompt=value["prompt"](record),
                group=value["group"](record),
                version=count(value["version"](record)),
                truncated=was_cut(value["truncated"](record)),
                answer=value["answer"](record),
                length=scalar_of(value["length"](record)),
                parts=scalars_in(_mapping(record.get(self.parts))) if self.parts else scalars_in(record, keys),
            )


_COLUMNS = ("reward", "prompt", "group", "version", "truncated", "answer", "length")


def _getter(keys: tuple[str, ...]) -> Callable[[_Record], Any]:
    """A function that takes the first value that a record has under keys."""
    ways = [(key.split(".")[0], key.split(".")[1:]) for key in keys]

    def value(record: _Record) -> Any:
        for top, below in ways:
            found: Any = record.get(top)
            for key in below:
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None:
                return found
        return None

    return value


def _mapping(value: Any) -> _Record:
    return value if isinstance(value, dict) else {}


def _nemo_rl(record: _Record, options: TableColumns) -> _Record:
    """Turns of which the last is the completion; one text tells no prompt."""
    turns = record.get("content")
    if not (isinstance(turns, list) and len(turns) > 1):
        return record | {"prompt": None}
    return record | {"prompt": turns[:-1] if isinstance(turns[0], dict) else "\n".join(map(str, turns[:-1]))}


def _tinker(record: _Record, options: TableColumns) -> _Record:
    """Metrics of the steps of a trajectory are summed."""
    steps = [s for s in record.get("steps") or [] if isinstance(s, dict)]
    parts = scalars_in(_mapping(record.get("trajectory_metrics")))
    for step in steps:
        for name, value in scalars_in(_mapping(step.get("metrics"))).items():
            parts[name] = parts.get(name, 0.0) + value
    return record | {
        "first": steps[0] if steps else None,
        "group": (str(record.get("tags")), record.get("group_idx")),
        "stop_reason": steps[-1].get("stop_reason") if steps else None,
        "metrics": parts,
    }


def _trl(record: _Record, options: TableColumns) -> _Record:
    """The total is the sum of the reward functions by the weights that are given."""
    parts = scalars_in(record, ("step", "advantage", "advantages", "__index_level_0__"))
    known = [options.weights.get(name, 1.0) * value for name, value in parts.items() if math.isfinite(value)]
    return record | {"total of functions": sum(known) if known else None}


RECORD_FORMATS: tuple[RecordFormat, ...] = (
    RecordFormat(  # huggingface/trl PR 4818; whether the total gives the saved advantages is checked
        name="trl",
        paths=(r"completions_(?P<step>\d+)\.parquet",),
        step=("step",),
        reward=("total of functions",),
        answer=("completion",),
        no_parts=("advantages", "__index_level_0__"),
        changed=_trl,
    ),
    RecordFormat(  # volcengine/verl PR 916
        name="verl",
        paths=(rf"(?P<step>\d+){_LINES}",),
        holds=("input", "output", "score"),
        step=("step",),
        reward=("score",),
        prompt=("input",),
        answer=("output",),
        length=("response_length",),
        group=("uid",),
        truncated=("truncated", "finish_reason"),
        no_parts=("advantage", "gts"),
    ),
    RecordFormat(  # PrimeIntellect-ai/prime-rl PRs 2248 and 2983; "all" was sampled, "effective" trained on
        name="prime_rl",
        paths=(
            rf"step_(?P<step>\d+)/(?P<split>train|eval)/all/traces{_LINES}",
            rf"step_(?P<step>\d+)/(?P<split>train|eval)/effective/traces{_LINES}",
            rf"step_(?P<step>\d+)/(?P<split>train|eval)_rollouts{_LINES}",
        ),
        prompt=("example_id", "task.id", "prompt"),
        answer=("completion",),
        group=("group_id", "info.prime_rl.group_id"),
        version=("policy_version", "info.prime_rl.policy_version"),
        truncated=("is_truncated", "stop_condition", "stop_reason"),
        parts="metrics",
    ),
    RecordFormat(  # NVIDIA-NeMo/RL issue 2472; records of a prompt stand side by side
        name="nemo_rl",
        paths=(rf"(?P<split>train|val)_data_step_?(?P<step>\d+){_LINES}",),
        reward=("rewards", "reward"),
        truncated=("truncated",),
        no_parts=("idx", "step", "sample_loss_mask", "input_lengths"),
        changed=_nemo_rl,
    ),
    RecordFormat(  # thinking-machines-lab/tinker-cookbook PR 389
        name="tinker_cookbook",
        paths=(rf"iteration_(?P<step>\d+)/(?P<split>train|eval[^/]*)_rollout_summaries{_LINES}",),
        step=("iteration",),
        reward=("total_reward",),
        prompt=("first.logs.env/row_id", "first.trace.prompt.messages"),
        group=("group",),
        version=("sampling_client_step",),
        truncated=("stop_reason",),
        parts="metrics",
        changed=_tinker,
        drops_constant=True,
    ),
    RecordFormat(
        name="slime",
        paths=(r"(?:eval_)?(?P<step>\d+)\.pt",),
        refused=(
            "expected rollouts as JSON lines or a table, found a pickled torch file, which can run code when loaded; "
            "if you trust it, write its samples as JSON lines with step, prompt_id, reward: "
            "[s.to_dict() for s in torch.load(file)['samples']]"
        ),
    ),
)
