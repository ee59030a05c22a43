"""Logs with one known trouble each, or with none, and everything that a diagnosis says of them: ``samples/``.

python -m tests.diagnosis.samples [WORD ...]     diagnoses them again, of files with a word in the name
"""

from collections.abc import Iterator
from pathlib import Path

from bayes_grpo import Diagnosis, diagnose, read_log
from tests.helpers.samples import Sample, retake

FOLDER = Path(__file__).parent / "samples"
_LEAST = 0.02
"""Smallest probability of a mode that is written out."""


def description_of(sample: Sample, folder: Path) -> str:
    """What a diagnosis says of a sample."""
    return "\n".join(_described(diagnose(read_log(sample.write(folder), **sample.options))))


def _described(found: Diagnosis) -> Iterator[str]:
    """A diagnosis as lines: status, finding, actions, chances, evidence, what is missing."""
    status = found.status
    yield f"{status.status}: {status.finding.kind}, {status.action.kind}"
    yield status.sentence
    yield found.sentence
    yield f"do now: {status.action.sentence}"
    yield from (f"then: {action.sentence}" for action in status.actions)
    if status.past:
        yield status.past
    chances = [f"{mode} {p:.2f}" for mode, p in found.probability.items() if p >= _LEAST]
    yield f"chances: {', '.join(chances)}"
    yield from (f"{mode} since step {onset.step.median:.0f}" for mode, onset in found.onsets.items())
    yield from (f"evidence of {name}: {text}" for name, text in found.evidence.items())
    yield from (f"remedy of {mode}: {actions[0].sentence}" for mode, actions in found.remedies.items() if actions)
    if found.missing or found.empty:
        yield f"missing: {', '.join(found.missing)}; empty: {', '.join(found.empty)}"
    yield from (f"note: {note}" for note in found.notes)


if __name__ == "__main__":
    retake(FOLDER, description_of)
