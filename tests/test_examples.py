"""Examples in the docstrings of public names run as they stand."""

import doctest
from typing import Any

import bayes_grpo


def names() -> dict[str, Any]:
    """Public names; most are imported with the first use, which is not to happen while tests are collected."""
    return {name: getattr(bayes_grpo, name) for name in vars(bayes_grpo)["__all__"]}


def test_an_example_prints_what_it_shows():
    known = names()
    finder = doctest.DocTestFinder(recurse=False)
    found = [x for name, value in known.items() for x in finder.find(value, name, module=False, globs=known)]
    examples = [x for x in found if x.examples]
    assert {x.name for x in examples} >= {"StoppingCosts", "get_regime", "rows_of", "view"}
    failed = [x.name for x in examples if doctest.DocTestRunner().run(x).failed]
    assert not failed


def test_an_example_that_prints_something_else_is_seen():
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "sum", None, None)
    assert doctest.DocTestRunner(verbose=False).run(example, out=lambda _: None).failed == 1
