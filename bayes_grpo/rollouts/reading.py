"""`read_rollouts`: a folder of rollouts in, columns out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, LogReadError, SettingError
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.common.text import clean, listed
from bayes_grpo.rollouts.completions import COLUMN_KINDS, UNKNOWN, Gatherer, TableColumns
from bayes_grpo.rollouts.files import RolloutFile, RolloutPath, SkippedRecords
from bayes_grpo.rollouts.formats import RECORD_FORMATS, RecordFormat
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.rollouts.tables import PlainTable

FORMATS: Mapping[str, RecordFormat | PlainTable] = MappingProxyType(
    {x.name: x for x in sorted((*RECORD_FORMATS, PlainTable()), key=lambda x: x.name)}
)
"""Every format by name, in the order of names."""
_LAST = PlainTable.name
_SHARE = 0.999
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def read_rollouts(
    path: str | Path,
    *,
    format: str | None = None,
    split: str = "train",
    columns: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Rollouts:
    """Reads the completions that a trainer saved, in the order of their steps.

    Memory grows by about 40 bytes a completion, whatever its text: texts are dropped as they are read, and prompts are
    kept as hashes from which none can be read.

    Args:
        path: A folder of rollouts, or a single file.
        format: Format to read it as, where several fit.
        split: "train" or "eval"; what there is where a folder holds one of both only.
        columns: For a plain table: a column of `COLUMN_KINDS` → the table's own name for it.
        weights: Reward function → weight, where a trainer saves functions and no total.
        progress: Called with a short phrase now and then.

    Raises:
        LogReadError: Nothing is recognised, several formats fit, or no record has a reward.
        SettingError: An unknown format, split or column.
        MissingExtraError: The format needs pyarrow.
    """
    _check(format, split, columns)
    place = RolloutPath(Path(path))
    name, files = _recognised(place, format)
    files, notes = _chosen(files, split)
    skipped = SkippedRecords()
    options = TableColumns(columns or {}, weights or {})
    gatherer = Gatherer(skipped)
    progress = or_silent(progress)
    for i, file in enumerate(files):
        if i % max(1, len(files) // 100) == 0:
            progress(f"reading file {i + 1} of {len(files)}")
        for completion in FORMATS[name].read(file, options, skipped):
            gatherer.add(completion)
    if not gatherer.size:
        raise LogReadError(
            f"{place.root}: expected completions with rewards, found none in {len(files)} files of {name} "
            f"({listed(skipped.notes())}); name the columns, or check that the trainer saved rewards"
        )
    order = np.argsort(gatherer.columns["step"], kind="stable")
    found = {k: np.array(v)[order] for k, v in gatherer.columns.items()}
    parts = {k: v[order] for k, v in gatherer.parts().items()}
    group, unknown = _groups(found)
    notes += [*skipped.notes(), *unknown]
    if FORMATS[name].drops_constant:
        notes.append("the trainer omits zero-variance groups from these files, so shares of useful groups are unknown")
    known = group >= 0
    advantage = parts.pop("advantage", None)
    if advantage is not None and _agreement(found["reward"][known], advantage[known], group[known]) < _SHARE:
        notes.append("the sum of the reward functions does not give the saved advantages; state their weights")
    return Rollouts(
        name=clean(place.root.name or place.root.resolve().name),
        source=clean(place.root, 300),
        format=name,
        split=files[0].split,
        step=found["step"].astype(np.int32),
        policy_version=found["version"],
        prompt=found["prompt"],
        group=group,
        reward=found["reward"],
        parts=parts,
        truncated=found["truncated"],
        answer=found["answer"],
        length=found["length"],
        files=len(files),
        bytes=sum(file.path.stat().st_size for file in files),
        notes=tuple(notes),
    )


def _check(format: str | None, split: str, columns: Mapping[str, str] | None) -> None:
    known = (
        ("format", format or _LAST, FORMATS),
        ("split", split, ("train", "eval")),
        *(("columns", name, COLUMN_KINDS) for name in columns or {}),
    )
    for what, given, allowed in known:
        if given not in allowed:
            text = f"expected one of {', '.join(allowed)}, found {clean(given)!r}; correct it"
            raise SettingError(text, parameter=what)


def _recognised(place: RolloutPath, format: str | None) -> tuple[str, Sequence[RolloutFile]]:
    """The format of a folder and its files: the one that fits, a plain table where no other does."""
    names = [format] if format else [name for name in FORMATS if name != _LAST]
    fitting = {name: files for name in names if (files := FORMATS[name].sniff(place))}
    if not fitting and not format and (files := FORMATS[_LAST].sniff(place)):
        fitting = {_LAST: files}
    if not fitting:
        expected = format or ", ".join(FORMATS)
        raise LogReadError(
            f"{place.root}: expected rollouts of {expected}, found {listed(list(place.files)[:50], 5)}; give the "
            "folder that the trainer wrote, or a table with the columns step, prompt_id and reward"
        )
    if len(fitting) > 1:
        raise LogReadError(
            f"{place.root}: expected rollouts of one format, found {listed(fitting)}; give the folder of one of them, "
            f"or choose with {MENDING}",
            mended_by=Argument("format"),
        )
    ((name, files),) = fitting.items()
    return name, sorted(files, key=lambda p: (p.step is None, p.step or 0.0, p.path))


def _chosen(files: Sequence[RolloutFile], split: str) -> tuple[Sequence[RolloutFile], list[str]]:
    """Files of the split wanted, or of the one there is; what was not read, in words."""
    kept = [x for x in files if x.split == split]
    others = sorted({x.split for x in files} - {split})
    if not kept:
        return [x for x in files if x.split == others[0]], [f"split: no {split} files, read {others[0]}"]
    return kept, [f"split: read {split}, left out {listed(others)}"] if others else []


def _groups(found: Mapping[str, np.ndarray]) -> tuple[np.ndarray, list[str]]:
    """Numbers of groups in the order of steps, shape (n,); -1 where nothing tells them."""
    step, label, prompt = found["step"], found["group"], found["prompt"]
    key = np.where(label != 0, label, prompt)
    known = key != 0
    out = np.full(len(step), UNKNOWN, np.int32)
    if known.any():
        # One number for step and key: a product that wraps spreads the steps over all 64 bits.
        both = key[known] + np.searchsorted(np.unique(step), step[known]).astype(np.uint64) * _SPREAD
        _, first, place = np.unique(both, return_index=True, return_inverse=True)
        out[known] = np.argsort(np.argsort(first))[place]
    lost = f"{int(np.sum(~known))} completions tell" if known.any() else "no record tells"
    return out, [] if known.all() else [f"{lost} neither prompt nor group"]


def _agreement(reward: np.ndarray, advantage: np.ndarray, group: np.ndarray) -> float:
    """Correlation within groups of what are to be one up to a scale; 1 where nothing varies."""
    n = np.maximum(np.bincount(group), 1)

    def mean(x: np.ndarray) -> np.ndarray:
        return (np.bincount(group, x) / n)[group]

    x, y = (values - mean(values) for values in (reward, np.nan_to_num(advantage)))
    of_x, of_y = mean(x**2), mean(y**2)
    vary = of_x > 1e-12
    return float(np.mean((x * y / np.sqrt(np.maximum(of_x * of_y, 1e-24)))[vary])) if vary.any() else 1.0
