"""`learn_prior`: a folder of logs in, a table of populations out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.learning.cases import CUTS, cases_of, provenance
from bayes_grpo.learning.folder import load_cases, read_folder, save_cases
from bayes_grpo.learning.learn import learn
from bayes_grpo.learning.table import PriorTable
from bayes_grpo.regimes import REGIMES


class LearnedPrior(NamedTuple):
    """What a folder of logs has taught.

    Attributes:
        table: The populations.
        refused: A sentence for every log or fit that could not be used.
    """

    table: PriorTable
    refused: list[str]


def learn_prior(
    folder: str | Path,
    *,
    index: str | Path | None = None,
    exclude: Sequence[str] = (),
    regimes: Sequence[str] | None = None,
    cases: str | Path | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress | None = None,
) -> LearnedPrior:
    """Learns a prior from a folder of logs: how fast, how noisy and how high runs like these are.

    Args:
        folder: Folder of logs; folders in it are runs or hold more logs.
        index: CSV file that names the repository of each log; else its folder is its repository.
        exclude: Repositories to leave out.
        regimes: Names of regimes; all with a trend that can forecast if None.
        cases: File in which fitted logs are kept (.npz); those in it are not fitted again.
        seed: Seed.
        jobs: Worker processes that fit; the table is the same for every number of them.
        progress: Called with a short phrase at every stage.

    Returns:
        The table, and a sentence for every log or fit that could not be used.

    Raises:
        LogReadError: The folder holds no log.
        PriorError: The index or the kept logs cannot be read, or no regime has enough logs.
        SettingError: An impossible number of processes.
        WorkerError: A worker process ended before its fit did, twice.

    Example:
        A folder `runs` with the logs of six runs, a file each:

        >>> from bayes_grpo import corpus_priors, learn_prior, read_log, rows_of, save_prior_table
        >>> table, refused = learn_prior("runs", regimes=["exponential"], cases="cases.npz")
        >>> table.provenance["logs"], table.provenance["convergence"]["exponential"]["passed"], refused
        (6, True, [])

        The table is a file of numbers, and gives the next run priors that fit its length and scale:

        >>> save_prior_table(table, "prior.json")
        >>> priors = corpus_priors("exponential", rows_of(read_log("runs/run0.json")), "prior.json")
        >>> sorted(priors)
        ['fixed_point', 'fluctuation_sd', 'initial_reward', 'observation_sd', 'relaxation_time']
    """
    tell = teller(progress)
    # A regime without a trend, fitted to logs that have one, learns fluctuations as long as the logs.
    names = regimes or [name for name, regime in REGIMES.items() if regime.forecasts and regime.has_trend]
    tell("reading")
    runs, refused = read_folder(folder, index)
    fitted = load_cases(cases) if cases is not None and Path(cases).exists() else []
    for name in names:  # a regime at a time, so that an interruption loses one at most
        fitted, left_out = cases_of(
            runs, [name], have=fitted, seed=seed, jobs=jobs, tell=lambda stage, name=name: tell(f"{name}, {stage}")
        )
        refused += [x for x in left_out if x not in refused]
        if cases is not None:
            save_cases(fitted, cases)
    tell("learning")
    return LearnedPrior(learn(fitted, exclude, seed=seed, provenance=provenance(CUTS, seed)), refused)
