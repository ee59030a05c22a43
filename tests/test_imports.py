"""The package's own import graph: no large circle, and no import by a string around it."""

import ast
import subprocess
import sys

import pytest

from tests.helpers.import_graph import circles, import_graph, imports_by_string, modules_of
from tests.helpers.pages import ROOT

LARGEST = 3
"""Modules of a circle at most: classes that name each other in their types."""
BY_NAME = {
    "bayes_grpo": "the public names, on first use",
    "bayes_grpo.common.imports": "modules that are found by being there",
    "bayes_grpo.watching.notify": "the client of a tracker, a package of its own",
}
"""Modules that import by a string, and what."""


@pytest.fixture(scope="module")
def modules():
    return modules_of(ROOT / "bayes_grpo")


HEAVY = {
    *("jax", "numpyro", "pandas", "pyarrow", "arviz", "arviz_base", "arviz_stats", "matplotlib", "scipy", "xarray"),
    "h5netcdf",
}


@pytest.mark.parametrize(
    ("module", "spared"),
    [
        ("cli.entry", HEAVY),
        ("cli.app", HEAVY),
        ("logs", HEAVY),
        ("diagnosis.diagnose", {"jax", "scipy", "pandas", "xarray", "matplotlib"}),
        ("forecasting.forecast", {"scipy", "pandas", "xarray", "arviz_stats", "numpyro", "matplotlib"}),
        ("report", {"jax", "scipy", "pandas", "xarray", "matplotlib"}),
    ],
)
def test_a_module_imports_nothing_that_its_answer_does_not_need(module, spared):
    program = f"import sys, bayes_grpo.{module}; print(*sorted({spared!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_no_circle_of_imports_is_larger_than_three(modules):
    found = circles(import_graph(modules))
    assert not [x for x in found if len(x) > LARGEST], found


def test_a_module_is_imported_by_a_string_in_three_places_alone(modules):
    found = {name for name, tree in modules.items() if imports_by_string(tree, "bayes_grpo")}
    assert found == set(BY_NAME)


def test_a_circle_is_seen_through_functions_types_and_strings():
    sources = {
        "p": "",
        "p.a": "def f():\n    from p import b",
        "p.b": "if TYPE_CHECKING:\n    from p.c import Thing",
        "p.c": "import_module('p.d')",
        "p.d": "import p.a",
        "p.e": "import p.a\nfrom p.f import x",
        "p.f": "import numpy",
    }
    graph = import_graph({name: ast.parse(source) for name, source in sources.items()})
    assert graph["p.e"] == {"p.a", "p.f"}
    assert circles(graph) == [["p.a", "p.b", "p.c", "p.d"]]


def test_an_import_by_a_string_is_seen_unless_it_names_another_package():
    source = "import_module('wandb')\nimportlib.import_module('p.x')\nimport_module(f'p.{x}')\n__import__(x)"
    assert imports_by_string(ast.parse(source), "p") == [2, 3, 4]
