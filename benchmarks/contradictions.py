"""Statements of one page that must not stand together, counted over logs.

    python -m benchmarks.contradictions --runs FOLDER ... --lab FOLDER ... [--simulated 140] [--keep]

Everything that is said of a log is gathered (`said_of`): the diagnosis, a fit of the oscillator on the rows that a law
may describe, forecast and decision under plain costs, the alarms of a watch. `PAIRS` is the table: each takes what was
said and tells whether two of its statements exclude each other.
"""

from __future__ import annotations

import argparse
import math
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.accounts.advice import UNCHANGED, advised, given
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.decision.question import Question
from bayes_grpo.decision.result import GO_BACK, START_ANEW, Decision
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.probabilities import probabilities
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.window import fit_window, rows_to_fit
from bayes_grpo.forecasting.basis import basis_of_run
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_regimes
from bayes_grpo.forecasting.forecast import forecast_of_regimes
from bayes_grpo.forecasting.horizon import horizon_of
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.risk.change import Change
from bayes_grpo.risk.failing import p_fails
from bayes_grpo.rows.future import rows_ahead
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.result import Watching
from benchmarks.lab.learners.record import keep, say
from benchmarks.lab.learners.simulated_runs import labelled_runs

Said = Mapping[str, Any]
"""What is said of a log, as `said_of` gives it."""
SURE, HALF, LITTLE = 0.95, 0.5, 0.1
MOST_ROWS = 2000
"""Rows up to which a log is read: what is said of more takes minutes, and is said in the same way."""
POINTS = ImportanceSettings(effective=1000.0, rounds=12, draws=500)
_PERCENT = re.compile(r"(?<![\d.])(\d{3,})%")
_NET = re.compile(r"net value (-?[\d,.]+(?:e[+-]?\d+)?) \[(-?[\d,.]+(?:e[+-]?\d+)?), (-?[\d,.]+(?:e[+-]?\d+)?)\]")


def said_of(run: Run) -> dict[str, Any]:
    """Everything that is said of a log, ready for JSON."""
    d = diagnose(run)
    out: dict[str, Any] = {"diagnosis": d.to_dict(), "alarms": [a.finding for a in alarms_of(run, d, Watching())]}
    summary, decision, whole = None, None, None
    try:
        basis = basis_of_run(run)
        last, y = float(basis.table.step[-1]), basis.table.y
        until = math.ceil(horizon_of(basis.settings, last).until)
        fitted = fit_regimes(
            basis.rows, FORECAST_REGIMES, reward=basis.reward, seed=0, settings=POINTS, strict=False, start={}
        )
        whole = fitted.draws.get("oscillator") if fit_window(run).start_step is None else None
        found = forecast_of_regimes(basis, fitted, rows_ahead(basis.table, until, basis.ahead), draws=1000, seed=0)
        summary = summarize_forecast(found)
        reach = basis.reward.high - basis.reward.low
        cost = 0.2 * (reach if np.isfinite(reach) else float(np.ptp(y))) / last
        decision = Question(cost_per_step=cost, value_per_reward=1.0).answer(found)
        out["schedule_ends"], out["rate_now"] = found.schedule.total_steps, found.schedule.rate_now
    except BayesGrpoError as error:
        out["error"] = str(error)
    top = advised(d.top, summary, decision)
    unstable = top.alarming and top.finding == "dynamical_instability"
    out |= {"top": top.to_dict(), "stable": None if unstable else 1.0 - p_fails(Change()).p, "fit": _fit(run, whole)}
    if summary is not None:
        out["forecast"] = summary.to_dict() | {"sentence": given(top, summary.sentence)}
    if decision is not None:
        out["decision"] = _decided(decision) | {"sentence": given(top, decision.sentence)}
    return json_safe(out)


def _decided(decision: Decision) -> dict[str, Any]:
    s = decision.stopping
    if s is None:
        return {}
    latest = s.recommended if s.limit is None else s.limit.latest
    return {"recommended": s.recommended, "now": s.now, "latest": latest, "back": s.back is not None}


def _fit(run: Run, draws: Draws | None) -> dict[str, Any] | None:
    """Probabilities of the oscillator on the rows since the reward last broke; None where these are too few.

    Args:
        run: The run.
        draws: Its draws where they are all rows, which the forecast has fitted already.
    """
    try:
        cut, window = rows_to_fit(run)
        basis = basis_of_run(cut)
        if draws is None:
            draws = fit_regimes(
                basis.rows, ("oscillator",), reward=basis.reward, seed=0, settings=POINTS, strict=False, start={}
            ).draws["oscillator"]
    except (BayesGrpoError, KeyError):
        return None
    values = {k: np.asarray(v) for k, v in draws.values.items()}
    values |= {k: np.asarray(v) for k, v in draws.regime.derived(values, basis.table).items()}
    length = float(basis.table.step[-1] - basis.table.start)
    return {**probabilities(draws.regime, values, length, len(basis.table.y)), "led": bool(window.reason)}


def _own(said: Said, mode: str) -> float:
    return said["diagnosis"]["probability"].get(mode) or 0.0


def _unled(said: Said) -> Mapping[str, Any]:
    """What a fit says where no event leads it; nothing elsewhere."""
    fitted = said.get("fit") or {}
    return {} if fitted.get("led") else fitted


def _calm(sentence: str) -> bool:
    """Whether a sentence on what is to come is not told as what comes if nothing is changed."""
    return not sentence.startswith((UNCHANGED, GO_BACK, START_ANEW))


def _forecast(said: Said) -> Mapping[str, Any]:
    return said.get("forecast") or {"sentence": "", "p_gain": 0.5}


def _alarming(said: Said) -> bool:
    return said["top"]["status"] in ("failing", "failed")


def _goes_on(said: Said) -> bool:
    decision = said.get("decision") or {}
    if not decision or not _calm(decision["sentence"]):
        return False
    return decision["latest"] > decision["now"]


def _story(said: Said) -> str:
    return said["diagnosis"]["sentence"]


def _texts(said: Said) -> Iterator[str]:
    d = said["diagnosis"]
    yield from (said["top"]["sentence"], d["sentence"], *(e["sentence"] for e in d["evidence"].values()))
    yield from (line for lines in d["remedies"].values() for line in lines)
    yield from ((said.get(x) or {}).get("sentence", "") for x in ("forecast", "decision"))


def _outside(said: Said) -> bool:
    for found in _NET.finditer((said.get("decision") or {}).get("sentence", "")):
        mean, low, high = (float(x.replace(",", "")) for x in found.groups())
        if mean < low or mean > high:
            return True
    return False


def _swings(said: Said) -> bool:
    fitted, text = said.get("fit") or {}, said["diagnosis"]["evidence"].get("dynamical_instability", {})
    told = re.search(r"a full swing in the log (< )?([\d.]+)", text.get("sentence", ""))
    if not fitted or "overdamped" not in fitted or told is None:
        return False
    names = ("overdamped", "oscillatory", "unstable")
    called = max(names, key=lambda n: fitted[n]) == "oscillatory"
    called &= fitted.get("swings_seen", fitted["half_period_seen"]) >= HALF
    return called and float(told[2]) < HALF


def _beyond(said: Said) -> bool:
    decision, ends = said.get("decision"), said.get("schedule_ends")
    if not decision or said.get("rate_now") is None:
        return False
    if said["rate_now"] <= 0.0:
        return decision["latest"] > decision["now"]
    return ends is not None and math.isfinite(ends) and decision["latest"] > math.ceil(ends)


def _onsets(said: Said) -> bool:
    """Whether the top line and the story begin one fall at different steps, or it is gone back to a later one."""
    fall = re.search(r"has fallen from \S+ to \S+ since about step (\d+)", said["top"].get("headline", ""))
    told = re.search(r"[Dd]ynamical instability [^.]*?under way since about step (\d+)", _story(said))
    if fall is None or told is None:
        return False
    back = re.search(r"go back to the checkpoint of about step (\d+)", said["top"]["action"])
    return fall[1] != told[1] or (back is not None and int(back[1]) > int(told[1]))


def _checkpoints(said: Said) -> bool:
    """Whether top line and decision name different checkpoints to go back to."""
    texts = (said["top"]["action"], (said.get("decision") or {}).get("sentence", ""))
    found = [re.search(r"[Ss]top, and go back to the checkpoint of about step (\d+)", text) for text in texts]
    return all(found) and len({x[1] for x in found if x}) > 1


def _overlap(said: Said) -> bool:
    """Whether two episodes of one kind overlap."""
    episodes = [e for e in (said["diagnosis"].get("timeline") or {}).get("episodes", ()) if e["probability"] >= HALF]
    return any(
        a is not b and a["mode"] == b["mode"] and a["onset"]["median"] <= b["onset"]["median"] <= a["end"]["median"]
        for a in episodes
        for b in episodes
    )


def _both_ways(said: Said) -> bool:
    lines = [line for lines in said["diagnosis"]["remedies"].values() for line in lines]
    return any("raise the learning rate" in x for x in lines) and any("lower the learning rate" in x for x in lines)


PAIRS: Mapping[str, tuple[str, Callable[[Said], bool]]] = {
    "stable / unstable": (
        "the run is unstable, and its settings are called stable, or a curve fitted across a collapse is",
        lambda x: (
            _own(x, "dynamical_instability") >= HALF
            and _alarming(x)
            and x["top"]["finding"] == "dynamical_instability"
            and (
                (x["stable"] or 0.0) >= HALF
                or (x["top"]["status"] == "failed" and _unled(x).get("unstable", 1.0) < LITTLE)
            )
        ),
    ),
    "growth / collapse": (
        "the reward is lost, and a law fitted to all of it grows",
        lambda x: x["top"]["status"] == "failed" and _unled(x).get("growth", 0.0) >= SURE,
    ),
    "rise / failure": (
        "a failure is under way, and the reward is expected to rise as if nothing were",
        lambda x: (
            _alarming(x)
            and bool(re.search(r"(expected|likely) to rise", _forecast(x)["sentence"]))
            and _calm(_forecast(x)["sentence"])
        ),
    ),
    "stop / go on": (
        "one says stop or go back, the other go on",
        lambda x: (
            (re.match(r"(stop|go back|start anew)", x["top"]["action"]) is not None and _goes_on(x))
            or (_alarming(x) and _goes_on(x))
            or (
                x["top"]["action"].startswith("go on")
                and (x.get("decision") or {}).get("sentence", "").startswith("Stop now")
            )
        ),
    ),
    "interval / mean": ("a mean stands beside an interval that does not hold it", _outside),
    "end / stop": (
        "a stop lies beyond the end of the learning rate",
        _beyond,
    ),
    "rest / rise": (
        "nothing moves any more, and the reward is expected to rise; or it rises, and is expected to fall",
        lambda x: (
            (x["top"]["status"] == "done" and _forecast(x)["p_gain"] >= 0.8)
            or (x["top"]["headline"].startswith("the reward rises") and "expected to fall" in _forecast(x)["sentence"])
        ),
    ),
    "growth / growth": (
        "a fit is sure of growth, and a diagnosis doubts it by the same word",
        lambda x: (
            (x.get("fit") or {}).get("growth", 0.0) >= SURE
            and bool(
                re.search(r"growth", _story(x) + x["diagnosis"]["evidence"].get("progress", {}).get("sentence", ""))
            )
            and (x["diagnosis"]["evidence"].get("progress", {}).get("probability") or 0.0) < HALF
        ),
    ),
    "evidence / verdict": (
        "a failure is sure by its evidence and impossible by its probability, and nothing says why",
        lambda x: (
            not x.get("weighed", True)
            and any(
                (x["diagnosis"]["evidence"].get(m, {}).get("probability") or 0.0) >= 0.9 and _own(x, m) < LITTLE
                for m in MODES
            )
        ),
    ),
    "healthy / finding": (
        "the run is fine or healthy, and something is found",
        lambda x: (
            any(
                p >= 0.9 and m not in MODES and m in x["diagnosis"]["probability"]
                for m, p in x["diagnosis"]["probability"].items()
                if p
            )
            and (x["top"]["status"] == "fine" or _story(x).startswith("Healthy"))
        ),
    ),
    "alarm / status": (
        "an alarm is told, and the run is not called failing",
        lambda x: bool(x["alarms"]) and not _alarming(x),
    ),
    "onset / onset": ("one fall begins at two steps, or it is gone back to a step after it has begun", _onsets),
    "risen / risen": (
        "the reward has not moved, and it rose",
        lambda x: (
            "has not risen" in x["top"].get("headline", "")
            and (x["diagnosis"]["evidence"].get("progress", {}).get("probability") or 0.0) >= SURE
        ),
    ),
    "over / under way": ("one episode is over, and another of the same kind has begun before its end", _overlap),
    "nothing of nothing": ("rows are counted of which there are none", lambda x: "0 of 0 rows" in _story(x)),
    "checkpoint / checkpoint": ("two checkpoints are to be gone back to", _checkpoints),
    "raise / lower": ("the learning rate is to be raised and lowered", _both_ways),
    "solved / larger group": (
        "the task is solved, and a larger group is wanted",
        lambda x: x["top"]["status"] == "done" and "a larger group" in x["top"]["action"],
    ),
    "percent": (
        "a percentage above 200",
        lambda x: any(int(n) > 200 for text in _texts(x) for n in _PERCENT.findall(text)),
    ),
    "oscillatory / no swing": ("a fit is called oscillatory, and the diagnosis sees no swing", _swings),
    "status / verdict": (
        "the run is fine or done, and the verdict begins with a failure",
        lambda x: (
            x["top"]["status"] in ("fine", "done")
            and any(_story(x).lower().startswith(f"{label_of(m)} (probability") for m in MODES)
        ),
    ),
}
"""Name → what excludes what, and whether it stands in what was said."""


def contradictions(said: Said) -> tuple[str, ...]:
    """Names of the pairs that stand together."""
    return tuple(name for name, (_, holds) in PAIRS.items() if holds(said))


def logs(folders: list[Path], labs: list[Path], simulated: int, most: int, seed: int = 77) -> Iterator[tuple[str, Run]]:
    """Public logs, runs of the deep laboratory, and runs of small policies."""
    for folder in folders:
        for path in sorted((folder / "csv").glob("*.csv")):
            try:
                yield path.stem, read_log(path)
            except BayesGrpoError as error:
                say(f"{path.stem}: {error}")
    places = sorted(p.parent for folder in labs for p in folder.glob("*/truth.json"))
    for i in np.unique(np.linspace(0, len(places) - 1, min(most, len(places))).astype(int)):
        yield f"lab {places[i].name}", read_log(places[i])
    for i, x in enumerate(labelled_runs(simulated, seed)):
        yield f"simulated {i} {x.label}", x.run


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--lab", type=Path, nargs="+", default=[])
    parser.add_argument("--simulated", type=int, default=140)
    parser.add_argument("--most-lab", type=int, default=200, help="runs of the deep laboratory, evenly from all")
    parser.add_argument("--only", default="", help="logs whose names hold this")
    parser.add_argument("--every", type=int, default=1, help="one log of so many, to see what it costs")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    asked = parser.parse_args()
    begun, count, found, ill = time.perf_counter(), Counter[str](), Counter[str](), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)
        for i, (name, run) in enumerate(logs(asked.runs, asked.lab, asked.simulated, asked.most_lab)):
            if asked.only not in name or i % asked.every:
                continue
            count[name.partition(" ")[0] if " " in name else "public"] += 1
            pairs = contradictions(said_of(run.until(run.step[:MOST_ROWS][-1]) if len(run.step) else run))
            found.update(pairs)
            ill += bool(pairs)
            for pair in pairs:
                say(f"{name}: {pair}")
    result = {"logs": dict(count), "pairs": len(PAIRS), "logs with one": ill, "found": {x: found[x] for x in PAIRS}}
    print(result, f"{time.perf_counter() - begun:.0f} s")
    if asked.keep:
        keep("contradictions", result)


if __name__ == "__main__":
    main()
