"""Console text of a training: lines with a step and named numbers, headings, progress bars."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import pairwise
from sys import intern

from bayes_grpo.common.text import ANSI, counted, listed
from bayes_grpo.logs.formats import NO_REWARDS, Evidence, Parsed, Reader, Source
from bayes_grpo.logs.keyindex import of_evaluation
from bayes_grpo.logs.lines import (
    BEFORE_EVALUATION,
    NUMBER,
    PASTED,
    lines_of,
    names_reward,
    no_rows_error,
    of_a_trainer,
    planned_in,
    planned_on_bars,
    settings_in,
    too_long,
    usual,
    with_spread_named,
)
from bayes_grpo.logs.run import Caution
from bayes_grpo.logs.table import Table, to_float

_WORD = r"(?:global[ _]step|training[ _]step|train[ _]step|step|iteration|iter|update)"
_LINE_STEP = re.compile(
    rf"(?<![\w/.]){_WORD}\s*+[:=#]?\s*+(\d{{1,12}})(?:\s*+/\s*+(\d{{1,12}}))?(?![\w/.]\d)", re.IGNORECASE
)
_LINE_EPISODE = re.compile(
    r"(?<![\w/.])(?:episode|round|ex|example)\s*+[:=#]?\s*+(\d{1,12})()(?![\w/.]\d)", re.IGNORECASE
)
_LINE_COUNT = re.compile(r"(?<![\w/.:])(\d{1,12})\s*+/\s*+(\d{1,12})(?![\w/.])")
_EPOCH = re.compile(
    r"(?<![\w/.])epoch\s{0,4}[:=#]?\s{0,4}[\[(]?(\d{1,6}(?:\.\d{1,9})?)(?:\s?/\s?(\d{1,6}))?[\])]?,?", re.IGNORECASE
)
_OF = r"(?:\s?/\s?(\d{1,9})(?![\w.]))?"
"""The number of all behind a count, as in "solved 12/16"."""
_LINE_PAIR = re.compile(
    r"(?<![\w/.@=])([A-Za-z_][\w./@]{0,60}(?: [A-Za-z_][\w./@]{0,30}){0,2})\s?[=:]\s{0,4}"
    rf"{NUMBER}(?![\w:]){_OF}",
    re.IGNORECASE,
)
_BEFORE_NAME = 4
"""Characters that may stand before a name."""
_NAMED = re.compile(rf"\W{{0,{_BEFORE_NAME}}}([A-Za-z_][\w./@ ]{{0,60}}?)\s{{1,4}}{NUMBER}{_OF}\s*", re.IGNORECASE)
"""A whole segment "name number", as in "loss 0.3, reward 0.2"."""
_NAME_NUMBER = re.compile(
    rf"(?<=\s)([A-Za-z_][\w./@-]{{0,60}}(?: [A-Za-z_][\w./@-]{{0,30}})?)\s{{1,4}}{NUMBER}", re.IGNORECASE
)
_RUN_ON = re.compile(
    rf"\s?[])}}>]?(?:\s{{1,4}}{_NAME_NUMBER.pattern}){{1,40}}\s*(?:[\d.]{{1,12}}s(?:/\w{{1,9}})?\s*)?", re.IGNORECASE
)
"""All that is left of a line, "reward 0.3 mean loss 0.2", without anything between the pairs."""
_SEPARATOR = re.compile(r"[|,;]|\s[-–—]\s")
_AFTER_STEP = re.compile(r"\A\s*+[\])}>]?\s*+(?:$|[|,:;\-–—→·•▸▶»⇒\[]|[A-Za-z_][\w./@]*\s?[=:])")
"""Separator after the step in a row of metrics, and rarely in prose."""
_NAMED_FIRST = re.compile(
    rf"\A\s*+[\])}}>]?\s*+[A-Za-z_][\w./@-]{{0,60}}(?: [A-Za-z_][\w./@-]{{0,60}})?\s{{1,4}}{NUMBER}"
    r"(?:\s*+(?:$|[|,;])|\s{2}|\s[A-Za-z_][\w./@]{0,60}=)",
    re.IGNORECASE,
)
"""The same, where the first metric has no sign between its name and its number."""
_MAX_LINE_OF_PAIRS = 4_000
_LEAST_ROWS = 3
LEAST_KEYS = 4
"""Numbers in a line or below a heading that are metrics, and not a sentence."""
LINE_SHARE = 0.8

type Placed = tuple[dict[str, float], float, float, bool]
"""A row, planned steps, planned epochs (0 without any), and whether the step is one of its epoch."""
type Rows = Iterator[tuple[dict[str, float], float | None]]
"""Rows, each with the planned steps that it states."""


def line_reader(
    name: str,
    rows: Callable[[str], Rows],
    example: str,
    notes: Callable[[str], tuple[str, ...]],
    *,
    mark: int = 1,
    share: float = 0,
    sniff: Callable[[Source], Evidence | None] | None = None,
) -> Reader:
    """A reader of lines: at least three rows with a reward tell, rows without one count against it by ``share``."""

    def by_rows(source: Source) -> Evidence | None:
        found = [row for row, _ in rows(source.head)]
        rewarded = sum(map(names_reward, found))
        enough = rewarded >= max(_LEAST_ROWS, share * (len(found) - 1))  # the last may be cut off
        pasted = rewarded and len(source.text) <= PASTED  # a line or two, and nothing else fits
        if enough:
            return Evidence(mark, rewarded)
        if pasted:
            return Evidence(0, rewarded)
        return NO_REWARDS if found and not rewarded and of_a_trainer(found) else None

    def read(source: Source, wanted: str | None) -> Parsed:
        found = list(rows(source.text))
        if not found:
            raise no_rows_error(example, source)
        table = Table.from_rows(row for row, _ in found)
        planned = [n for row, n in found if names_reward(row)]  # other lines count ranks, files and prompts
        total = usual(planned or [n for _, n in found]) or planned_in(source.text)
        total = total or planned_on_bars(source.text, [row["step"] for row, _ in found if "step" in row])
        return Parsed(table, total_steps=total, notes=notes(source.text), settings=settings_in(source.text))

    def without_rewards(source: Source) -> list[str]:
        found = [row for row, _ in rows(source.head) if len(row) >= LEAST_KEYS]
        keys = [key for key in found[0] if key != "step"] if found else []
        return [f"{counted(len(found), 'row')} without a reward ({listed(keys, 3)})"] if found else []

    return Reader(name, sniff or by_rows, read, other_tables=without_rewards)


def _pair_rows(text: str) -> Rows:
    """Lines with a step and named numbers; the step is ``i`` of ``i/N``, or the number after "step".

    Where no line has a step, those with an epoch and a reward are the rows.
    """
    rows = _placed_rows(text)
    if not any("step" in row for row, *_ in rows):
        yield from ((row, None) for row, *_ in rows if names_reward(row))
        return
    rows = [x for x in rows if "step" in x[0]]
    turned = (
        b["step"] < a["step"] and b.get("epoch", 0.0) > a.get("epoch", 0.0) for (a, *_), (b, *_) in pairwise(rows)
    )
    within_epochs = any(inside for *_, inside in rows) or any(turned)
    for row, steps, epochs, _ in rows:
        yield row, steps * epochs if within_epochs else steps or None


_WITHOUT_ADVANTAGE = re.compile(r"\bDetected \d{1,9}/(\d{1,9}) rollouts \([^()\n]{0,200}?\bzero_advantage=(\d{1,9})\b")
"""Counts that prime-rl prints before the row of a step: all its rollouts, and those whose advantage is 0."""


def _placed_rows(text: str) -> list[Placed]:
    """Rows in their order; where lines with a reward say "step", a reward beside a mere count is of something else."""
    placed = list(_lines_with_place(text))
    rows = [row for row, _ in placed]
    if len({by_count for _, by_count in placed}) < 2 or not any(names_reward(x[0]) for x, count in placed if not count):
        return rows
    return [row for row, by_count in placed if not by_count or not names_reward(row[0])]


def _lines_with_place(text: str) -> Iterator[tuple[Placed, bool]]:
    """Rows, each with whether its step is a mere count, as in "3/100"."""
    before: dict[str, float] = {}  # of the row to come
    for line, _ in lines_of(_at_steps(text)):
        if len(line) > _MAX_LINE_OF_PAIRS or line.lstrip()[:1] == "{":
            continue
        if "zero_advantage=" in line and (found := _WITHOUT_ADVANTAGE.search(line)) is not None:
            before = {"zero_advantage/rollouts": int(found[2]) / max(int(found[1]), 1)}
            continue
        line = with_spread_named(line)
        epoch = _EPOCH.search(line)
        # Counts of epochs are none of steps.
        step = _LINE_STEP.search(line)
        count = None if step else _LINE_COUNT.search(line, epoch.end() if epoch else 0)
        step = step or count or _LINE_EPISODE.search(line)
        if (place := step or epoch) is None:
            continue
        rest = line[place.end() :]
        rest = rest if "=" in rest else ASIDE.sub("", rest)
        named_first = _NAMED_FIRST.match(rest) is not None
        if not named_first and not _AFTER_STEP.match(rest) and not _RUN_ON.fullmatch(rest):
            continue  # prose
        inside = epoch is not None and line[epoch.end() : place.start()].strip() == "("  # "Epoch:[1/3](5/100)"
        start = epoch.start() if inside and epoch is not None else place.start()
        rests = (rest, _LINE_PAIR.sub("|", rest)) if named_first else (rest,)
        if row := reduce(dict.__or__, map(_numbers, (line[:start], *rests))):
            if place is step and BEFORE_EVALUATION.search(line[:start]):
                row = dict(of_evaluation(row))
            row |= {"epoch": float(epoch[1])} if epoch else {}
            row |= {"step": float(step[1])} if step else {}
            if before and names_reward(row):
                row |= before
                before = {}
            epochs = float(epoch[2] or 0) if epoch else 0.0
            yield (row, float(step[2] or 0) if step else 0.0, epochs, inside), count is not None


def _at_steps(text: str) -> str:
    """A text of one line that has lost its line ends, with one before every step."""
    one_line = len(text) <= PASTED and "\n" not in text.strip()
    return _LINE_STEP.sub(lambda found: f"\n{found[0]}", text) if one_line and text[:1] != "{" else text


def _numbers(text: str) -> dict[str, float]:
    # A name of a million rows is kept once.
    row = {intern(key): _share(key, value, of) for key, value, of in _LINE_PAIR.findall(text)}
    for segment in _SEPARATOR.split(text):
        if "=" in segment[_BEFORE_NAME:] or ":" in segment[_BEFORE_NAME:]:
            continue  # neither pattern below can match it; nearly all segments end here
        if _RUN_ON.fullmatch(spaced := f" {segment}"):
            for name, value in _NAME_NUMBER.findall(spaced):
                row.setdefault(name, to_float(value))
        elif (named := _NAMED.fullmatch(segment)) is not None:
            row.setdefault(named[1], _share(named[1], named[2], named[3]))
    return row


_COUNTER = re.compile(r"step|epoch|iter|batch|episode|progress|update|round|rollout", re.IGNORECASE)


def _share(name: str, value: str, of: str | None) -> float:
    """A number, or a count as a share of all, but for counters such as "epoch 1/3"."""
    number = to_float(value)
    return number / int(of) if of and 0.0 <= number <= int(of) > 0 and not _COUNTER.search(name) else number


_METRIC_BAR = re.compile(
    r"(\d{1,9})(?:/(\d{1,9})|it) \[(?>[^\]\n=]{0,60}?(?:it/s|s/it)|[\d:<?]{5,30})\s?,\s{0,2}([^\]\n]{3,1000}+)(\]|$)",
    re.MULTILINE,
)
_METRIC_PAIR = re.compile(r"([A-Za-z_][\w./@ ]{0,60}?)\s?=\s{0,8}([-+.\w%]{1,40})")

_OF_PASS = {"rm": "reward", "glen": "response_length", "pg": "policy_loss", "act_lr": "learning_rate", "kl": "kl"}
"""Short names on OpenRLHF's bar of the minibatches of a step, and what they mean."""


def _bars_of_passes(text: str) -> list[dict[str, float]]:
    """The mean over the minibatches of each step whose bar of OpenRLHF was shown to its end."""
    rows, shown = [], {}
    for done, planned, metrics, _ in _METRIC_BAR.findall(text):
        pairs = {key.strip(): to_float(value) for key, value in _METRIC_PAIR.findall(metrics)}
        if "rm" in pairs and "glen" in pairs:
            shown[done] = {name: pairs[key] for key, name in _OF_PASS.items() if key in pairs}
            if done == planned:
                rows.append(
                    {k: sum(x.get(k, x0) for x in shown.values()) / len(shown) for k, x0 in shown[done].items()}
                )
                shown = {}
    return rows


def _bar_rows(text: str) -> Rows:
    """A row for every count of a progress bar, as first shown: redrawn it has the metrics of the step to come.

    Where bars are shown at their end alone, as those of the rollouts of a step, each is a row.
    """
    if "glen=" in text and (passes := _bars_of_passes(ANSI.sub("", text))):
        yield from ((row, None) for row in passes)
        return
    shown: dict[str, dict[int, dict[str, float]]] = {}
    ended: dict[str, list[dict[str, float]]] = {}
    for done, planned, metrics, whole in _METRIC_BAR.findall(ANSI.sub("", text)):
        metrics = metrics if whole else metrics.rpartition(",")[0]  # the last one is cut at the width of a terminal
        row = {key.strip(): to_float(value) for key, value in _METRIC_PAIR.findall(metrics)}
        if names_reward(key for key, value in row.items() if value == value):
            shown.setdefault(planned, {}).setdefault(int(done), row)
            rows = ended.setdefault(planned, [])
            rows += [row] if row not in rows[-1:] else []
    planned = max(shown, key=lambda x: (bool(x), len(shown[x])), default="")
    first = shown.get(planned, {})
    if planned and [*first] == [int(planned)] and len(ended[planned]) > 1:
        yield from ((row, None) for row in ended[planned])
        return
    if first.get(0) == first.get(1):
        first.pop(0, None)  # drawn before the first step was counted
    yield from (({**row, "step": float(done)}, float(planned) if planned else None) for done, row in first.items())


ASIDE = re.compile(r"\([^()\n]{0,200}\)|\s?(?:±|\+/?-)\s?[\d.]{1,20}")


_PRINTED_SAMPLE = re.compile(r"^\W{0,9}(?:query|prompt|question|answer|completion|response|output)\s?:", re.I | re.M)


def _notes_on_pairs(text: str) -> tuple[str, ...]:
    """Notes on lines that are too long, and on a pasted text whose rewards stand above the texts of completions."""
    rewarded = [line for line in text.split("\n") if names_reward((line,))] if len(text) <= PASTED else []
    shown = len(_PRINTED_SAMPLE.findall(text)) if rewarded else 0
    samples = Caution("texts of completions stand below the rewards, which may be those of single samples")
    return (*too_long(text, _MAX_LINE_OF_PAIRS), *((samples,) if rewarded and shown >= len(rewarded) else ()))


_PAIR_LINES, _BARS = "lines such as '3/100 | reward=0.24'", "bars such as '12/100 [01:02<07:30, 5.1s/it, reward=0.4]'"
READERS = (
    line_reader("console_pairs", _pair_rows, _PAIR_LINES, _notes_on_pairs, mark=2),
    line_reader("progress_bar", _bar_rows, _BARS, lambda text: ("read from a progress bar, which rounds",)),
)
