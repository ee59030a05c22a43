"""verl: ``trainer.rollout_data_dir`` and ``validation_data_dir``, ``<step>.jsonl`` each (volcengine/verl PR 916)."""

from __future__ import annotations

from collections.abc import Iterator

from bayes_grpo.rollouts.completion import Completion, count, scalar_of, scalars_in, was_cut
from bayes_grpo.rollouts.lines import LeftOut, json_lines
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "verl"
_OWN = ("step", "score", "input", "output", "gts", "uid", "response_length", "truncated", "advantage")


def sniff(place: Place) -> list[RolloutFile]:
    """Files named by a step whose records have input, output and score."""
    found = place.lines_with("input", "output", "score", pattern=r"(\d+)\.jsonl(?:\.gz)?")
    return [RolloutFile(path, float(match[1]), place.split(path)) for path, match in found]


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[Completion]:
    """One completion a line; numeric extras of the reward function are parts."""
    for r in json_lines(part.path, damage):
        step = scalar_of(r.get("step"))
        yield Completion(
            step=step if step >= 0 else part.step if part.step is not None else float("nan"),
            reward=scalar_of(r.get("score")),
            prompt=r.get("input"),
            group=r.get("uid"),
            length=count(r["response_length"]) if "response_length" in r else _characters(r.get("output")),
            truncated=was_cut(r.get("truncated", r.get("finish_reason"))),
            parts=scalars_in(r, *_OWN),
            output=r.get("output"),
            answer=r.get("gts"),
        )


def _characters(text: object) -> int:
    return len(text) if isinstance(text, str) else -1
