"""Many short logs in one process, by this package or by a fresh MCMC object for every log.

    python benchmarks/speed/peers/many_runs.py ours|plain FOLDER

Fits every log of a folder in turn and prints, as JSON, the seconds of each and how many fits passed our convergence
checks at once and after a retry. Imports and reading are not counted.
The plain side only samples: no summary, no checks, no leave-one-out terms.
"""

import json
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import jax
import numpyro


def fit_ours(path):
    """Seconds of one fit by the package, with all that its result holds, and how it converged."""
    from bayes_grpo import fit, read_log

    run = read_log(path)
    begin = time.perf_counter()
    checks = fit(run).convergence
    seconds = time.perf_counter() - begin
    return seconds, "failed" if not checks.passed else "retried" if checks.retried else "passed"


def fit_plain(path):
    """Seconds of one fit by a fresh MCMC object; nothing is checked."""
    import plain_script

    t, y = plain_script.read(path)
    begin = time.perf_counter()
    mcmc = plain_script.sampler(chain_method=plain_script.fastest_chains())
    mcmc.run(jax.random.key(0), t, y)
    jax.block_until_ready(mcmc.get_samples())
    return time.perf_counter() - begin, "unchecked"


def main():
    """Fits the folder's logs and prints the seconds of each."""
    side, folder = sys.argv[1:]
    warnings.simplefilter("ignore")
    if side == "plain":
        numpyro.enable_x64()
        numpyro.set_host_device_count(4)
    one = {"ours": fit_ours, "plain": fit_plain}[side]
    seconds, ends = zip(*[one(path) for path in sorted(Path(folder).glob("*.json"))], strict=True)
    print(json.dumps({"seconds": seconds, "ends": Counter(ends)}))


if __name__ == "__main__":
    main()
