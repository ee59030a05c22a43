"""Outputs that README and the first page show are what the program prints today."""

import math
import re
from contextlib import chdir

import pytest

from tests.helpers.command import call
from tests.helpers.pages import DOCS, ROOT
from tests.helpers.selection import few

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
SHOWN = [
    (path, *match)
    for path in (ROOT / "README.md", DOCS / "start.md")
    for match in re.findall(
        r"^(?:\S[^\n]* )?bayes-grpo ((?:diagnose|forecast|fit) [^\n]*)\n```\n(?:\n[^`\n]*\n)?\n```text\n(.*?)^```",
        path.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
]


def words_of(text: str) -> str:
    """A text without its numbers, its widths and the lines that stand for what is left out."""
    return re.sub(r"\s+", " ", _NUMBER.sub("#", text)).strip()


@pytest.mark.parametrize(
    ("path", "command", "shown"),
    few(SHOWN, "diagnose", by=lambda x: x[1].split()[0]),
    ids=[f"{p.stem}-{c.split()[0]}" for p, c, _ in SHOWN],
)
def test_an_output_is_what_the_program_prints(path, command, shown, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    with chdir(tmp_path):
        done = call(*command.split())
    assert done.code == 0, done.err
    at = 0
    for part in shown.split("…\n"):
        start = words_of(done.out).find(words_of(part), at)
        assert start >= 0, f"{path.name}: not printed any more:\n{part}\n{done.out}"
        at = start
    printed = [float(x) for x in _NUMBER.findall(done.out)]
    for number in map(float, _NUMBER.findall(shown)):
        assert any(math.isclose(number, x, rel_tol=0.1, abs_tol=0.02) for x in printed), number


def test_all_three_outputs_are_compared():
    assert [c.split()[0] for _, c, _ in SHOWN] == ["diagnose", "forecast", "fit"]
