"""Everything that the commands print, as plain files: exit code, first screen, details, JSON, text of the page.

python -m tests.frozen.take [PATTERN ...]     takes the stored files again, of cases such as fit/*
"""

import json
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from fnmatch import fnmatch
from html.parser import HTMLParser
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from tests.frozen.cases import CASES
from tests.frozen.logs import write
from tests.helpers.command import call

STORED = Path(__file__).parent / "stored"
WITHOUT_DETAILS = ("watch",)
DETAILS_ALONE = ("sweep",)
"""Commands that take too long for a first screen of its own; the details begin with what it has."""
LONGEST_LINE = 160
"""Objects without objects in them stand on one line up to this length."""
LONGEST_LIST = 6
"""Longer lists of numbers are thinned to so many, with count and mean."""
MACHINE_DEPENDENT = re.compile(
    r"(^|_)(ess|rhat|r_hat|ebfmi|seconds?|hash|version|divergences?|mcse|elapsed|created)(_|$)|^svg$"
)
"""Keys whose values tell of a machine, or of a chain's luck."""


def outputs_of(words: Sequence[str]) -> str:
    """What a command prints in each form, as one text; paths are relative to the present folder."""
    page = words[words.index("--out") + 1] if words[0] == "report" else None
    first = _output([*words, "--details"] if words[0] in DETAILS_ALONE else words)
    parts = [first]
    if words[0] not in (*DETAILS_ALONE, *WITHOUT_DETAILS) and page is None:
        parts.append(_without_repeats(first, _output([*words, "--details"])))
    if page is not None and Path(page).exists():
        parts.append(f"$ {page}\n{_page_text(Path(page).read_text(encoding='utf-8'))}")
    else:
        parts.append(_output([*words, "--json"]))
    here = str(Path.cwd())
    return "\n\n".join(parts).replace(here, ".") + "\n"


def _output(words: Sequence[str]) -> str:
    """The command line, its exit code, and what it prints; what an earlier call wrote is removed before."""
    for written in (Path(after) for flag, after in pairwise(words) if flag in ("--out", "--state")):
        shutil.rmtree(written, ignore_errors=True)
        written.unlink(missing_ok=True)
    try:
        code, out, err = call(*words, "--quiet")
    except Exception as error:  # a defect is an answer to compare too
        code, out, err = -1, "", f"bayes-grpo: crashed with {error!r}"
    if "--json" in words and out:
        out = "\n".join(lines_of(json.loads(out)))
    errors = [line for line in err.splitlines() if line.startswith("bayes-grpo:")]
    lines = [_without_chance_numbers(line).rstrip() for line in [*out.strip().splitlines(), *errors]]
    return "\n".join([f"$ bayes-grpo {' '.join(words)}", f"exit code {code}", *lines])


def _without_chance_numbers(line: str) -> str:
    """A line without the numbers that differ from machine to machine: those of the chains, of the day."""
    return re.sub(r"\d[\d.]*", "#", line) if "R-hat ≤" in line or " UTC, " in line else line


def _without_repeats(first: str, details: str) -> str:
    """Details without the lines at their beginning that the first screen has too."""
    shown, lines = first.splitlines(), details.splitlines()
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(shown[2:], lines[2:], strict=False)))
    return "\n".join([*lines[:2], f"({same} lines as above)", *lines[2 + same :]])


def lines_of(value: Any) -> Iterator[str]:
    """JSON as indented lines: numbers to four digits, long lists of numbers thinned, nothing that is null or empty."""
    entries = value.items() if isinstance(value, dict) else (("-", x) for x in value)
    for key, entry in entries:
        if _is_left_out(key, entry):
            continue
        short = _on_one_line(entry)
        if short is not None:
            yield f"{key}: {short}"
        else:
            yield f"{key}:"
            yield from (f"  {line}" for line in lines_of(entry))


def _on_one_line(value: Any) -> str | None:
    """A value as text where that needs no lines of its own."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not _is_left_out(k, v)}
        text = ", ".join(f"{k}: {_text_of(v)}" for k, v in kept.items())
        return f"{{{text}}}" if not any(map(_is_deep, kept.values())) and len(text) <= LONGEST_LINE else None
    return None if _is_deep(value) else _text_of(value)


def _is_left_out(key: str, value: Any) -> bool:
    return value in (None, "", [], {}) or MACHINE_DEPENDENT.search(key) is not None


def _is_deep(value: Any) -> bool:
    """Whether a value has objects or lists in it, or is an object."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(x, dict | list) for x in value))


def _text_of(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, list):
        return str(value)
    numbers = [x for x in value if isinstance(x, int | float)]
    if len(value) <= LONGEST_LIST or not numbers:
        return f"[{', '.join(map(_text_of, value))}]"
    places = [round(i * (len(value) - 1) / (LONGEST_LIST - 1)) for i in range(LONGEST_LIST)]
    shown = ", ".join(_text_of(value[i]) for i in places)
    return f"{len(value)} values, mean {math.fsum(numbers) / len(numbers):.4g}: [{shown}]"


class _Page(HTMLParser):
    """The texts of a page that a reader sees, one a line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.hidden += tag in ("style", "script", "svg")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script", "svg")

    def handle_data(self, data: str) -> None:
        if not self.hidden and data.strip():
            self.lines.append(_without_chance_numbers(" ".join(data.split())))


def _page_text(html: str) -> str:
    page = _Page()
    page.feed(html)
    return "\n".join(page.lines)


def take_case(case: str) -> str:
    """What a case prints; its logs lie alone in a folder, since logs near by can be taken for reference runs."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return outputs_of([str(write(w[1:-1], Path())) if w.startswith("{") else w for w in CASES[case].split()])


def main() -> None:
    """Takes outputs again."""
    patterns = sys.argv[1:] or ["*"]
    for case in CASES:
        if any(fnmatch(case, pattern) for pattern in patterns):
            path = STORED / f"{case}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(take_case(case), encoding="utf-8")


if __name__ == "__main__":
    main()
