"""Every compiled regular expression of the package, and texts made to strain each: its parts, repeated."""

import ast
import importlib
import re
import time
from collections.abc import Iterator
from typing import Any, TypeGuard

from tests.helpers.pages import PACKAGE

parser: Any = importlib.import_module("re._parser")  # nothing public takes a pattern apart
ENDS = ("", "!", "\x00", " x")
"""What makes a match fail at its very end."""
_MOST = 60


def all_patterns() -> dict[str, re.Pattern[Any]]:
    """Module and name or line → pattern, of all modules of the package that have one, found by being there."""
    found: dict[str, re.Pattern[Any]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "import re\n" not in text:  # most modules, whose parsing would take a second
            continue
        calls = [node for node in ast.walk(ast.parse(text)) if _asks_re(node)]
        if not calls:
            continue
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        module = importlib.import_module(f"bayes_grpo.{name}")
        for attribute, value in vars(module).items():
            if isinstance(value, re.Pattern):
                found[f"{name}.{attribute}"] = value
        known = {value.pattern for value in found.values()}
        for call in calls:  # patterns that a function writes down
            pattern = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            if isinstance(pattern, str | bytes) and pattern not in known:
                found[f"{name}:{call.lineno}"] = re.compile(pattern)
    return found


def _asks_re(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a node calls a function of the module `re`."""
    asked = node.func if isinstance(node, ast.Call) else None
    return isinstance(asked, ast.Attribute) and isinstance(asked.value, ast.Name) and asked.value.id == "re"


def strains(pattern: re.Pattern[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Beginnings, pieces to repeat and ends that take the pattern into each of its repeats, and fail behind it."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    pumps = [*_pumps(list(tree), ""), ("", _sample(list(tree)) or "a")]
    pumps += [("", piece) for piece in (" ", "\t", "a", "1", "_a", "a ", "1 ", "| ", "x=1, ", "{'a':1}", "f(1,", "a/")]
    for before, piece in dict.fromkeys(pumps):
        for end in ENDS:
            if isinstance(pattern.pattern, str):
                yield before, piece, end
            else:
                yield before.encode("latin-1", "replace"), piece.encode("latin-1", "replace"), end.encode("latin-1")


def seconds(pattern: re.Pattern[Any], text: Any) -> float:
    """How long a pattern takes to look at a text as a whole and from every place in it."""
    begin = time.process_time()
    pattern.fullmatch(text)
    pattern.findall(text)
    return time.process_time() - begin


def _pumps(nodes: list[Any], before: str) -> Iterator[tuple[str, str]]:
    """A text that leads to a repeat, and one turn of it, of every repeat in a sequence of nodes."""
    for place, (kind, value) in enumerate(nodes):
        lead = before + _sample(nodes[:place])
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            inner = list(value[2])
            for piece in _choices(inner):
                if piece:
                    yield lead, piece
            yield from _pumps(inner, lead)
            rest = _sample(nodes[place + 1 : place + 3])
            if rest:
                yield before, _sample(nodes[place : place + 3])  # the repeat with what follows it, again and again
        elif name == "SUBPATTERN":
            yield from _pumps(list(value[3]), lead)
        elif name == "ATOMIC_GROUP":
            yield from _pumps(list(value), lead)
        elif name == "BRANCH":
            for branch in value[1]:
                yield from _pumps(list(branch), lead)


def _choices(nodes: list[Any]) -> list[str]:
    """A few texts that the nodes match."""
    if len(nodes) == 1 and str(nodes[0][0]) == "IN":
        return _members(nodes[0][1])
    return [_sample(nodes)]


def _sample(nodes: Any) -> str:
    """A text that a sequence of nodes matches, look-arounds left out."""
    out = ""
    for kind, value in nodes:
        name = str(kind)
        if name == "LITERAL":
            out += chr(value)
        elif name == "NOT_LITERAL":
            out += "a" if value != ord("a") else "b"
        elif name == "ANY":
            out += "a"
        elif name == "IN":
            out += _members(value)[0]
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            out += _sample(list(value[2])) * min(max(value[0], 1), _MOST)
        elif name == "SUBPATTERN":
            out += _sample(list(value[3]))
        elif name == "ATOMIC_GROUP":
            out += _sample(list(value))
        elif name == "BRANCH":
            out += _sample(list(value[1][0]))
    return out


_OF_CATEGORY = {"SPACE": " ", "DIGIT": "1", "WORD": "a", "NOT_SPACE": "a", "NOT_DIGIT": "a", "NOT_WORD": "-"}


def _members(items: Any) -> list[str]:
    """Up to four characters of a class; one that it leaves out is looked for where it is negated."""
    items = list(items)
    if items and str(items[0][0]) == "NEGATE":
        test = re.compile(f"[{_class_of(items)}]")
        return [c for c in " a1.x|" if test.match(c)][:3] or ["é"]
    found = []
    for kind, value in items:
        name = str(kind)
        if name == "LITERAL":
            found.append(chr(value))
        elif name == "RANGE":
            found.append(chr(value[0]))
        elif name == "CATEGORY":
            found.append(_OF_CATEGORY[str(value).removeprefix("CATEGORY_")])
    return found[:4] or ["a"]


def _class_of(items: list[Any]) -> str:
    text = "^"
    for kind, value in items[1:]:
        name = str(kind)
        if name == "LITERAL":
            text += re.escape(chr(value))
        elif name == "RANGE":
            text += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        elif name == "CATEGORY":
            text += {"SPACE": r"\s", "DIGIT": r"\d", "WORD": r"\w"}.get(str(value).removeprefix("CATEGORY_"), "")
    return text
