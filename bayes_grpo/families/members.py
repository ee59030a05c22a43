"""Which runs are a family: their logs, what was varied between them, and why they cannot be looked at together."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError, LogReadError, SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.families.index import ALIASES, LONGEST, Index
from bayes_grpo.families.left_out import Refused
from bayes_grpo.learning.folder import REPOSITORIES
from bayes_grpo.logs.finding import is_output_directory
from bayes_grpo.logs.reading import RunLike, logs_in, read_log
from bayes_grpo.logs.run import Provenance, Run
from bayes_grpo.logs.tabular import is_tabular
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import logged_rate
from bayes_grpo.rows.table import RowTable

FamilyLogs = RunLike | Iterable[RunLike]
"""Files, folders, patterns runs, and data frames."""
STUDIES = (*REPOSITORIES, "study")
_APART = 20.0
"""Times by which the rewards of one run may exceed another's, where they exceed this number: percents beside shares."""


class FamilyMember(NamedTuple):
    """A run of a family.

    Attributes:
        run: The run.
        table: Its rows.
        settings: Varied settings by name.
        study: Where it comes from; "" where nobody says.
    """

    run: Run
    table: RowTable
    settings: Mapping[str, float]
    study: str


def read_runs(logs: FamilyLogs, index: Index, read: Mapping[str, Any] | None = None) -> list[Run]:
    """Reads the runs of a family.

    Args:
        logs: Files, folders, patterns such as ``runs/*.json``, and runs. Of a folder with an index from a file, the
            logs that the index names.
        index: What is known of the runs.
        read: Keyword arguments of `bayes_grpo.read_log`.

    Returns:
        The runs in the order in which they are named, each once.

    Raises:
        LogReadError: A log that was named cannot be read, or none was found.
    """
    found: list[Run] = []
    one = isinstance(logs, str | os.PathLike | Run) or is_tabular(logs)
    many: Any = [logs] if one else logs
    for given in many:
        if isinstance(given, Run):
            found.append(given)
        elif isinstance(given, str | os.PathLike):
            found += _read(os.fspath(given), index, dict(read or {}))
        else:
            found.append(read_log(given, **dict(read or {})))
    named: dict[str, Run] = {}
    for run in map(index.stated, found):
        key = run.name if index.source and index.of(run) else f"{run.source}|{run.log_hash}|{run.name}"
        named.setdefault(key, run)
    if not named:
        raise LogReadError("expected the logs of runs, found none; check the paths and the index")
    return list(named.values())


def _read(given: str, index: Index, read: dict[str, Any]) -> list[Run]:
    paths = [Path(given)]
    if glob.has_magic(given) and not paths[0].exists():
        paths = [Path(x) for x in sorted(glob.glob(given, recursive=True))]
        if not paths:
            raise LogReadError(f"{plain(given)}: expected logs, found nothing of this pattern; check the path")

    def one(path: Path) -> Run:
        if index.source and path.is_file() and not {path.stem, path.name} & set(index.rows):
            raise LogReadError(f"{plain(path)}: not named in {index.source}")
        return read_log(path, **read)

    out: list[Run] = []
    for path in paths:
        if path.is_dir() and not is_output_directory(path):
            out += [log for _, log in logs_in(path, one) if isinstance(log, Run)]
        else:
            out.append(read_log(path, **read))
    return out


class Members(NamedTuple):
    """Runs that can be looked at together.

    Attributes:
        members: The runs.
        left_out: Every run that the law cannot be put on.
    """

    members: list[FamilyMember]
    left_out: tuple[Refused, ...]


def members_of(runs: Sequence[Run], vary: Sequence[str], index: Index, regime: Regime, signal: str = "auto") -> Members:
    """The runs with their rows and settings.

    Args:
        runs: The runs.
        vary: Settings that were varied.
        index: What is known of the runs beside their logs.
        regime: The law; a run that it cannot be put on is left out.
        signal: "auto", "reward" or "eval".

    Raises:
        SettingError: A setting that is not known of a run, or that does not differ.
        FitError: Fewer than three runs, or different signals, rewards or units.
    """
    if not vary or len(set(vary)) < len(vary):
        raise SettingError(f"vary: expected names of settings, each once, found {', '.join(vary) or 'none'}")
    members: list[FamilyMember] = []
    left_out: list[Refused] = []
    for run in runs:
        columns = index.of(run)
        try:
            # Noise that a log states moved no exponent of the shared families, and its narrow priors cost the nodes.
            table = replace(rows_of(run, signal, LONGEST), noise=None, level=None)
            regime.check(table)
        except FitError as error:
            left_out.append(Refused(run, str(error), _known(run, vary, columns)))
            continue
        settings = {name: _setting(run, table.reference_rate, name, columns) for name in vary}
        study = next((str(columns[c]) for c in STUDIES if columns.get(c)), "")
        members.append(FamilyMember(run, table, settings, study))
    if len(members) < 3:
        why = f" ({left_out[0].sentence})" if left_out else ""
        raise FitError(f"family: expected at least 3 runs, found {len(members)}; compare two with compare-runs{why}")
    for name in vary:
        values = {m.settings[name] for m in members}
        if len(values) < 2:
            raise SettingError(
                f"{name}: expected at least two values among {len(members)} runs, found {values.pop():g} alone; "
                "vary another setting"
            )
    check_alike(members)
    return Members(members, tuple(left_out))


def _known(run: Run, vary: Sequence[str], columns: Mapping[str, Any]) -> dict[str, float]:
    """Varied settings of a run without rows for a law, as far as they are known."""
    out = {}
    for name in vary:
        with suppress(SettingError):
            out[name] = _setting(run, logged_rate(run, run.step)[1], name, columns)
    return out


def _setting(run: Run, rate: float, name: str, columns: Mapping[str, Any]) -> float:
    """Value of a setting of a run: the index first, then what the log states."""
    names = (name, *ALIASES.get(name, ()))
    given = next((columns[c] for c in names if str(columns.get(c, "")).strip()), None)
    if given is None and name == "learning_rate" and math.isfinite(rate):
        given = rate
    if given is None:
        said = dict(run.settings.items()).get(name)
        given = said.value if said is not None and said.provenance is not Provenance.ASSUMED else None
    who = plain(run.name, 80)
    if given is None:
        raise SettingError(
            f"{name}: not known of run {who}; state it in an index CSV (columns run_id and {name}) or in a "
            "bayes_grpo.toml beside the log"
        )
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise SettingError(f"{name}: expected a number above 0 for run {who}, found {plain(given, 60)!r}")
    return value


def check_alike(members: Sequence[FamilyMember]) -> None:
    """Raises `FitError` where the rewards of the runs are not of one kind."""

    def apart(what: str, of: Callable[[FamilyMember], Any], mend: str) -> None:
        values = {of(m): plain(m.run.name, 60) for m in reversed(members) if of(m) is not None}
        if len(values) > 1:
            (other, second), *_, (one, first) = values.items()
            raise FitError(f"different {what}: {plain(one)} in {first}, {plain(other)} in {second}; {mend}")

    apart("signals", lambda m: m.table.signal, "choose one that all have: --signal reward or --signal eval")
    for kind in {m.run.format for m in members}:
        # Two trainers may call one reward differently; one trainer does not.
        mend = "name the same column for all: --column reward=KEY or heldout=KEY"
        apart("rewards", lambda m, kind=kind: _key(m) if m.run.format == kind else None, mend)
    apart("largest rewards", lambda m: _stated(m.run, "reward_high"), "bring the rewards to one unit")
    apart("smallest rewards", lambda m: _stated(m.run, "reward_low"), "bring the rewards to one unit")
    size = [float(np.max(np.abs(m.table.y))) for m in members]
    small, large = int(np.argmin(size)), int(np.argmax(size))
    if size[large] >= _APART and size[large] >= _APART * size[small]:
        raise FitError(
            f"units disagree: rewards up to {size[large]:.3g} in {plain(members[large].run.name, 60)}, up to "
            f"{size[small]:.3g} in {plain(members[small].run.name, 60)}; bring them to one unit (shares or percents)"
        )
    seen: dict[bytes, str] = {}
    for m in members:
        content = m.table.step.tobytes() + m.table.y.tobytes()
        if content in seen:
            raise FitError(
                f"the same rows in {plain(seen[content], 60)} and {plain(m.run.name, 60)}; name every run once"
            )
        seen[content] = m.run.name


def _key(member: FamilyMember) -> str | None:
    """Which of a trainer's rewards a run's is, where its log names one that says so."""
    return member.run.keys.get(member.table.signal)


def _stated(run: Run, name: str) -> Any:
    said = dict(run.settings.items())[name]
    return None if said.value is None or said.provenance is Provenance.ASSUMED else float(said.value)
