"""The package as people install it: a wheel with all it needs, in an environment that has nothing else."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers.pages import ROOT

DATA = (
    "__init__.pyi",
    "py.typed",
    "families/seeds.json",
    "forecasting/event_rates.json",
    "forecasting/pool.json",
    "views/templates/page.html.j2",
    "views/templates/page.js",
    "views/templates/style.css",
)


def uv(*words: object) -> str:
    program = shutil.which("uv")
    if program is None:
        pytest.skip("uv is not on the path")
    done = subprocess.run([program, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_makes_the_demo(tmp_path: Path):
    """Downloads the dependencies where uv has not cached them."""
    uv("build", "--wheel", "--quiet", "--out-dir", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"bayes_grpo/{name}" for name in DATA} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]
    venv = tmp_path / "venv"
    uv("venv", "--quiet", "--python", sys.executable, venv)
    uv("pip", "install", "--quiet", "--python", venv / "bin" / "python", "-c", "constraints.txt", wheel)
    program = venv / "bin" / "bayes-grpo"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.strip() in wheel.name
    subprocess.run([program, "simulate", "--demo", "--out", tmp_path / "demo"], check=True, capture_output=True)
    (page,) = (tmp_path / "demo").glob("*.html")
    assert 50_000 < page.stat().st_size < 3_000_000
