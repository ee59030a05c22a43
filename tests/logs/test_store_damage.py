"""Stores that are half written, damaged or hostile: what is whole is read, what is lost is said, nothing is made up."""

import random
import sqlite3
import time

import numpy as np
import pytest
from hypothesis import settings

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import Run, read_log
from bayes_grpo.logs.finding import runs_at
from bayes_grpo.stores.records import masked_crc32c
from tests.helpers import stores
from tests.helpers.selection import few
from tests.helpers.stores import WRITERS
from tests.logs.log_samples import assert_read

STEPS = range(1, 13)
ROWS = [(s, {"train/reward": 0.125 * s, "train/entropy": 0.5, "train/global_step": float(s)}) for s in STEPS]
TRUE = {(float(s), 0.125 * s) for s in STEPS}
CHECKED = ("wandb", "tensorboard")
"""Stores with checksums: there damage is always seen."""
FUZZED = settings().max_examples
"""As many files as there are examples of a property."""


def read(path) -> tuple[Run | None, str]:
    """The run, or the message of an error of this package; any other error is a failure."""
    try:
        return read_log(path), ""
    except LogReadError as error:
        message = str(error)
    assert "\n" not in message
    assert "expected" in message
    return None, message


def rewards(run: Run | None) -> set[tuple[float, float]]:
    """Steps and rewards of the rows that have one."""
    if run is None:
        return set()
    logged = np.isfinite(run.reward)
    return set(zip(run.step[logged].tolist(), run.reward[logged].tolist(), strict=True))


def file_of(store: str, folder) -> tuple:
    """A store's main file, with its bytes."""
    path = WRITERS[store](folder, ROWS, {"num_generations": 8})
    return path, path.read_bytes()


def last_record(store: str, data: bytes) -> int:
    """Where the last record begins."""
    wandb = 7 + len(stores.wandb_records(ROWS)[-1])
    return len(data) - (wandb if store == "wandb" else len(stores.tfrecord(stores.event_records(ROWS)[-1])))


@pytest.mark.parametrize("store", CHECKED)
def test_a_file_that_is_cut_at_any_byte_of_its_last_record(store, tmp_path):
    path, data = file_of(store, tmp_path)
    begin = last_record(store, data)
    path.write_bytes(data[:begin])
    without = rewards(read(path)[0])
    assert len(TRUE) - 1 <= len(without)
    for cut in range(begin + 1, len(data)):
        path.write_bytes(data[:cut])
        run = read_log(path)
        assert rewards(run) == without <= TRUE
        assert f"the last record is cut: {cut - begin} byte{'s' * (cut - begin > 1)} dropped" in run.notes
    for room in (0, 3000) if store == "wandb" else (0,):  # a live file may end in room that is set aside
        path.write_bytes(data + bytes(room))
        assert_read(run := read_log(path), without=("cut", "checksum"))
        assert rewards(run) == TRUE


@pytest.mark.parametrize("store", few(CHECKED, "wandb"))
def test_a_flipped_bit_anywhere_is_seen(store, tmp_path):
    path = WRITERS[store](tmp_path, ROWS[:2])
    data, true = path.read_bytes(), {(float(s), 0.125 * s) for s in range(1, 3)}
    refused = said = 0
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        path.write_bytes(bad)
        run, _ = read(path)
        assert rewards(run) <= true
        if run is None:
            refused += 1
            continue
        said += any("checksums fail in" in n or "is cut" in n for n in run.notes)
    # Three bytes of the header of W&B are a version that nobody checks.
    assert refused + said >= len(data) - 3


@pytest.mark.parametrize("store", CHECKED)
def test_damage_costs_no_more_than_what_comes_after_it(store, tmp_path):
    rows = [(s, {"train/reward": 0.125 * s, "train/global_step": float(s)}) for s in range(1, 2001)]
    path = WRITERS[store](tmp_path, rows)
    data = bytearray(path.read_bytes())
    assert len(data) > 3 * 32_768
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    run = read_log(path)
    assert len(rewards(run)) >= 900
    assert all(reward == 0.125 * step for step, reward in rewards(run))
    assert "checksums fail in 1 place; the records there are left out" in run.notes


@pytest.mark.parametrize("store", WRITERS)
def test_fuzzed_files(store, tmp_path):
    path, data = file_of(store, tmp_path)
    rng = random.Random(17)
    begin = time.monotonic()
    for _ in range(FUZZED):
        bad = bytearray(data)
        for _ in range(rng.randint(1, 6)):
            at, size = rng.randrange(len(bad)), rng.randint(1, 40)
            what = rng.randrange(4)
            if what == 0:
                bad[at : at + size] = rng.randbytes(size)
            elif what == 1:
                del bad[at : at + size]
            elif what == 2:
                bad[at:at] = bad[rng.randrange(len(bad)) :][:size]
            else:
                bad[at] ^= 1 << rng.randrange(8)
            bad = bad or bytearray(b"x")
        path.write_bytes(bad)
        run, _ = read(path)
        if store in CHECKED:
            assert rewards(run) <= TRUE
    assert time.monotonic() - begin < 60


@pytest.mark.thorough
@pytest.mark.parametrize("store", ["trackio", "mlflow"])
def test_a_database_with_a_flipped_bit_or_cut_short(store, tmp_path):
    """SQLite keeps no checksums: the shape of the file is what tells."""
    path, data = file_of(store, tmp_path)
    for at in range(0, len(data), 127):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        path.write_bytes(bad)
        run, _ = read(path)
        assert run is None or len(run.step) <= len(STEPS)
    for cut in range(len(data) - 4096, len(data), 97):
        path.write_bytes(data[:cut])
        run, _ = read(path)
        assert rewards(run) <= TRUE


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE VIEW metrics AS WITH RECURSIVE n(run_id, run_name, step, metrics) AS "
        "(SELECT 'a', 'a', 1, '{}' UNION ALL SELECT run_id, run_name, step + 1, metrics FROM n) SELECT * FROM n",
        "CREATE TABLE metrics (run_id, run_name, step, metrics AS (hex(zeroblob(1000000))))",
        "CREATE TABLE metrics (run_name)",
    ],
)
def test_hostile_databases(schema, tmp_path):
    path = tmp_path / "project.db"
    with sqlite3.connect(path) as db:
        db.execute(schema)
        if "AS (hex" in schema:
            db.execute("INSERT INTO metrics (run_id, run_name, step) VALUES ('a', 'a', 1)")
    db.close()
    begin = time.monotonic()
    for name in (None, "trackio", "mlflow"):
        with pytest.raises(LogReadError, match=r"project\.db: expected"):
            read_log(path, format=name)
    assert time.monotonic() - begin < 5


def test_no_function_of_a_database_is_run(tmp_path):
    """A column that is computed would call one; SQLite takes these for harmless, a reader need not."""
    path = tmp_path / "project.db"
    with sqlite3.connect(path) as db:
        made = 'printf(\'{"train/global_step": %d, "train/reward": 0.5}\', step)'
        db.execute(f"CREATE TABLE metrics (run_id, run_name, step, metrics AS ({made}))")
        db.executemany("INSERT INTO metrics (run_id, run_name, step) VALUES ('a', 'a', ?)", [(s,) for s in STEPS])
        assert len(db.execute("SELECT metrics FROM metrics").fetchall()) == len(STEPS)
    db.close()
    with pytest.raises(LogReadError, match=r"project\.db: expected"):
        read_log(path)


def test_lengths_that_promise_what_is_not_there(tmp_path):
    path = tmp_path / "events.out.tfevents.1.host"
    size = (1 << 62).to_bytes(8, "little")
    path.write_bytes(size + stores.crc32c(size).to_bytes(4, "little") + b"x" * 100)
    with pytest.raises(LogReadError, match=r"found none \(the last record is cut: 112 bytes dropped\); wait"):
        read_log(path)


@pytest.mark.thorough
@pytest.mark.parametrize("filling", [b"\x00", b"\x01", b"\xff", b"\x01\x00\x00\x00\x00\x00\x01"])
@pytest.mark.parametrize("store", CHECKED)
def test_long_files_of_nothing_end_soon(store, filling, tmp_path):
    path, data = file_of(store, tmp_path)
    path.write_bytes(data + filling * (4_000_000 // len(filling)))
    begin = time.monotonic()
    run, _ = read(path)
    assert run is None or rewards(run) == TRUE
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize(
    ("store", "what"),
    [
        ("wandb", "rows of metrics in the .wandb file"),
        ("tensorboard", "rows of metrics in the event file"),
        ("trackio", "runs .*"),
        ("mlflow", "runs .*"),
    ],
)
def test_a_store_without_a_row_yet(store, what, tmp_path):
    path = WRITERS[store](tmp_path, [], name="new")
    with pytest.raises(LogReadError, match=rf"expected {what}.*found none; wait for the first logged row"):
        read_log(path)


def test_checksums_agree_with_those_computed_bit_by_bit():
    rng = random.Random(0)
    assert stores.crc32c(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
    parts = [rng.randbytes(n) for n in (*range(20), 300)]
    assert [masked_crc32c(p) for p in parts] == [stores.crc32c(p) for p in parts]


def test_a_run_whose_own_record_is_damaged_has_the_name_of_its_file(tmp_path):
    path, data = file_of("wandb", tmp_path)
    records = [stores.field(17, b"\xff\xff"), *stores.wandb_records(ROWS)[1:]]  # its checksum holds
    stores.write(path, stores.leveldb(data[:7], records))
    key = path.stem.removeprefix("run-")
    assert runs_at(path.parents[1]) == [key]
    assert_read(run := read_log(path.parents[1]), "checksums fail in 1 place", name=key)
    assert rewards(run) == TRUE
