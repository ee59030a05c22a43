"""Rollouts: seconds and memory of reading a million completions; public runs; simulated ones with known answers.

    python -m benchmarks.runs.rollouts speed [--records 1000000] [--keep]
    python -m benchmarks.runs.rollouts public FOLDER [--logs FOLDER] [--keep]
    python -m benchmarks.runs.rollouts simulated [--repeats 250] [--keep]

`speed` writes files as verl does, about 2.5 kB a completion, and a plain table, reads each in a process of its own, and
says megabytes a second and the most memory. `public` takes the runs of one recipe in a folder of tables: what their
gains are made of, what prompts are worth in a comparison of two runs; and whether rows
of their logs are means of the completions. `simulated` counts how often intervals hold what is known.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import read_log, read_rollouts
from bayes_grpo.rollouts.cells import cells_of
from bayes_grpo.rollouts.decompose import decompose
from bayes_grpo.rollouts.groups import groups_of
from bayes_grpo.rollouts.join import join
from bayes_grpo.rollouts.paired import compare_by_prompt
from bayes_grpo.rollouts.records import Rollouts
from benchmarks.common import keep, say
from tests.helpers.made_rollouts import Course, graded, true_shares, with_gates

_A_STEP, _GROUP = 1000, 8
_READ = """
import json, resource, sys, time
import pandas  # imports are no reading
from bayes_grpo import read_rollouts
import bayes_grpo.rollouts.reading
wall, work = time.perf_counter(), time.process_time()
found = read_rollouts(sys.argv[1])
out = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - work}
out |= {"records": found.size, "bytes": found.bytes}
arrays = [found.step, found.policy_version, found.prompt, found.group, found.reward]
out["bytes_a_record"] = sum(x.nbytes for x in [*arrays, found.truncated, *found.parts.values()]) / found.size
out["most_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(out))
"""


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """Megabytes a second and memory, by format."""
    out: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for name, write in (("verl", _write_verl), ("plain_table", _write_table)):
            place = Path(folder) / name
            place.mkdir()
            write(place, options.records)
            say(f"{name} written")
            found = subprocess.run(
                [sys.executable, "-c", _READ, str(place)], capture_output=True, text=True, check=True
            )
            out[name] = _rates(json.loads(found.stdout))
            say(f"{name}: {out[name]}")
            for file in place.iterdir():
                file.unlink()
    return out


def _rates(found: dict[str, float]) -> dict[str, float]:
    size = found["bytes"] / 1e6
    return {
        "records": int(found["records"]),
        "megabytes": size,
        "gigabytes": size / 1000.0,
        "mb_a_second": size / found["wall"],
        "mb_a_cpu_second": size / found["cpu"],
        "seconds": found["wall"],
        "cpu_seconds": found["cpu"],
        "most_mb": found["most_mb"],
        "bytes_a_record": found["bytes_a_record"],
    }


def _write_verl(folder: Path, records: int) -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(3000)]
    outputs = [json.dumps(" ".join(rng.choices(words, k=320)) + ' \n"so" \\boxed{4}') for _ in range(2000)]
    for step in range(1, records // _A_STEP + 1):
        with (folder / f"{step}.jsonl").open("w", encoding="utf-8") as file:
            for place in range(_A_STEP // _GROUP):
                words_ = " ".join(rng.choices(words, k=60))
                asked = json.dumps(f"system\nhelp\nuser\n{step} {place} {words_}\nassistant\n")
                for _ in range(_GROUP):
                    score = float(rng.random() < 0.5)
                    file.write(
                        f'{{"input": {asked}, "output": {rng.choice(outputs)}, "gts": "4", "score": {score}, '
                        f'"step": {step}, "acc": {score}, "format": 1.0}}\n'
                    )


def _write_table(folder: Path, records: int) -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    step = np.arange(records) // _A_STEP + 1
    reward = (rng.random(records) < 0.5) * 1.0
    table = pd.DataFrame(
        {
            "step": step,
            "prompt_id": [f"{x:012x}" for x in np.arange(records) // _GROUP],
            "sample": np.arange(records) % _GROUP,
            "reward": reward,
            "clen_tokens": rng.integers(10, 900, records),
            "truncated": rng.integers(0, 2, records),
            "correct": reward,
        }
    )
    table.to_csv(folder / "completions.csv", index=False)


def public(options: argparse.Namespace) -> dict[str, Any]:
    """What the runs of one recipe say; all numbers are of tables that others made."""
    files = sorted(options.folder[0].glob(f"{options.prefix}*.csv.gz"))
    runs = {p.name.removesuffix(".csv.gz"): read_rollouts(p) for p in files if not p.name.endswith(".steps.csv.gz")}
    say(f"{len(runs)} runs")
    out: dict[str, Any] = {"runs": len(runs), "completions": sum(r.size for r in runs.values())}
    out |= {"pooled": _gains([_together(list(runs.values()))])[0], "each": _gains(list(runs.values()))}
    rose = [x for x in out["each"] if x["rose"]]
    out["rose"] = len(rose)
    out["all_format"] = sum(x["formatted"]["high"] >= 1.0 for x in rose)
    out["most_format"] = sum(x["formatted"]["low"] > 0.5 for x in rose)
    found = [groups_of(r) for r in runs.values()]
    out["groups"] = {
        "useful": float(np.mean([g.useful.median for g in found])),
        "implied": float(np.nanmean([g.implied for g in found])),
        "icc": float(np.mean([g.icc.median for g in found])),
    }
    pairs = [(a, b, compare_by_prompt(runs[a], runs[b]).variance_ratio) for a, b in combinations(runs, 2)]
    same = [x for a, b, x in pairs if _order(runs[a]) == _order(runs[b])]
    other = [x for a, b, x in pairs if _order(runs[a]) != _order(runs[b])]
    informed = [
        compare_by_prompt(runs[a], runs[b], others=[r for k, r in runs.items() if k not in (a, b)]).variance_ratio
        for a, b, _ in pairs
        if _order(runs[a]) != _order(runs[b])
    ]
    out["compared"] = {"same_order": _spread(same), "own_order": _spread(other), "own_order_others": _spread(informed)}
    if options.logs:
        out["joined"] = _joined(runs, options)
    return out


def _gains(runs: list[Rollouts]) -> list[dict[str, Any]]:
    out = []
    for run in runs:
        gain, lenient = decompose(run), decompose(_rescored(run))
        shares = {s.name: s for s in gain.shares}
        out.append(
            {
                "name": run.name.removesuffix(".csv.gz"),
                "before": gain.before._asdict(),
                "after": gain.after._asdict(),
                "rose": gain.has_gain,
                "formatted": shares["formatted"].share._asdict(),
                "correct_before": lenient.shares[-1].before._asdict(),
                "correct_after": lenient.shares[-1].after._asdict(),
                "sentence": gain.sentence,
            }
        )
    return out


def _rescored(run: Rollouts) -> Rollouts:
    """The same completions with their correctness as the reward."""
    parts = {k: v for k, v in run.parts.items() if k != "correct"}
    return replace(run, reward=run.parts["correct"].astype(float), parts=parts)


def _together(runs: list[Rollouts]) -> Rollouts:
    """Completions of all runs, in the order of steps: prompts that they share are one."""
    order = np.argsort(np.concatenate([r.step for r in runs]), kind="stable")
    start = np.cumsum([0, *(r.group_count for r in runs[:-1])])
    names = ("step", "policy_version", "prompt", "reward", "truncated", "answer", "length")
    columns: dict[str, Any] = {name: np.concatenate([getattr(r, name) for r in runs])[order] for name in names}
    group = np.concatenate([r.group + s for r, s in zip(runs, start, strict=True)])[order].astype(np.int32)
    parts = {k: np.concatenate([r.parts[k] for r in runs])[order] for k in runs[0].parts}
    columns |= {"name": "all runs", "source": "all runs", "format": "plain_table", "split": "train"}
    return Rollouts(**columns, group=group, parts=parts)


def _order(run: Rollouts) -> tuple[int, ...]:
    return tuple(cells_of(run.until(run.first_step + 5)).prompt.tolist())


def _joined(runs: Mapping[str, Rollouts], options: argparse.Namespace) -> dict[str, Any]:
    found = []
    for name, run in runs.items():
        log = options.logs / f"{name.replace(options.prefix, options.log_prefix)}.csv"
        if log.exists():
            found.append(join(read_log(log), run))
    return {"logs": len(found), "match": sum(j.matches for j in found), "apart": sorted({j.shift for j in found})}


def _spread(values: list[float]) -> dict[str, float]:
    low, quarter, middle, three, high = np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9])
    return {"low": low, "quarter": quarter, "median": middle, "three_quarters": three, "high": high, "n": len(values)}


def simulated(options: argparse.Namespace) -> dict[str, Any]:
    """How often intervals hold what is known, and how far estimates are off."""
    out: dict[str, Any] = {"repeats": options.repeats}
    courses = {
        "three_factors": (Course(), {}),
        "format_alone_few_prompts": (Course((3.0, 3.0), (-2.0, 3.0)), {"prompts": 4}),
        "task_small_groups": (Course(correct=(-1.0, 1.0), formatted=(2.0, 3.0)), {"group": 4}),
        "more_prompts": (Course(), {"prompts": 16, "group": 4, "steps": 60}),
    }
    everything: list[bool] = []
    for name, (course, sizes) in courses.items():
        steps = sizes.get("steps", 40)
        truth = true_shares(course, steps, max(5, round(0.1 * steps)))
        hits: dict[str, list[bool]] = {k: [] for k in truth}
        for seed in range(options.repeats):
            found = decompose(with_gates(np.random.default_rng(seed), course, **sizes), draws=1000)
            hits["gain"].append(found.gain.low <= truth["gain"] <= found.gain.high)
            for share in found.shares:
                if found.has_gain and share.name in truth:
                    hits[share.name].append(share.share.low <= truth[share.name] <= share.share.high)
        out[name] = {k: float(np.mean(v)) for k, v in hits.items()}
        everything += [x for v in hits.values() for x in v]
        say(f"{name}: {out[name]}")
    out["all"] = float(np.mean(everything))
    out["difficulty"] = _known_difficulty(3 * options.repeats)
    return out


def _known_difficulty(repeats: int) -> dict[str, Any]:
    """Differences by prompt against success rates over all prompts."""
    level, effect = np.linspace(-1.5, 1.5, 50), 1.5 * np.random.default_rng(9).standard_normal(20_000)
    true = np.mean(1.0 / (1.0 + np.exp(-(level[:, None] + effect))), axis=1)
    better = np.mean(1.0 / (1.0 + np.exp(-(level[:, None] + 0.8 + effect))), axis=1)
    gap = float(np.mean((better - true)[-5:]))
    pairs = {"same_order": ([], [], []), "own_order": ([], [], [])}
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        own = 1.5 * rng.standard_normal(400)
        prompts = np.arange(400).reshape(50, 8)
        _, second, best = (
            graded(rng, level + d, prompts, own, passing=0.3, name=n) for n, d in (("a", 0), ("b", 0), ("c", 0.8))
        )
        shuffled = graded(rng, level + 0.8, rng.permutation(400).reshape(50, 8), own, passing=0.3, name="d")
        for (off, hits, ratios), other in zip(pairs.values(), (best, shuffled), strict=True):
            pair = compare_by_prompt(second, other)
            off.append(pair.difference.median - gap)
            hits.append(pair.difference.low <= gap <= pair.difference.high)
            ratios.append(pair.variance_ratio)
    return {
        "differences": {
            name: {
                "bias": float(np.mean(off)),
                "error_of_that": float(np.std(off) / np.sqrt(repeats)),
                "coverage": float(np.mean(hits)),
                "variance_ratio": float(np.median(ratios)),
            }
            for name, (off, hits, ratios) in pairs.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "public", "simulated"))
    parser.add_argument("folder", type=Path, nargs="*", help="tables of completions of runs of one recipe")
    parser.add_argument("--prefix", default="tonyw_", help="how the names of its tables begin")
    parser.add_argument("--logs", type=Path, help="folder of their logs")
    parser.add_argument("--log-prefix", default="tony_", help="how the names of the logs begin")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=250)
    parser.add_argument("--scratch", type=Path, help="where files of gigabytes may be written")
    parser.add_argument("--keep", action="store_true", help="keep the result")
    options = parser.parse_args()
    begun = time.perf_counter()
    result = {"speed": speed, "public": public, "simulated": simulated}[options.part](options)
    print(json.dumps(result, indent=1, default=float))
    if options.keep:
        keep(f"rollouts_{options.part}", result)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"{time.perf_counter() - begun:.0f} s, {most:.0f} MB")


if __name__ == "__main__":
    main()
