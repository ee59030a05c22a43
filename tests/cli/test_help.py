"""The first look at a command: its help, its examples, what the shell completes, what is refused at once."""

import json
import re
import sys
from pathlib import Path

import pytest
import typer.main

import bayes_grpo as bg
from bayes_grpo.cli import printing
from bayes_grpo.cli.app import program
from bayes_grpo.common.errors import OutputError
from tests.helpers.command import call
from tests.helpers.pages import ROOT

COMMANDS = getattr(typer.main.get_command(program()), "commands")  # noqa: B009


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_of_the_program(flag):
    done = call(flag)
    assert done.code == 0
    assert "<bool>" not in done.out
    for part in ("--version", "fit", "inspect", "4 no convergence"):
        assert part in " ".join(done.out.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_is_in_groups_with_examples_that_parse(name):
    said = call(name, "-h").out
    assert "<bool>" not in said
    assert "Output" in said
    assert "--quiet" in said
    text = " ".join(said.split())
    examples = [x.removeprefix("bayes-grpo ") for x in COMMANDS[name].epilog.split("\n\n")[1:]]
    assert examples
    for example in examples:
        assert f"bayes-grpo {example}" in text
        command, *rest = example.split()
        assert command == name
        with COMMANDS[name].make_context(name, rest, resilient_parsing=True) as context:
            assert not context.args
        unknown = {word for word in rest if word.startswith("--")} - {o for p in COMMANDS[name].params for o in p.opts}
        assert not unknown


def test_a_second_demo_goes_beside_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def stopped(runs: object, out: Path) -> None:
        raise OutputError(f"would write {out.as_posix()}")

    monkeypatch.setattr(bg, "write_runs", stopped)
    monkeypatch.setattr(bg, "simulate_scenario", lambda *_: [])
    for taken in ("bayes-grpo-demo", "bayes-grpo-demo-2"):
        (tmp_path / taken).mkdir()
    assert "would write bayes-grpo-demo-3/runs" in call("simulate", "--demo").err
    (tmp_path / "mine").mkdir()
    assert "expected a new directory" in call("simulate", "--demo", "--out", "mine").err


def test_json_has_a_schema_and_the_same_headline_everywhere(tmp_path):
    rows = [{"step": s, "reward": 0.1 + 0.01 * s, "learning_rate": 1e-6} for s in range(1, 31)]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)))
    calls = {
        ("inspect", log, "--json"): "log: 30 rows, steps 1 to 30, 0 evaluations",
        ("diagnose", log, "--json"): r"\w+",
    }
    documented = (ROOT / "docs" / "how" / "json.md").read_text(encoding="utf-8")
    for given, headline in calls.items():
        found = json.loads(call(*given).out)
        assert list(found)[:2] == ["schema", "headline"]
        assert found["schema"] == printing.SCHEMA == 1
        assert re.search(headline, found["headline"]), given
        (line,) = re.findall(rf"^\| `{given[0]}` \|(.*)", documented, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", line)) <= set(found), given


def test_every_command_prints_json_by_the_one_function():
    """So that no command can leave the schema and the headline out."""
    for name in COMMANDS:
        text = (ROOT / "bayes_grpo" / "cli" / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
        assert any(x in text for x in ("output.show(", "print_json(", "marked(")), name
        assert text.count("json.dump") <= (name == "watch"), name
    said = (ROOT / "docs" / "how" / "json.md").read_text(encoding="utf-8")
    assert f"`schema` | {printing.SCHEMA}" in said.replace("  ", " ")
    for name in COMMANDS:
        assert f"`{name}`" in said, name


def test_progress_goes_to_standard_error_now_and_then_and_quiet_has_none(capsys, monkeypatch):
    clock = iter([0.0, 4.0, 11.0, 12.0, 22.0, 0.0, 50.0])
    monkeypatch.setattr(printing.time, "monotonic", lambda: next(clock))
    with printing.progress_bar() as report:
        for stage in ("one", "two\x1b[31m", "three", "four"):
            report(stage)
    assert capsys.readouterr().err.splitlines() == ["bayes-grpo: two (11 s)", "bayes-grpo: four (22 s)"]
    printing.QUIET.set(True)
    try:
        with printing.progress_bar() as report:
            report("one")
        assert capsys.readouterr().err == ""
    finally:
        printing.QUIET.set(False)
    assert sys.stderr is not None
