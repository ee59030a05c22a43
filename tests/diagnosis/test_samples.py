"""Everything that a diagnosis says of logs with one known trouble each is what it was."""

from pathlib import Path

import pytest

from tests.diagnosis.samples import FOLDER, description_of
from tests.frozen.compare import EXACT, difference
from tests.helpers.samples import Sample, samples_in, written

FILES = sorted(FOLDER.glob("*.txt"))
SAMPLES = [x for path in FILES for x in samples_in(path)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda x: x.name)
def test_what_is_said_of_a_sample(sample: Sample, tmp_path: Path):
    assert not (found := difference(sample.expected, description_of(sample, tmp_path), EXACT)), found


def test_samples_survive_being_written_and_differ():
    assert len({x.name for x in SAMPLES}) == len(SAMPLES) > 100
    for path in FILES:
        assert written(samples_in(path)) == path.read_text(encoding="utf-8")
