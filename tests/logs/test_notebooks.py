"""Trainings in the outputs of notebooks, and in tables of Markdown and HTML: own samples in the shapes of real ones."""

import json
import time

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from bayes_grpo.logs.readers.pages import tables_in
from tests.helpers.command import call
from tests.logs.log_samples import assert_read

STEPS = range(1, 13)
REWARD = [0.1 + 0.05 * i for i in STEPS]
PAIRS = list(zip(STEPS, REWARD, strict=True))


NAMES = ("Step", "Training Loss", "reward", "reward_std", "completions / mean_length", "kl", "rewards / check / mean")


def progress(first=1, last=12, planned=250, shift=0.0):
    """What transformers' callback shows in a notebook, with TRL's columns as Unsloth names them."""
    body = ""
    for s in range(first, last + 1):
        reward = f"{0.1 + 0.05 * s + shift:.6f}"
        row = (s, "0.000100", reward, "0.300000", f"{100 + s}.500000", "No Log" if s == first else "0.000400", reward)
        body += "    <tr>\n" + "".join(f"      <td>{x}</td>\n" for x in row) + "    </tr>"
    return (
        f"\n    <div>\n      <progress value='{last}' max='{planned}' style='width:300px;'></progress>\n"
        f"      [{last}/{planned} 28:17, Epoch 0/1]\n    </div>\n"
        '    <table border="1" class="dataframe">\n  <thead>\n <tr style="text-align: left;">\n'
        + "".join(f"      <th>{name}</th>\n" for name in NAMES)
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


def test_several_trainings_are_chosen_by_name(notebook):
    path = notebook(code(shown(progress())), code(shown(progress(shift=0.2))))
    with pytest.raises(
        LogReadError, match=r'found 2: cell 2 \(steps 1 to 12, .*\), cell 3 \(.*\); choose with run="NAME"'
    ):
        read_log(path)
    assert read_log(path, run="cell 3").reward[0] == pytest.approx(0.35)
    done = call("inspect", path, "--run", "cell 2", "--json")
    assert json.loads(done.out)["reward"]["first"] == pytest.approx(0.15)


OTHER = "<table><tr><th>model</th><th>reward</th></tr><tr><td>a</td><td>0.5</td></tr></table>"
TUNED = "<table><tr><th>Step</th><th>Training Loss</th></tr><tr><td>1</td><td>2.5</td></tr></table>"
FRAME = "\n".join(["    step  reward   kl", *(f"{i}  {s}  {r:.3f}  0.1" for i, (s, r) in enumerate(PAIRS))])
DICTS = "\n".join(f"{{'loss': 0.01, 'reward': {r:.3f}, 'step': {s}}}" for s, r in PAIRS)
LINES = "\n".join(f"step={s} reward={r:.3f} kl=0.01" for s, r in PAIRS)


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        ([code(shown(progress(1, 6))), code(shown(progress(1, 6))), code(shown(progress(7, 12)))], "read from cell 2"),
        ([code(shown(OTHER), shown(TUNED)), code(shown(progress()))], "read from cell 3"),
        ([code(printed("no metrics here")), code(printed(DICTS), source=CONFIG)], "cell 3 as console_dict"),
        ([code(printed("no metrics here")), code(printed(LINES), source=CONFIG)], "cell 3 as console_pairs"),
        ([code(shown(None, FRAME))], "a table of 12 rows"),
        ([code(source="GRPOConfig(" + "(" * 5000), code(shown(progress()))], "a table of 12 rows"),
    ],
    ids=["goes on and shown twice", "other tables", "dictionaries", "lines", "a data frame", "code that is none"],
)
def test_a_training_among_the_outputs(notebook, cells, note):
    run = read_log(notebook(*cells))
    configured = any("num_generations" in x["source"] for x in cells)
    assert_read(run, note, step=STEPS, reward=REWARD)
    of_trl = any("completions / mean_length" in str(x) for x in cells)
    assert run.settings.group_size.value == (6 if configured else 8 if of_trl else None)
    assert tables_in("reward is what we want\nand nothing else\nhere") == []


def test_a_page_and_a_markdown_file_with_the_table(tmp_path):
    (tmp_path / "README.md").write_text("# Results\n\nReward goes up.\n\n" + progress() + "\n\nThe end.")
    (tmp_path / "train.html").write_text("<!DOCTYPE html>\n<style>" + "x" * 90_000 + "</style>" + progress())
    bars = "| Step | reward | kl |\n|---:|:---|---|\n" + "".join(f"| {s} | **{r:.3f}** | 0.1 |\n" for s, r in PAIRS)
    (tmp_path / "table.md").write_text("Some words | and a bar\n\n" + bars + "\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    for name in ("README.md", "train.html", "table.md"):
        assert_read(read_log(tmp_path / name), reward=REWARD, format="marked_table")
    (tmp_path / "two.md").write_text(bars + "\n" + bars.replace("0.1 |", "0.2 |"))
    with pytest.raises(LogReadError, match=r"found 2: table 1 \(steps 1 to 12, reward 0.15 to 0.7\), table 2 "):
        read_log(tmp_path / "two.md")
    assert_read(read_log(tmp_path / "two.md", run="table 2"), reward=REWARD, signals={"kl": 0.2})
    (tmp_path / "none.md").write_text("# Nothing\n\n| model | reward |\n|---|---|\n| a | 1 |\n")
    with pytest.raises(LogReadError, match="found a table without steps of 1 row"):
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
    assert tables_in(text) == []
    assert time.process_time() - begin < 3.0


def test_many_tables_are_not_compared_with_each_other(tmp_path):
    (tmp_path / "many.html").write_text("<div>" + progress(1, 2) * 1000 + "</div>")
    before = time.process_time()
    with pytest.raises(LogReadError, match=r"expected one run, found 1000: table 1 .* table 12 "):
        read_log(tmp_path / "many.html")
    assert time.process_time() - before < 5.0
