"""Small stores as trackers write them, byte by byte and without the package's own framing.

A row is the step that the trainer gave and its metrics.
"""

import json
import math
import sqlite3
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[tuple[int, Mapping[str, Any]]]

TIME = 1_795_362_534
"""Seconds at which everything was written."""


def number(value: int) -> bytes:
    """A varint."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(key: int, value: int | float | str | bytes) -> bytes:
    """One field of a message."""
    if isinstance(value, float):
        return number(key << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return number(key << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(data)) + data


def leveldb(header: bytes, records: Sequence[bytes]) -> bytes:
    """Records in blocks of 32 KiB behind a header of seven bytes."""
    assert len(header) == 7
    out = bytearray(header)
    for record in records:
        left, first = record, True
        while True:
            room = 32_768 - len(out) % 32_768
            if room < 7:
                out += bytes(room)
                room = 32_768
            piece, left = left[: room - 7], left[room - 7 :]
            kind = (1 if first else 4) if not left else (2 if first else 3)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            first = False
            if not left:
                break
    return bytes(out)


def crc32c(data: bytes) -> int:
    """Masked CRC-32C, bit by bit."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    register ^= 0xFFFFFFFF
    return ((register >> 15 | register << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord(data: bytes) -> bytes:
    """One record of an event file."""
    size = struct.pack("<Q", len(data))
    return size + struct.pack("<I", crc32c(size)) + data + struct.pack("<I", crc32c(data))


def wandb_records(rows: Rows, config: Mapping[str, Any] | None = None, name: str = "run") -> list[bytes]:
    """Records of a .wandb file: the run, then a row a record, its own counter under ``_step``."""
    items = b"".join(field(1, field(1, k) + field(16, json.dumps(v))) for k, v in (config or {}).items())
    run = field(1, "abc12345") + field(3, "project") + field(4, items) + field(8, name)
    records = [field(1, 1) + field(17, run)]
    for i, (step, row) in enumerate(rows):
        values = {**row, "_step": counter(i, step, row), "_timestamp": TIME + i}
        content = b"".join(field(1, field(2, k) + field(16, json.dumps(v))) for k, v in values.items())
        records.append(field(1, i + 2) + field(2, content))
    return records


def write_wandb(folder: Path, rows: Rows, config: Mapping[str, Any] | None = None, name: str = "run") -> Path:
    """A .wandb file."""
    path = folder / "wandb" / "offline-run-20261122_154853-abc12345" / "run-abc12345.wandb"
    return write(path, leveldb(b":W&B\xe1\xbe\x00", wandb_records(rows, config, name)))


def counter(number: int, step: int, row: Mapping[str, float]) -> int:
    """What a store counts in ``_step``: its own rows where the trainer logs a step of its own beside the metrics."""
    return number if any(key.endswith("step") for key in row) else step


def event(step: int, summary: bytes) -> bytes:
    """An event with a summary."""
    return field(1, float(TIME + step)) + field(2, step) + field(5, summary)


def scalar_event(step: int, key: str, value: float) -> bytes:
    """An event with one number."""
    return event(step, field(1, field(1, key) + number(2 << 3 | 5) + struct.pack("<f", value)))


def text_event(key: str, words: str) -> bytes:
    """An event with a text in a tensor."""
    return event(0, field(1, field(1, key) + field(8, field(1, 7) + field(8, words))))


def event_records(rows: Rows, config: Mapping[str, Any] | None = None) -> list[bytes]:
    """Events: the version, the arguments as transformers writes them, then a metric an event."""
    records = [field(1, float(TIME)) + field(3, "brain.Event:2")]
    if config:
        records.append(text_event("args/text_summary", json.dumps(config)))
    return records + [scalar_event(step, key, value) for step, row in rows for key, value in row.items()]


def write_tensorboard(folder: Path, rows: Rows, config: Mapping[str, Any] | None = None, name: str = "run") -> Path:
    """An event file."""
    path = folder / "runs" / name / f"events.out.tfevents.{TIME}.host.1.0"
    return write(path, b"".join(tfrecord(r) for r in event_records(rows, config)))


def write_trackio(folder: Path, rows: Rows, config: Mapping[str, Any] | None = None, name: str = "run") -> Path:
    """A run in a project of Trackio; another call adds another run."""
    path = folder / "trackio" / "project.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, "
            "timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL)"
        )
        db.execute(
            "CREATE TABLE IF NOT EXISTS configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, "
            "run_name TEXT NOT NULL, config TEXT NOT NULL, created_at TEXT NOT NULL)"
        )
        (runs,) = db.execute("SELECT count(DISTINCT run_id) FROM metrics").fetchone()
        key = f"{runs:04d}id"
        content = json.dumps(config or {}).encode()
        db.execute(
            "INSERT INTO configs (run_id, run_name, config, created_at) VALUES (?, ?, ?, ?)", (key, name, content, "t")
        )
        for i, (step, row) in enumerate(rows):
            shown = {k: "NaN" if math.isnan(v) else v for k, v in row.items()}
            db.execute(
                "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)",
                (key, "t", name, counter(i, step, row), json.dumps(shown).encode()),
            )
    db.close()
    return path


def write_mlflow(folder: Path, rows: Rows, config: Mapping[str, Any] | None = None, name: str = "run") -> Path:
    """A run in a database of MLflow; another call adds another run."""
    path = folder / "mlflow.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE IF NOT EXISTS runs (run_uuid TEXT PRIMARY KEY, name TEXT, lifecycle_stage TEXT)")
        db.execute(
            "CREATE TABLE IF NOT EXISTS params (key TEXT, value TEXT, run_uuid TEXT, PRIMARY KEY (key, run_uuid))"
        )
        db.execute(
            "CREATE TABLE IF NOT EXISTS metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT, "
            "is_nan BOOLEAN)"
        )
        (runs,) = db.execute("SELECT count(*) FROM runs").fetchone()
        key = f"{runs:04d}" + "f" * 28
        db.execute("INSERT INTO runs VALUES (?, ?, 'active')", (key, name))
        db.executemany("INSERT INTO params VALUES (?, ?, ?)", [(k, str(v), key) for k, v in (config or {}).items()])
        for step, row in rows:
            for metric, value in row.items():
                nan = math.isnan(value)
                db.execute(
                    "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)",
                    (metric.replace("@", "_at_"), 0.0 if nan else value, TIME * 1000 + step, key, step, nan),
                )
    db.close()
    return path


def write_mlruns(folder: Path, rows: Rows, config: Mapping[str, Any] | None = None, name: str = "run") -> Path:
    """A run of MLflow's text store; the file that describes it."""
    key = zlib.crc32(name.encode())
    run = folder / "mlruns" / "172652193062897763" / f"{key:032x}"
    write(run.parent / "meta.yaml", b"experiment_id: '172652193062897763'\nname: project\n")
    for k, v in (config or {}).items():
        write(run / "params" / k, str(v).encode())
    lines: dict[str, list[str]] = {}
    for step, row in rows:
        for metric, value in row.items():
            lines.setdefault(metric.replace("@", "_at_"), []).append(f"{TIME * 1000 + step} {value} {step}\n")
    for metric, text in lines.items():
        write(run / "metrics" / metric, "".join(text).encode())
    about = f"lifecycle_stage: active\nrun_id: {key:032x}\nrun_name: '{name}'\nuser_id: me\n"
    return write(run / "meta.yaml", about.encode())


def write(path: Path, data: bytes) -> Path:
    """A file and the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


WRITERS: Mapping[str, Callable[..., Path]] = {
    "wandb": write_wandb,
    "tensorboard": write_tensorboard,
    "trackio": write_trackio,
    "mlflow": write_mlflow,
    "mlruns": write_mlruns,
}
"""Store → what writes a run into it, below a folder."""
