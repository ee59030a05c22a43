"""Runs in batches and their logs: TRL's keys, what TRL leaves out, and a reader that takes them.

What trains the tiny setup stands here, so that it is compiled once.
"""

import json
import tomllib
from dataclasses import dataclass, replace

import numpy as np
import pytest

import bayes_grpo as bg
from bayes_grpo.simulate.settings import Structure
from bayes_grpo.simulate.trainer_log import write_runs
from benchmarks.lab.families import draw_run
from benchmarks.lab.log import deep_state
from benchmarks.lab.network import Network
from benchmarks.lab.runs import train_draws
from benchmarks.lab.settings import Lab
from benchmarks.lab.setups import Setup
from benchmarks.lab.training import network_from

FAMILIES = ("healthy", "hacking_loophole", "broken_reward")


@dataclass(frozen=True)
class FreshSetup(Setup):
    """A setup whose runs start from random weights: a warm start would take most of a test's time."""

    def start(self, success: float, seed: int, clumsy: float) -> np.ndarray:
        """Parameters at the start; the success rate is not heeded."""
        return np.random.default_rng(seed).normal(0.0, 0.1, network_from(self.lab, self.make_task().vocabulary)[0])


STRUCTURE = Structure(n_steps=40, group_size=4, prompts_per_step=4, optimizer="adam", eval_every=10)
NETWORK = Network(layers=1, width=8, heads=1, hidden=8)
TINY = FreshSetup("modular_sum", Lab(STRUCTURE, NETWORK, limit=3, eval_prompts=8), rate=1e-3)


@pytest.fixture(scope="module")
def runs():
    """One run of each family in the tiny setup, trained side by side."""
    draws = [replace(draw_run(family, 0, 0), setup=TINY, warm_seed=0, clumsy=0.0) for family in FAMILIES]
    draws[2] = draws[2].reward(broken_from=20.0)
    by_family = {run.draw.family: run for run in train_draws(draws)}
    return [by_family[family] for family in FAMILIES]


@pytest.fixture(scope="module")
def written(runs, tmp_path_factory):
    return write_runs(runs, tmp_path_factory.mktemp("lab") / "out", logging_steps=2)


def rows_of(run, numbers=None, every=1):
    log = deep_state(run.trajectory, TINY.lab, numbers or run.draw.numbers, 75, every)
    return [row for row in log["log_history"] if "reward" in row]


def test_a_row_has_the_signals_of_trl(runs):
    row = rows_of(runs[0], every=5)[0]
    t = runs[0].trajectory
    assert row["step"] == 5
    assert row["reward"] == pytest.approx(t.reward[:5].mean(), rel=1e-6)
    assert row["grad_norm"] == pytest.approx(t.grad_norm[4], rel=1e-6)
    assert row["completions/clipped_ratio"] == pytest.approx(1.0 - t.components[:5, 3].mean(), rel=1e-6)
    assert row["completions/mean_length"] == pytest.approx(t.mean_length[:5].mean(), rel=1e-6)
    assert row["epoch"] == pytest.approx(5 * 4 / 75)
    assert {"reward_std", "frac_reward_zero_std", "entropy", "clip_ratio/region_mean", "learning_rate"} <= set(row)


def test_kl_is_logged_only_where_it_has_a_weight(runs):
    numbers = runs[0].draw.numbers
    for weight in (0.0, 0.01):
        row = rows_of(runs[0], numbers._replace(base=numbers.base._replace(kl_weight=weight)))[0]
        assert ("kl" in row) == (weight > 0)


def test_components_are_logged_only_where_they_have_a_weight(runs):
    row = rows_of(runs[1])[0]
    assert {key for key in row if key.startswith("rewards/")} == {"rewards/anywhere/mean", "rewards/length/mean"}
    length = runs[1].draw.numbers.length
    whole = row["rewards/anywhere/mean"] + length * row["rewards/length/mean"]
    assert row["reward"] == pytest.approx(whole, rel=1e-5)


def test_components_are_broken_from_the_first_rollout_that_a_broken_verifier_scored(runs):
    numbers = runs[2].draw.numbers._replace(broken_from=21.0)
    all_right = runs[2].trajectory._replace(components=np.ones((40, 5)))
    for refresh, last in (("hold", 24), ("delay", 25)):
        lab = replace(TINY.lab, structure=replace(TINY.lab.structure, refresh=refresh))
        late = numbers._replace(base=numbers.base._replace(refresh_interval=4))
        rows = [row for row in deep_state(all_right, lab, late, 75)["log_history"] if "reward" in row]
        assert [row["rewards/right/mean"] for row in rows] == [1.0] * last + [0.0] * (40 - last)


def test_read_log_takes_the_folder(runs, written):
    run = bg.read_log(written[1])
    t = runs[1].trajectory
    np.testing.assert_allclose(run.reward, t.reward.reshape(-1, 2).mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(run.eval_reward, t.eval_reward, rtol=1e-5)
    assert {"entropy", "grad_norm", "completion_length", "completions_clipped_ratio", "frac_reward_zero_std"} <= set(
        run.signals
    )
    assert run.settings.group_size.value == 4
    assert run.settings.logging_window.value == 2
    assert run.settings.reward_high.value == pytest.approx(1.0 + runs[1].draw.numbers.length)


def test_truth_names_cause_and_event(runs, written):
    truth = json.loads((written[2] / "truth.json").read_text())
    assert truth["scenario"] == "broken_reward"
    assert truth["causes"] == ["broken"]
    assert truth["event"] == runs[2].truth.event
    assert truth["numbers"]["broken_from"] == 20.0
    assert len(truth["gold_reward"]) == 40
    settings = tomllib.loads((written[2] / "bayes_grpo.toml").read_text())["settings"]
    assert settings["total_steps"] == 40


def test_a_run_that_exploded_is_written_with_nulls_and_read(runs, tmp_path):
    """Numbers that JSON does not have: a run whose parameters are no numbers logs them to its end."""
    run = runs[0]
    burst = np.where(np.arange(run.trajectory.reward.size) < 20, run.trajectory.entropy, np.nan)
    exploded = replace(run, trajectory=run.trajectory._replace(entropy=burst))
    (place,) = write_runs([exploded], tmp_path / "out", logging_steps=1)
    path = place / "trainer_state.json"
    assert "NaN" not in path.read_text(encoding="utf-8")
    entropy = bg.read_log(path).signals["entropy"]
    np.testing.assert_allclose(entropy, burst, rtol=1e-5)
