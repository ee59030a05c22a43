"""Which reader takes a file: the one that a user named, or the one whose evidence is strongest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.imports import modules_in
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs import readers
from bayes_grpo.logs.formats import HEAD, MOSTLY, NO_REWARDS, Evidence, Reader, Source
from bayes_grpo.logs.lines import PASTED, is_total_reward
from bayes_grpo.logs.mentions import is_logged_name
from bayes_grpo.logs.trainers import GENERIC


@cache
def all_readers() -> Mapping[str, Reader]:
    """Every reader by its name, found in the package `bayes_grpo.logs.readers`."""
    found = [reader for module in modules_in(readers) for reader in module.READERS]
    return MappingProxyType({x.name: x for x in sorted(found, key=lambda x: x.name)})


_LIKELY = {
    **dict.fromkeys((".csv", ".tsv"), ("delimited", 2)),
    ".jsonl": ("json_text", 2),
    ".json": ("json_text", 3),  # a notebook may have that name
}
"""Ending of a file's name → the module whose readers are tried first, and the strength of evidence that settles it."""
_EXCEPTION = re.compile(
    r"^(?:\([^()\n]{1,80}\) )?((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt)\b.*)", re.M
)
"""The line that names the exception below a traceback."""


_LOGGED_ERROR = re.compile(
    r"(?:\b(?:ERROR|CRITICAL|FATAL)\b|\[(?:error|critical|fatal)\])[\]\s:|-]{1,9}(?:[^\w\n]{1,9})?"
    r"(\w[^\n]{0,400})(?:\n([^\n]{1,400}))?"
)
"""Text of a line of the level of an error, and the line behind it."""


def _error_in(text: str) -> str:
    """The exception below the last traceback in the end of a text, else the last error logged there; "" without."""
    end = text[-HEAD:]
    if "Traceback (most" in text and (raised := _EXCEPTION.findall(end)):
        return raised[-1]
    logged = _LOGGED_ERROR.findall(end)
    said, more = logged[-1] if logged else ("", "")
    return f"{said.strip()} {more.strip()}" if said.rstrip().endswith(":") else said.strip()


_BAR_OF = re.compile(r"\b(\d{1,9})/(\d{1,9}) \[\d")
_SKIPPED = re.compile(r"\bskip(?:ped|ping)? (?:this |the |optimizer )?(?:update|step)", re.IGNORECASE)
_LEAST_TIMES = 3


def _has_table(text: str) -> bool:
    """True if lines with "|" are more than those of progress bars."""
    lines = [line for line in text.splitlines() if "|" in line]
    return sum("[" in line and _BAR_OF.search(line) is not None for line in lines) < MOSTLY * len(lines)


def _without_metrics(text: str) -> str:
    """Traces of a training in a text without metrics: its progress bar, updates that were skipped; else ""."""
    bars = _BAR_OF.findall(text)
    skipped = sum(_SKIPPED.search(line) is not None for line in text.splitlines())
    shown = [f"{skipped} skipped updates"] if skipped >= _LEAST_TIMES else []
    if bars:
        planned, times = Counter(planned for _, planned in bars).most_common(1)[0]
        done = [int(done) for done, of in bars if of == planned][-1]
        shown += [f"a progress bar ({done} of {planned} steps)"] if times >= _LEAST_TIMES else []
    return " and ".join(shown)


_VERL = re.compile(r"\(TaskRunner pid=\d|\bmain_ppo\b|\bDumped generations to ")
_DUMPED = re.compile(r"\bDumped generations to (\S{1,400})/\d{1,9}\.jsonl\b")


def _of_verl(text: str) -> str:
    """Where the metrics of verl stand, and its completions, for a console of it that has no row; else ""."""
    if _VERL.search(text) is None or "Traceback (most" in text:
        return ""
    places = "these stand on lines such as 'step:3 - critic/score/mean:0.24', in W&B or TensorBoard: pass one of these"
    folders = list(dict.fromkeys(_DUMPED.findall(text)))
    rollouts = f", or look into its completions with `bayes-grpo rollouts {clean(folders[-1], 200)}`" if folders else ""
    return places + rollouts


_QUOTED = re.compile(r"['\"]([A-Za-z_][\w./@-]{0,80})['\"]\s?:")


def _lone_keys(text: str) -> list[str]:
    """Keys of metrics, as dictionaries write them, in a pasted text that holds no whole row."""
    keys = list(dict.fromkeys(_QUOTED.findall(text))) if len(text) <= PASTED else []
    settings = GENERIC.keys["learning_rate"]  # dictionaries of settings have it too
    return [] if any(map(is_total_reward, keys)) else [x for x in keys if is_logged_name(x) and x not in settings]


def _evidence(source: Source, known: Iterable[Reader]) -> dict[Reader, Evidence]:
    return {reader: found for reader in known if (found := reader.sniff(source)) is not None}


def pick_reader(source: Source, name: str | None = None) -> Reader:
    """The reader that a user named, or the one whose evidence is strongest."""
    module, enough = _LIKELY.get(source.path.suffix.lower(), ("", 0))
    likely = _evidence(source, modules_in(readers, module)[0].READERS) if name is None and module else {}
    if likely and likely[best := max(likely, key=lambda x: likely[x])].strength >= enough:
        return best
    known = all_readers()
    if name is not None:
        if name not in known:
            text = f"expected a format among {', '.join(known)}, found {clean(name)!r}; correct it"
            raise LogReadError(text, parameter="format")
        return known[name]
    usual = [x for x in known.values() if not x.last]
    evidence = _evidence(source, usual)
    if all(x <= NO_REWARDS for x in evidence.values()) and len(source.text) > HEAD:
        ending = Source(source.path, source.text[-HEAD:].partition("\n")[2].encode())
        evidence |= _evidence(ending, usual)  # a training may come after other output
    if all(x <= NO_REWARDS for x in evidence.values()):
        evidence |= _evidence(source, (x for x in known.values() if x.last))
    if not evidence and source.is_store:
        raise LogReadError(
            "expected a database of Trackio or MLflow, found an SQLite database with other tables or a damaged one; "
            "pass PROJECT.db or mlflow.db"
        )
    if not evidence:
        if keys := _lone_keys(source.text):
            raise LogReadError(
                f"expected whole rows of metrics, found {listed(keys, 6)} but no reward; pass whole rows: "
                f"one that was cut off has lost its reward"
            )
        seen = [line for line in source.head.splitlines() if line.strip()][:3]
        failed = _error_in(source.text)
        raised = bool(failed) and "Traceback (most" in source.text
        tables = [text for x in known.values() if x.other_tables is not None for text in x.other_tables(source)]
        lines = listed([repr(clean(line, 60)) for line in seen], limit=3)
        found = listed(tables, 3) if tables else f"no rewards, or a format that no reader knows; seen: {lines}"
        if not tables and (where := _of_verl(source.text)):
            raise LogReadError(f"expected rows of metrics, found the console of verl without any; {where}")
        if not raised and not (tables and _has_table(source.text)) and (shown := _without_metrics(source.text)):
            raise LogReadError(
                f"expected rows of metrics, found {shown} and no metrics; these stand in the trainer's "
                f"trainer_state.json, in W&B or TensorBoard, or in its output with logging_steps=1: pass one of these"
            )
        if failed and not tables:
            raise LogReadError(
                f"expected rows of metrics, found none and the error {clean(failed, 160)!r}, which may have stopped "
                f"the training before its first row; pass the log of one that went on, or a CSV with the columns "
                "step,reward"
            )
        error = f"the last error in the file is {clean(failed, 120)!r}; " if failed else ""
        raise LogReadError(
            f"expected {'rows with a step and a reward' if tables else 'the log of a known trainer'}, found {found}; "
            f"{error}convert it to CSV with the columns step,reward, or pass {MENDING} with one of {', '.join(known)}",
            mended_by=Argument("format", "NAME"),
        )
    if evidence.get(known["console_dict"], NO_REWARDS) > NO_REWARDS:
        evidence.pop(known["console_pairs"], None)  # a trainer's dictionaries beat the lines of a callback
    return max(evidence, key=lambda x: evidence[x])
