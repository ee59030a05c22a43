"""`watch`: a log followed while it grows, and `update_of`, one look at it.

What goes wrong inside a look is a note of it, because the rest is wanted all the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import platformdirs

from bayes_grpo.analysis.analyze import AnalysisSettings, analyze
from bayes_grpo.analysis.result import Forecasted, Part, conditional_decision, conditional_sentence
from bayes_grpo.batches.unit import fingerprint
from bayes_grpo.common.errors import BayesGrpoWarning, LogReadError, OutputError, SettingError
from bayes_grpo.common.files import atomic_write, check_writable
from bayes_grpo.common.programs import forget_programs
from bayes_grpo.common.runtime import Progress, or_silent, release_memory
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.forecasting.expected import Expected
from bayes_grpo.logs.reading import PathLike, RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.references.gather import NearbyRuns, named_runs
from bayes_grpo.rows.padding import bucket
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.following import Following, last_step
from bayes_grpo.watching.notify import RetryQueue
from bayes_grpo.watching.result import Alarm, Memory, Outlook, Update, Watching


def update_of(run: RunLike, watching: Watching | None = None, memory: Memory | None = None) -> tuple[Update, Memory]:
    """One look at a run.

    Args:
        run: The run as it is logged so far, or what `bayes_grpo.read_log` makes one of.
        watching: What to compute; the defaults if None.
        memory: What the look before left; None for the first.

    Returns:
        The look, and the memory for the next one.
    """
    begin = time.perf_counter()
    run = as_run(run)
    watching, known = watching or Watching(), memory or Memory()
    step, reward = run.rewards
    first = (float(step[0]), float(reward[0])) if len(step) else ()
    alarmed = dict(known.alarmed) if known.first in ((), first) else {}  # what was found in another run is new again
    length = bucket(len(reward), 1)
    if known.length not in (0, length):
        forget_programs()  # the log has outgrown them; this frees 150 MB
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)  # the notes say the same
        references: Part[tuple[Run, ...]] = Part(known.references, "")
        wanted = watching.reference_runs
        if not isinstance(wanted, NearbyRuns) and wanted and known.references is None:
            references = Part.of(lambda: tuple(named_runs(wanted)[0]))
        settings = AnalysisSettings(
            horizon=watching.horizon,
            costs=watching.costs,
            signal=watching.signal,
            seed=watching.seed,
            reference_runs=wanted if isinstance(wanted, NearbyRuns) else references.value or None,
            nuts=False,
        )
        parts = ("diagnosis", "forecast") if watching.forecasts else ("diagnosis",)
        found = analyze(run, parts, settings=settings)
        diagnosis, ahead = found.diagnosis.value, found.forecast.value
        alarms: Part[tuple[Alarm, ...]] = Part((), "")
        if diagnosis is not None:
            alarms = Part.of(partial(alarms_of, run, diagnosis, watching, alarmed))
        made = (("reference runs", references), *((name, getattr(found, name)) for name in parts), ("alarms", alarms))
        notes = [f"no {name}: {part.reason}" for name, part in made if part.reason]
    raised = alarms.value or ()
    every = alarmed | {a.finding: a.step for a in raised}
    update = Update(
        name=run.name,
        step=float(step[-1]) if len(step) else math.nan,
        rows=len(reward),
        reward=float(reward[-1]) if len(reward) else math.nan,
        probability={} if diagnosis is None else dict(diagnosis.probability),
        status=found.status,
        outlook=None if ahead is None else _outlook(ahead, found.status),
        alarms=raised,
        alarmed=every,
        notes=tuple(dict.fromkeys((*notes, *(() if ahead is None else _notes(ahead))))),
        seconds=time.perf_counter() - begin,
    )
    release_memory()  # a look takes a few tenths of a second and hundreds of MB, and the next one is a row away
    return update, Memory(every, first, length, references.value)


def _outlook(ahead: Forecasted, status: Status | None) -> Outlook:
    """A forecast as a look shows it."""
    summary, decision = ahead.summary, ahead.decision
    shared: dict[str, Any] = {f.name: getattr(summary, f.name) for f in fields(Expected)}
    shared["sentence"] = conditional_sentence(status, summary.sentence)
    return Outlook(
        **shared,
        stop=None if decision is None else decision.recommended,
        advice="" if decision is None else conditional_decision(status, decision),
        take=None if decision is None or decision.choice is None else decision.choice.step,
    )


def _notes(ahead: Forecasted) -> tuple[str, ...]:
    """Assumptions of a forecast, and questions that it left open."""
    warned = () if ahead.decision is None else ahead.decision.warnings
    undecided = (f"no advice: {plain(ahead.undecided, 500)}",) if ahead.undecided else ()
    return (*ahead.summary.assumed, *ahead.summary.notes, *warned, *undecided)


_FORMAT = 1
"""Number of the state file's format."""
FOLDER = Path(platformdirs.user_state_dir("bayes_grpo")) / "watch"
"""Default folder of state files."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """When to look, and when to end. Checked when it is made.

    Attributes:
        interval: Seconds from one look at the files to the next.
        idle: Seconds without a new row after which the watch ends; None for never.
        once: Whether it ends after the first look.
        until_alarm: Whether it ends with the first alarm, or at once where an earlier watch raised one.

    Raises:
        SettingError: Impossible seconds.
    """

    interval: float = 5.0
    idle: float | None = None
    once: bool = False
    until_alarm: bool = False

    def __post_init__(self) -> None:
        for name, seconds in (("interval", self.interval), ("idle", self.idle)):
            if seconds is not None and not 0.0 < seconds < 1e9:
                raise SettingError(f"expected seconds above 0, found {seconds!r}", parameter=name)


def watch(
    path: PathLike | Sequence[PathLike],
    watching: Watching | None = None,
    *,
    patience: Patience | None = None,
    read: Mapping[str, Any] | None = None,
    webhook: str | None = None,
    alert: str | None = None,
    state: PathLike | None = None,
    reset_state: bool = False,
    sleep: Callable[[float], object] = time.sleep,
    progress: Progress | None = None,
) -> Iterator[Update]:
    """Looks at a run whenever its log has grown.

    The watch ends at the planned length of the run, after ``patience.idle`` seconds without a new row, or when the
    caller takes no more looks. The log need not exist yet. Arguments are checked now, and the log is read later.

    Args:
        path: A file, the output directory of a trainer, a store, or several files of one run.
        watching: What to compute; the defaults if None.
        patience: When to look, and when to end.
        read: Keyword arguments of `read_log`.
        webhook: An address, http or https, to which every alarm is posted as JSON.
        alert: Tracker whose own alert every alarm raises, "wandb" or "trackio"; its client is an extra.
        state: File of the alarms that were raised, so that a later watch does not repeat them; by default one for each
            path in the user's state folder.
        reset_state: Whether to forget the alarms of earlier watches.
        sleep: Waits for some seconds.
        progress: Called with a short phrase when the watch waits or looks.

    Returns:
        The looks, as they are made.

    Raises:
        LogReadError: The path cannot be a log; or no log has appeared when the watch ends.
        SettingError: A setting, the address or the tracker is impossible.
        OutputError: The state file cannot be written.
        MissingExtraError: The format or the tracker needs a package that is not installed.
    """
    follow = Following(path, read)
    queue = RetryQueue(webhook, alert=alert)
    place = place_of(follow.paths) if state is None else Path(state)
    if state is not None:
        check_writable(place)
    watching = watching or Watching()
    patience = patience or Patience()
    progress = or_silent(progress)

    def looks(memory: Memory) -> Iterator[Update]:
        looked, since = "", time.monotonic()
        while True:
            idle = patience.idle is not None and time.monotonic() - since >= patience.idle
            found = follow.poll(last=idle or patience.once)
            content = looked if found is None else fingerprint(found)
            new = content != looked
            if found is not None and new:
                progress("looking")
                looked = content
                update, memory = update_of(found, watching, memory)
                queue.add(update.alarms)
                notes = [*follow.notes, *queue.send(), *_saved(memory, place, queue)]
                yield replace(update, notes=(*update.notes, *notes))
                if (patience.until_alarm and update.alarmed) or ended(found):
                    return
                since = time.monotonic()
            if patience.once or (idle and not new):
                break
            if queue.waiting and not new:
                for note in (*queue.send(), *_saved(memory, place, queue)):
                    progress(note)
            progress(_waiting(follow, looked, time.monotonic() - since))
            sleep(patience.interval)
        if not looked:
            raise LogReadError(follow.problem or f"{_names(follow.paths)}: expected a log, found none; check the path")

    return looks(Memory() if reset_state else load_memory(place))


def ended(run: Run) -> bool:
    """True where a run has reached the length that its log or its user gives."""
    end = run.last_planned_step
    return end is not None and last_step(run) >= end


def _waiting(follow: Following, looked: str, seconds: float) -> str:
    if follow.problem:
        return f"cannot be read{' now' if looked else ' yet'}: {follow.problem}"
    if not looked:
        return f"waiting for {_names(follow.paths)}"
    return f"no new row for {seconds:.0f} s"


def _names(paths: Sequence[Path]) -> str:
    return "; ".join(plain(p, 200) for p in paths)


def place_of(paths: Sequence[Path]) -> Path:
    """Default state file of a watch of these paths."""
    name = hashlib.sha256("\n".join(str(p.resolve()) for p in paths).encode()).hexdigest()[:32]
    return FOLDER / f"{name}.json"


def load_memory(path: Path) -> Memory:
    """The memory in a state file; an empty one where there is none, or none of this format.

    A broken file costs a repeated alarm; a refusal would cost the watch.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        alarmed = {str(k): float(v) for k, v in content["alarmed"].items()}
        first = tuple(float(x) for x in content["first"])
        return Memory(alarmed, first) if content["format"] == _FORMAT else Memory()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return Memory()


def save_memory(memory: Memory, path: Path) -> None:
    """Writes a memory to a state file, whole or not at all.

    Raises:
        OutputError: The file cannot be written.
    """
    if path.parent == FOLDER:
        with suppress(OSError):  # the line below says what is wrong
            FOLDER.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        content = {"format": _FORMAT, "alarmed": dict(memory.alarmed), "first": memory.first}
        temporary.write_text(json.dumps(content), encoding="utf-8")


def _saved(memory: Memory, place: Path, queue: RetryQueue) -> list[str]:
    """Saves the alarms once all are sent, so that a later watch sends those that are not; an error is a note."""
    try:
        if not queue.waiting:
            save_memory(memory, place)
    except OutputError as error:
        return [f"the state of the watch is not saved: {plain(error, 300)}"]
    return []
