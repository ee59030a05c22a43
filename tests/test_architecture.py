"""What the shape of the code has to keep."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "bayes_grpo"
MOST = 7
"""Parameters of a function that a call may give by position: with more, nobody knows which is which."""


def functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Name, node and whether the first parameter is the object or class, of every function at any depth."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(d) for d in node.decorator_list}
            yield f"{owner}{node.name}", node, isinstance(tree, ast.ClassDef) and "staticmethod" not in decorators
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from functions(node, f"{owner}{node.name}." if named else owner)


def by_position(node: ast.FunctionDef | ast.AsyncFunctionDef, bound: bool) -> int:
    """Parameters before ``*``, less the object's own."""
    return len(node.args.posonlyargs) + len(node.args.args) - bound


def is_command(path: Path, name: str) -> bool:
    """Whether it is the command of a module of the command line: Typer passes every flag by its name."""
    return path.parent.name == "cli" and name == path.stem


def test_no_function_takes_more_than_seven_by_position():
    offenders = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {name} takes {by_position(node, bound)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, node, bound in functions(ast.parse(path.read_text(encoding="utf-8")))
        if by_position(node, bound) > MOST and not is_command(path, name)
    ]
    assert not offenders, "gather what belongs together in a small class:\n" + "\n".join(offenders)


def test_the_counting_of_parameters_sees_methods_and_nested_functions():
    source = "class A:\n def f(self, a, b, *, c): ...\n @staticmethod\n def g(a): ...\ndef h(a, /, b):\n def i(x): ..."
    found = {name: by_position(node, bound) for name, node, bound in functions(ast.parse(source))}
    assert found == {"A.f": 2, "A.g": 1, "h": 2, "h.i": 1}
