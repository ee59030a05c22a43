"""Which module of a package imports which, read from the source, with imports inside functions and for types alone."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import connected_components

BY_STRING = {"import_module", "__import__", "find_spec", "resolve_name", "run_module", "attach", "attach_stub"}
"""Functions that import the module whose name they are given."""


def modules_of(package: Path) -> dict[str, ast.Module]:
    """Syntax trees of a package's modules by their full names; a package is named without ``__init__``."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def import_graph(modules: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Modules that each module imports, anywhere in it; imports by a string with a constant name count too."""
    graph = {}
    for name, tree in modules.items():
        imported = {x for node in ast.walk(tree) for x in _imported_by(node, modules)}
        graph[name] = imported & modules.keys() - {name}
    return graph


def _imported_by(node: ast.AST, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "expected absolute imports alone"
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield full if full in modules else str(node.module)
    elif isinstance(node, ast.Call) and _function_of(node) in BY_STRING:
        yield from (x.value for x in node.args[:1] if isinstance(x, ast.Constant) and isinstance(x.value, str))


def circles(graph: Mapping[str, Set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module, the largest first."""
    names = sorted(graph)
    place = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)), dtype=np.int8)
    for name, imported in graph.items():
        for other in imported:
            matrix[place[name], place[other]] = 1
    _, labels = connected_components(matrix, directed=True, connection="strong")
    members = defaultdict(list)
    for name, label in zip(names, labels, strict=True):
        members[label].append(name)
    return sorted((x for x in members.values() if len(x) > 1), key=len, reverse=True)


def imports_by_string(tree: ast.AST, package: str) -> list[int]:
    """Lines that import by a string what is in the package, or may be because the name is computed."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _function_of(node) in BY_STRING and not _names_another(node, package)
    ]


def _function_of(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _names_another(node: ast.Call, package: str) -> bool:
    name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    return isinstance(name, str) and name.partition(".")[0] != package
