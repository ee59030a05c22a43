"""`bayes-grpo report` and `simulate --demo`: what they write and print, and what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.command import call

ONLY_DIAGNOSIS = ("--without", "fit,regimes,check,forecast,stability")


@pytest.fixture
def log(tmp_path: Path, curve: np.ndarray, write_trl_log: Callable[..., Path]) -> Path:
    return write_trl_log(tmp_path / "trainer_state.json", curve)


def test_a_page_is_written_and_its_sentences_are_printed(tmp_path: Path, log: Path):
    page = tmp_path / "page.html"
    done = call("report", log, "--out", page, *ONLY_DIAGNOSIS)
    assert done.code == 0, done.err
    assert f"bayes-grpo: {done.out.splitlines()[0]}" in done.err.splitlines()  # before the page is there
    assert "Do now: " in done.out.partition("What is wrong (")[0]
    assert "chance of a failure): " in done.out
    assert "Unknown: Left out on request." in done.out
    assert "page.html" in done.out
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "Left out on request." in text


def test_json_has_the_same_results(tmp_path: Path, log: Path):
    page = tmp_path / "page.html"
    done = call("report", log, "--out", page, "--json", *ONLY_DIAGNOSIS)
    content = json.loads(done.out)
    assert content["diagnosis"]["failing"] < 1.0
    assert content["fit"]["reason"] == "Left out on request."
    assert [x["about"] for x in content["sentences"]][2] == "What is wrong"
    assert page.exists()


def test_several_runs_are_refused_and_files_of_one_are_joined(tmp_path: Path):
    for name, extra in (("a", 0.0), ("b", 0.1)):
        rows = ({"step": s, "reward": extra + 0.01 * s} for s in range(1, 31))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "kl.csv").write_text("step,kl\n" + "".join(f"{s},0.1\n" for s in range(1, 31)))
    done = call("report", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--out", tmp_path / "page.html")
    assert done.code == 3
    assert "expected the parts of one run, found a.jsonl and b.jsonl" in done.err
    assert "`bayes-grpo compare-runs " in done.err
    assert json.loads(call("inspect", tmp_path / "a.jsonl", tmp_path / "kl.csv", "--json").out)["signals"]["kl"]
