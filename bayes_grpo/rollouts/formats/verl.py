"""verl: ``trainer.rollout_data_dir`` and ``validation_data_dir``, ``<step>.jsonl`` each (volcengine/verl PR 916)."""

from __future__ import annotations

from collections.abc import Iterator

from bayes_grpo.rollouts.completion import Completion, count, number, numbers_in, was_cut
from bayes_grpo.rollouts.lines import Damage, json_lines
from bayes_grpo.rollouts.place import Asked, Part, Place

NAME = "verl"
_OWN = ("step", "score", "input", "output", "gts", "uid", "response_length", "truncated", "advantage")


def sniff(place: Place) -> list[Part]:
    """Files named by a step whose records have input, output and score."""
    found = place.lines_with("input", "output", "score", pattern=r"(\d+)\.jsonl(?:\.gz)?")
    return [Part(path, float(match[1]), place.split(path)) for path, match in found]


def read(part: Part, asked: Asked, damage: Damage) -> Iterator[Completion]:
    """One completion a line; numeric extras of the reward function are parts."""
    for r in json_lines(part.path, damage):
        step = number(r.get("step"))
        yield Completion(
            step=step if step >= 0 else part.step if part.step is not None else float("nan"),
            reward=number(r.get("score")),
            prompt=r.get("input"),
            group=r.get("uid"),
            length=count(r["response_length"]) if "response_length" in r else _characters(r.get("output")),
            truncated=was_cut(r.get("truncated", r.get("finish_reason"))),
            parts=numbers_in(r, *_OWN),
            output=r.get("output"),
            answer=r.get("gts"),
        )


def _characters(text: object) -> int:
    return len(text) if isinstance(text, str) else -1
