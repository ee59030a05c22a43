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
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.analysis.result import UNCHANGED, advised, given
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.common.results import json_safe
from bayes_grpo.decision.decide import StoppingCosts
from bayes_grpo.decision.result import GO_BACK, START_OVER, Decision
from bayes_grpo.diagnosis.actions import ACTIONS
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.facts import Facts, facts_of
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.summary import probabilities
from bayes_grpo.fitting.window import fit_window, rows_to_fit
from bayes_grpo.forecasting.expected import horizon_of
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_ensemble
from bayes_grpo.forecasting.forecast import forecast_of_regimes
from bayes_grpo.forecasting.inputs import inputs_of_run
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.risk.failure import failure_risk
from bayes_grpo.risk.threshold import Change
from bayes_grpo.rows.schedule import future_grid
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.result import Watching
from benchmarks.lab.learners.record import keep, say
from benchmarks.lab.learners.simulated_runs import labelled_runs


class NotAskedError(BayesGrpoError):
    """No forecast is asked for."""


Said = Mapping[str, Any]
"""What is said of a log, as `said_of` gives it."""
CERTAIN, SURE, HALF, LITTLE = 0.99, 0.95, 0.5, 0.1
LEAST_CUT = 4
"""Rows of the shortest log that is cut."""
MOST_ROWS = 2000
"""Rows up to which a log is read: what is said of more takes minutes, and is said in the same way."""
POINTS = ImportanceSettings(effective=1000.0, rounds=12, draws=500)
_STEP = r"(?:step|row) (\d+)"
_NOT_RISEN = re.compile("has not (clearly )?risen")
_PERCENT = re.compile(r"(?<![\d.])(\d{3,})%")
_NET = re.compile(r"net value (-?[\d,.]+(?:e[+-]?\d+)?) \[(-?[\d,.]+(?:e[+-]?\d+)?), (-?[\d,.]+(?:e[+-]?\d+)?)\]")


def said_of(run: Run, whole_page: bool = True) -> dict[str, Any]:
    """Everything that is said of a log, ready for JSON; without the whole page diagnosis and alarms alone."""
    d = diagnose(run)
    alarms = [a.finding for a in alarms_of(run, d, Watching())]
    out: dict[str, Any] = {"past_row": [], "diagnosis": d.to_dict(), "alarms": alarms}
    summary, decision, whole = None, None, None
    try:
        if not whole_page:
            raise NotAskedError("no forecast is asked for")
        inputs = inputs_of_run(run)
        last, y = float(inputs.table.step[-1]), inputs.table.y
        until = math.ceil(horizon_of(inputs.settings, last).until)
        fitted = fit_ensemble(
            inputs.table, FORECAST_REGIMES, reward=inputs.reward, seed=0, settings=POINTS, strict=False
        )
        whole = fitted.draws.get("oscillator") if fit_window(run).start_step is None else None
        found = forecast_of_regimes(inputs, fitted, future_grid(inputs.table, until, inputs.ahead), draws=1000, seed=0)
        summary = summarize_forecast(found)
        reach = inputs.reward.high - inputs.reward.low
        cost = 0.2 * (reach if np.isfinite(reach) else float(np.ptp(y))) / last
        decision = StoppingCosts(cost_per_step=cost, value_per_reward=1.0).answer(found)
        out["schedule_ends"], out["rate_now"] = found.schedule.total_steps, found.schedule.rate_now
    except BayesGrpoError as error:
        out["error"] = str(error)
    top = advised(d.status, summary, decision)
    if d.trends is not None:
        facts = facts_of(d.trends, RunSoFar.of(run), d.failing)
        lines = (top.action, *top.remedies, *(x for lines in d.remedies.values() for x in lines))
        out["past_row"] = past_rows(lines, facts)
        out["held_out"] = (facts.held_out_falls or facts.held_out_stays) and not facts.solved
    unstable = top.alarming and top.finding == "dynamical_instability"
    out |= {"status": top.to_dict(), "stable": None if unstable else 1.0 - failure_risk(Change()).p}
    out["fit"] = _fit(run, whole) if whole_page else None
    if summary is not None:
        out["forecast"] = summary.to_dict() | {"sentence": given(top, summary.sentence)}
    if decision is not None:
        out["decision"] = _decided(decision) | {"sentence": given(top, decision.sentence)}
    return json_safe(out)


def _decided(decision: Decision) -> dict[str, Any]:
    return {"recommended": decision.recommended, "now": decision.now, "back": decision.back is not None}


def _fit(run: Run, draws: Draws | None) -> dict[str, Any] | None:
    """Probabilities of the oscillator on the rows since the reward last broke; None where these are too few.

    Args:
        run: The run.
        draws: Its draws where they are all rows, which the forecast has fitted already.
    """
    try:
        cut, window = rows_to_fit(run)
        inputs = inputs_of_run(cut)
        if draws is None:
            draws = fit_ensemble(
                inputs.table, ("oscillator",), reward=inputs.reward, seed=0, settings=POINTS, strict=False
            ).draws["oscillator"]
    except (BayesGrpoError, KeyError):
        return None
    values = {k: np.asarray(v) for k, v in draws.values.items()}
    values |= {k: np.asarray(v) for k, v in draws.regime.derived(values, inputs.table).items()}
    length = float(inputs.table.step[-1] - inputs.table.start)
    return {**probabilities(draws.regime, values, length, len(inputs.table.y)), "led": bool(window.reason)}


def _own(said: Said, mode: str) -> float:
    return said["diagnosis"]["probability"].get(mode) or 0.0


def _unled(said: Said) -> Mapping[str, Any]:
    """What a fit says where no event leads it; nothing elsewhere."""
    fitted = said.get("fit") or {}
    return {} if fitted.get("led") else fitted


def _calm(sentence: str) -> bool:
    """Whether a sentence on what is to come is not told as what comes if nothing changes."""
    return not sentence.startswith((UNCHANGED, GO_BACK, START_OVER))


def _forecast(said: Said) -> Mapping[str, Any]:
    return said.get("forecast") or {"sentence": "", "p_gain": 0.5}


def _alarming(said: Said) -> bool:
    return said["status"]["status"] in ("failing", "failed")


def _goes_on(said: Said) -> bool:
    decision = said.get("decision") or {}
    if not decision or not _calm(decision["sentence"]):
        return False
    return decision["recommended"] > decision["now"]


def _story(said: Said) -> str:
    return said["diagnosis"]["sentence"]


def _texts(said: Said) -> Iterator[str]:
    d = said["diagnosis"]
    yield from (said["status"]["sentence"], d["sentence"], *d["evidence"].values())
    yield from (line for lines in d["remedies"].values() for line in lines)
    yield from ((said.get(x) or {}).get("sentence", "") for x in ("forecast", "decision"))


def _outside(said: Said) -> bool:
    for found in _NET.finditer((said.get("decision") or {}).get("sentence", "")):
        mean, low, high = (float(x.replace(",", "")) for x in found.groups())
        if mean < low or mean > high:
            return True
    return False


def _beyond(said: Said) -> bool:
    decision, ends = said.get("decision"), said.get("schedule_ends")
    if not decision or said.get("rate_now") is None:
        return False
    if said["rate_now"] <= 0.0:
        return decision["recommended"] > decision["now"]
    return ends is not None and math.isfinite(ends) and decision["recommended"] > math.ceil(ends)


def _onsets(said: Said) -> bool:
    """Whether the top line and the story begin one fall at different steps, or it is gone back to a later one."""
    fall = re.search(rf"fell from \S+ to \S+ since about {_STEP}", said["status"].get("headline", ""))
    told = re.search(r"[Dd]ynamical instability \([^)]*\) since about step (\d+)", _story(said))
    if fall is None or told is None:
        return False
    back = re.search(rf"go back to the checkpoint of about {_STEP}", said["status"]["action"])
    return fall[1] != told[1] or (back is not None and int(back[1]) > int(told[1]))


def _checkpoints(said: Said) -> bool:
    """Whether top line and decision name different checkpoints to go back to."""
    texts = (said["status"]["action"], (said.get("decision") or {}).get("sentence", ""))
    found = [re.search(rf"[Ss]top, and go back to the checkpoint of about {_STEP}", text) for text in texts]
    return all(found) and len({x[1] for x in found if x}) > 1


def _overlap(said: Said) -> bool:
    """Whether two episodes of one kind overlap."""
    episodes = [e for e in (said["diagnosis"].get("timeline") or {}).get("episodes", ()) if e["probability"] >= HALF]
    return any(
        a is not b and a["mode"] == b["mode"] and a["onset"]["median"] <= b["onset"]["median"] <= a["end"]["median"]
        for a in episodes
        for b in episodes
    )


def _rose(said: Said) -> float:
    """Chance of a rise by what the evidence says of the reward."""
    found = re.search(r"(\d+|>99|<1)% chance that the rise", said["diagnosis"]["evidence"].get("progress", ""))
    return {">99": 0.995, "<1": 0.005}.get(found[1]) or float(found[1]) / 100.0 if found else 0.0


def _two(said: Said) -> bool:
    return abs(said["status"]["probability"] - _own(said, said["status"]["finding"])) > 0.01


def past_rows(lines: Iterable[str], facts: Facts) -> list[str]:
    """Names of actions that are told though their row in the table of actions does not allow them."""
    told = {line.rstrip(".") for line in lines}
    return [name for name, action in ACTIONS.items() if action.text(facts) in told and not action.allowed(facts)]


def _past_row(said: Said) -> bool:
    return said["past_row"] != []


def _both_ways(said: Said) -> bool:
    lines = [line for lines in said["diagnosis"]["remedies"].values() for line in lines]
    return any("raise the learning rate" in x for x in lines) and any("lower the learning rate" in x for x in lines)


PAIRS: Mapping[str, tuple[str, Callable[[Said], bool]]] = {
    "stable / unstable": (
        "the run is unstable, and its settings are called stable, or a curve fitted across a collapse is",
        lambda x: (
            _own(x, "dynamical_instability") >= HALF
            and _alarming(x)
            and x["status"]["finding"] == "dynamical_instability"
            and (
                (x["stable"] or 0.0) >= HALF
                or (x["status"]["status"] == "failed" and _unled(x).get("unstable", 1.0) < LITTLE)
            )
        ),
    ),
    "growth / collapse": (
        "the reward is lost, and a law fitted to all of it grows",
        lambda x: x["status"]["status"] == "failed" and _unled(x).get("growth", 0.0) >= SURE,
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
            (re.match(r"(stop|go back|start over)", x["status"]["action"]) is not None and _goes_on(x))
            or (_alarming(x) and _goes_on(x))
            or (
                x["status"]["action"].startswith("go on")
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
            (x["status"]["status"] == "done" and _forecast(x)["p_gain"] >= 0.8)
            or ("reward is rising" in x["status"]["headline"] and "expected to fall" in _forecast(x)["sentence"])
        ),
    ),
    "growth / growth": (
        "a fit is all but certain that the reward grew, and the first line says that it has not clearly risen",
        lambda x: (
            (x.get("fit") or {}).get("growth", 0.0) >= CERTAIN and bool(_NOT_RISEN.search(x["status"]["headline"]))
        ),
    ),
    "healthy / finding": (
        "the run is fine, and something is found",
        lambda x: (
            any(
                p >= 0.9 and m not in MODES and m in x["diagnosis"]["probability"]
                for m, p in x["diagnosis"]["probability"].items()
                if p
            )
            and x["status"]["status"] == "fine"
        ),
    ),
    "alarm / status": (
        "an alarm is told, and the run is called fine, done or unclear",
        lambda x: bool(x["alarms"]) and x["status"]["status"] in ("fine", "done", "unclear"),
    ),
    "onset / onset": ("one fall begins at two steps, or it is gone back to a step after it has begun", _onsets),
    "risen / risen": (
        "the reward has not clearly risen, and it surely rose; or it is rising, and flat",
        lambda x: (
            (bool(_NOT_RISEN.search(x["status"]["headline"])) and _rose(x) >= SURE)
            or ("is rising" in x["status"]["headline"] and "has been flat since" in _story(x))
        ),
    ),
    "held-out / calm": (
        "the run is fine or done, and its held-out score fell, or stays while the train reward rises",
        lambda x: x["status"]["status"] in ("fine", "done") and x.get("held_out", False),
    ),
    "action / table": (
        "an action is told that its row forbids, or whose needs are not met",
        lambda x: x["past_row"] != [],
    ),
    "probability / probability": (
        "the first line and the table give one failure two probabilities",
        lambda x: _alarming(x) and x["status"]["finding"] in MODES and _two(x),
    ),
    "over / under way": ("one episode is over, and another of the same kind has begun before its end", _overlap),
    "nothing of nothing": ("rows are counted of which there are none", lambda x: "0 of 0 rows" in _story(x)),
    "checkpoint / checkpoint": ("two checkpoints are to be gone back to", _checkpoints),
    "raise / lower": ("the learning rate is to be raised and lowered", _both_ways),
    "solved / larger group": (
        "the task is solved, and a larger group is wanted",
        lambda x: x["status"]["status"] == "done" and "larger groups" in x["status"]["action"],
    ),
    "percent": (
        "a percentage above 200",
        lambda x: any(int(n) > 200 for text in _texts(x) for n in _PERCENT.findall(text)),
    ),
    "status / verdict": (
        "the run is fine or done, and the verdict begins with a failure",
        lambda x: (
            x["status"]["status"] in ("fine", "done")
            and any(_story(x).lower().startswith(f"{label_of(m)} (") for m in MODES)
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


def cuts_of(run: Run, number: int) -> list[float]:
    """Steps of earlier points of a log, evenly over its rewards."""
    step = run.rewards[0][:MOST_ROWS]
    rows = np.unique(np.linspace(3, len(step) - 1, number).astype(int)) if len(step) > LEAST_CUT else []
    return [float(step[n - 1]) for n in rows]


def judged(asked: tuple[str, Run, int]) -> tuple[str, int, list[str]]:
    """Name of a log, number of its earlier points, and the pairs that stand together in it."""
    name, run, number = asked
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)
        pairs = list(contradictions(said_of(run.until(run.step[:MOST_ROWS][-1]) if len(run.step) else run)))
        cuts = cuts_of(run, number)
        for step in cuts:
            pairs += contradictions(said_of(run.until(step), whole_page=False))
    return name, len(cuts), pairs


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--lab", type=Path, nargs="+", default=[])
    parser.add_argument("--simulated", type=int, default=140)
    parser.add_argument("--most-lab", type=int, default=200, help="runs of the deep laboratory, evenly from all")
    parser.add_argument("--only", default="", help="logs whose names hold this")
    parser.add_argument("--every", type=int, default=1, help="one log of so many, to see what it costs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cuts", type=int, default=0, help="earlier points of each log, by diagnosis and alarms alone")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    asked = parser.parse_args()
    begun, count, found, ill, cuts = time.perf_counter(), Counter[str](), Counter[str](), 0, 0
    chosen = (
        (name, run, asked.cuts)
        for i, (name, run) in enumerate(logs(asked.runs, asked.lab, asked.simulated, asked.most_lab))
        if asked.only in name and not i % asked.every
    )
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for name, looks, pairs in pool.map(judged, chosen):
            count[name.partition(" ")[0] if " " in name else "public"] += 1
            cuts += looks
            found.update(pairs)
            ill += bool(pairs)
            for pair in pairs:
                say(f"{name}: {pair}")
    result = {"logs": dict(count), "cuts": cuts, "pairs": len(PAIRS), "logs with one": ill}
    result["found"] = {x: found[x] for x in PAIRS}
    print(result, f"{time.perf_counter() - begun:.0f} s")
    if asked.keep:
        keep("contradictions", result)


if __name__ == "__main__":
    main()
