"""Does the comparison of laws find the law that made a log, and does it say so when it cannot?

    python -m benchmarks.calibration.comparison confusion [--runs 40] [--laws flat exponential ...] [--jobs 1]
                                                       [--out RESULTS.jsonl]
    python -m benchmarks.calibration.comparison logs FOLDER [--only NAME ...] [--jobs 1] [--out RESULTS.jsonl]
    python -m benchmarks.calibration.comparison time [--rows 400]

*confusion*: logs of 200 rows drawn from each law's own state space, with the noise and the gains of real logs, each
fitted with all laws: who ranks first by leave-one-out; how often the true law does where it and its best rival lie more
than 4 nats apart; how often the comparison speaks against the true law; and how often growth is claimed on flat runs.
*logs*: the same table for real logs, with leave-one-out and leave-future-out side by side.
*time*: a whole process of `bayes-grpo compare` on a log, with a cold and with a warm compilation cache.

With --out every finished log is a line of that file, and what stands there is not run again. --json prints the totals.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayes_grpo import compare, read_log
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.dynamics.state_space import dense
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import draw_rows, keep, run_process, say, side_by_side, simulated, write_log

ROWS = 200
R2 = 0.91
"""What the paper reports of its fits at least."""
CLEAR, SURE = 4.0, 0.95
FIRST_AIM, GROWTH_AIM = 0.85, 0.10
LAWS = ("flat", "exponential", "oscillator", "bernoulli", "logistic", "sigmoid")
GROUPS = {
    "flat": ("flat",),
    "exponential": ("exponential",),
    "oscillator": ("oscillator",),
    "nonlinear": ("bernoulli", "logistic", "sigmoid"),
    "trend": tuple(name for name in LAWS if name != "flat"),
}
NOISE = {"observation_sd": (0.06, 0.4), "fluctuation_sd": (0.025, 0.5)}
"""Median and e-folds. Against gains near 0.4 they give smooth curves an R² of about 0.7 to 0.95, as real logs have."""
SHAPES: dict[str, dict[str, tuple[float, float]]] = {
    "flat": {"fluctuation_time": (4.0, 0.7)},
    "exponential": {"relaxation_time": (40.0, 0.5)},
    "oscillator": {"response_time": (25.0, 0.5), "damping_ratio": (0.6, 0.8)},
    "bernoulli": {"fluctuation_time": (4.0, 0.7), "half_gain_step": (60.0, 0.4), "initial_success": (0.1, 0.4)},
    "logistic": {"fluctuation_time": (4.0, 0.7), "half_gain_step": (70.0, 0.4), "initial_success": (0.1, 0.4)},
    "sigmoid": {"fluctuation_time": (4.0, 0.7), "midpoint": (60.0, 0.4), "exponent": (2.0, 0.4)},
}
"""Median and e-folds of each law's own parameters, steps in rows."""


def simulated_run(name: str, index: int, rows: int = ROWS) -> Run:
    """A log drawn from a law's state space.

    Args:
        name: The law.
        index: Number of the log; the same number gives the same log.
        rows: Rows, one a step.

    Returns:
        The run, whose settings nobody stated.
    """
    rng = np.random.default_rng([17, zlib.crc32(name.encode()), index])
    regime, nothing = get_regime(name), np.array([])
    step = np.arange(1.0, rows + 1)

    def run(y: np.ndarray) -> Run:
        settings = Settings(schedule=Setting("constant", Provenance.USER))
        return Run(f"{name}-{index}", "simulated", "none", "0", step, y, np.ones(rows), {}, nothing, nothing, settings)

    drawn = {k: m * np.exp(s * rng.standard_normal()) for k, (m, s) in (SHAPES[name] | NOISE).items()}
    start = 0.3 + 0.08 * rng.standard_normal()
    levels = {"initial_reward": start, "fixed_point": start + 0.4 * np.exp(0.3 * rng.standard_normal())}
    with jax.enable_x64(True):
        table = rows_of(run(np.linspace(0.0, 1.0, rows)))
        given = {p.name: (levels[p.name], 0.0) for p in regime.marginalized}
        space = regime.state_space({p.name: drawn[p.name] for p in regime.sampled}, given, padded(table, rows))
        space = jax.tree.map(np.asarray, dense(space, rows))
    return run(draw_rows(space, rng)[1])


def compared(run: Run, regimes: Sequence[str] | None, lfo: bool) -> dict[str, Any]:
    """What a comparison says of a run, as a line of the results."""
    warnings.simplefilter("ignore", BayesGrpoWarning)
    try:
        found = compare(run, regimes, lfo=lfo)
    except BayesGrpoError as error:
        return {"error": str(error)}
    return found.to_dict()


def one_simulated(task: tuple[str, int, Sequence[str]]) -> dict[str, Any]:
    name, index, regimes = task
    return {"key": f"{name}-{index}", "law": name, **compared(simulated_run(name, index), regimes, lfo=True)}


def one_log(path: str) -> dict[str, Any]:
    try:
        return {"key": Path(path).stem, **compared(read_log(path), LAWS, lfo=True)}
    except BayesGrpoError as error:
        return {"key": Path(path).stem, "error": str(error)}


def finished(path: Path | None) -> dict[str, dict[str, Any]]:
    """Lines of an earlier run by key."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(x) for x in path.read_text(encoding="utf-8").splitlines() if x.strip()]
    return {x["key"]: x for x in lines}


def run_all(work: Any, tasks: dict[str, Any], out: Path | None, jobs: int) -> list[dict[str, Any]]:
    """Results of all tasks, those of an earlier run included.

    Args:
        work: Function of a task.
        tasks: Key → task.
        out: File of results, read and appended to.
        jobs: Processes.
    """
    done = finished(out)
    left = {k: t for k, t in tasks.items() if k not in done}
    say(f"{len(left)} of {len(tasks)} to do")
    for i, line in enumerate(side_by_side(work, left.values(), jobs=jobs)):
        done[line["key"]] = line
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        say(f"  {i + 1} of {len(left)}: {line['key']}: {line.get('sentence', line.get('error', ''))}")
    return [done[k] for k in tasks if k in done]


def confusion(lines: list[dict[str, Any]], regimes: Sequence[str]) -> dict[str, Any]:
    """Totals over simulated logs."""
    # An earlier run may have compared more laws than are asked for now.
    lines = [x | {"table": [r for r in x["table"] if r["regime"] in regimes]} if "table" in x else x for x in lines]
    usable = [x for x in lines if x.get("table")]
    first = {a: dict.fromkeys(regimes, 0) for a in regimes}
    apart, right, against, against_ahead, left_out, growth = 0, 0, 0, 0, 0, 0
    pairs = {a: {b: [0, 0] for b in regimes if b != a} for a in regimes}
    for x in usable:
        truth, table = x["law"], {r["regime"]: r for r in x["table"]}
        first[truth][x["table"][0]["regime"]] += 1
        if truth not in table:
            left_out += 1
            continue
        mine = table[truth]
        against += mine["verdict"] == "worse"
        for rival in table:
            if rival != truth and abs(mine["elpd"] - table[rival]["elpd"]) > CLEAR:
                pairs[truth][rival][0] += 1
                pairs[truth][rival][1] += mine["elpd"] > table[rival]["elpd"]
        best_rival = max((r["elpd"] for k, r in table.items() if k != truth), default=-np.inf)
        if abs(mine["elpd"] - best_rival) > CLEAR:
            apart += 1
            right += mine["elpd"] > best_rival
        best = x["table"][0]
        ahead = next((r for r in x["table"] if r["verdict_ahead"] == "best"), best)
        winners = [w for w, verdict in ((best, mine["verdict"]), (ahead, mine["verdict_ahead"])) if verdict == "worse"]
        growth += truth == "flat" and any((w["growth"] or 0.0) > SURE for w in winners)
        against_ahead += mine["verdict_ahead"] == "worse"
    flats = sum(x["law"] == "flat" for x in usable)
    seen, won = (sum(p[i] for row in pairs.values() for p in row.values()) for i in (0, 1))
    return {
        "runs": len(usable), "errors": len(lines) - len(usable), "first": first, "truth_left_out": left_out,
        "apart": apart, "apart_truth_first": right, "pairs_apart": seen, "pairs_truth_first": won,
        "spoken_against_truth": against, "ahead_against_truth": against_ahead,
        "flat_runs": flats, "growth_on_flat": growth,
    }  # fmt: skip


def print_confusion(total: dict[str, Any], regimes: Sequence[str]) -> None:
    print("rows: law that made the log; columns: law that ranks first by leave-one-out")
    print(" " * 13 + "".join(f"{b:>12s}" for b in regimes))
    for a in regimes:
        print(f"{a:13s}" + "".join(f"{total['first'][a][b]:12d}" for b in regimes))

    def share(part: int, whole: int, aim: str) -> str:
        return f"{part} of {whole}" + (f" ({part / whole:.0%}; aim {aim})" if whole else "")

    print(f"{total['runs']} logs, {total['errors']} errors, true law not converged on {total['truth_left_out']}")
    print(
        f"true law and best rival more than {CLEAR:g} nats apart: true law first on "
        f"{share(total['apart_truth_first'], total['apart'], f'≥ {FIRST_AIM:.0%}')}"
    )
    print(
        f"pairs of true law and a rival more than {CLEAR:g} nats apart: true law ahead in "
        f"{share(total['pairs_truth_first'], total['pairs_apart'], f'≥ {FIRST_AIM:.0%}')}"
    )
    print(
        f"the comparison speaks against the true law on {total['spoken_against_truth']} of {total['runs']} by "
        f"leave-one-out, on {total['ahead_against_truth']} by the rows ahead"
    )
    print(f"growth claimed on flat runs: {share(total['growth_on_flat'], total['flat_runs'], f'≤ {GROWTH_AIM:.0%}')}")


def print_slow_starts(lines: list[dict[str, Any]], score: str) -> dict[str, int]:
    """On how many logs one group of laws lies more than 4 nats before another, by ``score``: "elpd" or "lfo".

    A slow start is inertia where the oscillator does better than both others, and nonlinearity where the flows do.
    """

    def best(line: dict[str, Any], group: tuple[str, ...]) -> float:
        return max((r[score] for r in line["table"] if r["regime"] in group and r[score] is not None), default=np.nan)

    out: dict[str, int] = {}
    for a, b in (("trend", "flat"), ("oscillator", "exponential"), ("nonlinear", "exponential"),
                 ("nonlinear", "oscillator")):  # fmt: skip
        ahead = np.array([best(x, GROUPS[a]) - best(x, GROUPS[b]) for x in lines])
        ahead = ahead[np.isfinite(ahead)]
        out |= {f"{a}_before_{b}": int(np.sum(ahead > CLEAR)), f"{b}_before_{a}": int(np.sum(ahead < -CLEAR))}
        print(
            f"{'leave-one-out' if score == 'elpd' else 'rows ahead'}: {a} more than {CLEAR:g} nats before {b} on "
            f"{np.sum(ahead > CLEAR)} of {len(ahead)} logs, behind on {np.sum(ahead < -CLEAR)}"
        )
    return out


def print_logs(lines: list[dict[str, Any]]) -> dict[str, Any]:
    print(f"{'log':38s} rows  {'best law':12s} elpd weight   R²  {'by LFO':12s} cannot tell")
    best, best_lfo, undecided, refused = {}, {}, 0, []
    for x in lines:
        if "table" not in x:
            refused.append(f"{x['key']}: {x['error']}")
            continue
        top = x["table"][0]
        scored = [r for r in x["table"] if r["lfo"] is not None]
        ahead = max(scored, key=lambda r: r["lfo"], default=None)
        open_ = [r["regime"] for r in x["table"][1:] if r["verdict"] == "cannot tell"]
        nothing = not any(r["verdict"] == "worse" for r in x["table"])
        undecided += nothing
        best[top["regime"]] = best.get(top["regime"], 0) + 1
        if ahead is not None:
            best_lfo[ahead["regime"]] = best_lfo.get(ahead["regime"], 0) + 1
        print(
            f"{x['key'][:38]:38s} {x['about']['rows']:4d}  {top['regime']:12s} {top['elpd']:6.1f} {top['weight']:5.2f} "
            f"{top['r2']:5.2f}  {ahead['regime'] if ahead else '':12s} "
            f"{'all of them' if nothing else ', '.join(open_)}"
        )
    for text in refused:
        print("refused:", text)
    before, _ = (print_slow_starts([x for x in lines if "table" in x], score) for score in ("elpd", "lfo"))
    good = {n: sum(r["regime"] == n and (r["r2"] or 0) >= R2 for x in lines for r in x.get("table", ())) for n in LAWS}
    print(f"unforced law with R² of at least {R2}:", ", ".join(f"{n} {k}" for n, k in good.items() if n != "flat"))
    done = len(lines) - len(refused)
    print(f"{done} logs: best by LOO {best}, by LFO {best_lfo}; no law clearly better on {undecided}")
    return {
        "logs": done, "refused": len(refused), "best_loo": best, "best_forecast": best_lfo, "undecided": undecided,
        "before": before, "high_r2": good,
    }  # fmt: skip


def seconds(rows: int) -> dict[str, float]:
    """Wall and CPU seconds of a whole process with a cold and with a warm compilation cache."""
    with tempfile.TemporaryDirectory() as folder:
        log = write_log(Path(folder, "trainer_state.json"), simulated(rows, seed=0, response=60.0))
        command = [sys.executable, "-m", "bayes_grpo", "compare", str(log), "--json", "--set", "schedule=constant"]
        out: dict[str, float] = {"rows": rows}
        for name in ("cold", "warm"):
            done = run_process(command, {"BAYES_GRPO_CACHE": str(Path(folder, "cache"))})
            out |= {name: done.wall, f"{name}_cpu": done.cpu}
            regimes = [x["regime"] for x in json.loads(done.output)["table"]]
            print(f"{name}: {done.wall:.1f} s wall, {done.cpu:.1f} s CPU, {rows} rows, {len(regimes)} laws", flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("confusion", "logs", "time"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--laws", nargs="+", default=list(LAWS), choices=LAWS)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.what == "time":
        total: dict[str, Any] = seconds(options.rows)
    elif options.what == "confusion":
        tasks = {f"{a}-{i}": (a, i, tuple(options.laws)) for i in range(options.runs) for a in options.laws}
        lines = run_all(one_simulated, tasks, options.out, options.jobs)
        total = confusion(lines, options.laws)
        print_confusion(total, options.laws)
    else:
        if options.folder is None:
            parser.error("logs: expected a folder of logs")
        paths = [p for p in sorted(options.folder.glob("*.csv")) if not options.only or p.stem in options.only]
        total = print_logs(run_all(one_log, {p.stem: str(p) for p in paths}, options.out, options.jobs))
    if not options.only and list(options.laws) == list(LAWS):
        keep(f"comparison_{options.what}", total)
    if options.json:
        print(json.dumps(total))


if __name__ == "__main__":
    main()
