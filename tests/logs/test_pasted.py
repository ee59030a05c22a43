"""Logs as people paste them: bytes that a disk left, lines of a callback, a state at the end of JSON lines."""

import json
from typing import Any

import numpy as np

import bayes_grpo as bg


def rows(n: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(0)
    return [{"loss": 0.01, "reward": round(0.2 + 0.005 * i + 0.02 * rng.standard_normal(), 4)} for i in range(n)]


def test_nul_bytes_in_a_text_are_left_out_with_a_note(tmp_path):
    lines = [json.dumps({"step": i + 1} | row) for i, row in enumerate(rows(30))]
    path = tmp_path / "log.jsonl"
    path.write_bytes("\n".join([*lines[:12], "\0" * 300, *lines[12:]]).encode())
    run = bg.read_log(path)
    assert run.step.tolist() == list(range(1, 31))
    assert any("300 NUL bytes left out" in note for note in run.notes)


def test_dictionaries_beat_the_lines_that_a_callback_prints_beside_them(tmp_path):
    text = [f"{row}\n[STEP {i:3d}] loss=0.01 r_mean={row['reward']:+.1f}" for i, row in enumerate(rows(30), 1)]
    (tmp_path / "run.log").write_text("\n".join(text))
    run = bg.read_log(tmp_path / "run.log")
    assert run.format == "console_dict"
    assert run.reward.tolist() == [row["reward"] for row in rows(30)]


def test_json_lines_that_close_with_a_state_are_json_lines(tmp_path):
    lines: list[Any] = [r | {"global_step/max_steps": f"{i}/40"} for i, r in enumerate(rows(40), 1)]
    lines.append({"last_model_checkpoint": "x", "global_step": 40, "max_steps": 40, "log_history": []})
    (tmp_path / "logging.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert len(bg.read_log(tmp_path / "logging.jsonl").reward) == 40


def test_a_total_of_environments_is_the_reward(tmp_path):
    made = [
        {
            "step": i + 1,
            "reward/all/mean": 0.7 - 0.001 * i,
            "reward/math/mean": 0.5,
            "reward/code/mean": 0.9 - 0.002 * i,
        }
        for i in range(40)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, made)))
    run = bg.read_log(tmp_path / "log.jsonl")
    assert run.keys["reward"] == "reward/all/mean"
    assert set(run.environments) == {"math", "code"}
