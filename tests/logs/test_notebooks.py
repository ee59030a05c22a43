"""Trainings in the outputs of notebooks, and in tables of Markdown and HTML: own samples in the shapes of real ones."""

import json
import time

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from bayes_grpo.logs.readers.pages import html_tables, markdown_tables, plain_tables
from tests.helpers.command import call

STEPS = range(1, 13)
REWARD = [0.1 + 0.05 * i for i in STEPS]
PAIRS = list(zip(STEPS, REWARD, strict=True))


def progress(first=1, last=12, planned=250, shift=0.0):
    """What transformers' callback shows in a notebook, with TRL's columns as Unsloth names them."""
    names = (
        "Step",
        "Training Loss",
        "reward",
        "reward_std",
        "completions / mean_length",
        "kl",
        "rewards / check / mean",
    )
    body = "".join(
        f"    <tr>\n      <td>{s}</td>\n"
        + "".join(f"      <td>{x}</td>\n" for x in ("0.000100", f"{0.1 + 0.05 * s + shift:.6f}", "0.300000"))
        + f"      <td>{100 + s}.500000</td>\n      <td>{'No Log' if s == first else '0.000400'}</td>\n"
        + f"      <td>{0.1 + 0.05 * s + shift:.6f}</td>\n    </tr>"
        for s in range(first, last + 1)
    )
    return (
        f"\n    <div>\n      <progress value='{last}' max='{planned}' style='width:300px;'></progress>\n"
        f"      [{last}/{planned} 28:17, Epoch 0/1]\n    </div>\n"
        '    <table border="1" class="dataframe">\n  <thead>\n <tr style="text-align: left;">\n'
        + "".join(f"      <th>{name}</th>\n" for name in names)
        + f"    </tr>\n  </thead>\n  <tbody>\n{body}\n  </tbody>\n</table><p>"
    )


def code(*outputs, source=""):
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": source, "outputs": list(outputs)}


def shown(html=None, plain="<IPython.core.display.HTML object>"):
    data = {"text/plain": [plain]} | ({} if html is None else {"text/html": html.splitlines(keepends=True)})
    return {"output_type": "display_data", "metadata": {}, "data": data}


def printed(text):
    return {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}


CONFIG = """
!pip install trl
from trl import GRPOConfig
args = GRPOConfig(
    learning_rate = 5e-6, num_generations = 6, per_device_train_batch_size = 6, max_steps = 300, logging_steps = 1,
    beta = lambda: __import__("os").system("true"), output_dir = "outputs",
)
"""


@pytest.fixture
def notebook(tmp_path):
    def make(*cells, name="train.ipynb"):
        path = tmp_path / name
        document = {"cells": [{"cell_type": "markdown", "source": ["# GRPO"]}, *cells], "metadata": {}, "nbformat": 4}
        path.write_text(json.dumps(document))
        return path

    return make


def test_a_progress_table_with_the_settings_of_the_code(notebook):
    run = read_log(notebook(code(source=CONFIG), code(printed("Unsloth: will patch"), shown(progress()))))
    np.testing.assert_array_equal(run.step, STEPS)
    np.testing.assert_allclose(run.reward, REWARD)
    np.testing.assert_allclose(run.signals["completion_length"], [100.5 + s for s in STEPS])
    assert np.isnan(run.signals["kl"][0])
    np.testing.assert_allclose(run.components["check"], REWARD)
    assert (run.format, run.name) == ("notebook", "train")
    found = {name: run.settings.items() and getattr(run.settings, name).value for name in ("group_size", "total_steps")}
    assert found == {"group_size": 6, "total_steps": 250}
    assert "read from cell 3, a table of 12 rows" in run.notes
    assert any("num_generations" in note for note in run.notes)


def test_a_notebook_in_a_file_of_another_name(notebook):
    assert read_log(notebook(code(shown(progress())), name="train.json")).format == "notebook"


def test_several_trainings_are_chosen_by_name(notebook):
    path = notebook(code(shown(progress())), code(shown(progress(shift=0.2))))
    with pytest.raises(LogReadError, match="expected one run, found 2: cell 2, cell 3; choose with --run NAME"):
        read_log(path)
    assert read_log(path, run="cell 3").reward[0] == pytest.approx(0.35)
    done = call("inspect", path, "--run", "cell 2", "--json")
    assert json.loads(done.out)["reward"]["first"] == pytest.approx(0.15)


def test_a_table_that_goes_on_is_one_run_and_one_shown_twice_is_too(notebook):
    again = progress(1, 6)
    run = read_log(notebook(code(shown(progress(1, 6))), code(shown(again)), code(shown(progress(7, 12)))))
    np.testing.assert_array_equal(run.step, STEPS)


def test_tables_that_are_no_training_are_passed_by(notebook):
    other = "<table><tr><th>model</th><th>reward</th></tr><tr><td>a</td><td>0.5</td></tr></table>"
    tuned = "<table><tr><th>Step</th><th>Training Loss</th></tr><tr><td>1</td><td>2.5</td></tr></table>"
    run = read_log(notebook(code(shown(other), shown(tuned)), code(shown(progress()))))
    np.testing.assert_allclose(run.reward, REWARD)


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (
            "\n".join(f"{{'loss': 0.01, 'reward': {r:.3f}, 'step': {s}}}" for s, r in PAIRS),
            "dict",
        ),
        ("\n".join(f"step={s} reward={r:.3f} kl=0.01" for s, r in PAIRS), "pairs"),
    ],
)
def test_what_a_cell_prints_goes_to_the_readers_of_consoles(notebook, text, format_):
    run = read_log(notebook(code(printed("no metrics here")), code(printed(text), source=CONFIG)))
    np.testing.assert_allclose(run.reward, REWARD)
    np.testing.assert_array_equal(run.step, STEPS)
    assert any(f"cell 3 as console_{format_}" in note for note in run.notes)
    assert run.settings.group_size.value == 6


def test_a_data_frame_as_plain_text(notebook):
    lines = [
        "    step  reward   kl",
        *(f"{i}  {s}  {r:.3f}  0.1" for i, (s, r) in enumerate(PAIRS)),
    ]
    run = read_log(notebook(code(shown(None, "\n".join(lines)))))
    np.testing.assert_allclose(run.reward, REWARD)
    assert plain_tables("reward is what we want\nand nothing else\nhere") == []


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([code(printed("hello"))], "found none in 1 cells with an output; run it and save it with its outputs"),
        ([], "found none in 0 cells"),
    ],
)
def test_a_notebook_without_a_training(notebook, cells, said):
    with pytest.raises(LogReadError, match=said):
        read_log(notebook(*cells))


def test_code_that_cannot_be_parsed_is_passed_by(notebook):
    run = read_log(notebook(code(source="GRPOConfig(" + "(" * 5000), code(shown(progress()))))
    assert run.settings.group_size.value == 8  # TRL's default


def test_a_page_and_a_markdown_file_with_the_table(tmp_path):
    (tmp_path / "README.md").write_text("# Results\n\nReward goes up.\n\n" + progress() + "\n\nThe end.")
    (tmp_path / "train.html").write_text("<!DOCTYPE html>\n<style>" + "x" * 90_000 + "</style>" + progress())
    bars = "| Step | reward | kl |\n|---:|:---|---|\n" + "".join(f"| {s} | **{r:.3f}** | 0.1 |\n" for s, r in PAIRS)
    (tmp_path / "table.md").write_text("Some words | and a bar\n\n" + bars + "\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    for name in ("README.md", "train.html", "table.md"):
        run = read_log(tmp_path / name)
        np.testing.assert_allclose(run.reward, REWARD, err_msg=name)
        assert run.format == "marked_table"
    (tmp_path / "none.md").write_text("# Nothing\n\n| model | reward |\n|---|---|\n| a | 1 |\n")
    with pytest.raises(LogReadError, match="expected the log of a known trainer"):
        read_log(tmp_path / "none.md")
    with pytest.raises(LogReadError, match="a column step and one of rewards in the page, found none"):
        read_log(tmp_path / "none.md", format="marked_table")


@pytest.mark.parametrize(
    "text",
    [
        "<table>" * 60_000,
        "<table>" + "<tr>" * 60_000 + "</table>",
        "<table><tr>" + "<td>" * 60_000 + "</tr></table>",
        "<table><tr><td>" + "<!--" * 60_000 + "</table>",
        "<table><tr><td>" + "<a " * 60_000 + "</table>",
        "<table><tr><td>" + "<a b='" * 60_000 + "</table>",
        "<table><tr><td>" + "&" * 200_000 + "</table>",
        "<table><tr><script>" + "</scrip" * 60_000 + "</table>",
        "|" * 200_000 + "\n" + "|-" * 100_000,
        "| a |\n|---|\n" * 40_000,
        "- " * 100_000 + "|\n" + "-|" * 9_000 + "\n",
    ],
)
def test_hostile_markup_costs_what_its_length_costs(text):
    begin = time.process_time()
    assert html_tables(text) == markdown_tables(text) == []
    assert time.process_time() - begin < 3.0


def test_many_tables_are_not_compared_with_each_other(tmp_path):
    (tmp_path / "many.html").write_text("<div>" + progress(1, 2) * 3000 + "</div>")
    before = time.process_time()
    with pytest.raises(LogReadError, match="expected one run, found 3000: table 1, table 2"):
        read_log(tmp_path / "many.html")
    assert time.process_time() - before < 5.0
