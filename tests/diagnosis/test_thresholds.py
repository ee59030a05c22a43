"""One table of thresholds: complete, in words, short; elsewhere no number without a name is compared with."""

import ast
from collections.abc import Iterator
from dataclasses import fields

import pytest

from bayes_grpo.signals.thresholds import Thresholds
from tests.helpers.pages import PACKAGE

NUMERICAL = {
    "posterior.py": "linear algebra",
    "thresholds.py": "the table itself",
}
"""Modules whose numbers are no thresholds, and what they are."""
JUDGES = [
    *(
        p
        for room in ("diagnosis", "signals")
        for p in sorted((PACKAGE / room).rglob("*.py"))
        if p.name not in NUMERICAL
    ),
    PACKAGE / "forecasting" / "events.py",
]
"""Modules that hold something against a border."""
BOUNDS = {"clip", "max", "maximum", "min", "minimum"}
PLAIN = {0.0, 0.5, 1.0}
TINY = 1e-5
"""Below this a number guards a division or a logarithm."""


def numbers(node: ast.AST) -> Iterator[ast.Constant]:
    """Numbers in an expression; places in an array are none."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if isinstance(value, int) and 0 <= value <= 2:
            return
        if abs(value) not in PLAIN and abs(value) >= TINY:
            yield node
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.Subscript) and child is node.slice):
            yield from numbers(child)


def bare_borders(source: str, constants: bool = True) -> list[str]:
    """Numbers that stand for borders: compared with, bounds, slopes on a difference, and constants of the module."""
    tree = ast.parse(source)
    found: list[ast.Constant] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            found += numbers(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BOUNDS:
            found += [x for argument in node.args for x in numbers(argument)]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = (node.left, node.right)
            if any(isinstance(x, ast.BinOp) and isinstance(x.op, ast.Sub) for x in sides):
                found += [x for side in sides if isinstance(side, ast.Constant) for x in numbers(side)]
    for statement in tree.body if constants else ():
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            found += [x for x in numbers(statement.value) if isinstance(x.value, float)]
    return sorted({f"line {x.lineno}: {x.value!r}" for x in found})


@pytest.mark.parametrize("path", JUDGES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_no_number_is_compared_with_that_has_no_name(path):
    assert bare_borders(path.read_text(encoding="utf-8"), constants=False) == []


def test_the_table_is_short():
    assert len(fields(Thresholds)) <= 30


BORDERS = (
    *("x = share > 0.55", "x = fall > max(0.03 * span, noise)", "x = (left < 0.2) & (short > 0.5)", "x = first < 4"),
    *("x = 6.0 * (share - border)", "x = np.clip(value, -2.5, 3.0)", "x = min(loss, 30.0 * digit)", "LOST = 0.45"),
)
NONE = (
    *("x = share > THRESHOLDS.wasted", "x = rows[-3] > 0.0", "x = 0.5 * (a + b)", "x = max(size, 1e-12)", "x = n > 1"),
)


@pytest.mark.parametrize("line", [*BORDERS, *NONE])
def test_the_rule_sees_a_border_and_passes_what_is_none(line):
    assert bool(bare_borders(line)) == (line in BORDERS)


def test_every_border_is_used():
    text = "".join(p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py"))
    assert [b.name for b in fields(Thresholds) if f"THRESHOLDS.{b.name}" not in text] == []


def test_the_page_shows_every_threshold():
    page = (PACKAGE.parent / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    for b in fields(Thresholds):
        assert f"| `{b.name}` | {b.default:g} | {b.metadata['unit']} | {b.metadata['meaning']} |" in page
