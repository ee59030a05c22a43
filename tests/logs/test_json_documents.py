import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import Provenance, read_log

STEPS = [{"step": s, "reward": 0.1 * s, "loss": -1.0, "zvf": 0.25} for s in range(1, 6)]


def test_step_log_beside_settings(write):
    document = {
        "tag": "x",
        "group_size": 16,
        "batch": 4,
        "lr": 1e-5,
        "steps": 5,
        "reward_trace": [9.0] * 5,
        "step_log": STEPS,
    }
    run = read_log(write("r.json", document))
    np.testing.assert_allclose(run.reward, 0.1 * run.step)
    np.testing.assert_array_equal(run.signals["frac_reward_zero_std"], [0.25] * 5)
    for name, value in (("group_size", 16), ("prompts_per_step", 4), ("total_steps", 5)):
        setting = getattr(run.settings, name)
        assert (setting.value, setting.provenance) == (value, Provenance.CONFIG)


def test_reward_trace_alone(write):
    run = read_log(write("r.json", {"tag": "x", "group": 2, "reward_trace": [0.0, 0.25, 0.5], "peak": 0.5}))
    np.testing.assert_array_equal(run.step, [1, 2, 3])
    np.testing.assert_array_equal(run.reward, [0, 0.25, 0.5])
    assert run.settings.group_size.value == 2


def test_settings_in_a_config_object(write):
    config = {"num_generations": 4, "adam_beta1": 0.95, "lr_scheduler_type": "cosine", "momentum": "high"}
    s = read_log(write("r.json", {"config": config, "history": STEPS})).settings
    assert (s.group_size.value, s.momentum.value, s.momentum_convention.value) == (4, 0.95, "ema")
    assert s.schedule.value == "cosine"


@pytest.mark.parametrize(
    "columns",
    [
        {"step": [1, 2, 3], "reward": [0.1, 0.2, 0.3], "names": ["a"]},
        {"log": {"step": [1, 2, 3], "reward": [0.1, 0.2, 0.3]}},
    ],
)
def test_columns(write, columns):
    run = read_log(write("r.json", columns))
    np.testing.assert_array_equal(run.step, [1, 2, 3])
    np.testing.assert_array_equal(run.reward, [0.1, 0.2, 0.3])


def test_bare_list_of_numbers(write):
    np.testing.assert_array_equal(read_log(write("r.json", [0.1, 0.2, 0.3])).reward, [0.1, 0.2, 0.3])


def test_the_list_with_rewards_is_taken(write):
    run = read_log(write("r.json", {"samples": [{"text": "a"}] * 9, "train": {"curve": STEPS}}))
    assert len(run.step) == 5
    assert any("train.curve" in n for n in run.notes)


def test_two_lists_with_rewards_are_an_error(write):
    with pytest.raises(LogReadError, match=r"expected one run, found 2: first, second; choose with --run"):
        read_log(write("r.json", {"first": STEPS, "second": STEPS}))


def test_a_document_without_records(write):
    with pytest.raises(LogReadError, match=r"r\.json: expected a list of records.*found the keys model, tags"):
        read_log(write("r.json", {"model": "m", "tags": ["a"]}))


def test_forward_filled_records_are_thinned(write):
    values = [0.1, 0.15, 0.12, 0.3, 0.25, 0.4, 0.35]
    rows = [{"step": 11 + i, "reward_mean": values[i // 10], "loss": 2 * values[i // 10]} for i in range(70)]
    run = read_log(write("r.json", rows))
    np.testing.assert_array_equal(run.step, range(11, 80, 10))
    np.testing.assert_array_equal(run.reward, values)
    np.testing.assert_array_equal(run.window, [10] * 7)
    assert any("repeated 10 times" in n for n in run.notes)


def test_a_constant_or_coarse_reward_is_not_forward_filled(write):
    constant = [{"step": s, "reward": 0.0, "loss": 0.0} for s in range(1, 31)]
    assert len(read_log(write("a.json", constant)).step) == 30
    pairs = [{"step": s, "reward": float((s // 2) % 2)} for s in range(30)]
    assert len(read_log(write("b.json", pairs)).step) == 30
