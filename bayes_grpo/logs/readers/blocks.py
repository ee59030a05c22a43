"""Blocks of console text: a heading with a step over lines that name a number each."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import PASTED, REWARD_KEYS, is_total_reward, lines_of, names_reward
from bayes_grpo.logs.readers.console import ASIDE, LEAST_KEYS, LINE_SHARE, Rows, line_reader
from bayes_grpo.logs.table import to_float

_MAX_LINE_OF_BLOCK = 200

_HEADING = re.compile(
    r"[^\w\n]{0,80}(?:(?:\w{1,80}\] - |(?:\w{1,40} ){1,2})?metrics |epoch [\d/]{1,9}[,;: |-]{1,3}|global |training |"
    r"train |learning )?"
    r"(?:step|iteration|iter|update)"
    r"\s{0,4}[:#=]?\s{0,4}(\d{1,12})(?:\s?(?:/|of)\s?(\d{1,12}))?"
    r"(?: (?:completed|done|reached|finished))?[^\w\n]{0,80}",
    re.IGNORECASE,
)
"""A line that holds nothing but the step, or that it is done."""
_RULED = re.compile(
    r"[^\w\n]{3,80}[^\n]{1,80}\((?:step|iteration|iter|update)\s?[:=#]?\s?(\d{1,12})(?:\s?/\s?(\d{1,12}))?\)[^\w\n]{3,80}",
    re.IGNORECASE,
)
"""A title between rules with its step in parentheses, such as "=== Metrics (Step: 3) ===" has."""
_BLOCK_PAIR = re.compile(
    r"(?:\d\d:\d\d:\d\d\b)?[^\w\n]{0,40}([A-Za-z_][\w./@ -]{0,60}?)\s{0,20}[:=]\s{0,20}"
    r"([-+]?(?:\d{1,3}(?:,\d{3}){1,4}(?:\.\d{1,9})?|[.\d][\d.eE+-]{0,30})%?)"
    r"(?:\s?(?:m?s|secs?|seconds|min(?:utes)?|hours|steps|tokens|tok|it)(?:/[A-Za-z]{1,9}){0,2})?[^\w\n]{0,9}"
    r"(?:\s[–—]\s.*|\s*)"
)
"""A line that holds nothing but a name and a number, maybe with its unit, a time before and a remark behind a dash."""
_SUMMARY_LINE = re.compile(r"\s{0,9}wandb:\s{1,80}([\w./@-]{1,80})\s{1,9}(?=[-+.\d])")
"""How a line of the summary begins that W&B prints at the end of a run."""
_STATISTICS = re.compile(
    r"[^\w\n]{0,40}([A-Za-z_][\w./@ -]{0,60}?)\s?\(((?:mean|min|max|std)(?:/(?:mean|min|max|std)){1,3})\)"
    r"\s{0,20}:\s{0,20}([-+\d.eE]{1,30}(?:\s?/\s?[-+\d.eE]{1,30}){1,3})\s*",
    re.IGNORECASE,
)
"""A line of statistics whose names stand in parentheses, "Rewards (Mean/Min/Max): 0.2 / 0.0 / 1.0"."""


def _block_pairs(text: str) -> list[tuple[str, str]]:
    """Names and numbers of a line: of one pair, or of several between bars or commas.

    What stands in parentheses is left out.
    """
    if (pair := _BLOCK_PAIR.fullmatch(text)) is not None:
        return [(pair[1], pair[2])]
    if "/" in text and (found := _STATISTICS.fullmatch(text)) is not None:
        names, numbers = found[2].lower().split("/"), found[3].split("/")
        return [(f"{found[1]}/{name}", x) for name, x in zip(names, numbers, strict=False)]
    parts = re.split(r"[|│┃║]|,\s", ASIDE.sub("", text))
    return [(pair[1], pair[2]) for part in parts if (pair := _BLOCK_PAIR.fullmatch(part)) is not None]


_DICT_PAIR = re.compile(r"'([\w./@-]{1,80})':\s?([-+.\deE]{1,40})(?=[,}])")


_PANEL = re.compile(r"^╭─{1,400} Metrics ─{1,400}╮\n((?:│[^\n]{0,2000}│\n){1,400})╰─", re.MULTILINE)
"""The panel that open-instruct prints of a step: a row for each kind of metrics, "│ val  a: 0.5 | b: 2.0 │"."""
_GOES_ON = "     "
"""How a row of such a panel begins that goes on with the one above, whose kind of metrics it does not repeat."""
_STEP_OF_PANEL = re.compile(r"(?<![\w/])training_step: (\d{1,12})(?![\d.])")


def _unpacked(panel: re.Match[str]) -> str:
    """A panel of metrics as lines of one each, below its step."""
    kinds: dict[str, str] = {}
    kind = ""
    for row in (line.strip("│") for line in panel[1].splitlines()):
        name, _, values = ("", "", row) if row.startswith(_GOES_ON) else row.strip().partition("  ")
        kind = name or kind
        kinds[kind] = f"{kinds.get(kind, '')} {values.strip()}"
    step = next((found[1] for x in kinds.values() if (found := _STEP_OF_PANEL.search(x)) is not None), None)
    pairs = [
        pair.strip() if kind == "other" else f"{kind}/{pair.strip()}"
        for kind, text in kinds.items()
        for pair in text.split(" | ")
    ]
    return "\n".join([f"step {step}", *pairs]) if step is not None else panel[0]


_NAMED_BAR = re.compile(
    r"\b(?:Training|Train) (?:Batches|Steps|Iterations)\b[^\n|:]{0,40}:\s{0,9}\d{1,3}%\|[^|\n]{0,400}+\|\s{0,4}"
    r"(\d{1,9})/(\d{1,9}) \[[^\]\n]{0,80}\]",
    re.IGNORECASE,
)
"""A progress bar that says that it counts steps of the training, as SkyRL draws it between its lines."""
_BATCHES = re.compile(r"(\d{1,9}) of (\d{1,9}) batches")
"""The line that such a bar becomes."""
_AT_BAR = "step of the bar"
_BAR_OF_SKYRL = "Training Batches Processed"
"""A bar that moves on after the lines of its step, so that those behind it are of the next one."""


def _rise(steps: list[float | None]) -> bool:
    """True if every row has a step, and one above that of the row before."""
    known = [step for step in steps if step is not None]
    return len(known) == len(steps) and all(a < b for a, b in pairwise(known))


def _block_rows(text: str) -> Rows:
    """A row for every heading with a step, of the numbers that the lines below name once.

    Without a heading a trainer's keys are one row until its reward comes again, and what a dict says that ends it.
    """
    blocks: list[tuple[re.Match[str], list[tuple[str, str]]]] = []
    alone: list[dict[str, float]] = [{}]
    bar = None
    ahead = 1 if _BAR_OF_SKYRL in text else 0
    text = _PANEL.sub(_unpacked, text) if "─ Metrics ─" in text else text
    for line, _ in lines_of(_NAMED_BAR.sub(r"\n\1 of \2 batches\n", text)):
        if (shown := _BATCHES.fullmatch(line)) is not None:
            bar = shown
            continue
        if not blocks and line[:1] == "{" and len(pairs := _DICT_PAIR.findall(line)) >= LEAST_KEYS:
            alone[-1].update({name: to_float(value) for name, value in pairs})
            if not any(normal(name) in REWARD_KEYS for name in alone[-1]):
                alone.append({})  # the reward of that step stands before the text
        if len(line) > _MAX_LINE_OF_BLOCK:
            continue
        line = _SUMMARY_LINE.sub(r"\1: ", line)
        cell = line.strip("│┃║ ").partition("│")[0]
        if (heading := _HEADING.fullmatch(line) or _HEADING.fullmatch(cell) or _RULED.fullmatch(line)) is not None:
            blocks.append((heading, []))
        elif blocks:
            blocks[-1][1].extend(_block_pairs(line))
        else:
            row = {name: to_float(value) for name, value in _block_pairs(line)}
            rewards = [name for name in row if normal(name) in REWARD_KEYS]
            if any(name in alone[-1] for name in rewards):
                alone.append({})
            if rewards and bar is not None:
                alone[-1].setdefault(_AT_BAR, float(min(int(bar[1]) + ahead, int(bar[2]))))
            alone[-1].update(row)
    rewarded = any(normal(name) in REWARD_KEYS for row in alone for name in row)
    pasted = len(text) <= PASTED
    kept = rewarded or pasted
    if pasted and not rewarded and len(alone[-1]) >= LEAST_KEYS:
        rewarded = any(map(is_total_reward, alone[-1]))  # the results of one step, a line each
    placed = _rise([row.get(_AT_BAR) for row in alone if row])
    for row in () if blocks or not kept else alone:
        step = row.pop(_AT_BAR, None)
        named = {k: v for k, v in row.items() if rewarded or ("/" in k and not names_reward((k,)))}
        if named and step is not None and bar is not None and placed:
            yield {"step": step, **named}, float(bar[2])
        elif named:  # without a reward, for the refusal
            yield named, None
    for heading, pairs in blocks:
        names = Counter(name for name, _ in pairs)
        row = {name: to_float(value) for name, value in pairs if names[name] == 1}
        if row:
            yield {**row, "step": float(heading[1])}, float(heading[2]) if heading[2] else None


_BLOCKS = "headings such as 'Step 3/100' over lines such as 'reward: 0.24'"
READERS = (line_reader("step_blocks", _block_rows, _BLOCKS, lambda text: (), share=LINE_SHARE),)
