"""Settings out of ``training_args.bin``; the files are written as torch.save lays them out."""

import io
import os
import pickle
import random
import struct
import time
import warnings
import zipfile
from enum import StrEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_grpo.logs import Provenance, read_log
from bayes_grpo.logs.training_args import fields_in_pickle
from tests.logs.log_samples import trl_row, trl_state

ROWS = [trl_row(s, 0.1 + 0.005 * s) for s in range(10, 60, 10)]
NO_RATE = [{k: v for k, v in row.items() if k != "learning_rate"} for row in ROWS]


class Schedule(StrEnum):
    COSINE = "cosine"
    WARM = "constant_with_warmup"


class Config:
    """Stands for TRL's ``GRPOConfig``: nothing but attributes."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


FIELDS = {
    "output_dir": "out",
    "num_generations": 16,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 4,
    "steps_per_generation": 8,
    "generation_batch_size": 128,
    "num_iterations": 2,
    "adam_beta1": 0.95,
    "optim": "adamw_torch_fused",
    "lr_scheduler_type": Schedule.COSINE,
    "beta": 0.04,
    "scale_rewards": "group",
    "max_steps": 700,
    "logging_steps": 5,
    "report_to": ["none"],
    "fsdp": {"a": (1, None, {2.5})},
    "seed": 2**70,
}


def archive(pickled: bytes, name: str = "archive/data.pkl") -> bytes:
    """A file as ``torch.save`` lays it out: stored, not compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as folder:
        folder.writestr(name, pickled)
        folder.writestr("archive/version", "3\n")
    return buffer.getvalue()


def saved(protocol: int = 2, **changed) -> bytes:
    return archive(pickle.dumps(Config(**(FIELDS | changed)), protocol))


@pytest.fixture
def folder(write, tmp_path):
    """A function that writes a run's folder with one checkpoint and arguments in it; gives the folder."""

    def make(content, where="out/checkpoint-50", rows=NO_RATE, **state):
        write("out/checkpoint-50/trainer_state.json", trl_state(rows, **state))
        write(f"{where}/training_args.bin", content)
        return tmp_path / "out"

    return make


@pytest.mark.parametrize("protocol", range(6))
def test_arguments_become_settings(folder, protocol):
    run = read_log(folder(saved(protocol), max_steps=0, logging_steps=0))
    values = {
        "group_size": 16,
        "prompts_per_step": 4,  # 128 completions in 8 micro-steps, of which 4 make an optimizer step
        "refresh_interval": 4,
        "momentum": 0.95,
        "momentum_convention": "ema",
        "schedule": "cosine",
        "total_steps": 700,
        "logging_window": 5,
    }
    found = dict(run.settings.items())
    assert {name: found[name].value for name in values} == values
    assert {found[name].provenance for name in values} == {Provenance.CONFIG}
    assert "num_generations in training_args.bin" in run.settings.group_size.note
    assert "training_args.bin says beta 0.04, scale_rewards group" in run.notes


@pytest.mark.parametrize("where", ["out", "out/checkpoint-50"])
@pytest.mark.parametrize("path", ["", "checkpoint-50", "checkpoint-50/trainer_state.json"])
def test_arguments_are_found_from_wherever_a_log_is_read(folder, where, path):
    assert read_log(folder(saved(), where) / path).settings.group_size.value == 16


def test_arguments_of_the_newest_checkpoint_serve_the_state_of_the_run(write, tmp_path):
    write("out/trainer_state.json", trl_state(ROWS))
    write("out/checkpoint-9/training_args.bin", saved(num_generations=2))
    write("out/checkpoint-10/training_args.bin", saved(num_generations=4))
    assert read_log(tmp_path / "out").settings.group_size.value == 4


def test_arguments_serve_other_logs_of_a_folder_but_not_a_log_named_alone(write, tmp_path):
    path = write("out/metrics.jsonl", [{"step": s, "reward": 0.1 * s} for s in range(5)])
    write("out/training_args.bin", saved())
    assert read_log(tmp_path / "out").settings.group_size.value == 16
    assert read_log(path).settings.group_size.value is None


def test_what_the_log_and_the_user_state_goes_before(folder):
    path = folder(saved(), rows=ROWS)
    run = read_log(path, settings={"group_size": 2})
    assert (run.settings.group_size.value, run.settings.group_size.provenance) == (2, Provenance.USER)
    assert (run.settings.schedule.value, run.settings.schedule.provenance) == ("logged", Provenance.LOGGED)
    assert (run.settings.total_steps.value, run.settings.logging_window.value) == (100, 10)


def test_without_the_batch_of_all_processes_prompts_are_assumed(folder):
    s = read_log(folder(saved(generation_batch_size=None, num_generations=8))).settings.prompts_per_step
    assert (s.value, s.provenance) == (4, Provenance.ASSUMED)
    assert "one process" in s.note


def test_impossible_and_unusual_values_are_passed_over(folder):
    changed = {"num_generations": -8, "adam_beta1": 1.5, "max_steps": -1, "logging_steps": 0.1}
    s = read_log(folder(saved(**changed, lr_scheduler_type=Schedule.WARM), max_steps=0)).settings
    assert (s.group_size.value, s.group_size.provenance) == (8, Provenance.ASSUMED)
    assert (s.momentum.value, s.momentum.provenance) == (0.9, Provenance.ASSUMED)
    assert s.total_steps.value is None
    assert s.schedule.value == "constant"
    assert s.prompts_per_step.value is None


def nested(depth: int) -> tuple:
    value = ("adam",)
    for _ in range(depth):
        value = (value, value)
    return value


@pytest.mark.parametrize("value", [10**6000, -(10**400), float("inf"), float("nan"), nested(60), [nested(60)]],
                         ids=["digits", "negative", "infinite", "nan", "tuples", "list"])  # fmt: skip
def test_values_that_cannot_be_written_out_are_passed_over(folder, value):
    """Without a limit these end in a traceback, or never."""
    names = (
        "num_generations",
        "generation_batch_size",
        "max_steps",
        "adam_beta1",
        "optim",
        "lr_scheduler_type",
        "beta",
    )
    for name in names:
        run = read_log(folder(saved(**{name: value})))
        assert all("e+" not in note and len(note) < 300 for note in run.notes)
    assert read_log(folder(saved(num_generations=value))).settings.group_size.provenance is Provenance.ASSUMED


def test_another_optimizer_has_no_momentum_of_adam(folder):
    s = read_log(folder(saved(optim="sgd"))).settings
    assert s.momentum.provenance is Provenance.ASSUMED


class Call:
    """Pickled as a call that the file asks its reader to make."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_in_a_pickle_is_called(folder, tmp_path, protocol):
    mark = tmp_path / "called"
    attack = Call(os.system, f"touch {mark}")
    assert read_log(folder(saved(protocol, num_generations=attack))).settings.group_size.value == 8
    run = read_log(folder(archive(pickle.dumps(attack, protocol))))
    assert run.settings.group_size.value == 8
    fields_in_pickle(pickle.dumps(Config(a=attack, b=attack), protocol))
    assert not mark.exists()
    pickle.loads(pickle.dumps(attack, protocol))  # the same bytes do call where they are unpickled
    assert mark.exists()


def test_a_file_cut_off_anywhere_is_a_note(folder):
    data = saved()
    for end in range(0, len(data), 37):
        run = read_log(folder(data[:end]))
        assert run.settings.group_size.provenance is Provenance.ASSUMED
        assert any(n.startswith("training_args.bin could not be read") for n in run.notes)


def test_a_pickle_cut_off_anywhere_is_a_note(folder):
    pickled = pickle.dumps(Config(**FIELDS), 2)
    for end in range(0, len(pickled), 37):
        run = read_log(folder(archive(pickled[:end])))
        assert any(n.startswith("training_args.bin could not be read") for n in run.notes)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02}.",
        archive(b"N" * 10_000_000 + b"."),
        archive(b"N" * 900_000 + b"."),
        archive(b"(" * 50_000 + b"t" * 40_000 + b"."),
        archive(b"."),
        archive(b"]q\x00(" + b"h\x00" * 1000 + b"e."),
        archive(b"I" + b"9" * 100_000 + b"\n."),
        archive(b"\x8d" + b"\xff" * 8 + b"."),
        archive(b"}}a.s.", "archive/data.pkl"),
        archive(pickle.dumps({}), "data.txt"),
        archive(pickle.dumps([1])),
    ],
    ids=range(12),
)
def test_hostile_files_are_notes_and_fast(folder, content):
    path = folder(content)
    start = time.process_time()
    run = read_log(path)
    assert time.process_time() - start < 2
    assert len(run.step) == 5
    assert any(n.startswith("training_args.bin could not be read") for n in run.notes)


def test_a_bomb_in_a_zip_is_not_blown_up(folder):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("archive/data.pkl", b"N" * 100_000_000)
    assert any("more than 1000000 bytes" in n for n in read_log(folder(buffer.getvalue())).notes)


def refused(data: bytes) -> bool:
    """Whether a pickle is refused; anything else that is raised is a failure."""
    try:
        fields_in_pickle(data)
    except ValueError:
        return True
    return False


@given(value=st.dictionaries(st.text("abc"), st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()),
       protocol=st.integers(0, 5))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_plain_values_are_those_of_pickle(value, protocol):
    nested = {"1": [1, ("x",), {"y": 2}], "2": ("a", 1), "3": {"z": {}}, "4": b"x"}
    found = fields_in_pickle(pickle.dumps(nested | value | {"last": (1,)}, protocol))
    assert {k: v for k, v in found.items() if k in value} == value
    assert fields_in_pickle(pickle.dumps(Config(**value, more=1), protocol)) == value | {"more": 1}


BOMBS = {
    "memo": b"Nr\xff\xff\xff\x7f.",
    "memo in words": b"Np999999999\n.",
    "long": b"\x8b\xff\xff\xff\x7f.",
    "bytes": b"\x8e" + b"\xff" * 7 + b"\x7f.",
    "bytearray": b"\x96" + struct.pack("<Q", 2**40) + b".",
    "frame": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7fN.",
    "digits": b"I" + b"9" * 100_000 + b"\n.",
    "marks": b"(" * 900_000,
    "a code of copyreg": b"\x80\x02\x82\x4d(S'true'\ntR.",
    "a class that is changed": b"cos\nsystem\n(N}(S'__call__'\nI1\nutb.",
    "no value": b"b.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_at_once(name):
    begin = time.process_time()
    assert refused(BOMBS[name])
    assert time.process_time() - begin < 1


def test_mutated_pickles_are_fields_or_a_value_error():
    rng = random.Random(0)
    pool = [*BOMBS.values(), *(pickle.dumps(Config(**FIELDS), protocol) for protocol in range(6))]
    pool = [data for data in pool if len(data) < 2_000]
    with warnings.catch_warnings(action="ignore"):  # escapes of text that no pickler writes
        for _ in range(3_000):
            data, other = bytearray(rng.choice(pool)), rng.choice(pool)
            for _ in range(rng.randint(1, 6)):
                at = rng.randrange(len(data) + 1)
                data[at : at + rng.randrange(2)] = rng.choice(
                    [rng.randbytes(1), other[rng.randrange(len(other)) :][: rng.randrange(20)]]
                )
            refused(bytes(data))
