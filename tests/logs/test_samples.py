"""Everything that is read of small logs, as people write and paste them, is what it was."""

from pathlib import Path

import pytest

from tests.helpers.samples import Sample, samples_in, written
from tests.logs.samples import FOLDER, description_of

FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_read_of_a_sample(path: Path, tmp_path: Path):
    wrong = {}
    for sample in samples_in(path):
        found = description_of(sample, tmp_path)
        if found != sample.expected:
            wrong[sample.name] = f"\n{sample.expected}\n---- and now\n{found}"
    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())


def test_samples_survive_being_written_and_differ():
    samples = [x for path in FILES for x in samples_in(path)]
    assert len(samples) > 100
    assert len({x.name for x in samples}) == len(samples)
    assert all(x.expected for x in samples)
    for path in FILES:
        assert written(samples_in(path)) == path.read_text(encoding="utf-8")


def test_a_changed_value_is_seen(tmp_path: Path):
    rows = "step,reward\n1,0.5\n2,0.75\n"
    one, other = (description_of(Sample("", "a.csv", {}, text), tmp_path) for text in (rows, rows.replace("7", "6")))
    assert one != other
    assert description_of(Sample("", "a.csv", {}, "step\n"), tmp_path).startswith("refused: a.csv: ")
