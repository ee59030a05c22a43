"""The default run is short, and still touches every public function and command, every format and every regime."""

import re
from pathlib import Path

import numpy as np
import pytest
import typer.main

from bayes_grpo.cli.app import program
from bayes_grpo.logs.picking import all_readers
from bayes_grpo.regimes import REGIMES
from docs._ext.generated import public_names
from tests.dynamics import test_likelihood
from tests.helpers.pages import ROOT
from tests.helpers.samples import samples_in
from tests.helpers.selection import PIECE, few, part, rooms_of, shard
from tests.logs import test_formats
from tests.logs.test_samples import FILES
from tests.regimes import test_distribution

STUB = ROOT / "bayes_grpo" / "__init__.pyi"


def text_of(*folders: Path) -> str:
    """All Python below some folders."""
    return "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.rglob("*.py")))


def test_every_command_is_called():
    commands = getattr(typer.main.get_command(program()), "commands")  # noqa: B009
    text = text_of(ROOT / "tests")
    assert [name for name in commands if f'"{name}"' not in text] == []


def test_every_public_function_is_called_by_a_test_or_by_a_command():
    text = text_of(ROOT / "tests", ROOT / "bayes_grpo" / "cli")
    functions = {name for found in public_names(STUB).values() for _, name in found if name.islower()}
    assert len(functions) > 30
    assert [name for name in sorted(functions) if not re.search(rf"\b{name}\(", text)] == []


def test_every_format_is_read():
    samples = {x.expected.partition(":")[0] for path in FILES for x in samples_in(path)}
    text = text_of(ROOT / "tests" / "logs")
    assert [name for name in all_readers() if name not in samples and f'"{name}"' not in text] == []


@pytest.mark.parametrize(
    ("test", "cases"),
    [
        (test_distribution.test_densities_are_those_of_a_dense_normal, list(REGIMES)),
        (test_formats.test_a_cell_of_the_page, test_formats.CELLS),
        pytest.param(test_likelihood.test_filter_equals_dense_normal, [], id="none"),
    ],
)
def test_these_have_all_their_cases(test, cases):
    """Of regimes, of trainers and places; and the last shows that a case behind a mark would be seen."""
    given = [case for mark in test.pytestmark if mark.name == "parametrize" for case in mark.args[1]]
    marked = [case for case in given if getattr(case, "marks", ())]
    assert not any(mark.name in ("thorough", "slow") for mark in test.pytestmark)
    assert [c for c in given if c not in marked] == cases if cases else marked


FILES_OF_TESTS = [f"{room}/test_{i}.py" for room in ("cli", "fitting") for i in range(32) for _ in range(7)]


def test_parts_are_all_and_none_is_twice_and_have_equally_many_tests():
    found = np.array([shard(FILES_OF_TESTS, *part(f"{commit}/8")) for commit in range(41, 49)])
    assert (found.sum(axis=0) == 1).all()
    assert np.ptp(found.sum(axis=1)) <= PIECE
    assert shard(FILES_OF_TESTS, *part("49/8")) == found[0].tolist()
    for wrong in ("3", "a/3", "1/0"):
        with pytest.raises(ValueError, match=r"unpack|invalid literal|at least one part"):
            part(wrong)


def test_rooms_whose_code_changed_bring_half_as_many_tests_as_the_part_has():
    changed = ["bayes_grpo/fitting/fit.py", "bayes_grpo/report.py", "tests/rows/test_rows.py", "docs/a.md", "README.md"]
    assert rooms_of(changed) == {"fitting", "report"}
    alone, more = (
        np.array([shard(FILES_OF_TESTS, number, 8, rooms) for number in range(8)]) for rooms in (set(), {"fitting"})
    )
    added = more & ~alone
    assert (more >= alone).all()
    assert np.abs(added.sum(axis=1) - alone.sum(axis=1) / 2).max() <= 2 * PIECE
    assert {FILES_OF_TESTS[i].split("/")[0] for i in np.flatnonzero(added.any(axis=0))} == {"fitting"}
    assert added.any(axis=0).sum() > added.sum(axis=1).max()
    assert shard(FILES_OF_TESTS, 3, 8, {"nothing"}) == alone[3].tolist()


def test_a_case_that_is_kept_has_to_be_there():
    cases = few([1, (2, 3), 4], 4)
    assert [getattr(c, "values", c) for c in cases] == [(1,), (2, 3), 4]
    with pytest.raises(ValueError, match="found \\[5\\]"):
        few([1, 2], 5)
