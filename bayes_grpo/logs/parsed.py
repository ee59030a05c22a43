"""What a reader hands over, and the protocol that makes a module of `readers` a reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from bayes_grpo.logs.mapping import Choices
from bayes_grpo.logs.run import Setting
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainer import Trainer


class Evidence(NamedTuple):
    """Why a reader believes that a file is of its format.

    Attributes:
        strength: 3 for a mark that only this format has, 2 for its shape, 1 for a bare possibility.
        reason: What was seen, in a few words.
        rows: Records counted in the head of the file, where several readers of console text compete.
    """

    strength: int
    reason: str
    rows: int = 0


@dataclass(frozen=True)
class Parsed:
    """Rows as logged, before anything is decided about them.

    Attributes:
        table: Rows in file order under the trainer's keys.
        config: Scalars that the file keeps beside its rows.
        total_steps: Planned steps, where the file states them.
        logging_steps: Optimizer steps a row averages, where the file states them.
        trainer: The trainer, where the format tells.
        notes: What the reader did.
        settings: Settings that a file of the trainer beside the log states.
        run_name: Name of the run, where the file states it.
    """

    table: Table
    config: Mapping[str, Any] = field(default_factory=dict)
    total_steps: float | None = None
    logging_steps: float | None = None
    trainer: Trainer | None = None
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict)
    run_name: str = ""


class ReadOptions(NamedTuple):
    """What a caller may say about the reading of a log.

    Attributes:
        format: Name of the reader; None where the content tells.
        whole_lines: Leave out a last line that has not ended, in formats in which half a line can pass for a whole one.
        choices: Columns that the user named.
        run_name: The run to take from a chart export that holds several.
        run: The run to take from a store that holds several: its name, its id, or the beginning of either.
    """

    format: str | None = None
    whole_lines: bool = False
    choices: Choices = Choices()
    run_name: str | None = None
    run: str | None = None


class RunName(NamedTuple):
    """How a run of a store is called.

    Attributes:
        name: Its name; several may share one.
        id: What only this run is called.
    """

    name: str
    id: str


class Reader(Protocol):
    """A module of `bayes_grpo.logs.readers`: one log format."""

    NAME: str

    @staticmethod
    def sniff(source: Source) -> Evidence | None:
        """Evidence that the file has this format, None where it has not."""
        ...

    @staticmethod
    def read(source: Source, options: ReadOptions) -> Parsed:
        """Rows of the file.

        Raises:
            LogReadError: The file is broken or is not of this format.
        """
        ...


@runtime_checkable
class StoreReader(Reader, Protocol):
    """A reader whose files may hold several runs, or name the one that they hold."""

    @staticmethod
    def runs(source: Source) -> list[RunName]:
        """The runs in a file, or in its beginning, in the order in which they began.

        Raises:
            LogReadError: The file is broken.
        """
        ...
