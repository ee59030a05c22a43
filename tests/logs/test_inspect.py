"""What is shown of a log: its document, its picture, its dictionary."""

import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import bayes_grpo as bg
from bayes_grpo.common.errors import OutputError
from bayes_grpo.common.picture import save_plot
from bayes_grpo.logs.run import Caution, Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.views.plots.logs import plot_run
from tests.helpers import shown
from tests.helpers.runs import make_run, steps


def run_with(**more) -> Run:
    reward, kl = [np.nan, 0.2, 0.3, 0.25, 0.5, 0.4], 0.1 * steps(6)
    made = make_run(
        steps(6), reward, window=2.0, signals={"kl": kl, "entropy": np.nan}, evals={2.0: 0.1, 6.0: 0.3}, name="run"
    )
    settings = Settings(group_size=Setting(8, Provenance.USER), momentum=Setting(0.9, note="a default"))
    fields = {"settings": settings, "keys": {"reward": "train/reward", "kl": "kl"}, "notes": ("one", "two")}
    return replace(made, **fields | more)


def text_of(run: Run) -> str:
    return shown.text_of(run, 120)


def test_counts_and_ranges():
    settings = Settings(momentum=Setting(float("nan")), group_size=Setting(np.int64(8), Provenance.USER))
    found = run_with(settings=settings).to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [found[k] for k in ("rows", "first_step", "last_step", "window", "eval_rows")] == [6, 1, 6, [2, 2], 2]
    ends = {"low": 0.2, "high": 0.5, "first": 0.2, "last": 0.4}
    assert found["reward"] == {"key": "train/reward", "finite": 5} | ends
    assert found["signals"]["entropy"] == {"key": "", "finite": 0} | dict.fromkeys(ends)
    assert found["settings"]["group_size"] == {"value": 8, "provenance": "user", "note": ""}
    assert found["settings"]["momentum"]["value"] is None
    assert found["settings"]["epochs"]["provenance"] == "none"
    assert found["notes"] == ["one", "two"]
    empty = np.empty(0)
    found = run_with(step=empty, reward=empty, window=empty, signals={}).to_dict()
    assert [found[k] for k in ("rows", "first_step", "window")] == [0, None, None]


def test_text_of_a_log_is_neither_markup_nor_control():
    evil = "[red]x[/red] [/] \x1b[31mz\x07\n\u202ename"
    text = text_of(run_with(name=evil, source=evil, keys={"reward": evil}, notes=(evil,)))
    assert "[red]x[/red] [/]" in text
    assert not any(c in text for c in "\x1b\x07\u202e")


def test_a_plot_is_written_in_the_format_of_its_suffix_or_not_at_all(tmp_path):
    run = run_with(name="cost $5_{x} $")
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = tmp_path / f"plot{suffix}"
        assert save_plot(plot_run(run), path) == path
        assert path.read_bytes().startswith(magic)
        path.unlink()
    (tmp_path / "taken.png").mkdir()
    for name, words in (
        ("missing/plot.png", "missing does not exist"),
        ("plot.xyz", "expected a picture file name"),
        ("taken.png", "expected a file to write, found a directory"),
    ):
        with pytest.raises(OutputError, match=words):
            save_plot(plot_run(run), tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["taken.png"]


def test_plot_goes_into_a_given_figure():
    figure = Figure(figsize=(4, 3), layout="constrained")
    assert plot_run(run_with(), figure) is figure
    assert len(figure.axes) == 2
    assert figure.get_size_inches().tolist() == [4, 3]


def screen_of(log) -> str:
    return " ".join(shown.text_of(bg.read_log(log), 120, details=False).split())


def test_parts_of_the_reward_stand_in_the_table():
    rows = [
        {"step": i, "mean_reward": 0.02 * i, "mean_format_reward": 0.5, "mean_answer_reward": 0.02 * i, "entropy": 0.0}
        for i in range(1, 13)
    ]
    run = bg.read_log([{k: v for k, v in row.items() if k != "mean_format_reward" or v} for row in rows])
    assert {*run.parts} == {"rewards/format", "rewards/answer"}
    assert run.unused == {"entropy": "0 in every row, so not computed"}
    assert run.suggested.get("entropy") is None
    assert run.to_dict()["parts"]["rewards/format"]["last"] == 0.5
    text = screen_of(rows)
    assert text.count("part of the reward") == text.count("mean_answer_reward (equals the reward in every row)") == 1
    assert "mean_format_reward" in text


def test_few_unused_keys_are_named():
    rows = [{"step": i, "reward": 0.1 * i, "exact": 0.2, "odd": 3} for i in range(1, 13)]
    assert "Unused keys: exact, odd" in screen_of(rows)
    assert "Unused keys: 9" in screen_of([row | {f"more_{i}": i for i in range(7)} for row in rows])


def test_what_was_sorted_or_left_out_stands_on_the_first_screen(write):
    rows = [{"step": s, "reward": 0.1 + 0.001 * s} for i in range(1, 13) for s in (i, 100 + i)]
    assert "Note: steps go backwards 11 times" in screen_of(rows)
    assert "Note" not in screen_of(sorted(rows, key=lambda row: row["step"]))
    lists = {"step": [*range(1, 21)], "reward": [0.1 * i for i in range(20)], "extra": [1.0, 2.0, 3.0]}
    assert "Note: left out because no steps are given for their number of values: extra" in screen_of(
        write("a.json", lists)
    )


def test_rows_that_are_no_number_are_told_with_their_steps():
    rows = [{"step": i, "reward": 0.1 * i, "grad_norm": np.nan if i in (4, 7) else 0.5} for i in range(1, 9)]
    assert "grad_norm is NaN or infinite in 2 rows (step 4, 7)" in " ".join(screen_of(rows).split())


def test_the_middle_of_a_range_is_a_caution(write):
    table = "| Step | Train reward |\n|---|---|\n| 0 | ~ -0.4 |\n| 5 | ~ 0.1 |\n| 40 | ~ +0.5 to +0.7 |\n"
    run = bg.read_log(write("a.md", table))
    assert run.reward.tolist() == pytest.approx([-0.4, 0.1, 0.6])
    assert any(isinstance(note, Caution) and "the middle is read" in note for note in run.notes)
