"""`python -m benchmarks.lab FAMILY --out FOLDER`: GRPO on a small transformer whose failures are known."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bayes_grpo import write_runs
from benchmarks.lab.families import deep_families
from benchmarks.lab.runs import simulate_deep


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab", description=__doc__)
    parser.add_argument("family", choices=deep_families())
    parser.add_argument("--out", type=Path, required=True, help="new directory to write the runs to")
    parser.add_argument("-n", type=int, default=1, help="number of runs")
    parser.add_argument("--seed", type=int, default=0, help="seed of settings and sampling")
    parser.add_argument("--logging-steps", type=int, help="steps averaged into a row; default: each run's own draw")
    args = parser.parse_args()
    if args.out.exists():
        parser.error(f"{args.out}: expected a new directory, found one that exists; choose another name")
    runs = simulate_deep(args.family, args.n, args.seed, lambda stage, _: print(stage, file=sys.stderr))
    paths = write_runs(runs, args.out, logging_steps=args.logging_steps)
    print(f"{len(runs)} runs of family {args.family} in {args.out}")
    for path, run in zip(paths, runs, strict=True):
        truth = run.truth
        onset = "" if truth.onset is None else f" since step {truth.onset}"
        print(f"{path.name}: {run.draw.setup.task}, causes {', '.join(truth.causes) or 'none'}, {truth.event}{onset}")


if __name__ == "__main__":
    main()
