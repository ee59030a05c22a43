"""Sentences of the program, which no docstrings are: plain and short, and nothing in the program reads them."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.helpers.pages import PACKAGE

MOST_WORDS = 25
KEYS = PACKAGE / "logs" / "trainers.py"
"""Its texts are lists of trainers' keys."""
ODD = re.compile(r"\b(?:told|held|said|asked|stated|beside|apart|nobody|whoever|anew)\b")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every constant and f-string, docstrings left out; a value is one word."""
    nodes = list(ast.walk(tree))
    formats = (x.format_spec for x in nodes if isinstance(x, ast.FormattedValue) and x.format_spec)
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    passed_over = {id(part) for node in joined for part in node.values} | {id(x) for x in formats}
    passed_over |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def sentences(text: str) -> list[str]:
    """Its sentences; a clause after a semicolon counts as one."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])|(?<=;)\s", re.sub(r"\s+", " ", text).strip())


def sentences_of_package() -> Iterator[tuple[str, str]]:
    """Place and sentence."""
    for path in sorted(set(PACKAGE.rglob("*.py")) - {KEYS}):
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            yield from ((f"{path.relative_to(PACKAGE)}:{line}", s) for s in sentences(text))


def test_no_sentence_is_long_and_none_has_an_odd_word():
    found = list(sentences_of_package())
    assert len(found) > 3000
    assert [x for x in found if len(x[1].split()) > MOST_WORDS] == []
    assert [x for x in found if " " in x[1] and "(?" not in x[1] and ODD.search(x[1])] == []


def test_sentences_are_found_in_f_strings_and_not_in_docstrings():
    tree = ast.parse('"""A doc."""\nx = f"The reward is {y:.3g}. It rises; stop."\n')
    assert [s for _, t in texts(tree) for s in sentences(t)] == ["The reward is X.", "It rises;", "stop."]


FOREIGN = ("logs", "stores", "rollouts", "cli", "trl", "common")
"""Rooms that read what others wrote, such as logs and flags, or only handle text."""
SENTENCES = {
    *("headline", "action", "sentence", "evidence", "answer", "words", "clause", "detail", "lead", "verdict", "story"),
    *("course", "severity", "severity_text", "severity_short", "text", "lines", "assumed", "cautions"),
}
"""Names of attributes and variables that hold sentences."""
TEXT_METHODS = frozenset(
    ("startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "replace")
)
ALLOWED = {
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


def _reads_sentence(node: ast.AST, items: frozenset[str]) -> bool:
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
    return node.func.attr in TEXT_METHODS and sentence(node.func.value)


def reads_of(source: str) -> list[str]:
    """Lines of a module that read a sentence."""
    tree = ast.parse(source)
    found = []
    for scope in ast.walk(tree):
        own = [g for g in getattr(scope, "generators", []) if isinstance(g.target, ast.Name) and _is_sentence(g.iter)]
        items = frozenset(g.target.id for g in own if isinstance(g.target, ast.Name))
        inside = ast.walk(scope) if items else iter([scope])
        found += [n.lineno for n in inside if isinstance(n, ast.Call | ast.Compare) and _reads_sentence(n, items)]
    lines = source.splitlines()
    return [lines[n - 1].strip() for n in sorted(set(found))]


def test_no_module_reads_a_sentence():
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] not in FOREIGN:
            found = reads_of(path.read_text(encoding="utf-8"))
            assert len(found) == ALLOWED.get(place.as_posix(), 0), f"{place}: {found}"


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
