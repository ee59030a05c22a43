"""Examples in the docstrings of public names run as they stand."""

import doctest
from typing import Any

import pytest

import bayes_grpo


def names() -> dict[str, Any]:
    """Public names; most are imported with the first use, which is not to happen while tests are collected."""
    return {name: getattr(bayes_grpo, name) for name in vars(bayes_grpo)["__all__"]}


COSTLY = {"check", "compare", "decide", "fit", "forecast", "report_run"}
"""Names whose examples fit regimes."""


def examples() -> dict[str, doctest.DocTest]:
    """The examples of the public names."""
    known = names()
    finder = doctest.DocTestFinder(recurse=False)
    found = [x for name, value in known.items() for x in finder.find(value, name, module=False, globs=known)]
    return {x.name: x for x in found if x.examples}


def test_an_example_prints_what_it_shows():
    cheap = {name: x for name, x in examples().items() if name not in COSTLY}
    assert set(cheap) >= {"StoppingCosts", "analyze", "diagnose", "get_regime", "plan", "read_log", "rows_of", "view"}
    assert not [name for name, x in cheap.items() if doctest.DocTestRunner().run(x).failed]


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(COSTLY))
def test_an_example_that_fits_prints_what_it_shows(name):
    assert doctest.DocTestRunner().run(examples()[name]).failed == 0


def test_an_example_that_prints_something_else_is_seen():
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "sum", None, None)
    assert doctest.DocTestRunner(verbose=False).run(example, out=lambda _: None).failed == 1
