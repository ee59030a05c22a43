"""What the shape of the code has to keep: names, and the import graph of the package."""

import ast
from collections import defaultdict

import pytest

from tests.helpers.command import printed_by
from tests.helpers.import_graph import circles, import_graph, imports_by_string, modules_of
from tests.helpers.pages import PACKAGE, ROOT

CONVENTIONS = {
    # What a module of a kind holds: a regime, a trainer, a reader, a failure mode, a section of the page, a program.
    *("REGIME", "TRAINER", "MODE", "NAME", "READERS", "sniff", "read", "runs", "main"),
    *("KEY", "TITLE", "QUESTION", "SECTIONS", "section", "lead", "leads", "tone_of", "chance_of"),
    # The same thing for two kinds of state space, of model and of policy.
    *("log_likelihood", "grpo_loss"),
}
"""Names that several modules have for the same thing."""


def public_names(tree: ast.Module) -> set[str]:
    """Public classes, functions and constants of a module."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {x.id for x in node.targets if isinstance(x, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if not name.startswith("_")}


def twice(modules: dict[str, set[str]]) -> dict[str, list[str]]:
    """Names that more than one module defines. A command bears the name of the function that it calls."""
    where = defaultdict(list)
    for module, names in modules.items():
        for name in names - CONVENTIONS:
            where[name].append(module)
    found = {name: sorted(x) for name, x in where.items() if len(x) > 1}
    return {k: x for k, x in found.items() if not (len(x) == 2 and any(m == f"cli/{k}" for m in x))}


def test_no_name_stands_for_two_things():
    paths = [p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py"]
    modules = {p.relative_to(PACKAGE).with_suffix("").as_posix(): public_names(ast.parse(p.read_text())) for p in paths}
    assert not (found := twice(modules)), found


def test_two_modules_with_one_name_are_seen():
    assert twice({"a/x": {"Row"}, "b/y": {"Row", "fit"}, "cli/fit": {"fit"}}) == {"Row": ["a/x", "b/y"]}


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
    assert printed_by(program) == ""


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
