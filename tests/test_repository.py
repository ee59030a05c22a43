"""Facts about the repository that have to stay true."""

import json
import re
import stat
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.resources import files as files_of_package
from pathlib import Path
from typing import Any

import pytest
import yaml

import bayes_grpo
from bayes_grpo.cli import printing
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.logs.options import CHECKS
from bayes_grpo.logs.picking import all_readers
from bayes_grpo.regimes import REGIMES
from tests.conftest import LONGEST
from tests.helpers.pages import ROOT, written_pages

FIT_COMMAND = "pip install uv && uv run bayes-grpo fit notebooks/data/softmax_policy_grpo.json --plot fit.png"
TEST_COMMAND = "pip install uv && uv run pytest"
# Written so that this file does not match them.
REGISTRY = re.compile(
    r"py"
    r"pi\.org|python"
    r"hosted|(?:extra-)?index[-_]url\s*[=:]|/si"
    r"mple/?[\"'\s]|(?:art"
    r"ifactory|nex"
    r"us)\.",
    re.IGNORECASE,
)
PRIVATE_PATH = re.compile(r"(?<![\w.])/(?:root|work|Users|home/\w+)/")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads(text(name))


def files() -> list[Path]:
    """Files of the repository, tracked or about to be."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def matches(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}:{n}" for n, line in enumerate(lines, 1) if pattern.search(line)]
    return found


def test_public_names_are_there_and_listed():
    names = vars(bayes_grpo)["__all__"]
    assert len(names) > 50
    for name in names:
        assert getattr(bayes_grpo, name) is not None
    assert set(names) <= set(dir(bayes_grpo))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = bayes_grpo.no_such_name  # pyright: ignore[reportAttributeAccessIssue]


def test_versions_and_licence_are_the_same_everywhere():
    project = toml("pyproject.toml")["project"]
    stated = project["version"]
    assert version("bayes-grpo") == bayes_grpo.__version__ == stated
    assert re.search(rf"^version: {re.escape(stated)}$", text("CITATION.cff"), re.MULTILINE)
    assert re.search(rf"^## .*\b{re.escape(stated)}$", text("CHANGELOG.md"), re.MULTILINE)
    wanted, floor = text(".python-version").strip(), project["requires-python"].removeprefix(">=")
    assert tuple(map(int, wanted.split("."))) >= tuple(map(int, floor.split(".")))
    licence = text("LICENSE")
    assert "Apache License" in licence.splitlines()[0]
    assert "END OF TERMS AND CONDITIONS" in licence
    assert project["license"] == "Apache-2.0"


def test_constraints_name_every_direct_dependency():
    project = toml("pyproject.toml")["project"]
    wanted = project["dependencies"] + [d for extra in project["optional-dependencies"].values() for d in extra]
    names = {re.split(r"[^\w-]", d)[0] for d in wanted}
    lines = [line for line in text("constraints.txt").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in lines)
    assert names <= {line.split("==")[0] for line in lines}


def test_readme_has_both_commands_on_its_first_screen():
    first_screen = text("README.md").splitlines()[:40]
    assert FIT_COMMAND in first_screen
    assert TEST_COMMAND in first_screen


def test_the_documentation_names_what_the_program_has():
    readme = "\n".join(path.read_text(encoding="utf-8") for path in written_pages())
    for name in (*REGIMES, *CHECKS, *all_readers()):
        assert f"`{name}`" in readme, name
    said = ("INPUT", "NOT_CONVERGED", "FAILING", "INTERRUPTED", "ENDED")
    codes = {0, 2, *(getattr(printing, f"EXIT_{x}") for x in said)}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", readme, re.MULTILINE)} == codes
    assert f"{LEVEL:.0%}" in readme


def test_files_that_come_first_are_there():
    assert not [name for name in LONGEST if not (ROOT / "tests" / name).is_file()]


ROW = re.compile(r"^\|((?:\s*`\w+/`,?)+)\s*\|")


def compared(text: str, package: Path) -> tuple[list[str], list[str]]:
    """Rooms (folders of the package) that a table of rooms does not name, and rows for rooms that do not exist."""
    rows = (ROW.match(line) for line in text.splitlines())
    named = {name for row in rows if row for name in re.findall(r"`(\w+)/`", row[1])}
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    return sorted(rooms - named), sorted(named - rooms)


def test_architecture_names_every_room():
    missing, unknown = compared(text("ARCHITECTURE.md"), ROOT / "bayes_grpo")
    assert not missing, f"rooms that ARCHITECTURE.md does not name: {missing}"
    assert not unknown, f"rooms in ARCHITECTURE.md that do not exist: {unknown}"


def test_missing_and_removed_rooms_are_found(tmp_path: Path):
    for name in ("rows", "logs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    lines = ["| room | what |", "|---|---|", "| `rows/` | one signal |", "| `logs/`, `attic/` | runs |"]
    assert compared("\n".join(lines), tmp_path) == ([], ["attic"])
    assert compared("\n".join(lines[:3]), tmp_path) == (["logs"], [])


def test_rooms_import_from_lower_rooms_alone():
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_package_says_that_it_is_typed():
    assert files_of_package("bayes_grpo").joinpath("py.typed").is_file()
    assert files_of_package("bayes_grpo").joinpath("__init__.pyi").is_file()


def test_hooks_are_local_and_issues_ask_for_what_the_log_holds():
    hooks = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    assert all(hook["entry"].startswith("uv run ") for hook in hooks[0]["hooks"])
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [path.stem for path in templates] == ["bug", "log-not-read"]
    for path in templates:
        fields = yaml.safe_load(path.read_text())["body"]
        asked = [f for f in fields if "`bayes-grpo inspect LOG --json`" in f["attributes"].get("description", "")]
        assert asked, path.name
        assert asked[0]["validations"]["required"], path.name


def test_tasks_of_one_word_are_documented():
    tasks = toml("pyproject.toml")["tool"]["poe"]["tasks"]
    contributing = text("CONTRIBUTING.md")
    assert {"test", "lint", "types", "docs-check", "bench"} <= set(tasks)
    for task in tasks:
        assert f"`uv run poe {task}`" in contributing, task


def test_continuous_integration_runs_the_test_command():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    lines = script.read_text().splitlines()
    assert "set -euo pipefail" in lines
    for command in (*TEST_COMMAND.split(" && "), "uv run lint-imports --no-logo", "uv run --group docs pyright"):
        assert any(line.strip() in (command, f"step {command}") for line in lines), command


def test_notebooks_are_executed_in_order_and_small():
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert notebooks
    for path in notebooks:
        cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
        assert [c["execution_count"] for c in cells] == list(range(1, len(cells) + 1)), path.name
        outputs = [o for c in cells for o in c["outputs"]]
        assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"], path.name
        assert path.stat().st_size < 250_000


def test_no_registry_and_no_private_path_in_any_file():
    listed = [p for p in files() if p.name != "uv.lock"]
    assert len(listed) > 50
    assert matches(REGISTRY, listed) == []
    shown = [p for p in listed if p.suffix in (".md", ".ipynb", ".cff", ".toml", ".txt", ".json", "")]
    assert matches(PRIVATE_PATH, shown) == []


def test_the_patterns_can_match():
    for line in ("https://" + "py" + "pi.org/x", "index" + "_url = x", "--extra-index" + "-url=x"):
        assert REGISTRY.search(line)
    assert PRIVATE_PATH.search("see " + "/ro" + "ot/x")
