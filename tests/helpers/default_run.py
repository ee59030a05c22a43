"""What the tests of the default run touch, read from their source: those without the marks `thorough` and `slow`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LATER = {"thorough", "slow"}
_Place = tuple[Path, str]


class Module(NamedTuple):
    """A module of tests: what it defines, and what it imports as module and name (empty for the module itself)."""

    defined: dict[str, ast.AST]
    imported: dict[str, tuple[str, str]]


class Touched(NamedTuple):
    """What tests touch: names of the package, and commands, formats and the like as text."""

    names: frozenset[str]
    words: frozenset[str]


def touched(folder: Path) -> Touched:
    """What the default run's tests below a folder touch, by themselves, by their fixtures and by their helpers."""
    names: set[str] = set()
    words: set[str] = set()
    seen: set[_Place] = set()
    paths = [path for path in sorted(folder.rglob("test_*.py")) if path.parent != folder / "lab"]
    waiting = [(path, test) for path in paths for test in tests_of(path)]
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        path, name = place
        for node in ast.walk(module(path).defined[name]):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if module(path).imported.get(node.value.id) == ("bayes_grpo", ""):
                    names.add(node.attr)
            elif isinstance(node, ast.Name | ast.arg):
                word = node.id if isinstance(node, ast.Name) else node.arg
                origin, original = module(path).imported.get(word, ("", ""))
                if origin.startswith("bayes_grpo") and original:
                    names.add(original)
                waiting += defined_as(path, word, isinstance(node, ast.arg))
    return Touched(frozenset(names), frozenset(words))


def tests_of(path: Path) -> Iterator[str]:
    """Tests of a module that the default run has, or some of whose cases it has."""
    for name, node in module(path).defined.items():
        if name.startswith("test_") and not marks(node) & LATER:
            yield name


def marks(node: ast.AST) -> set[str]:
    """Names of the marks of a whole test; those of its cases stand inside `parametrize`."""
    decorators = getattr(node, "decorator_list", [])
    return {d.attr for d in decorators if isinstance(d, ast.Attribute) and ast.unparse(d).startswith("pytest.mark.")}


def defined_as(path: Path, name: str, argument: bool) -> Iterator[_Place]:
    """Where a name of a module is defined: there, in a helper, or, of an argument, as a fixture for its folder."""
    if name in module(path).defined:
        yield path, name
        return
    origin, original = module(path).imported.get(name, ("", ""))
    helper = ROOT / (origin.replace(".", "/") + ".py")
    if origin.startswith("tests") and helper.exists() and original in module(helper).defined:
        yield helper, original
    for folder in path.parents if argument else ():
        shared = folder / "conftest.py"
        if folder.is_relative_to(ROOT / "tests") and shared.exists() and name in module(shared).defined:
            yield shared, name
            return


@cache
def module(path: Path) -> Module:
    """What a module defines and imports at its top."""
    defined: dict[str, ast.AST] = {}
    imported: dict[str, tuple[str, str]] = {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {t.id: node for t in targets if isinstance(t, ast.Name)}
    for node in ast.walk(tree):  # some tests import what they alone need
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {a.asname or a.name: (node.module, a.name) for a in node.names}
        elif isinstance(node, ast.Import):
            imported |= {a.asname or a.name: (a.name, "") for a in node.names}
    return Module(defined, imported)
