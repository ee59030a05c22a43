"""Priors from experience on the command line: `learn-prior`, and what `--prior weak|corpus` means to a fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_grpo.cli_options import Json, Seed, names_in
from bayes_grpo.errors import PriorError
from bayes_grpo.files import check_writable
from bayes_grpo.terminal import console, print_json, progress

if TYPE_CHECKING:
    from bayes_grpo.analysis.forecast_fits import PriorsFor
    from bayes_grpo.logs import Run
    from bayes_grpo.regimes.base import Regime

WORDS = ("weak", "corpus")
PriorTableFile = Annotated[
    Path | None, typer.Option(help="Table of a corpus prior from learn-prior, in place of the one shipped.")
]

PriorWord = Annotated[
    str, typer.Option("--prior", help="weak, or corpus: priors learned from other runs.", metavar="weak|corpus")
]


def learn_prior(
    folder: Annotated[Path, typer.Argument(help="Folder of logs; folders in it are runs or hold more logs.")],
    out: Annotated[Path, typer.Option(help="Write the table of numbers to this JSON file.")],
    index: Annotated[
        Path | None,
        typer.Option(help="CSV file with columns run_id and repo, which repository a log is from; else its folder."),
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Repository to leave out; may be repeated.")] = None,
    regimes: Annotated[
        str | None, typer.Option(help="Laws, separated by commas; all with a trend that can forecast if absent.")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="Keep the fitted logs in this file (.npz); those in it are not fitted again.")
    ] = None,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Learn a prior from a folder of logs: how fast, how noisy and how high runs like these are."""
    check_writable(out)
    if cases is not None:
        check_writable(cases)
    from bayes_grpo.analysis.weights import has_trend
    from bayes_grpo.inference.corpus import learn
    from bayes_grpo.inference.corpus_cases import CUTS, cases_of, provenance
    from bayes_grpo.inference.corpus_folder import load_cases, read_folder, save_cases
    from bayes_grpo.inference.corpus_table import save_table
    from bayes_grpo.regimes import REGIMES, get_regime

    # A law without a trend, fitted to logs that have one, learns fluctuations as long as the logs and replaces a trend.
    able = [name for name, law in REGIMES.items() if law.forecasts and has_trend(law)]
    names = [get_regime(x).name for x in names_in(regimes)] or able
    with progress() as tell:
        tell("reading")
        runs, refused = read_folder(folder, index)
        fitted = load_cases(cases) if cases is not None and cases.exists() else []
        for name in names:  # a law at a time, so that an interruption loses one at most
            fitted, left_out = cases_of(
                runs, [name], have=fitted, seed=seed, tell=lambda stage, law=name: tell(f"{law}, {stage}")
            )
            refused += [x for x in left_out if x not in refused]
            if cases is not None:
                save_cases(fitted, cases)
        tell("learning")
        table = learn(fitted, exclude or (), seed=seed, provenance=provenance(CUTS, seed))
        save_table(table, out)
    if json_:
        print_json(table.to_dict() | {"refused": refused})
        return
    from bayes_grpo.report.render_corpus import render_table

    render_table(table, refused, out, console())


def split_priors(texts: Sequence[str] | None) -> tuple[str, list[str]]:
    """Splits the values of `--prior` into the word weak or corpus and the overrides of single parameters.

    Returns:
        The word, "" where none was given, and the overrides.

    Raises:
        PriorError: Both words were given.
    """
    words = [t.strip() for t in texts or [] if t.strip() in WORDS]
    if len(set(words)) > 1:
        raise PriorError("--prior: found both weak and corpus; give one, and NAME=MEDIAN,SPREAD for single parameters")
    return (words[0] if words else ""), [t for t in texts or [] if t.strip() not in WORDS]


def base_priors(
    word: str, prior_table: Path | None, regime: str | Regime, run: Run, signal: str = "auto"
) -> dict[str, Any]:
    """Priors that the word weak or corpus stands for, on the rows that will be fitted; a table means corpus.

    Raises:
        PriorError: A table beside the word weak, or one that cannot be used.
    """
    if word == "weak" and prior_table is not None:
        raise PriorError("--prior weak: found a --prior-table beside it; leave one of them out")
    if word != "corpus" and prior_table is None:
        return {}
    from bayes_grpo.inference.corpus import corpus_priors
    from bayes_grpo.regimes import rows_of

    return dict(corpus_priors(regime, rows_of(run, signal), prior_table))


def forecast_prior(word: str, prior_table: Path | None) -> PriorsFor:
    """Priors of a forecast by the word weak or corpus; a law that the table does not know keeps the weak ones.

    Raises:
        PriorError: Another word, or a table that cannot be used.
    """
    from bayes_grpo.analysis.forecast_priors import forecast_priors, learned_priors

    if word not in WORDS:
        raise PriorError(f"--prior: expected weak or corpus, found {word!r}")
    if word == "weak" and prior_table is None:
        return forecast_priors
    from bayes_grpo.inference.corpus_table import SHIPPED, load_table

    known = load_table(prior_table or SHIPPED)
    return partial(learned_priors, learned=known)


def corpus_note(word: str, prior_table: Path | None, regimes: Sequence[str]) -> str:
    """What to know of a forecast whose laws are not all in the table; "" where there is nothing to know."""
    if word != "corpus" and prior_table is None:
        return ""
    from bayes_grpo.analysis.weights import has_trend
    from bayes_grpo.inference.corpus_table import SHIPPED, load_table
    from bayes_grpo.regimes import get_regime

    known = load_table(prior_table or SHIPPED).regimes
    trending = [x for x in regimes if has_trend(get_regime(x))]  # a law without a trend keeps the weak priors
    inside, outside = ([x for x in trending if (x in known) is there] for there in (True, False))
    if not outside:
        return ""
    advice = f"; --regimes {','.join(inside)} weighs like against like" if inside else ""
    return (
        f"the corpus prior does not know {', '.join(outside)}: priors of other widths, so the weights between these and"
        f" the laws that it knows say little{advice}"
    )
