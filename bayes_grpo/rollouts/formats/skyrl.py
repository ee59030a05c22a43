"""SkyRL: dumps of evaluations and logged trajectories, JSON lines for each data set (NovaSky-AI/SkyRL PR 174)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayes_grpo.rollouts.completion import Completion, scalar_of, scalars_in, was_cut
from bayes_grpo.rollouts.lines import LeftOut, json_lines
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "skyrl"
_STEP = re.compile(r"global_step_?(\d+)")


def sniff(place: Place) -> list[RolloutFile]:
    """Records with input_prompt, output_response and score; the step stands in the name of a folder or file."""
    parts = []
    for path, _ in place.lines_with("input_prompt", "output_response", "score"):
        step = _STEP.search(path.as_posix())
        parts.append(RolloutFile(path, float(step[1]) if step else None, place.split(path)))
    return parts


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[Completion]:
    """One completion a line; a score of several tokens is summed."""
    for r in json_lines(part.path, damage):
        step = scalar_of(r.get("step", r.get("global_step")))
        output = r.get("output_response")
        yield Completion(
            step=step if step >= 0 else part.step if part.step is not None else 0.0,
            reward=scalar_of(r.get("score")),
            prompt=r.get("input_prompt"),
            group=r.get("uid"),
            length=len(output) if isinstance(output, str) else -1,
            truncated=was_cut(r.get("stop_reason")),
            parts=scalars_in(r, "score", "step", "global_step"),
            output=output,
            answer=r.get("ground_truth"),
        )
