import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.logs import Provenance, read_log
from bayes_grpo.logs.options import CHECKS
from tests.logs.log_samples import assert_read

ROWS = [{"step": s, "reward": 0.1 * s, "learning_rate": 1e-6} for s in range(1, 6)]


@pytest.mark.parametrize(
    ("name", "good", "value"),
    [
        ("group_size", "16", 16),
        ("group_size", 1, 1),
        ("prompts_per_step", 0.5, 0.5),
        ("momentum", "0.95", 0.95),
        ("momentum", 0, 0.0),
        ("momentum_convention", "Heavy_Ball", "heavy_ball"),
        ("refresh_interval", 4, 4.0),
        ("schedule", "cosine", "cosine"),
        ("total_steps", 1e3, 1000.0),
        ("logging_window", 10, 10.0),
        ("reward_low", -1, -1.0),
        ("reward_high", "2", 2.0),
        ("reward_std_kind", "within", "within"),
    ],
)
def test_what_a_user_says_overrides_everything(write, name, good, value):
    write("bayes_grpo.toml", '[settings]\ngroup_size = 3\nmomentum = 0.1\nschedule = "linear"\n')
    setting = getattr(read_log(write("log.jsonl", ROWS), settings={name: good}).settings, name)
    assert setting.value == value
    assert type(setting.value) is type(value)
    assert setting.provenance is Provenance.USER


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("group_size", 0),
        ("group_size", 2.5),
        ("group_size", True),
        ("group_size", "many"),
        ("group_size", float("nan")),
        pytest.param("group_size", 10**5000, id="a number too long to print"),
        ("group_size", [8]),
        ("prompts_per_step", 0),
        ("momentum", 1),
        ("momentum", -0.1),
        ("momentum_convention", "nesterov"),
        ("momentum_convention", 1),
        ("refresh_interval", 0),
        ("schedule", "wsd"),
        ("total_steps", -1),
        ("logging_window", float("inf")),
        ("reward_low", "low"),
        ("reward_std_kind", None.__class__),
        ("group", 8),
    ],
)
def test_impossible_settings_say_what_was_expected(write, name, bad):
    with pytest.raises(SettingError, match=rf"settings: expected .*{name}.*found|settings: expected .*found '{name}'"):
        read_log(write("log.jsonl", ROWS), settings={name: bad})


def test_bounds_of_the_reward_must_not_cross_and_none_is_not_stated(write):
    path = write("log.jsonl", ROWS)
    assert_read(read_log(path, settings={"momentum": None}), settings={"momentum": (0.9, "assumed")})
    for given, content in (({"reward_low": 2, "reward_high": 1}, ""), ({"reward_low": 2}, "reward_high = 1\n")):
        write("bayes_grpo.toml", f"[settings]\n{content}")
        with pytest.raises(SettingError, match="reward_low below reward_high, found 2 and 1"):
            read_log(path, settings=given)


def test_the_file_beside_a_log_is_read(write, tmp_path):
    write("out/bayes_grpo.toml", "[settings]\ngroup_size = 4\nlogging_window = 1\n[other]\nx = 1\n")
    write("out/metrics.jsonl", ROWS)
    for path in (tmp_path / "out", tmp_path / "out" / "metrics.jsonl"):
        assert_read(run := read_log(path), settings={"group_size": (4, "config")})
        assert "bayes_grpo.toml" in run.settings.group_size.note


def test_logs_of_one_folder_have_settings_of_their_own(write):
    own = '[runs.b]\ngroup_size = 16\n[runs."c.jsonl"]\nmomentum = 0.1\n'
    write("bayes_grpo.toml", f"[settings]\ngroup_size = 4\nmomentum = 0.5\n{own}")
    logs = [write(f"{name}.jsonl", ROWS) for name in "abc"]
    a, b, c = (read_log(log).settings for log in logs)
    assert [x.group_size.value for x in (a, b, c)] == [4, 16, 4]
    assert [x.momentum.value for x in (a, b, c)] == [0.5, 0.5, 0.1]
    assert b.group_size.provenance is Provenance.CONFIG
    logs[1].unlink()
    with pytest.raises(SettingError, match=r"\[runs.NAME\] with the name of a log .* found b among a.jsonl, c.jsonl"):
        read_log(logs[0])


@pytest.mark.parametrize(
    "content",
    [
        "[settings\n",
        "runs = 3",
        "runs.log = 3",
        "settings = 3",
        "[settings]\nG = 4",
        b"\xff\xfe\x00",
        "[settings]\ngroup_size = {a = 1}",
        "a = " + "[" * 100_000,
    ],
)
def test_a_broken_settings_file_is_named(write, content):
    write("bayes_grpo.toml", content)
    with pytest.raises(SettingError, match=r"bayes_grpo\.toml: expected"):
        read_log(write("log.jsonl", ROWS))


def test_unknown_trainers_get_few_assumptions(write):
    s = read_log([{"step": i, "reward": 0.1 * i} for i in range(1, 6)]).settings
    assert set(CHECKS) == {name for name, _ in s.items()}
    assumed = {name: v for name, v in s.items() if v.provenance is Provenance.ASSUMED and v.value is not None}
    given = {"momentum": 0.9, "momentum_convention": "ema", "refresh_interval": 1, "schedule": "constant"}
    expected = given | {"logging_window": 1, "reward_std_kind": "unknown"}
    assert {name: v.value for name, v in assumed.items()} == expected
    assert s.group_size.value is None
