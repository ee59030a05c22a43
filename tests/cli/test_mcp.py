"""The server for assistants, asked by the protocol's own client."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bayes_grpo.cli.mcp import page_name, server_of
from tests.helpers.command import call


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    rows = [json.dumps({"step": s, "reward": 0.2 + 0.3 * s / 40 + 0.02 * (s % 3)}) for s in range(1, 41)]
    (folder / "a.jsonl").write_text("\n".join(rows))
    (tmp_path / "outside.jsonl").write_text("\n".join(rows))
    (folder / "link.jsonl").symlink_to(tmp_path / "outside.jsonl")
    return folder


def asked(server: Any, *calls: tuple[str, dict[str, Any]]) -> tuple[list[str], list[Any]]:
    """Names of the tools, and what each call returns."""
    from mcp import Client

    async def ask() -> tuple[list[str], list[Any]]:
        async with Client(server) as client:
            tools = [x.name for x in (await client.list_tools()).tools]
            return tools, [await client.call_tool(name, given) for name, given in calls]

    return asyncio.run(ask())


def test_pages_of_two_logs_never_share_a_name(tmp_path: Path):
    paths = ["a/b.jsonl", "a-b.jsonl", "a b.jsonl", "a/c.jsonl", "x" * 150, "y" + "x" * 150, "..hidden", "."]
    names = {page_name(tmp_path, path) for path in paths}
    assert len(names) == len(paths)
    assert all(re.fullmatch(r"[\w.-]{1,120}\.html", name) and not name.startswith(".") for name in names)
    assert page_name(tmp_path, "a/./b.jsonl") == page_name(tmp_path, "a/../a/b.jsonl") == page_name(tmp_path, paths[0])


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["../outside.jsonl", "link.jsonl", "/etc/hostname", "a/../../outside.jsonl"])
def test_no_path_leads_out_of_the_folder(runs: Path, path: str):
    _, (answer,) = asked(server_of(runs), ("inspect", {"log": path}))
    assert answer.is_error
    assert answer.content[0].text.endswith(
        "log: expected a path inside the served folder, found one that leads out of it"
    )


@pytest.mark.thorough
def test_what_can_be_mended_is_said_and_what_is_there(runs: Path):
    calls = (("inspect", {"log": "b.jsonl"}), ("forecast", {"log": "a.jsonl", "horizon": 3}))
    tools, (none, past) = asked(server_of(runs), *calls)
    assert tools == ["inspect", "diagnose", "forecast"]
    assert none.is_error
    assert "there are a.jsonl" in none.content[0].text
    assert past.is_error
    assert "horizon" in past.content[0].text


@pytest.mark.thorough
def test_all_tools_answer_over_standard_input_as_the_commands_do(runs: Path, tmp_path: Path):
    from mcp import StdioServerParameters, stdio_client

    pages = tmp_path / "pages"
    pages.mkdir()
    words = ["-m", "bayes_grpo", "mcp", str(runs), "--pages", str(pages)]
    server = stdio_client(StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ)))
    log = {"log": "a.jsonl"}
    tools, answers = asked(
        server, ("inspect", log), ("diagnose", log), ("forecast", log | {"horizon": 60}), ("report", log)
    )
    assert tools == ["inspect", "diagnose", "forecast", "report"]
    assert not any(x.is_error for x in answers)
    told = [x.structured_content for x in answers]
    for name, given, found in zip(tools, ([], [], ["--horizon", 60]), told, strict=False):
        mine = json.loads(call(name, runs / "a.jsonl", *given, "--json").out)
        assert found["headline"] == mine["headline"]
        assert found.keys() <= mine.keys()
    (page,) = pages.iterdir()
    assert Path(told[3]["page"]) == page
    assert page.name == page_name(runs, "a.jsonl")
    assert "<title>" in page.read_text()
    assert sorted(x.name for x in runs.iterdir()) == ["a.jsonl", "link.jsonl"]
