"""`watch`: looks at a run whenever its log has grown, until it ends."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs

from bayes_grpo.common.errors import LogReadError, OutputError, SettingError
from bayes_grpo.common.files import check_writable, written_whole
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.text import plain
from bayes_grpo.fleets.unit import fingerprint
from bayes_grpo.logs.reading import PathLike
from bayes_grpo.logs.run import Provenance, Run
from bayes_grpo.watching.following import Following, last_step
from bayes_grpo.watching.notify import Channel, RetryQueue, checked_url, post, run_command, words_of
from bayes_grpo.watching.result import Memory, Update, Watching
from bayes_grpo.watching.update import update_of


@dataclass(frozen=True, kw_only=True)
class Patience:
    """When to look, and when to end. Checked when it is made.

    Attributes:
        interval: Seconds from one look at the files to the next.
        idle: Seconds without a new row after which the watch ends; None for never.
        once: Whether it ends after the first look, whatever is there.
        until_alarm: Whether it ends with the first finding, or where one has been told before.

    Raises:
        SettingError: Seconds that are none.
    """

    interval: float = 5.0
    idle: float | None = None
    once: bool = False
    until_alarm: bool = False

    def __post_init__(self) -> None:
        for name, seconds in (("interval", self.interval), ("idle timeout", self.idle)):
            if seconds is not None and not 0.0 < seconds < 1e9:
                raise SettingError(f"{name}: expected seconds above 0, found {seconds!r}")


def watch(
    path: PathLike | Sequence[PathLike],
    watching: Watching | None = None,
    *,
    patience: Patience | None = None,
    read: Mapping[str, Any] | None = None,
    on_alarm: str | None = None,
    webhook: str | None = None,
    state: PathLike | None = None,
    fresh: bool = False,
    sleep: Callable[[float], object] = time.sleep,
    progress: Progress | None = None,
) -> Iterator[Update]:
    """Looks at a run whenever its log has grown.

    The watch ends where the log has come to its planned length, where nothing new has come for as long as ``patience``
    says, or when nobody asks for the next look any more. The log need not be there yet. What is given is checked now,
    and nothing is read before the first look is asked for.

    Args:
        path: A file, the output directory of a trainer, a store, or several files of one run.
        watching: What is asked of the run; the defaults if None.
        patience: When to look, and when to end.
        read: Keyword arguments of `read_log`.
        on_alarm: A command to run for every finding, split into words as by a shell, which does not run it; it gets
            the finding as JSON on standard input and in variables ``BAYES_GRPO_FINDING``, ``…_PROBABILITY``,
            ``…_STEP``, ``…_RUN`` and ``…_SENTENCE``.
        webhook: An address, http or https, to which every finding is posted as JSON.
        state: File that keeps what was told, so that a watch that is started again does not tell it twice; by default
            one for each path where the user keeps state.
        fresh: Whether to forget what earlier watches told.
        sleep: Waits for some seconds; for those who have something better to do meanwhile.
        progress: Called with a short phrase when the watch waits, reads or looks.

    Returns:
        The looks, as they are made.

    Raises:
        LogReadError: The path can never hold a log; or, at the end, it never held one.
        SettingError: A setting, command or address is impossible.
        OutputError: The state cannot be kept where it was asked for.
        MissingExtraError: The format needs a package that is not installed.
    """
    follow = Following(path, read)
    channels = _channels(on_alarm, webhook)
    kept = place_of(follow.paths) if state is None else Path(state)
    if state is not None:
        check_writable(kept)
    memory = Memory() if fresh else load_memory(kept)
    ways = _Ways(tuple(channels), kept, sleep, progress or (lambda _: None))
    return _looks(follow, watching or Watching(), patience or Patience(), memory, ways)


class _Ways(NamedTuple):
    """How a watch reaches the world: who is told, where its memory is kept, how it waits and says what it does."""

    channels: tuple[Channel, ...]
    kept: Path
    sleep: Callable[[float], object]
    tell: Progress


def _channels(on_alarm: str | None, webhook: str | None) -> list[Channel]:
    """Who is told of a finding."""
    out: list[Channel] = []
    if on_alarm is not None:
        words = words_of(on_alarm)
        out.append(lambda alarm: run_command(words, alarm))
    if webhook is not None:
        url = checked_url(webhook)
        out.append(lambda alarm: post(url, alarm))
    return out


def _looks(follow: Following, watching: Watching, patience: Patience, memory: Memory, ways: _Ways) -> Iterator[Update]:
    """The looks of a watch."""
    looked, since = "", time.monotonic()
    queue = RetryQueue(ways.channels)
    while True:
        idle = patience.idle is not None and time.monotonic() - since >= patience.idle
        found = follow.poll(last=idle or patience.once)
        content = looked if found is None else fingerprint(found)
        new = content != looked
        if found is not None and new:
            ways.tell("looking")
            looked = content
            update, memory = update_of(found, watching, memory)
            queue.add(update.alarms)
            notes = queue.send()
            # While somebody is still to be told, a watch that is started again has to find that out.
            notes += [] if queue.waiting else _saved(memory, ways.kept)
            yield replace(update, notes=(*update.notes, *follow.notes, *notes))
            if (patience.until_alarm and update.told) or ended(found):
                return
            since = time.monotonic()
        if patience.once or (idle and not new):
            break
        if queue.waiting and not new:
            for note in queue.send():
                ways.tell(note)
            if not queue.waiting:
                _saved(memory, ways.kept)
        ways.tell(_waiting(follow, looked, time.monotonic() - since))
        ways.sleep(patience.interval)
    if not looked:
        raise LogReadError(follow.problem or f"{_names(follow.paths)}: expected a log, found none; check the path")


def ended(run: Run) -> bool:
    """Whether a run has come to the length that its log or its user states."""
    planned = run.settings.total_steps
    if planned.value is None or planned.provenance is Provenance.ASSUMED:
        return False
    return last_step(run) >= float(planned.value)


def _saved(memory: Memory, kept: Path) -> list[str]:
    """Keeps what was told; a full disk is a note."""
    try:
        save_memory(memory, kept)
    except OutputError as error:
        return [f"what was told is not kept: {plain(error, 300)}"]
    return []


def _waiting(follow: Following, looked: str, seconds: float) -> str:
    if follow.problem:
        return f"cannot be read{' now' if looked else ' yet'}: {follow.problem}"
    if not looked:
        return f"waiting for {_names(follow.paths)}"
    return f"no new row for {seconds:.0f} s"


def _names(paths: Sequence[Path]) -> str:
    return "; ".join(plain(p, 200) for p in paths)


_FORMAT = 1
"""Number of the file's format."""
FOLDER = Path(platformdirs.user_state_dir("bayes_grpo")) / "watch"
"""Where memories are kept unless a watch is told otherwise."""


def place_of(paths: Sequence[Path]) -> Path:
    """Where a watch of these paths keeps its memory unless told otherwise: in the user's folder of state."""
    name = hashlib.sha256("\n".join(str(p.resolve()) for p in paths).encode()).hexdigest()[:32]
    return FOLDER / f"{name}.json"


def load_memory(path: Path) -> Memory:
    """The memory in a file; an empty one where there is none, or none of this format.

    A broken file costs an alarm that is told twice, and a refusal would cost the watch.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            return Memory()
        return Memory.from_dict(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return Memory()


def save_memory(memory: Memory, path: Path) -> None:
    """Writes a memory to a file, whole or not at all.

    Raises:
        OutputError: The place cannot be written to.
    """
    if path.parent == FOLDER:
        with suppress(OSError):  # what is wrong with it is said below
            FOLDER.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps({"format": _FORMAT} | memory.to_dict()), encoding="utf-8")
