"""Which reader fits a file, by its content."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import cast

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.modules import modules_in
from bayes_grpo.common.wording import clean, listed
from bayes_grpo.logs import readers
from bayes_grpo.logs.parsed import Evidence, Reader
from bayes_grpo.logs.source import Source


def all_readers() -> Mapping[str, Reader]:
    """Every reader by its name, found in the package `bayes_grpo.logs.readers`."""
    return _readers_in(tuple(readers.__path__))


@cache
def _readers_in(path: tuple[str, ...]) -> Mapping[str, Reader]:
    """The readers, looked for once for each search path of the package."""
    found: dict[str, Reader] = {}
    for module in modules_in(readers, "NAME"):
        reader = cast(Reader, module)
        found[reader.NAME] = reader
    return MappingProxyType(dict(sorted(found.items())))


def pick_reader(source: Source, name: str | None = None) -> Reader:
    """The reader that a user named, or the one whose evidence is strongest.

    Raises:
        LogReadError: The name is unknown, no reader knows the file, or two fit equally well.
    """
    known = all_readers()
    if name is not None:
        if name not in known:
            raise LogReadError(f"expected a format among {', '.join(known)}, found {clean(name)!r}; correct --format")
        return known[name]
    evidence = _evidence(known, source) or _evidence(known, source.ending)
    if not evidence and source.is_store:
        raise LogReadError(
            "expected a database of Trackio or MLflow, found an SQLite database with other tables or a damaged one; "
            "pass PROJECT.db or mlflow.db"
        )
    if not evidence:
        raise LogReadError(
            f"expected the log of a known trainer, found prose or a format that no reader knows; seen: "
            f"{_seen(source)}; convert it to CSV with the columns step,reward and pass "
            f"--reward-column reward, or force a format with --format ({', '.join(known)})"
        )
    if "console_dict" in evidence:  # a trainer's dictionaries beat the lines that a callback prints beside them
        evidence.pop("console_pairs", None)
    best = max(_rank(e) for e in evidence.values())
    fitting = [n for n, e in evidence.items() if _rank(e) == best]
    if len(fitting) > 1:
        reasons = "; ".join(f"{n}: {evidence[n].reason}" for n in fitting)
        raise LogReadError(f"expected one format, found several that fit ({reasons}); choose with --format")
    return known[fitting[0]]


def _evidence(known: Mapping[str, Reader], source: Source | None) -> dict[str, Evidence]:
    """What the readers that know a source say of it."""
    return {} if source is None else {n: e for n, r in known.items() if (e := r.sniff(source)) is not None}


def _rank(evidence: Evidence) -> tuple[int, int]:
    return evidence.strength, evidence.rows


def _seen(source: Source) -> str:
    lines = [line for line in source.head.splitlines() if line.strip()][:3]
    return listed([repr(clean(line, 60)) for line in lines], limit=3)
