"""The documentation: every link leads somewhere, every name is there, and everything that looks like code runs."""

import re
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer.main

from bayes_grpo.cli.app import program
from bayes_grpo.probing.file import save_probes
from bayes_grpo.probing.probe import probe
from docs._ext.generated import ROOMS, commands_page, gallery_page, names_page, public_names, room_page, thumbnail
from tests.helpers.command import call
from tests.helpers.pages import DOCS, GENERATED, ROOT, blocks, commands, named, written_pages
from tests.helpers.rollouts import made, write_table
from tests.helpers.selection import few

WRITTEN = written_pages()
ELSEWHERE = ("live", "how/sweep", "how/reference_runs")
"""Pages whose code needs a trainer, or a family of logs: `tests/live/test_examples.py`, `tests/families` and
`tests/references` run it."""
LOG = "notebooks/data/softmax_policy_grpo.json"
BESIDE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
CODE = [p for p in WRITTEN if blocks(p, "python") and named(p) not in ELSEWHERE]
LONG = ("how/python", "how/report", "how/watch", "how/own_regime")
"""Pages whose code fits every law, or one of its own."""


@pytest.mark.parametrize("path", [*WRITTEN, *map(ROOT.joinpath, BESIDE)], ids=lambda path: path.stem)
def test_links_and_pictures_lead_somewhere(path: Path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        place = (path.parent / target).resolve()
        assert target.startswith("https://") or place.exists(), f"{target}; a page that is made by a build is no file"
    for target in re.findall(r"\{doc\}`[^<`]*<([^>]+)>`", text):
        assert list(path.parent.glob(f"{target}.*")), target


def test_every_page_stands_in_a_table_of_contents():
    trees = "\n".join(
        re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL)
    )
    listed = {line for line in trees.splitlines() if line and not line.startswith(":")}
    assert listed == {named(p) for p in WRITTEN} - {"index"} | set(GENERATED)


def test_every_public_name_is_documented():
    names = public_names(ROOT / "bayes_grpo" / "__init__.pyi")
    stub = (ROOT / "bayes_grpo" / "__init__.pyi").read_text()
    assert sorted(name for found in names.values() for _, name in found) == sorted(re.findall(r" as (\w+)", stub))
    assert set(names) <= set(ROOMS)
    overview = names_page(names)
    for room, found in names.items():
        page = room_page(room, found)
        assert f"api/{room}\n" in overview
        for module, name in found:
            kind = "autofunction" if callable(thing(module, name)) else "py:data"
            assert f".. {'autoclass' if isinstance(thing(module, name), type) else kind}:: bayes_grpo.{name}\n" in page
            (told,) = re.findall(
                rf"^\| \[`{name}`\]\(api/{room}.md#{name.lower()}\) \| (.*) \|$", overview, re.MULTILINE
            )
            assert len(told.split()) > 1, name


def thing(module: str, name: str) -> Any:
    return getattr(__import__(module, fromlist=[name]), name)


def test_every_command_and_flag_is_documented():
    page = commands_page()
    group: Any = typer.main.get_command(program())
    for name, command in group.commands.items():
        assert f"## {name}\n" in page
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert all(f"`{flag}`" in page for flag in parameter.opts), (name, parameter.opts)


def test_the_gallery_has_a_card_and_a_picture_for_every_notebook(tmp_path: Path):
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    page = gallery_page(notebooks, tmp_path)
    assert page.count("grid-item-card") == len(notebooks) == len(list(tmp_path.glob("*.png")))
    drawn = thumbnail(notebooks[0])
    assert drawn is not None
    assert drawn.startswith(b"\x89PNG")


@pytest.mark.parametrize("path", WRITTEN, ids=named)
def test_commands_on_a_page_have_these_flags(path: Path):
    group: Any = typer.main.get_command(program())
    for words in commands(path):
        if words[0] == "COMMAND" or words[0].startswith("-"):
            continue
        command = group.commands[words[0]]
        known = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)} | {"--help"}
        assert {w.split("=")[0] for w in words if w.startswith("--")} <= known, words


@pytest.mark.parametrize("path", few(CODE, *({named(p) for p in CODE} - set(LONG)), by=named), ids=named)
def test_python_on_a_page_runs(path: Path, tmp_path: Path):
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    precise = jax.config.read("jax_enable_x64")
    try:
        with chdir(tmp_path), redirect_stdout(StringIO()):
            exec(compile("\n".join(blocks(path, "python")), str(path), "exec"), {})
    finally:
        jax.config.update("jax_enable_x64", precise)  # a page may switch it on, for the tests after it too


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in WRITTEN if commands(p) and named(p) not in ELSEWHERE], ids=named)
def test_commands_on_a_page_run(path: Path, tmp_path: Path):
    """As they stand, with the example log in the place of LOG; a folder of two logs where the page has many."""
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    (tmp_path / "archive" / "a").mkdir(parents=True)
    (tmp_path / "runs").mkdir()
    write_table(tmp_path / "rollouts", made())
    for name in ("runs/one.json", "runs/two.json", "archive/a/three.jsonl"):
        (tmp_path / name).write_bytes((ROOT / LOG).read_bytes())
    (tmp_path / "priors.toml").write_text("[priors]\ndamping_ratio = [3.0, 0.5]\n")
    save_probes([probe([lambda shift: -np.diag([3.0, 1.0]) @ (np.ones(2) + shift)])], tmp_path / "probe.json")
    with chdir(tmp_path):
        for words in commands(path):
            given = [LOG if w == "LOG" else w for w in words if w != "..."]
            code, _, err = call(*given)
            assert code in (0, 4, 5), (words, err)
