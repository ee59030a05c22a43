"""Small logs as people write and paste them, each with everything that is read of it: ``samples/``.

python -m tests.logs.samples [WORD ...]     reads the samples again, of files whose name has one of the words
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs import Run, read_log
from tests.helpers.samples import Sample, retake

FOLDER = Path(__file__).parent / "samples"
_LONGEST = 40
"""Rows of a list that is written out."""


def description_of(sample: Sample, folder: Path) -> str:
    """What is read of a sample, or the sentence that refuses it."""
    try:
        return "\n".join(_described(read_log(sample.write(folder), **sample.options)))
    except BayesGrpoError as error:
        return f"refused: {error}".replace(f"{folder}/", "")


def _described(run: Run) -> Iterator[str]:
    """A run as lines: its rows, what each column is read from, settings that are not assumed, notes."""
    yield f"{run.format}: {run.step_counter} {_steps(run.step)}"
    yield f"reward: {_values(run.reward)}"
    if np.any(run.window != 1.0):
        yield f"window: {_values(run.window)}"
    if run.has_eval:
        yield f"evaluation: {_values(run.eval_reward)} at {_steps(run.eval_step)}"
    for kind in ("signals", "components", "environments"):
        for name, values in sorted(getattr(run, kind).items()):
            yield f"{kind[:-1]} {name}: {_values(values)}"
    known = {name: x for name, x in run.settings.items() if x.value is not None}
    said = [f"{name} {x.value} ({x.provenance})" for name, x in known.items() if x.provenance != "assumed"]
    facts = {
        "keys": dict(run.keys),
        "definitions": {k: v for k, v in run.definitions.items() if v not in ("standard", "unknown")},
        "settings": said,
        "not finite at": {name: run.step[x].tolist() for name in run.logged if np.any(x := run.not_finite(name))},
        "second counter": run.second_counter and [run.second_counter[0], _values(run.second_counter[1])],
        "trainings": [x.text + " *" * x.taken for x in run.trainings],
        "resumes": list(run.resumes),
        "suggested": {k: list(v) for k, v in run.suggested.items()},
        "unused": list(run.unused),
    }
    for name, value in facts.items():
        if value:
            yield f"{name}: {json.dumps(value, ensure_ascii=False)}"
    yield from (f"note: {note}" for note in run.notes)


def _steps(step: np.ndarray) -> str:
    if len(step) > 2 and np.all(np.diff(step) == step[1] - step[0]):
        return f"{step[0]:g} to {step[-1]:g} by {step[1] - step[0]:g}"
    return _values(step)


def _values(values: np.ndarray) -> str:
    """Numbers to six digits; one that stands in every row once, and of a long list every so many and the mean."""
    if len(values) > 2 and len(np.unique(values)) == 1:
        return f"{values[0]:.6g} in {len(values)} rows"
    if len(values) <= _LONGEST:
        return " ".join(f"{x:.6g}" for x in values)
    shown = values[:: -(-len(values) // _LONGEST)]
    return f"{len(values)} values, mean {np.nanmean(values):.6g}: {_values(shown)}"


if __name__ == "__main__":
    retake(FOLDER, description_of)
