"""Rows that are handed over one by one instead of being read from a file, as a `Run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayes_grpo.common.wording import clean
from bayes_grpo.logs.assembling import assemble
from bayes_grpo.logs.formats import Parsed
from bayes_grpo.logs.mapping import Choices
from bayes_grpo.logs.options import checked
from bayes_grpo.logs.rowkinds import told_apart
from bayes_grpo.logs.run import Run, Setting
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import trainer_named


@dataclass(frozen=True)
class Known:
    """What is known of a run beside its rows. Checked when it is made.

    Attributes:
        name: Name of the run.
        trainer: Name of the trainer whose keys the rows have; "" for canonical names and those that scripts use.
        settings: Settings that the user states; they override everything else.
        stated: Settings that the trainer states.
        total_steps: Planned length, where the trainer states it.
        logging_steps: Optimizer steps that a row averages, where the trainer states it.

    Raises:
        SettingError: A setting has an unknown name or an impossible value.
    """

    name: str = "run"
    trainer: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    stated: Mapping[str, Setting] = field(default_factory=dict)
    total_steps: float | None = None
    logging_steps: float | None = None

    def __post_init__(self) -> None:
        """Puts the types of the user's settings right."""
        object.__setattr__(self, "settings", checked(self.settings, "settings"))


def run_of(records: Sequence[Mapping[str, Any]], known: Known) -> Run:
    """The run that records tell of, by the same rules as a log read from a file.

    Args:
        records: Rows in the order in which they came, key → value.
        known: What else is known.

    Raises:
        LogReadError: There are fewer than two rows with a reward, or several keys could be the reward.
        SettingError: Settings contradict each other.
    """
    table = Table.from_rows(told_apart(dict(x)) for x in records)
    trainer = trainer_named(known.trainer)
    parsed = Parsed(
        table,
        total_steps=known.total_steps,
        logging_steps=known.logging_steps,
        trainer=trainer,
        settings=known.stated,
    )
    return Run(
        name=clean(known.name),
        source=clean(known.name),
        format="records",
        log_hash=table.digest(),
        **assemble([parsed], Choices(), known.settings, {}),
    )
