"""The documentation: links lead somewhere, names are there, code and examples run, shown outputs are printed."""

import doctest
import math
import re
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer.main

import bayes_grpo
from bayes_grpo.cli.app import program
from bayes_grpo.probing.file import save_probes
from bayes_grpo.probing.probe import probe
from docs._ext.generated import ROOMS, commands_page, gallery_page, names_page, public_names, room_page, thumbnail
from tests.helpers.command import call
from tests.helpers.pages import DOCS, GENERATED, ROOT, blocks, commands, named, written_pages
from tests.helpers.paths import not_none
from tests.helpers.rollouts import made, write_table
from tests.helpers.selection import few

WRITTEN = written_pages()
ELSEWHERE = ("live", "how/sweep", "how/reference_runs")
"""Pages whose code needs a trainer, or a family of logs: `tests/training/test_callback.py`, `tests/families` and
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
    assert not_none(thumbnail(notebooks[0])).startswith(b"\x89PNG")


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


def names() -> dict[str, Any]:
    """Public names; most are imported with the first use, which is not to happen while tests are collected."""
    return {name: getattr(bayes_grpo, name) for name in vars(bayes_grpo)["__all__"]}


COSTLY = {"check", "compare", "decide", "fit", "forecast", "report_run"}
"""Names whose examples fit regimes."""


def examples() -> dict[str, doctest.DocTest]:
    """The examples of the public names."""
    known = names()
    finder = doctest.DocTestFinder(recurse=False)
    found = [x for name, value in known.items() for x in finder.find(value, name, module=False, globs=known)]
    return {x.name: x for x in found if x.examples}


def test_an_example_prints_what_it_shows():
    cheap = {name: x for name, x in examples().items() if name not in COSTLY}
    assert set(cheap) >= {"StoppingCosts", "analyze", "diagnose", "get_regime", "plan", "read_log", "rows_of", "view"}
    assert not [name for name, x in cheap.items() if doctest.DocTestRunner().run(x).failed]


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(COSTLY))
def test_an_example_that_fits_prints_what_it_shows(name):
    assert doctest.DocTestRunner().run(examples()[name]).failed == 0
