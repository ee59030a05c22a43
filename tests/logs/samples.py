"""Small logs as people write and paste them, each with everything that is read of it: files in ``samples/``.

    python -m tests.logs.samples [WORD ...]     reads the samples again, of files whose name has one of the words

A sample is its name, the name of its file and the options of the call, the text, and what was read, or refused:

    ==== a heading over several numbers | run.log | {"run": "table 1"}
    the text; control characters as \\xNN, a backslash as \\\\; without a line end behind its last line
    ----
    what was read

A new sample needs no last part: the command above writes it, and the diff says what is read.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs import Run, read_log

FOLDER = Path(__file__).parent / "samples"
_LONGEST = 40
"""Rows of a list that is written out."""
_HEAD = re.compile(r"^==== ", re.MULTILINE)
_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2}))")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\\]")


class LogSample(NamedTuple):
    """A sample: name, name of its file, options of `read_log`, text, and what is to be read."""

    name: str
    file: str
    options: dict[str, Any]
    text: str
    expected: str


def samples_in(path: Path) -> list[LogSample]:
    """The samples of a file, in order."""
    found = []
    for part in _HEAD.split(path.read_text(encoding="utf-8"))[1:]:
        head, _, rest = part.partition("\n")
        name, file, options = head.split(" | ")
        text, _, expected = rest.partition("\n----\n")
        found.append(LogSample(name, file, json.loads(options), _ESCAPED.sub(_unescaped, text), expected.strip("\n")))
    return found


def written(samples: list[LogSample]) -> str:
    """Samples as they stand in a file."""
    parts = []
    for x in samples:
        text = _CONTROL.sub(lambda m: "\\\\" if m[0] == "\\" else f"\\x{ord(m[0]):02x}", x.text)
        assert not _HEAD.search(text), f"a line of {x.name} begins as a sample does"
        assert "\n----\n" not in text, f"a line of {x.name} is the one before what is read"
        parts.append(f"==== {x.name} | {x.file} | {json.dumps(x.options)}\n{text}\n----\n{x.expected}\n")
    return "\n".join(parts)


def what_is_read(sample: LogSample, folder: Path) -> str:
    """What is read of a sample that is written to a folder, as text."""
    path = folder / sample.file
    path.write_bytes(sample.text.encode())
    try:
        return "\n".join(_described(read_log(path, **sample.options)))
    except BayesGrpoError as error:
        return f"refused: {error}".replace(f"{folder}/", "")


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else "\\"


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


def main() -> None:
    """Reads samples again."""
    words = sys.argv[1:] or [""]
    for path in sorted(FOLDER.glob("*.txt")):
        if any(word in path.stem for word in words):
            with tempfile.TemporaryDirectory() as folder:
                again = [x._replace(expected=what_is_read(x, Path(folder))) for x in samples_in(path)]
            path.write_text(written(again), encoding="utf-8")


if __name__ == "__main__":
    main()
