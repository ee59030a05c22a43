"""AReaL: dumps of rollouts, JSON lines with the versions of the policy at a completion's first and last token."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayes_grpo.rollouts.completion import Completion, count, scalar_of, scalars_in, was_cut
from bayes_grpo.rollouts.lines import LeftOut, json_lines
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "areal"
_OWN = ("task_id", "sample_idx", "head_version", "tail_version", "reward", "seqlen", "prompt_len", "step", "version")
_VERSION = re.compile(r"(?:^|/)(?:step_?|v|version_?)?(\d+)(?:/|\.jsonl)")


def sniff(place: Place) -> list[RolloutFile]:
    """Records with task_id, sample_idx and head_version."""
    parts = []
    for path, _ in place.lines_with("task_id", "sample_idx", "reward", "head_version"):
        named = _VERSION.search(path.relative_to(place.root.parent).as_posix())
        parts.append(RolloutFile(path, float(named[1]) if named else None, place.split(path)))
    return parts


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[Completion]:
    """One completion a line; its step is the record's, else the file's, else the version that finished it."""
    for r in json_lines(part.path, damage):
        stated, tail = scalar_of(r.get("step")), scalar_of(r.get("tail_version", r.get("head_version")))
        whole, given = count(r.get("seqlen")), count(r.get("prompt_len"))
        output = r.get("completion")
        text = len(output) if isinstance(output, str) else -1
        yield Completion(
            step=stated if stated >= 0 else part.step if part.step is not None else tail,
            reward=scalar_of(r.get("reward")),
            prompt=r.get("prompt", r.get("task_id")),
            group=r.get("task_id"),
            sample=count(r.get("sample_idx")),
            version=count(r.get("head_version")),
            length=whole - given if whole > given >= 0 else text,
            truncated=was_cut(r.get("truncated", r.get("stop_reason"))),
            parts=scalars_in(r, *_OWN),
            output=output,
            answer=r.get("answer"),
        )
