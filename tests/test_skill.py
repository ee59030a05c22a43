"""`SKILL.md`, the page for agents: small, with a head, and its commands and keys are those of the program."""

import json
import re
import shlex
from functools import cache
from typing import Any

import pytest
import yaml

from tests.helpers.command import call
from tests.helpers.pages import EXAMPLE, ROOT
from tests.helpers.rollouts import made, write_table
from tests.helpers.selection import few

SKILL = (ROOT / "SKILL.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for block in re.findall(r"^```sh\n(.*?)^```", SKILL, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
KEYS = {
    name: re.findall(r"`([^`]+)`", keys) for name, keys in re.findall(r"^\| `(\w+)` \| (.*) \|$", SKILL, re.MULTILINE)
}


def test_it_is_small_and_has_a_head():
    assert len(SKILL.encode()) <= 5_000
    head = yaml.safe_load(SKILL.split("---")[1])
    assert head["name"] == "bayes-grpo"
    assert "Use when" in head["description"]
    assert {words[0] for words in COMMANDS} == set(KEYS)


@cache
def answers(words: tuple[str, ...]) -> dict[str, Any]:
    done = call(*words)
    assert done.code in (0, 4, 5), done.err
    return json.loads(done.out)


@pytest.mark.parametrize("words", few(COMMANDS, "inspect", "diagnose", by=lambda x: x[0]), ids=" ".join)
def test_its_commands_run_and_have_its_keys(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("skill")
    write_table(folder / "completions", made())
    places = {"LOG": str(EXAMPLE), "COMPLETIONS": str(folder / "completions")}
    extra = ["--state", str(folder / "state.json")] if words[0] == "watch" else []
    if words[0] == "rollouts":
        extra = ["--right", "correct"]
    found = answers((*(places.get(word, word) for word in words), *extra))
    for key in KEYS[words[0]]:
        value = found
        for name in key.split("."):
            assert name in value, (key, list(value))
            value = value[name]
