"""Benchmarks and learners as programs: their options exist, and what they keep says what it rests on."""

import ast
import importlib
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main

from bayes_grpo.cli.app import program
from benchmarks.common import RESULTS, keep
from benchmarks.lab import learners
from benchmarks.runs.interrupts import COMMANDS

ROOT = RESULTS.parents[1]
LEARNERS = Path(learners.__path__[0])
STUDIES = LEARNERS.with_name("studies")
PROGRAMS = sorted(
    p
    for p in RESULTS.parent.rglob("*.py")
    if '__name__ == "__main__"' in p.read_text("utf-8") and p.name != "__main__.py" and p.parent.name != "peers"
)
PREFIXES = {LEARNERS: "learn_", STUDIES: "lab_"}
"""Folder → what the names of its programs' results begin with, before the program's own."""


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """Calls of a function or a method of this name."""
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Call))
    return [n for n in found if name in (getattr(n.func, "attr", ""), getattr(n.func, "id", ""))]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_every_option_that_a_program_reads_is_one_that_it_takes(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    words = {a.value for c in calls(tree, "add_argument") for a in c.args if isinstance(a, ast.Constant)}
    taken = {str(word).lstrip("-").replace("-", "_") for word in words}
    read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "options"}
    assert read <= taken


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_every_program_can_be_imported_or_lacks_a_package_of_a_group_of_its_own(path: Path):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    extra, lacking = {re.split(r"[^\w-]", line)[0] for name in ("bench", "trl") for line in groups[name]}, None
    try:
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    except ModuleNotFoundError as error:
        lacking = error.name
    assert lacking is None or lacking in extra


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_every_program_keeps_its_result(path: Path):
    kept = calls(ast.parse(path.read_text(encoding="utf-8")), "keep")
    names = [ast.unparse(c.args[0]).removeprefix("f").strip("'") for c in kept]
    assert names
    begins = PREFIXES.get(path.parent, "") + path.stem
    assert all(name.startswith(begins) for name in names)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_every_flag_of_a_command_that_is_interrupted_is_one_that_it_takes(words: tuple[str, ...]):
    command = getattr(typer.main.get_command(program(words[:1])), "commands")[words[0]]  # noqa: B009
    taken = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= taken


@pytest.mark.parametrize("path", [p for p in PROGRAMS if p.parent == LEARNERS], ids=lambda p: p.stem)
def test_every_learner_tells_its_options(path: Path, monkeypatch, capsys):
    program = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        program.main()
    assert f"usage: {path.name}" in capsys.readouterr().out


def test_a_kept_result_says_what_it_rests_on(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["/somewhere/benchmarks/forecast/backtest.py", "/private/folder/logs", "--jobs", "2"]
    )
    path = keep("backtest", {"ratio": 0.8, "missing": float("nan")}, tmp_path)
    content = json.loads(path.read_text())
    assert content["command"] == "python -m benchmarks.forecast.backtest logs --jobs 2"
    assert content["result"] == {"ratio": 0.8, "missing": None}
    assert content["machine"]["cores"] >= 1
    assert content["machine"]["cpu"]
    assert {"python", "jax", "numpyro", "arviz", "bayes-grpo"} == set(content["versions"])
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.setattr(sys, "argv", [str(LEARNERS / "pool.py"), "/private/cache", "--index", "/private/index.csv"])
    keep("backtest", {"ratio": 0.7}, tmp_path)
    again = json.loads(path.read_text())
    assert again["result"] == {"ratio": 0.7}
    assert again["command"] == "python -m benchmarks.lab.learners.pool cache --index index.csv"
    assert RESULTS == ROOT / "benchmarks" / "results"
