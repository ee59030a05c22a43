"""Nothing reads a sentence: what code goes by is a record or a number, whose words may change."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "bayes_grpo"
FOREIGN = ("logs", "stores", "rollouts", "cli", "trl", "common")
"""Rooms that read what others wrote, such as logs and flags, or only handle text."""
SENTENCES = {
    *("headline", "action", "sentence", "evidence", "answer", "words", "clause", "detail", "lead", "verdict", "story"),
    *("course", "severity", "severity_text", "severity_short", "text", "lines", "assumed", "cautions"),
}
"""Names of attributes and variables that hold sentences."""
READS = frozenset(
    ("startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "replace")
)
LEFT = {
    "families/members.py": 2,  # words of keys in a log, and of a file name
    "views/terminal.py": 1,  # cells of a table
    "watching/notify.py": 1,  # characters that Slack escapes
}
"""Module → lines that read a text: of others above, of results below; a number that falls is to be lowered."""


def _is_sentence(node: ast.expr) -> bool:
    """Whether an expression is a sentence, or one that was shaped by a function."""
    if isinstance(node, ast.Attribute):
        return node.attr in SENTENCES
    if isinstance(node, ast.Name):
        return node.id in SENTENCES
    if isinstance(node, ast.Call):
        shaped = isinstance(node.func, ast.Attribute) and _is_sentence(node.func.value)
        return shaped or any(map(_is_sentence, node.args))
    return isinstance(node, ast.Subscript) and _is_sentence(node.value)


def _reads(node: ast.AST, items: frozenset[str]) -> bool:
    """Whether a node takes a sentence to pieces or looks for a part of one; ``items`` are names of elements of some."""

    def sentence(x: ast.expr) -> bool:
        return _is_sentence(x) or (isinstance(x, ast.Name) and x.id in items)

    if isinstance(node, ast.Compare):
        texts = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        member = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
        literal = texts or isinstance(node.left, ast.Name)
        return member and literal and any(map(sentence, node.comparators))
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "split" and any(map(sentence, node.args))
    if not isinstance(node.func, ast.Attribute):
        return False
    if isinstance(node.func.value, ast.Name) and node.func.value.id == "re":
        return any(map(sentence, node.args))
    return node.func.attr in READS and sentence(node.func.value)


def reads_of(source: str) -> list[str]:
    """Lines of a module that read a sentence."""
    tree = ast.parse(source)
    found = []
    for scope in ast.walk(tree):
        own = [g for g in getattr(scope, "generators", []) if isinstance(g.target, ast.Name) and _is_sentence(g.iter)]
        items = frozenset(g.target.id for g in own if isinstance(g.target, ast.Name))
        inside = ast.walk(scope) if items else iter([scope])
        found += [n.lineno for n in inside if isinstance(n, ast.Call | ast.Compare) and _reads(n, items)]
    lines = source.splitlines()
    return [lines[n - 1].strip() for n in sorted(set(found))]


def test_no_module_reads_a_sentence():
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] not in FOREIGN:
            found = reads_of(path.read_text(encoding="utf-8"))
            assert len(found) == LEFT.get(place.as_posix(), 0), f"{place}: {found}"


@pytest.mark.parametrize(
    "line",
    [
        'status.action.startswith("go on")',
        'any("entropy grew" in s.words for s in f.signs)',
        'sentence_case(b.sentence).partition("; ")',
        're.sub("%", "", document.answer)',
        'split(sentence_case(status.headline), ": ")',
        '[x.partition(" (")[0] for x in s.assumed]',
        'text + (e.severity.replace(level, "") if level in text else "")',
    ],
)
def test_reading_is_seen(line: str):
    assert reads_of(line) == [line]
