"""Every sentence of the program that a user can meet: texts of the package that are no docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "bayes_grpo"
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


def met() -> Iterator[tuple[str, str]]:
    """Place and sentence."""
    for path in sorted(set(PACKAGE.rglob("*.py")) - {KEYS}):
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            yield from ((f"{path.relative_to(PACKAGE)}:{line}", s) for s in sentences(text))


def test_no_sentence_is_long_and_none_has_an_odd_word():
    found = list(met())
    assert len(found) > 3000
    assert [x for x in found if len(x[1].split()) > MOST_WORDS] == []
    assert [x for x in found if " " in x[1] and "(?" not in x[1] and ODD.search(x[1])] == []


def test_sentences_are_found_in_f_strings_and_not_in_docstrings():
    tree = ast.parse('"""A doc."""\nx = f"The reward is {y:.3g}. It rises; stop."\n')
    assert [s for _, t in texts(tree) for s in sentences(t)] == ["The reward is X.", "It rises;", "stop."]
