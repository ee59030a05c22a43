"""Files that trackers append to: event files of TensorBoard, ``run-ID.wandb``, ``run-ID.swanlab``.

The first holds events (``event.proto``): a step and a summary of tagged values, a number or a tensor; settings are
text that is JSON or the session of the plugin for hyperparameters. The second holds records
(``wandb_internal.proto``): the run with its configuration, changes of it, rows of the history.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, ReadOptions, RunName, Source
from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.readers.json_text import parse_line
from bayes_grpo.logs.table import Table, TableBuilder
from bayes_grpo.logs.trainers import identify
from bayes_grpo.logs.training_args import flat_config
from bayes_grpo.stores.files import SWANLAB_CONFIG, settings_in
from bayes_grpo.stores.protobuf import BYTES, FIXED32, FIXED64, VARINT, double_of_bytes, fields, message, signed, text
from bayes_grpo.stores.records import Damage, leveldb_records, starts_record, tfrecord_records

StoreRow = dict[str, float]


class Points:
    """Collects metrics in the order in which they were written."""

    def __init__(self) -> None:
        self._step: list[float] = []
        self._key: list[str] = []
        self._value: list[float] = []

    def add(self, step: float, key: str, value: float) -> None:
        """Appends one metric."""
        self._step.append(step)
        self._key.append(key)
        self._value.append(value)

    def table(self) -> Table:
        """Rows in the order of their first metric: metrics of one step are one row.

        A metric that a step already has opens a new row of that step: it is a part of the step or a resumed training.
        Where the trainer counts rollouts and updates on steps of their own, each kind of key has rows of its own.

        Raises:
            LogReadError: There are more keys than a log of metrics has.
        """
        keys = dict.fromkeys(self._key)
        axes = _axes(tuple(keys))
        axis_of = {key: next((axis for axis in axes if key.startswith(f"{axis}/")), "") for key in keys}
        counter = "_step" if "step" in keys else "step"
        rows: list[StoreRow] = []
        current: dict[tuple[str, float], StoreRow] = {}
        for step, key, value in zip(self._step, self._key, self._value, strict=True):
            axis = axis_of[key]
            row = current.get((axis, step))
            if row is None or key in row:
                row = {f"{axis}/step": step} if axis else {counter: step}
                current[axis, step] = row
                rows.append(row)
            row[key] = value
        builder = TableBuilder()
        for row in rows:
            builder.add(row)
        return builder.build()


def _axes(keys: Sequence[str]) -> tuple[str, ...]:
    """First words of the keys that the trainer logs at steps of their own, where the keys do not say the step."""
    trainer = identify(KeyIndex(Table.from_rows([dict.fromkeys(keys, 0.0)])))
    return tuple(axis for axis in trainer.axes if f"{axis}/step" not in keys)


_EVENT_STEP, _SUMMARY = 2, 5
"""Fields of an event."""
_EVENT_VALUE, _TAG, _SIMPLE, _TENSOR, _METADATA = 1, 1, 2, 8, 9
_DTYPE, _CONTENT, _FLOATS, _DOUBLES, _STRINGS = 1, 4, 5, 6, 8
_FLOAT, _DOUBLE = 1, 2
_PLUGIN, _PLUGIN_CONTENT = 1, 2
_SESSION, _SETTING = 3, 1
_SETTINGS_TAG = "_hparams_/session_start_info"
_SIMPLE_END = b"\x15"  # the key of a number by itself, with four bytes behind it at the end of an event


def _sniff_tensorboard(source: Source) -> Evidence | None:
    """Recognises a length with its right checksum."""
    return Evidence(3, "an event file of TensorBoard") if starts_record(source.data) else None


class _Value(NamedTuple):
    tag: str
    number: float | None
    config: dict[str, Any]


def _read_tensorboard(source: Source, options: ReadOptions) -> Parsed:
    """Scalars joined into rows, with the settings among the texts."""
    if not starts_record(source.data):
        raise LogReadError("expected an event file of TensorBoard, found another beginning; pass events.out.tfevents.*")
    damage, points = Damage(), Points()
    config: dict[str, Any] = {}
    # Nearly all events are one number: what stands before its four bytes repeats, so its tag is looked up.
    tags: dict[bytes, str] = {}
    for event in tfrecord_records(source.data, damage):
        try:
            step, summary = 0, b""
            for number, wire, content in fields(event):
                if number == _EVENT_STEP and wire == VARINT:
                    step = signed(content)
                elif number == _SUMMARY and wire == BYTES and isinstance(content, bytes):
                    summary = content
            known = tags.get(summary[:-4])
            if known is not None:
                points.add(step, known, struct.unpack("<f", summary[-4:])[0])
                continue
            found = [
                _event_value(v)
                for n, wire, v in fields(summary)
                if n == _EVENT_VALUE and wire == BYTES and isinstance(v, bytes)
            ]
            for value in found:
                config |= value.config
                if value.number is not None:
                    points.add(step, value.tag, value.number)
            if len(found) == 1 and found[0].number is not None and _ends_in_simple(summary):
                tags[summary[:-4]] = found[0].tag
        except ValueError:
            damage.at(1)
    table = points.table()
    if not table.n and not config:
        raise damage.nothing("the event file")
    return Parsed(table, flat_config(config), notes=damage.notes())


def _ends_in_simple(summary: bytes) -> bool:
    """Whether the last field of the only value of a summary is a number by itself."""
    last = [wire for _, wire, _ in fields(message(summary, _EVENT_VALUE) or b"")]
    return summary[-5:-4] == _SIMPLE_END and bool(last) and last[-1] == FIXED32


def _event_value(value: bytes) -> _Value:
    tag, number, tensor, metadata = "", None, b"", b""
    for field, wire, content in fields(value):
        if field == _TAG and wire == BYTES:
            tag = text(content)
        elif field == _SIMPLE and wire == FIXED32 and isinstance(content, bytes):
            number = struct.unpack("<f", content)[0]
        elif field == _TENSOR and isinstance(content, bytes):
            tensor = content
        elif field == _METADATA and isinstance(content, bytes):
            metadata = content
    config: dict[str, Any] = {}
    if tag == _SETTINGS_TAG:
        config = _session(metadata)
    elif tensor:
        number, words = _tensor(tensor)
        stated = parse_line(words) if words.lstrip().startswith("{") else None
        config = stated if isinstance(stated, dict) else {}
    return _Value(tag, number, config)


def _tensor(tensor: bytes) -> tuple[float | None, str]:
    """The number or the text in a tensor of one entry."""
    kind, raw, words = 0, b"", ""
    numbers: list[bytes] = []
    for field, wire, content in fields(tensor):
        if field == _DTYPE and isinstance(content, int):
            kind = content
        elif field == _CONTENT and isinstance(content, bytes):
            raw = content
        elif field in (_FLOATS, _DOUBLES) and wire in (BYTES, FIXED32, FIXED64) and isinstance(content, bytes):
            numbers.append(content)
        elif field == _STRINGS and wire == BYTES:
            words = text(content)
    data = raw or b"".join(numbers)
    if kind == _FLOAT and len(data) == 4:
        return struct.unpack("<f", data)[0], ""
    if kind == _DOUBLE and len(data) == 8:
        return struct.unpack("<d", data)[0], ""
    return None, words


def _session(metadata: bytes) -> dict[str, Any]:
    """Settings of the plugin for hyperparameters: number, text or truth value by name."""
    session = message(message(message(metadata, _PLUGIN) or b"", _PLUGIN_CONTENT) or b"", _SESSION) or b""
    found: dict[str, Any] = {}
    for number, wire, entry in fields(session):
        if number != _SETTING or wire != BYTES or not isinstance(entry, bytes):
            continue
        key, value = "", None
        for field, kind, content in fields(entry):
            if field == 1 and kind == BYTES:
                key = text(content)
            elif field == 2 and isinstance(content, bytes):
                value = next((_plain(k, c) for _, k, c in fields(content)), None)
        if key and value is not None:
            found[key] = value
    return found


def _plain(wire: int, content: int | bytes) -> float | str | bool:
    if wire == FIXED64:
        return double_of_bytes(content)
    return text(content) if wire == BYTES else bool(content)


class _Kind(NamedTuple):
    """One of the two trackers whose files hold LevelDB's records of protobuf.

    Attributes:
        name: Its name, and the ending of its files.
        magic: How a file begins.
        run: Field of a record that names the run.
        others: Fields of a record that are of use besides.
        title: Field of the run with its name.
        id: Field of the run with its id.
    """

    name: str
    magic: bytes
    run: int
    others: tuple[int, ...]
    title: int
    id: int

    def sniff(self, source: Source) -> Evidence | None:
        """Recognises the first four bytes."""
        return Evidence(3, f"a .{self.name} file") if source.data.startswith(self.magic) else None

    def runs(self, source: Source) -> list[RunName]:
        """The one run of the file."""
        found = next((self.named(c) for n, c in self.contents(source.data, Damage()) if n == self.run), RunName("", ""))
        key = found.id or source.path.stem.removeprefix("run-")
        return [RunName(found.name or key, key)]

    def contents(self, data: bytes, damage: Damage) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of what the records hold that is of use."""
        if not data.startswith(self.magic):
            raise LogReadError(f"expected a .{self.name} file, found another beginning; pass run-ID.{self.name}")
        for record in leveldb_records(data, damage):
            try:
                for number, wire, content in fields(record):
                    if number in (self.run, *self.others) and wire == BYTES and isinstance(content, bytes):
                        yield number, content
            except ValueError:
                damage.at(1)

    def named(self, run: bytes) -> RunName:
        """Name and id of a run."""
        try:
            found = {number: text(value) for number, wire, value in fields(run) if wire == BYTES}
        except ValueError:
            found = {}
        return RunName(found.get(self.title, ""), found.get(self.id, ""))

    def parsed(self, table: Table, config: Mapping[str, Any], damage: Damage, name: str) -> Parsed:
        """Rows with the run's configuration and name."""
        if not table.n:
            raise damage.nothing(f"the .{self.name} file")
        return Parsed(table, flat_config(config), notes=damage.notes(), run_name=name)


_HISTORY, _RUN, _CONFIG = 2, 17, 18
_WANDB = _Kind("wandb", b":W&B", _RUN, (_HISTORY, _CONFIG), 8, 1)
_ITEM, _UPDATE, _RUN_CONFIG = 1, 1, 4
_WANDB_KEY, _NESTED_KEY, _JSON = 1, 2, 16


def _read_wandb(source: Source, options: ReadOptions) -> Parsed:
    """Rows of the history, with the run's name and configuration."""
    damage = Damage()
    builder = TableBuilder()
    config: dict[str, Any] = {}
    name = ""
    for number, content in _WANDB.contents(source.data, damage):
        try:
            if number == _HISTORY:
                builder.add(_values(content, _ITEM))
            elif number == _RUN:
                name = _WANDB.named(content).name or name
                config |= _values(message(content, _RUN_CONFIG) or b"", _UPDATE)
            else:
                config |= _values(content, _UPDATE)
        except ValueError:
            damage.at(1)
    return _WANDB.parsed(builder.build(), {k: v for k, v in config.items() if k != "_wandb"}, damage, name)


def _values(content: bytes, item: int) -> dict[str, Any]:
    """Key → value of the items in a message; what is no JSON is left out."""
    found: dict[str, Any] = {}
    for number, wire, value in fields(content):
        if number != item or wire != BYTES or not isinstance(value, bytes):
            continue
        keys, encoded = [], b""
        for part, kind, inner in fields(value):
            if kind != BYTES or not isinstance(inner, bytes):
                continue
            if part == _JSON:
                encoded = inner
            elif part in (_WANDB_KEY, _NESTED_KEY):
                keys.append(inner.decode("utf-8", errors="replace"))
        if keys and encoded:
            found["/".join(keys)] = _wandb_value(encoded)
    return found


def _wandb_value(encoded: bytes) -> Any:
    try:
        return float(encoded)  # nearly all values of a history
    except ValueError:
        return parse_line(encoded.decode("utf-8", errors="replace"))


_START, _SCALAR = 10, 13
_SWANLAB = _Kind("swanlab", b":SWL", _START, (_SCALAR,), 4, 10)
_SWANLAB_KEY, _SWANLAB_STEP, _SWANLAB_VALUE = 1, 2, 5


def _read_swanlab(source: Source, options: ReadOptions) -> Parsed:
    """Scalars joined into rows, with the run's name and configuration."""
    damage, points, name = Damage(), Points(), ""
    for number, content in _SWANLAB.contents(source.data, damage):
        if number == _START:
            name = _SWANLAB.named(content).name
            continue
        try:
            _add(points, content)
        except ValueError:
            damage.at(1)
    stated = settings_in(source.beside.get(SWANLAB_CONFIG, b"").decode("utf-8", errors="replace"))
    config = {k: v["value"] if isinstance(v, dict) and "value" in v else v for k, v in stated.items()}
    return _SWANLAB.parsed(points.table(), config, damage, name)


def _add(points: Points, scalar: bytes) -> None:
    """One metric; without a step it belongs to step 0, and a number that is not written is 0."""
    key, step, value = "", 0, None
    for number, wire, content in fields(scalar):
        if number == _SWANLAB_KEY and wire == BYTES:
            key = text(content)
        elif number == _SWANLAB_STEP and wire != BYTES:
            step = signed(content)
        elif number == _SWANLAB_VALUE and wire == BYTES and isinstance(content, bytes):
            value = 0.0
            for _, kind, inner in fields(content):
                if kind == FIXED64:
                    value = double_of_bytes(inner)
    if key and value is not None:
        points.add(step, key, value)


READERS = (
    Reader("tensorboard", _sniff_tensorboard, _read_tensorboard),
    Reader("wandb", _WANDB.sniff, _read_wandb, _WANDB.runs),
    Reader("swanlab", _SWANLAB.sniff, _read_swanlab, _SWANLAB.runs),
)
