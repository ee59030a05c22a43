"""Priors on the command line: the words weak and corpus, single overrides, a file of them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.common.errors import PriorError

if TYPE_CHECKING:
    from bayes_grpo import Run

_WORDS = ("weak", "corpus")
PriorTableFile = Annotated[
    Path | None, typer.Option(help="Table of a corpus prior from learn-prior, in place of the one shipped.")
]
PriorWord = Annotated[
    str, typer.Option("--prior", help="weak, or corpus: priors learned from other runs.", metavar="weak|corpus")
]


def split_priors(texts: Sequence[str] | None) -> tuple[str, list[str]]:
    """Splits the values of `--prior` into the word weak or corpus and the overrides of single parameters.

    Returns:
        The word, "" where none was given, and the overrides.

    Raises:
        PriorError: Both words were given.
    """
    words = [t.strip() for t in texts or [] if t.strip() in _WORDS]
    if len(set(words)) > 1:
        raise PriorError("--prior: found both weak and corpus; give one, and NAME=MEDIAN,SPREAD for single parameters")
    return (words[0] if words else ""), [t for t in texts or [] if t.strip() not in _WORDS]


def overrides(texts: Sequence[str], file: Path | None) -> dict[str, Any]:
    """Overrides of single parameters, from a file and from flags, which win.

    Raises:
        PriorError: The file cannot be read, or an override is not NAME=MEDIAN,SPREAD.
    """
    out = {} if file is None else _in_file(file)
    for text in texts:
        name, equals, numbers = text.partition("=")
        parts = numbers.split(",")
        if not equals or len(parts) != 2:
            raise PriorError(f"--prior: expected NAME=MEDIAN,SPREAD such as damping_ratio=3,0.5, found {text!r}")
        out[name.strip()] = tuple(parts)
    return out


def base_priors(word: str, table: Path | None, regime: str, run: Run, signal: str) -> dict[str, Any]:
    """Priors that the word weak or corpus stands for, on the rows that will be fitted; a table means corpus.

    Raises:
        PriorError: A table beside the word weak, or one that cannot be used.
    """
    if word == "weak" and table is not None:
        raise PriorError("--prior weak: found a --prior-table beside it; leave one of them out")
    if word != "corpus" and table is None:
        return {}
    return dict(bg.corpus_priors(regime, bg.rows_of(run, signal), table))


def _in_file(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PriorError(f"{file}: expected a TOML file with a [priors] table, cannot read it ({error})") from error
    if not isinstance(table.get("priors"), dict):
        raise PriorError(f"{file}: expected a [priors] table like damping_ratio = [3.0, 0.5], found none")
    for name, value in table["priors"].items():
        numbers = list(value.values()) if isinstance(value, dict) else value
        if not (isinstance(numbers, list) and len(numbers) == 2 and all(_is_number(x) for x in numbers)):
            raise PriorError(f"{file}: expected {name} = [median, spread], two numbers, found {value!r}")
    return dict(table["priors"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
