"""`learn_prior`: a folder of logs in, a table of populations out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayes_grpo.common.progress import Progress
from bayes_grpo.learning.cases import CUTS, cases_of, provenance
from bayes_grpo.learning.folder import load_cases, read_folder, save_cases
from bayes_grpo.learning.learn import learn
from bayes_grpo.learning.table import PriorTable
from bayes_grpo.regimes import REGIMES


def learn_prior(
    folder: str | Path,
    *,
    index: str | Path | None = None,
    exclude: Sequence[str] = (),
    regimes: Sequence[str] | None = None,
    cases: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[PriorTable, list[str]]:
    """Learns a prior from a folder of logs: how fast, how noisy and how high runs like these are.

    Args:
        folder: Folder of logs; folders in it are runs or hold more logs.
        index: CSV file that names the repository of each log; else its folder is its repository.
        exclude: Repositories to leave out.
        regimes: Names of regimes; all with a trend that can forecast if None.
        cases: File in which fitted logs are kept (.npz); those in it are not fitted again.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        The table, and a sentence for every log or fit that could not be used.

    Raises:
        LogReadError: The folder holds no log.
        PriorError: The index or the kept logs cannot be read, or no regime has enough logs.
    """
    tell = progress or (lambda _: None)
    # A regime without a trend, fitted to logs that have one, learns fluctuations as long as the logs.
    names = regimes or [name for name, regime in REGIMES.items() if regime.forecasts and regime.has_trend]
    tell("reading")
    runs, refused = read_folder(folder, index)
    fitted = load_cases(cases) if cases is not None and Path(cases).exists() else []
    for name in names:  # a regime at a time, so that an interruption loses one at most
        fitted, left_out = cases_of(
            runs, [name], have=fitted, seed=seed, tell=lambda stage, name=name: tell(f"{name}, {stage}")
        )
        refused += [x for x in left_out if x not in refused]
        if cases is not None:
            save_cases(fitted, cases)
    tell("learning")
    return learn(fitted, exclude, seed=seed, provenance=provenance(CUTS, seed)), refused
