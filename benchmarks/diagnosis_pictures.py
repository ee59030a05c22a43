"""Pictures of every event of a diagnosis, a real log on either side of its border, and the tables of its page.

    python benchmarks/diagnosis_pictures.py RUNS/index.csv [MORE/index.csv]

An index has the columns run_id and repo, with a folder csv beside it. The pictures show the rows, the trend with its
band, and the border that the trend is held against; probabilities are kept for the page. `--tables` writes the page's
tables alone, which takes no log.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo import read_log, write_runs
from bayes_grpo.common.files import written_whole
from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.common.picture import canvas
from bayes_grpo.diagnosis.gather import RunEvidence, gather
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.trends import LOGARITHMIC
from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, FORECAST, TRUTH, table
from bayes_grpo.events.broken import broken, constant_end
from bayes_grpo.events.catalogue import DEFINITIONS
from bayes_grpo.events.collapse import collapsed, declined
from bayes_grpo.events.growth import going, grew
from bayes_grpo.events.swings import about_trend
from bayes_grpo.events.trend import Trend
from benchmarks.common import keep, say
from benchmarks.lab.runs import simulate_deep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS = Path(__file__).resolve().parents[1] / "docs"
EXAMPLES = {
    "grew": ("tony_lr_1e-6", "bei_countdown_grpo"),
    "collapsed": ("shb_noclip", "garg_no_baseline_lr1.5e-5"),
    "declined": ("tsu_ppo_run1", "arv_w2_qwen3-8b_G4"),
    "swings": ("tsu_ppo_run2", "tsu_ppo_run4"),
    "uncoupled": ("rohun_ll3b_medium_g_llmjudge_long", "rohun_ll3b_medium_g_llmjudge_llama_small"),
    "going": ("shb_op_e4tb128", "garg_no_std_norm"),
    "broken": ("lab_broken", "shb_noclip"),
    "wasted": ("kartik_grpo_v1_s2025", "kartik_grpo_v2_s2026"),
    "spent": ("shb_op_e8tb256", "arv_arithmetic_tinker"),
}
"""Event → a log where it probably holds, and one where it probably does not."""
LABORATORY = {"lab_broken": ("broken_reward", 30)}
"""Logs of the deep laboratory, family and seed: no public log at hand shows a verifier that fails."""
BLUE, ORANGE, RED, DARK = "#1d4ed8", "#c2410c", "#b91c1c", "#111827"
_LATE = 0.5  # waste is judged over the second half


class Log(NamedTuple):
    """A log as the pictures show it.

    Attributes:
        name: Its name in the index.
        repository: Where it comes from.
        found: Its evidence.
    """

    name: str
    repository: str
    found: RunEvidence


def chance(event: str, found: RunEvidence) -> float:
    """Probability of an event."""
    trends = found.trends
    trend, span = trends.reward, trends.span
    if event == "grew":
        return float(grew(trend).mean())
    if event == "collapsed":
        return float(collapsed(trend, span, trends.low).mean())
    if event == "declined":
        return float(declined(trend, span).mean())
    if event == "swings":
        return trends.swinging
    if event == "going":
        return float(going(trend, span).mean())
    if event == "broken":  # `broken` is half of its log odds
        return float(1.0 / (1.0 + np.exp(-2.0 * broken(trends))))
    return found.evidence[next(d.mode for d in DEFINITIONS if d.name == event)].probability


def event_table() -> str:
    """The events of a diagnosis as a Markdown table."""
    lines = ["| event | evidence of | holds where |", "|---|---|---|"]
    known = [d for d in DEFINITIONS if d.reader == DIAGNOSIS]
    lines += [f"| {d.name} | {label_of(d.mode) if d.mode else 'all modes'} | {d.holds} |" for d in known]
    return "\n".join(lines)


def other_table(reader: str) -> str:
    """The events of another reader as a Markdown table."""
    lines = ["| event | holds where |", "|---|---|"]
    return "\n".join([*lines, *(f"| {d.name} | {d.holds} |" for d in DEFINITIONS if d.reader == reader)])


def border_table() -> str:
    """Every border with its own words, as a Markdown table."""
    lines = ["| border | value | unit | read by | meaning |", "|---|---|---|---|---|"]
    lines += [f"| `{b.name}` | {b.value:g} | {b.unit} | {', '.join(b.readers)} | {b.meaning} |" for b in table()]
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "events": event_table,
    "truths": partial(other_table, TRUTH),
    "hazards": partial(other_table, FORECAST),
    "borders": border_table,
}
"""Marker in the page → its table."""


def with_tables(page: str) -> str:
    """A page with every table between its markers written anew."""
    for name, written in TABLES.items():
        start, end = f"<!-- table: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = page.partition(start)
        page = before + start + written() + "\n" + end + rest.partition(end)[2]
    return page


def _trend(axes: Axes, trend: Trend, label: str, colour: str = BLUE, exponential: bool = False) -> None:
    shown = np.exp if exponential else np.asarray
    low, middle, high = np.quantile(trend.draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0)
    axes.plot(trend.raw_step, shown(trend.raw), ".", color=DARK if colour == BLUE else colour, ms=2.5, alpha=0.4)
    axes.fill_between(trend.step, shown(low), shown(high), color=colour, alpha=0.25, lw=0)
    axes.plot(trend.step, shown(middle), color=colour, lw=1.4, label=label)
    if exponential:
        axes.set_yscale("log")


def _border(axes: Axes, value: float, label: str, since: float = 0.0) -> None:
    low, high = axes.get_xlim()
    axes.plot([low + since * (high - low), high], [value, value], color=RED, lw=1.0, ls="--", label=label)
    axes.set_xlim(low, high)


def draw(axes: Axes, event: str, found: RunEvidence) -> None:
    """Rows, trend and border of one log for one event."""
    trends = found.trends
    trend, span = trends.reward, trends.span
    start, best = float(trend.mean[0]), float(max(trend.mean.max(), trend.raw[: BORDERS.first_rows].mean()))
    reward = "held-out reward" if trends.uses_eval else "train reward"
    if event == "wasted":
        _trend(axes, trends.signals["frac_reward_zero_std"], "share without spread")
        _border(axes, BORDERS.wasted, "border", _LATE)
    elif event == "spent":
        entropy = trends.signals["entropy"]
        _trend(axes, entropy, "entropy", exponential="entropy" in LOGARITHMIC)
        _border(axes, BORDERS.spent * float(np.exp(entropy.mean[0])), "border")
        beside = axes.twinx()
        beside.plot(trend.step, trend.mean, color=ORANGE, lw=1.2)
        beside.set_ylim(trends.low - 0.05 * span, trends.high + 0.05 * span)
        beside.tick_params(labelsize=6, colors=ORANGE)
        axes.plot([], [], color=ORANGE, lw=1.2, label=f"{reward} (right)")
    elif event == "uncoupled" and trends.held_out is not None:
        _trend(axes, trend, reward)
        _trend(axes, trends.held_out, trends.held_out_name.replace("_", " "), ORANGE)
        first = float(trends.held_out.mean[0])
        _border(axes, first + BORDERS.loose * float(trend.change().mean()), "held-out end below it: uncoupled")
    else:
        _trend(axes, trend, reward)
        if event == "grew":
            _border(axes, start + trend.noise_sd, "end above it: grew")
        elif event == "collapsed":
            risen = best - start > BORDERS.noise * trend.noise_sd
            floor = start if risen or not trends.has_range else trends.low
            _border(axes, best - BORDERS.lost * (best - floor), "end below it: collapsed")
        elif event == "going":
            middle = 0.5 * (trend.step[0] + trend.step[-1])
            late = float(np.interp(middle, trend.step, trend.mean)) + BORDERS.going * span
            _border(axes, late, "end above it: going on", _LATE)
        elif event == "broken":
            end = constant_end(trends)
            if end is not None:
                _border(axes, end.border, "within two rows below it, and constant: broken")
        elif event == "declined":
            _border(axes, start - max(BORDERS.decline * span, BORDERS.noise * trend.noise_sd), "end below it: declined")
        elif event == "swings":
            slow = trend.value - about_trend(trend.value)
            for sign, label in ((1.0, "beyond a tenth of the range"), (-1.0, None)):
                axes.plot(trend.step, slow + sign * BORDERS.wide * span, color=RED, lw=1.0, ls="--", label=label)
    axes.tick_params(labelsize=6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("optimizer step", fontsize=6.5)
    axes.legend(fontsize=6, frameon=False)


def picture(event: str, logs: Sequence[Log], path: Path) -> None:
    """Writes the two logs of an event side by side."""
    figure = canvas(None, (7.2, 2.3))
    for axes, log in zip(figure.subplots(1, len(logs)), logs, strict=True):
        draw(axes, event, log.found)
        p = probability_text(chance(event, log.found))
        told = f"P({event}) {p if p[0] in '<>' else '= ' + p}"
        axes.set_title(f"{log.name} ({log.repository})\n{told}", fontsize=6.5, loc="left")
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=96, format="png")


def logs_of(indices: Sequence[Path], names: Sequence[str]) -> dict[str, Log]:
    """The named logs of some indices."""
    out = {}
    for index in indices:
        with index.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["run_id"] in names:
                    found = gather(read_log(index.parent / "csv" / f"{row['run_id']}.csv"))
                    if found is not None:
                        out[row["run_id"]] = Log(row["run_id"], row["repo"], found)
    for name in LABORATORY.keys() & set(names):
        family, seed = LABORATORY[name]
        with TemporaryDirectory() as folder:
            found = gather(read_log(write_runs(simulate_deep(family, 1, seed), Path(folder) / "run")[0]))
        if found is not None:
            out[name] = Log(f"{family}, seed {seed}", "bayes-grpo/laboratory", found)
    return out


def main() -> int:
    """Draws the pictures, keeps their probabilities and writes the page's tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("indices", nargs="*", type=Path, help="index.csv of labelled logs, with a folder csv beside it")
    parser.add_argument("--out", type=Path, default=DOCS / "diagnosis", help="folder of the pictures")
    parser.add_argument("--tables", action="store_true", help="write the page's tables alone")
    given = parser.parse_args()
    page = DOCS / "diagnosis.md"
    with written_whole(page) as temporary:
        temporary.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    if given.tables:
        return 0
    logs = logs_of(given.indices, [name for pair in EXAMPLES.values() for name in pair])
    missing = [name for pair in EXAMPLES.values() for name in pair if name not in logs]
    if missing:
        say(f"not in these indices: {', '.join(missing)}")
        return 1
    given.out.mkdir(parents=True, exist_ok=True)
    kept = {}
    for event, names in EXAMPLES.items():
        pair = [logs[name] for name in names]
        picture(event, pair, given.out / f"{event}.png")
        kept[event] = {
            side: {"run": name, "repository": log.repository, "probability": chance(event, log.found)}
            for side, name, log in zip(("holds", "not"), names, pair, strict=True)
        }
    keep("diagnosis_pictures", kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
